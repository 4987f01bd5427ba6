"""The messages between servers, as bytes. No I/O.

The server that pulls sends `ACTIVE LINK hello`, and the reply is a hello. Then it sends `ACTIVE ACK
ack` once a second, and whenever it has stored something; the reply is an ack. In between the peer
sends pushes: `active`, the kind of message, its parts. No message is much larger than
MESSAGE_BYTES. A larger part is announced (STARTS) and sent in pieces, one in each message. So a
record may have any size, and while it is sent, both sides still exchange other messages.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from holdfast.crdt.dots import Vector
from holdfast.crdt.effects import frozen
from holdfast.crdt.shapes import UNREADABLE, MalformedError, check, check_key
from holdfast.store.replicated.members import REPLICAS_PER_NODE, Node, Replica, read_view

# The version of messages and of the records in them. Version 1 had no runs of changes, 2 no runs of
# pops, 3 no OVERWRITES, 4 neither pieces nor lives.
VERSION = 5
MESSAGE_BYTES = 128 * 1024
# The limit of a greeting and of each part of a message. One byte of msgpack may become an object of
# 64 bytes, so larger data is refused before it is decoded.
MOST_BYTES = 4 << 20
# Codes of errors: the server was removed; another server has the same node id; the server has
# dialled itself.
FORGOTTEN = b"FORGOTTEN"
DUPLICATE = b"DUPLICATE"
ITSELF = b"ITSELF"
PUSH = b"active"
RECORDS = b"records"  # records of the log
# The log lacks records that the receiver needs: the base of the log. The sender waits for an ack
# with `takes_snapshot`.
BEHIND = b"behind"
FOLLOWS = b"follows"  # after the snapshot of another peer the log is enough: the sender's vector
BEGIN = b"begin"  # a snapshot begins: the sender's vector
# events that the next keys may show, too, because the sender is taking a snapshot itself
OWES = b"owes"
KEYS = b"keys"  # keys of the snapshot
COMPLETE = b"complete"
STARTS = b"starts"  # a part that is larger than a message begins: its kind, its size in bytes
PIECE = b"piece"  # the next bytes of that part


class Hello(NamedTuple):
    """The identity of the sender, its vector and clock, the members that it knows (`Members.view`),
    and whether it is a joiner.

    `life` and `past` distinguish the sender from another server with its node id (claims.py).
    `stamps` are the stamps of the last records in the vector: they distinguish the history of a
    replica from that of a copy. `disputed` are node ids that two servers have.
    """

    cluster: str
    node: int
    replica: int
    vector: Vector
    now_ms: int
    view: bytes
    is_joining: bool = False
    version: int = VERSION  # at this index in all versions
    life: bytes = b""
    past: Sequence[bytes] = ()
    stamps: dict[int, int] = {}  # noqa: RUF012 - the default of a NamedTuple is never changed
    disputed: Sequence[int] = ()


class Ack(NamedTuple):
    """The events that the sender has on disk, its clock, and how many pushes it has taken; the rest
    is as in Hello. `takes_snapshot` asks for a snapshot if the log lacks records that the sender
    needs. `trouble` is the reason why the sender's last link to the receiver ended; it is sent
    once."""

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
    """The hello in this data. From another version, only version and node are read. Raises
    BadMessage."""
    check(len(data) <= MOST_BYTES, "a greeting")
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
    """The ack in this data. Raises BadMessage."""
    ack = Ack(*_read(_ack, data))
    _read(read_view, ack.view)
    return ack


def read_vector(data: bytes) -> Vector:
    """The vector in this data. Raises BadMessage."""
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
        raise BadMessage("the peer sent a message that is malformed") from None
