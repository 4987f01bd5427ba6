"""The link to a primary, where the order of two events decides."""

import asyncio
import tracemalloc
from contextlib import suppress
from time import perf_counter_ns

import pytest

from holdfast.psync.events import Command, Commands
from holdfast.resp import encode2
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
