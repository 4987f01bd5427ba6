"""How far a replica is in the stream of its primary. It is written with the data that it is about,
in one batch: after a crash the replica goes on exactly where its data ends.
"""

from typing import NamedTuple


class Position(NamedTuple):
    """`database` is the one that the primary has selected at that offset."""

    replication_id: bytes
    offset: int
    database: int

    def pack(self) -> bytes:
        return b"%b %d %d" % self


def unpack(packed: bytes | None) -> Position | None:
    if packed is None:
        return None
    replication_id, offset, database = packed.split()
    return Position(replication_id, int(offset), int(database))
