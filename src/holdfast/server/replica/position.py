"""How far a replica is in the stream of its primary. It is written with the data that it is about,
in one batch: after a crash the replica goes on exactly where its data ends.

A primary that is stopped writes the end of its own stream, so that its replicas go on after the
next start. The number of the batch comes with it: another program may change the file meanwhile.
"""

from typing import NamedTuple


class Position(NamedTuple):
    """`database` is the one that the primary has selected at that offset. `lsn` is the number of
    the batch with the end of a primary's own stream, and 0 for a replica."""

    replication_id: bytes
    offset: int
    database: int
    lsn: int = 0

    def pack(self) -> bytes:
        return b"%b %d %d %d" % self


def unpack(packed: bytes | None) -> Position | None:
    if packed is None:
        return None
    replication_id, *numbers = packed.split()
    return Position(replication_id, *map(int, numbers))
