"""The requests of a replica before it gets any data, as a table: one after the other.

`Follower` walks through it. A request that the settings make unnecessary is left out.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

NO_OFFSET: Final = -1


class Introduction(NamedTuple):
    """What a replica tells about itself. `offset` counts the bytes that it has of the stream with
    this id; without an id, it needs a snapshot."""

    password: bytes = b""
    username: bytes = b""
    listening_port: int = 0
    address: bytes = b""  # the address for others, if it differs from that of the link
    replication_id: bytes = b""
    offset: int = NO_OFFSET
    takes_over: bool = False  # FAILOVER: the primary asks its replica to be the primary


class State(Enum):
    """The value names the reply that is awaited."""

    PING = "the answer to PING"
    AUTH = "the answer to AUTH"
    PORT = "the answer to REPLCONF listening-port"
    ADDRESS = "the answer to REPLCONF ip-address"
    CAPABILITIES = "the answer to REPLCONF capa"
    VERSION = "the answer to REPLCONF version"
    PSYNC = "the answer to PSYNC"
    SIZE = "the size of the snapshot"
    SNAPSHOT = "the snapshot"
    STREAM = "commands"


Argv = list[bytes]


class Step(NamedTuple):
    """`request` returns None if this step sends nothing. After an error with one of the beginnings
    in `tolerated` the handshake goes on."""

    request: Callable[[Introduction], Argv | None]
    tolerated: tuple[bytes, ...]
    after: State


def _auth(intro: Introduction) -> Argv | None:
    if not intro.password:
        return None
    return [b"AUTH", *([intro.username] if intro.username else []), intro.password]


def _port(intro: Introduction) -> Argv | None:
    port = intro.listening_port
    return [b"REPLCONF", b"listening-port", b"%d" % port] if port else None


def _address(intro: Introduction) -> Argv | None:
    return [b"REPLCONF", b"ip-address", intro.address] if intro.address else None


def _psync(intro: Introduction) -> Argv:
    if not intro.replication_id:
        return [b"PSYNC", b"?", b"-1"]
    argv = [b"PSYNC", intro.replication_id, b"%d" % (intro.offset + 1)]
    return [*argv, b"FAILOVER"] if intro.takes_over else argv


ANY: Final = (b"-",)
# The version that is named to the primary. A Valkey writes a snapshot that a replica of this
# version reads. If no version is named, it writes the form of Redis 7.2, which has no place for the
# times at which fields of hashes expire.
VALKEY: Final = b"9.0.0"
# A server that wants a password first says so to PING.
NEEDS_AUTH: Final = (b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")

STEPS: Final[dict[State, Step]] = {
    State.PING: Step(lambda _: [b"PING"], NEEDS_AUTH, State.AUTH),
    State.AUTH: Step(_auth, (), State.PORT),
    State.PORT: Step(_port, ANY, State.ADDRESS),
    State.ADDRESS: Step(_address, ANY, State.CAPABILITIES),
    State.CAPABILITIES: Step(
        lambda _: [b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"], ANY, State.VERSION
    ),
    State.VERSION: Step(lambda _: [b"REPLCONF", b"version", VALKEY], ANY, State.PSYNC),
    State.PSYNC: Step(_psync, (), State.SIZE),
}

# Errors of a primary that will do it later. All others need another setting.
TEMPORARY: Final = (
    b"-LOADING",
    b"-NOMASTERLINK",
    b"-MASTERDOWN",
    b"-BUSY",
    b"-TRYAGAIN",
    b"-ERR Can't SYNC while",  # NOMASTERLINK of older servers, and a pending failover
    b"-ERR max number of clients",
)
