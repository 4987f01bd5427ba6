"""What servers say to each other, as bytes. No I/O.

Who pulls sends `ACTIVE LINK hello`, which is answered with a hello, and then `ACTIVE ACK ack`
whenever something was stored and once a second, which is answered with an ack. In between come
pushes: `active`, the kind of message, its parts. No message is much larger than MESSAGE_BYTES: a
part that is larger is announced (STARTS) and travels in pieces, one to a message. So there is no
largest record, a peer that takes one in is heard of meanwhile, and neither side waits with nothing
to say.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from holdfast.crdt.dots import Vector
from holdfast.crdt.effects import frozen
from holdfast.crdt.shapes import UNREADABLE, MalformedError, check, check_key
from holdfast.store.members import REPLICAS_PER_NODE, Node, Replica, read_view

# Of messages and the records in them; 1 knew no runs of changes, 2 none of pops, 3 none that leave
# out what their author did before, 4 neither pieces nor lives.
VERSION = 5
MESSAGE_BYTES = 128 * 1024
# Codes of errors: for a server that was removed, for one whose node id another one has, too, and
# for one that has dialled itself.
FORGOTTEN = b"FORGOTTEN"
DUPLICATE = b"DUPLICATE"
ITSELF = b"ITSELF"
PUSH = b"active"
RECORDS = b"records"  # records of the log
BEHIND = b"behind"  # the log does not reach back so far: what it lacks. Waits for `takes_snapshot`
FOLLOWS = b"follows"  # now it does, because of a snapshot from elsewhere: what its author has seen
BEGIN = b"begin"  # a snapshot: what its author had seen
KEYS = b"keys"  # of the snapshot
COMPLETE = b"complete"
STARTS = b"starts"  # a part that is larger than a message: its kind, its size in bytes
PIECE = b"piece"  # the next bytes of it


class Hello(NamedTuple):
    """Who I am and what I have seen; whom I know (Members.view); whether I am new myself.

    `life` and `past` tell me from another server with my node id (claims.py). `stamps` are of the
    last records in the vector: they tell a replica's history from that of a copy of it. `disputed`
    are nodes that two servers say they are."""

    cluster: str
    node: int
    replica: int
    vector: Vector
    now_ms: int
    view: bytes
    is_joining: bool = False
    version: int = VERSION  # stays at this place in all versions
    life: bytes = b""
    past: Sequence[bytes] = ()
    stamps: dict[int, int] = {}  # noqa: RUF012 - of a NamedTuple, and nobody changes it
    disputed: Sequence[int] = ()


class Ack(NamedTuple):
    """What I have on disk, what my clock says, how many pushes I have taken in; and as in Hello.
    `takes_snapshot`: now is the time for it, if the log does not reach back so far. `trouble` is
    why the last link of this node to the other one ended, until that was told."""

    vector: Vector
    now_ms: int
    taken: int
    view: bytes
    is_joining: bool
    takes_snapshot: bool = False
    trouble: str = ""


Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Time = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]  # Unix ms
WireVector = dict[Replica, Number]

_pack = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(
    tuple[
        str,
        Node,
        Replica,
        WireVector,
        Time,
        bytes,
        bool,
        int,
        bytes,
        list[bytes],
        WireVector,
        list[Node],
    ]
).decode
_ack = msgspec.msgpack.Decoder(tuple[WireVector, Time, Number, bytes, bool, bool, str]).decode
_any = msgspec.msgpack.Decoder().decode
_vector = msgspec.msgpack.Decoder(WireVector).decode
_start = msgspec.msgpack.Decoder(tuple[bytes, Number]).decode
_VERSION_AT = Hello._fields.index("version")

BadMessage = MalformedError
T = TypeVar("T")


def pack(message: Any) -> bytes:
    return _pack(message)


def read_hello(data: bytes) -> Hello:
    """Of another version no more than the version can be trusted. Raises BadMessage."""
    fields = _read(_any, data)
    if isinstance(fields, list) and len(fields) > _VERSION_AT:
        version = fields[_VERSION_AT]
        if isinstance(version, int) and version != VERSION:
            node = fields[1] if isinstance(fields[1], int) else 0
            return Hello("", node, 0, {}, 0, b"", version=version)
    hello = Hello(*_read(_hello, data))
    check(hello.replica % REPLICAS_PER_NODE == hello.node, "a replica")
    _read(read_view, hello.view)
    return hello


def read_ack(data: bytes) -> Ack:
    """Raises BadMessage."""
    ack = Ack(*_read(_ack, data))
    _read(read_view, ack.view)
    return ack


def read_vector(data: bytes) -> Vector:
    """Raises BadMessage."""
    return _read(_vector, data)


def read_start(data: bytes) -> tuple[bytes, int]:
    """The kind and the size of the part that follows in pieces. Raises BadMessage."""
    return _read(_start, data)


def read_key(data: bytes, databases: int) -> Any:
    """A key of a snapshot: database, name, rows. Raises BadMessage."""
    key = frozen(_read(_any, data))
    check_key(key, databases)
    return key


def _read(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except UNREADABLE:
        raise BadMessage("the peer sent a message that is none") from None
