"""A replica's side of a link: what it says, and what it makes of the answers."""

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.psync.events import (
    Command,
    Commands,
    Continues,
    Event,
    FullResync,
    PsyncError,
    SnapshotBegins,
    SnapshotEnds,
    SnapshotPiece,
)
from holdfast.psync.follower import Follower, acknowledgement
from holdfast.psync.handshake import STEPS, Introduction, State
from holdfast.resp import encode2
from holdfast.store.rdb.file_reader import RdbReader
from holdfast.store.rdb.records import Entry
from tests.harness import RedisServer
from tests.harness.valkey import ValkeyServer

ID = b"0123456789abcdef0123456789abcdef01234567"
OTHER_ID = ID[::-1]
PING = encode2([b"PING"])


def past_handshake(introduction: Introduction = Introduction()) -> Follower:  # noqa: B008 - a tuple
    """One that waits for the answer to PSYNC."""
    follower = Follower(introduction)
    while follower.state is not State.PSYNC:
        follower.to_send()
        assert follower.receive(b"+OK\r\n") == []
    return follower


def test_every_state_of_the_table_leads_to_the_stream() -> None:
    assert {*STEPS} == {*State} - {State.SIZE, State.SNAPSHOT, State.STREAM}
    for state in STEPS:
        seen = {state}
        while state in STEPS:
            state = STEPS[state].after
            assert state not in seen
            seen.add(state)
        assert state is State.SIZE


def test_it_says_one_thing_after_the_other() -> None:
    follower = Follower(Introduction(b"secret", b"joe", 6380, b"10.0.0.1", ID, 41))
    sent = []
    for answer in (b"-NOAUTH Authentication required.", b"+OK", b"+OK", b"-ERR no", b"+OK", b"+OK"):
        sent.append(follower.to_send())
        assert follower.to_send() == b""
        assert follower.receive(answer + b"\r\n") == []
    sent.append(follower.to_send())
    assert sent == [
        PING,
        encode2([b"AUTH", b"joe", b"secret"]),
        encode2([b"REPLCONF", b"listening-port", b"6380"]),
        encode2([b"REPLCONF", b"ip-address", b"10.0.0.1"]),
        encode2([b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]),
        encode2([b"REPLCONF", b"version", b"9.0.0"]),
        encode2([b"PSYNC", ID, b"42"]),
    ]


def test_without_settings_it_leaves_requests_out() -> None:
    follower = Follower(Introduction())
    assert follower.to_send() == PING
    follower.receive(b"+PONG\r\n")
    assert b"capa" in follower.to_send()
    follower.receive(b"+OK\r\n")
    assert b"version" in follower.to_send()
    follower.receive(b"-ERR Unrecognized REPLCONF option: version\r\n")
    assert follower.to_send() == encode2([b"PSYNC", b"?", b"-1"])


def test_a_demoted_primary_asks_its_replica_to_take_over() -> None:
    follower = past_handshake(Introduction(replication_id=ID, offset=7, takes_over=True))
    assert follower.to_send() == encode2([b"PSYNC", ID, b"8", b"FAILOVER"])


def events_of(follower: Follower, data: bytes, pieces: Iterator[int]) -> list[Event]:
    """With neighbouring pieces of the snapshot joined: how they are split is no promise."""
    events: list[Event] = []
    while data:
        size = next(pieces)
        for event in follower.receive(data[:size]):
            if isinstance(event, SnapshotPiece) and isinstance(events[-1], SnapshotPiece):
                events[-1] = SnapshotPiece(events[-1].data + event.data)
            elif isinstance(event, Commands) and isinstance(events[-1], Commands):
                events[-1] = Commands(
                    events[-1].data + event.data, events[-1].commands + event.commands
                )
            else:
                events.append(event)
        data = data[size:]
    return events


def sizes(rng: random.Random, longest: int) -> Iterator[int]:
    while True:
        yield rng.randint(1, longest)


@pytest.mark.parametrize("longest", [1, 5, 60, 10_000])
@pytest.mark.parametrize("has_mark", [False, True])
def test_a_snapshot_and_the_commands_behind_it(
    rng: random.Random, longest: int, has_mark: bool
) -> None:
    rdb = rng.randbytes(900)
    mark = rng.randbytes(20).hex().encode()
    size = b"$EOF:%b\r\n" % mark if has_mark else b"$%d\r\n" % len(rdb)
    start = b"\n\n+FULLRESYNC %b 1000\r\n\n\n%b" % (ID, size)
    end = mark if has_mark else b""
    events = events_of(past_handshake(), start + rdb + end + PING * 2, sizes(rng, longest))
    assert events == [
        FullResync(ID, 1000),
        SnapshotBegins(None if has_mark else len(rdb)),
        SnapshotPiece(rdb),
        SnapshotEnds(),
        Commands(PING * 2, [Command([b"PING"], 1014), Command([b"PING"], 1028)]),
    ]


