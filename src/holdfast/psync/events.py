"""What a primary tells a replica, as `Follower.receive` returns it."""

from typing import NamedTuple


class PsyncError(Exception):
    """The link cannot go on. `is_temporary`: the primary says that the same attempt may work later.
    Otherwise a setting has to change first, on one of the sides."""

    def __init__(self, sentence: str, *, is_temporary: bool = False) -> None:
        super().__init__(sentence)
        self.is_temporary = is_temporary


class TooLargeError(PsyncError):
    """A command or a transaction is too large to wait for its end. Commands lead no further from
    here, but a snapshot does."""


class FullResync(NamedTuple):
    """A snapshot follows. The commands behind it begin with the byte after `offset`."""

    replication_id: bytes
    offset: int


class Continues(NamedTuple):
    """No snapshot follows: the commands go on with the byte after the offset of the request. The id
    may differ from that of the request, because the primary was promoted meanwhile."""

    replication_id: bytes


class SnapshotBegins(NamedTuple):
    """`nbytes` is None if the primary does not know the size: a mark will end the snapshot."""

    nbytes: int | None


class SnapshotPiece(NamedTuple):
    """Bytes of an RDB file, in order. The mark is no part of them."""

    data: bytes


class SnapshotEnds(NamedTuple):
    """All bytes of the snapshot are there. A primary that used a mark sends no command before it
    got an acknowledgement."""


class Command(NamedTuple):
    """`offset` counts the bytes of the stream up to the end of this command."""

    argv: list[bytes]
    offset: int


class Commands(NamedTuple):
    """`data` are the bytes of the stream as they came. They may end in the middle of a command,
    which then is in a later list."""

    data: bytes
    commands: list[Command]


Event = FullResync | Continues | SnapshotBegins | SnapshotPiece | SnapshotEnds | Commands
