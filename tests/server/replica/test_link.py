"""The link to a primary, where the order of two events decides."""

import asyncio
import tracemalloc
from contextlib import suppress
from itertools import count
from time import perf_counter_ns

import pytest

from holdfast.psync import open_commands
from holdfast.psync.events import Command, Commands, PsyncError, TooLargeError
from holdfast.resp import encode2
from holdfast.server.core.engine import SHARE_NS
from holdfast.server.replica.link import MOST_WAITING_BYTES, STEADY_S, Link
from holdfast.server.replica.link_states import LinkState
from holdfast.server.replica.position import Position
from holdfast.server.replica.primary_session import PrimarySession
from holdfast.server.replica.replica_role import ReplicaRole
from tests.harness.in_process import InProcess

LARGE = 20_000_000


def test_a_link_that_was_cut_waits_for_no_room() -> None:
    """The disk becomes full after the last bytes were read and before they are handed over."""

    async def scenario() -> None:
        engine = InProcess().engine
        link = Link(engine, ReplicaRole(engine), "127.0.0.1", 1)
        start = Position(b"x" * 40, 0, 0)
        link.session = PrimarySession(engine, link, "there", "here", start, perf_counter_ns)
        link.session.sign_in()
        link.cut("a test")
        late = Commands(b"x" * (MOST_WAITING_BYTES + 1), [Command([b"PING"], 14)])
        await asyncio.wait_for(link._hand_over(late), 10)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("up_s", "wanted"), [(STEADY_S, ["dial", "dial", "pause"]), (0, ["dial", "pause"])]
)
def test_a_link_that_was_up_is_dialed_again_at_once(
    up_s: float, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause comes after an attempt that failed, and after a link that broke at its beginning:
    a primary may cut off each link as soon as it is up."""
    place = InProcess()
    link = Link(place.engine, ReplicaRole(place.engine), "127.0.0.1", 1)
    events: list[str] = []

    async def follow() -> None:
        events.append("dial")
        link._enter(LinkState.DIALING)
        if len(events) == 1:
            link._enter(LinkState.GREETING)
            link._enter(LinkState.FOLLOWING)
            place.clock.advance(up_s)
        raise OSError("the connection was reset")

    async def pause(seconds: float) -> None:
        events.append("pause")
        raise asyncio.CancelledError

    monkeypatch.setattr(link, "_follow", follow)
    monkeypatch.setattr(asyncio, "sleep", pause)
    with suppress(asyncio.CancelledError):
        asyncio.run(link._run())
    assert events == wanted


@pytest.mark.parametrize("name", [b"TIME", b"PING", b"no such command"])
def test_a_transaction_without_an_end_is_not_collected_for_ever(
    name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that are not queued count, too: their bytes are kept for replicas of this server."""
    monkeypatch.setattr(open_commands, "MOST_OPEN_BYTES", 1_000_000)
    place = InProcess({"save": ""})
    link = Link(place.engine, ReplicaRole(place.engine), "127.0.0.1", 1)
    start = Position(b"x" * 40, 0, 0)
    session = PrimarySession(place.engine, link, "there", "here", start, perf_counter_ns)
    session.sign_in()
    offset = 0

    def take(argv: list[bytes], count: int) -> None:
        nonlocal offset
        data = encode2([*argv])
        commands = [Command(argv, offset + len(data) * (each + 1)) for each in range(count)]
        offset += len(data) * count
        session.take(Commands(data * count, commands))
        place.engine.turn.end()

    take([b"SET", b"k", b"v"], 40_000)  # more than a million bytes, but not in one transaction
    take([b"MULTI"], 1)
    assert place.peer().command("GET", "k") == b"$1\r\nv\r\n"

    def take_more() -> None:
        for _ in range(1_000_000 // len(encode2([name])) // 100):
            take([name], 101)

    with pytest.raises(TooLargeError, match="a transaction of the primary takes more than"):
        take_more()
    assert session.noted < offset


def test_a_share_of_the_stream_copies_no_bytes_behind_it() -> None:
    """A replica that lags has megabytes of commands that wait. Each share runs some of them."""
    place = InProcess({"save": ""})
    link = Link(place.engine, ReplicaRole(place.engine), "127.0.0.1", 1)
    times_ns = count(0, 10 * SHARE_NS)  # each command takes a share
    start = Position(b"x" * 40, 0, 0)
    session = PrimarySession(place.engine, link, "there", "here", start, lambda: next(times_ns))
    session.sign_in()
    data = encode2([b"SET", b"k", b"v"])
    number = MOST_WAITING_BYTES // len(data)
    ends = range(len(data), number * len(data) + 1, len(data))
    piece, commands = data * 1000, [Command([b"SET", b"k", b"v"], end) for end in ends]
    for at in range(0, number, 1000):
        session.take(Commands(piece, commands[at : at + 1000]))
    tracemalloc.start()
    try:
        for _ in range(1500):  # through the end of a piece
            session.proceed()
        highest_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert session.noted == 1500 * len(data)
    assert highest_bytes < MOST_WAITING_BYTES / 8


class FailingLink(Link):
    """Each attempt gets as far as the commands, and then fails."""

    def __init__(self, place: InProcess, errors: list[Exception]) -> None:
        super().__init__(place.engine, ReplicaRole(place.engine), "127.0.0.1", 1)
        self._place = place
        self._errors = errors
        self.needed_snapshots: list[bool] = []

    async def _follow(self) -> None:
        self.needed_snapshots.append(self._needs_snapshot)
        for state in (LinkState.DIALING, LinkState.GREETING, LinkState.FOLLOWING):
            self._enter(state)
        start = Position(b"x" * 40, 0, 0)
        self.session = PrimarySession(self._engine, self, "there", "here", start, perf_counter_ns)
        self._place.clock.advance(STEADY_S)
        if not self._errors:
            raise asyncio.CancelledError
        raise self._errors.pop(0)


def pauses_of(link: Link, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    with suppress(asyncio.CancelledError):
        asyncio.run(link._run())
    return pauses


def test_a_stream_that_cannot_be_read_is_asked_for_more_and_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt may bring a gigabyte before the place that cannot be read."""
    errors = [PsyncError("damaged at 1")] * 9 + [PsyncError("damaged at 2"), OSError("cut")]
    link = FailingLink(InProcess(), [*errors])
    assert pauses_of(link, monkeypatch) == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1]
    assert link.needed_snapshots == [False] * 12


def test_a_transaction_that_is_too_large_comes_as_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    link = FailingLink(InProcess(), [TooLargeError("a transaction takes more than 9 bytes")])
    assert pauses_of(link, monkeypatch) == [1]
    assert link.needed_snapshots == [False, True]
    assert "is lost: a transaction takes more than 9 bytes, so the next attempt" in caplog.text


def test_a_large_value_is_there_once_beside_the_key() -> None:
    """Its bytes in the stream, which a replica of this server may need. No other copy of it."""
    place = InProcess({"save": ""})
    engine = place.engine
    link = Link(engine, ReplicaRole(engine), "127.0.0.1", 1)
    session = PrimarySession(
        engine, link, "there", "here", Position(b"x" * 40, 0, 0), perf_counter_ns
    )
    session.sign_in()
    engine.primary.stop_leading()
    engine.primary.follow(b"x" * 40, 0)
    value = b"v" * LARGE
    data = encode2([b"SET", b"k", value])
    tracemalloc.start()
    try:
        session.take(Commands(data, [Command([b"SET", b"k", value], len(data))]))
        engine.turn.end()
        assert tracemalloc.get_traced_memory()[1] < 2.5 * LARGE
    finally:
        tracemalloc.stop()
    assert engine.primary.offset == len(data)
    assert place.peer().command("STRLEN", "k") == b":%d\r\n" % LARGE
