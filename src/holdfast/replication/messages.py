"""What servers say to each other, as bytes. No I/O.

Who pulls sends `ACTIVE LINK hello`, which is answered with a hello, and then `ACTIVE ACK ack`
whenever something was stored and once a second, which is answered with an ack. In between come
pushes: `active`, the kind of message, its parts. No message is much larger than MESSAGE_BYTES: a
part that is larger is announced (STARTS) and travels in pieces, one to a message. So there is no
largest record, a peer that takes one in is heard of meanwhile, and neither side waits with nothing
to say.
"""

from typing import Any, NamedTuple

import msgspec

from holdfast.crdt.dots import Vector
from holdfast.crdt.effects import frozen

# Of messages and the records in them; 1 knew no runs of changes, 2 none of pops, 3 none that leave
# out what their author did before, 4 no pieces.
VERSION = 5
MESSAGE_BYTES = 128 * 1024
FORGOTTEN = b"FORGOTTEN"  # the error's code, for one that was removed
PUSH = b"active"
RECORDS = b"records"  # records of the log
BEGIN = b"begin"  # a snapshot: what its author had seen
KEYS = b"keys"  # of the snapshot
COMPLETE = b"complete"
STARTS = b"starts"  # a part that is larger than a message: its kind, its size in bytes
PIECE = b"piece"  # the next bytes of it


class Hello(NamedTuple):
    """Who I am and what I have seen; whom I know (Members.view); whether I am new myself."""

    cluster: str
    node: int
    replica: int
    vector: Vector
    now_ms: int
    view: bytes
    is_joining: bool = False
    version: int = VERSION


class Ack(NamedTuple):
    """What I have on disk, what my clock says, how many pushes I have taken in; and as in Hello.
    `trouble` is why the last link of this node to the other one ended, until that was told."""

    vector: Vector
    now_ms: int
    taken: int
    view: bytes
    is_joining: bool
    trouble: str = ""


_pack = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(tuple[str, int, int, dict[int, int], int, bytes, bool, int]).decode
_ack = msgspec.msgpack.Decoder(tuple[dict[int, int], int, int, bytes, bool, str]).decode
_any = msgspec.msgpack.Decoder().decode
_vector = msgspec.msgpack.Decoder(dict[int, int]).decode
_start = msgspec.msgpack.Decoder(tuple[bytes, int]).decode

BadMessage = msgspec.MsgspecError


def pack(message: Any) -> bytes:
    return _pack(message)


def read_hello(data: bytes) -> Hello:
    return Hello(*_hello(data))


def read_ack(data: bytes) -> Ack:
    return Ack(*_ack(data))


def read_vector(data: bytes) -> Vector:
    return _vector(data)


def read_start(data: bytes) -> tuple[bytes, int]:
    """The kind and the size of the part that follows in pieces."""
    return _start(data)


def read_key(data: bytes) -> Any:
    """A key of a snapshot: database, name, rows."""
    return frozen(_any(data))