@pytest.mark.parametrize(("answer", "new_id"), [(b"", ID), (b" " + OTHER_ID, OTHER_ID)])
def test_the_stream_goes_on_under_the_id_that_the_primary_names(
    answer: bytes, new_id: bytes
) -> None:
    follower = past_handshake(Introduction(replication_id=ID, offset=500))
    events = follower.receive(b"+CONTINUE%b\r\n%b" % (answer, PING))
    assert events == [Continues(new_id), Commands(PING, [Command([b"PING"], 514)])]
    assert follower.receive(PING[:3]) == [Commands(PING[:3], [])]


@pytest.mark.parametrize(
    ("answer", "is_temporary"),
    [
        (b"-LOADING Redis is loading the dataset in memory", True),
        (b"-NOMASTERLINK Can't SYNC while not connected with my master", True),
        (b"-ERR unknown command 'PSYNC'", False),
        (b"-NOPERM this user has no permissions to run the 'psync' command", False),
    ],
)
def test_a_refusal_says_whether_it_may_work_later(answer: bytes, is_temporary: bool) -> None:
    with pytest.raises(PsyncError, match="the primary refuses PSYNC: ") as error:
        past_handshake().receive(answer + b"\r\n")
    assert error.value.is_temporary is is_temporary


def test_a_wrong_password_is_no_matter_of_time() -> None:
    follower = Follower(Introduction(b"wrong"))
    follower.receive(b"+PONG\r\n")
    with pytest.raises(PsyncError, match="refuses AUTH: WRONGPASS invalid") as error:
        follower.receive(b"-WRONGPASS invalid username-password pair\r\n")
    assert not error.value.is_temporary


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"+FULLRESYNC short 5\r\n",
        b"+FULLRESYNC %b -5\r\n" % ID,
        b"+FULLRESYNC %b 9223372036854775807\r\n" % ID,
        b"+FULLRESYNC %b\r\n" % ID,
        b"+CONTINUE\r\n",  # nothing was asked to be continued
        b"+OK\r\n",
        b"+FULLRESYNC %b 5\r\n*1\r\n" % ID,
        b"+FULLRESYNC %b 5\r\n$-1\r\n" % ID,
        b"+FULLRESYNC %b 5\r\n$EOF:short\r\n" % ID,
        b"x" * 5000,
    ],
)
def test_garbage_is_one_sentence(answer: bytes) -> None:
    with pytest.raises(PsyncError, match=r"^the primary sent '.{,90}' instead of the "):
        past_handshake().receive(answer)


def test_a_primary_that_fails_to_write_its_snapshot_may_do_it_later() -> None:
    follower = past_handshake()
    follower.receive(b"+FULLRESYNC %b 5\r\n" % ID)
    with pytest.raises(PsyncError, match="no snapshot: ERR disk is full") as error:
        follower.receive(b"-ERR disk is full\r\n")
    assert error.value.is_temporary


@pytest.fixture(params=[RedisServer, ValkeyServer], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with request.param(tmp_path) as server:
        yield server


@pytest.mark.oracle
@pytest.mark.parametrize("has_mark", ["no", "yes"])
def test_a_real_primary(server: RedisServer, has_mark: str) -> None:
    """A snapshot with its size and with a mark, commands, and a second link that goes on."""
    client = server.client()
    client.command("CONFIG", "SET", "repl-diskless-sync", has_mark)
    client.command("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    client.command("SET", "key", "value")
    reader, offset, replication_id, entries = RdbReader(), 0, b"", []
    with Link(server.port, Introduction(listening_port=1)) as link:
        for event in link.events():
            if isinstance(event, FullResync):
                replication_id, offset = event
            elif isinstance(event, SnapshotBegins):
                assert (event.nbytes is None) is (has_mark == "yes")
            elif isinstance(event, SnapshotPiece):
                entries += [each for each in reader.feed(event.data) if isinstance(each, Entry)]
            elif isinstance(event, SnapshotEnds):
                reader.end()
                assert reader.version == (80 if isinstance(server, ValkeyServer) else 10)
                link.pulse = acknowledgement(offset)
                client.command("SET", "key", "other")
            elif isinstance(event, Commands) and event.commands:
                argv, offset = event.commands[-1]
                if argv[0] == b"SET":
                    break
    assert [entry.name for entry in entries] == [b"key"]
    client.command("DEL", "key")
    going_on = Introduction(replication_id=replication_id, offset=offset)
    with Link(server.port, going_on) as link:
        events = link.events()
        assert next(events) == Continues(replication_id)
        argvs = (each.argv for event in events if isinstance(event, Commands) for each in event[1])
        assert next(argvs) in ([b"DEL", b"key"], [b"SELECT", b"0"])


class Link:
    """A link over a socket. In silence it sends its pulse, as replicas do: a primary does not hear
    an acknowledgement that arrives before its own process has written all of the snapshot."""

    def __init__(self, port: int, introduction: Introduction) -> None:
        self.pulse = b""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=0.05)
        self._follower = Follower(introduction)

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def events(self) -> Iterator[Event]:
        self.send(self._follower.to_send())
        while data := self._received():
            yield from self._follower.receive(data)
            self.send(self._follower.to_send())

    def _received(self) -> bytes:
        while True:
            try:
                return self._socket.recv(1 << 16)
            except TimeoutError:
                self.send(self.pulse)
