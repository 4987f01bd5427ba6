"""The actor, on a fake transport and a clock that stands still."""

import asyncio
import random
from typing import Any

import pytest

from holdfast.client.errors import (
    BadReplyError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    NotConnectedError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.topology.single import send_many
from holdfast.client.transport.options import Backoff
from tests.client.fakes import FakeServer, Rig, turns


def run(scenario: Any) -> None:
    asyncio.run(scenario)


# -- requests ---------------------------------------------------------------------------------


def test_all_requests_of_a_loop_turn_are_one_write() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        futures = [rig.submit("PING", str(n)) for n in range(50)]
        await turns()
        assert len(rig.server.link.writes) == 1
        assert len(rig.server.link.commands()) == 50
        rig.server.link.say(b"".join(b":%d\r\n" % n for n in range(50)))
        assert await asyncio.gather(*futures) == list(range(50))
        await rig.connection.close()

    run(scenario())


def test_no_request_is_left_behind_whenever_it_comes() -> None:
    """Submitted at random moments: before, in and after flushes. Each is written."""

    async def scenario() -> None:
        rig = await Rig().open()
        rng = random.Random(7)
        sent = 0

        async def caller() -> None:
            nonlocal sent
            for _ in range(20):
                await turns(rng.randint(0, 3))
                rig.submit("PING")
                sent += 1

        await asyncio.gather(*(caller() for _ in range(10)))
        await turns()
        assert len(rig.server.link.commands()) == sent == 200
        await rig.connection.close(0)

    run(scenario())


def test_a_cancelled_caller_does_not_shift_replies() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        a, b = rig.submit("GET", "a"), rig.submit("GET", "b")
        await turns()
        a.cancel()
        rig.server.link.say(b"+a\r\n+b\r\n")
        assert await b == b"b"
        await rig.connection.close()

    run(scenario())


def test_a_timeout_fails_one_call_and_the_connection_goes_on() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        slow, patient = rig.submit("GET", "a", timeout_s=1), rig.submit("GET", "b", timeout_s=5)
        await turns()
        rig.clock.advance(1)
        with pytest.raises(RequestTimeoutError) as caught:
            await slow
        assert caught.value.may_have_executed
        assert not caught.value.is_retryable
        assert isinstance(caught.value, TimeoutError)
        rig.server.link.say(b"+a\r\n+b\r\n")
        assert await patient == b"b"
        assert rig.is_in(State.OPEN)
        await rig.connection.close()
        assert rig.clock.pending_timers == 0

    run(scenario())


def test_a_push_is_never_taken_for_a_reply() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        pushes: list[Any] = []
        rig.connection.on_push = pushes.append
        future = rig.submit("GET", "a")
        await turns()
        rig.server.link.say(b">2\r\n+invalidate\r\n*1\r\n+a\r\n")
        assert not future.done()
        rig.server.link.say(b"+a\r\n")
        assert await future == b"a"
        assert pushes == [[b"invalidate", [b"a"]]]
        await rig.connection.close()

    run(scenario())


def test_an_error_reply_is_a_value() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        future = rig.submit("GET", "a")
        await turns()
        rig.server.link.say(b"-WRONGTYPE no\r\n")
        assert isinstance(await future, ServerError)
        await rig.connection.close()

    run(scenario())


def test_a_full_transport_keeps_requests_unsent_until_it_drains() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        rig.server.link.protocol.pause_writing()
        future = rig.submit("GET", "a")
        await turns()
        assert not rig.server.link.writes
        rig.server.link.protocol.resume_writing()
        await turns()
        assert rig.server.link.commands() == [[b"GET", b"a"]]
        rig.server.link.say(b"+a\r\n")
        assert await future == b"a"
        await rig.connection.close()

    run(scenario())


@pytest.mark.parametrize("end", ["lost", "timeout"])
def test_a_request_that_is_cut_short_keeps_the_replies_that_came(end: str) -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        commands = [("GET", "a"), ("GET", "b"), ("GET", "c")]
        future = send_many(rig.connection, list(commands), timeout_s=1)
        await turns()
        link = rig.server.link
        link.say(b"+a\r\n")
        if end == "lost":
            link.cut()
        else:
            rig.clock.advance(1)
        slots = await future
        assert slots[0] == b"a"
        assert [slot.may_have_executed for slot in slots[1:]] == [True, True]
        if end == "timeout":
            other = rig.submit("GET", "d")
            await turns()
            link.say(b"+b\r\n+c\r\n+d\r\n")
            assert await other == b"d"
            assert len(slots) == 3
            assert isinstance(slots[1], RequestTimeoutError)
        await rig.connection.close(0)

    run(scenario())


def test_a_request_that_was_never_sent_raises() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        rig.server.link.protocol.pause_writing()
        future = send_many(rig.connection, [("GET", "a")], timeout_s=1)
        await turns()
        rig.clock.advance(1)
        with pytest.raises(RequestTimeoutError) as caught:
            await future
        assert caught.value.is_retryable
        await rig.connection.close(0)

    run(scenario())


# -- states -----------------------------------------------------------------------------------


def test_before_connect_requests_are_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(NotConnectedError):
            Rig().submit("PING")

    run(scenario())


def test_while_connecting_requests_are_queued() -> None:
    async def scenario() -> None:
        rig = Rig()
        connecting = asyncio.ensure_future(rig.connection.connect())
        await asyncio.sleep(0)
        assert rig.is_in(State.CONNECTING)
        future = rig.submit("PING")
        await connecting
        await turns()
        assert rig.server.link.commands() == [[b"PING"]]
        rig.server.link.say(b"+PONG\r\n")
        assert await future == b"PONG"
        await rig.connection.close()

    run(scenario())


def test_the_first_failure_is_raised_and_kept() -> None:
    async def scenario() -> None:
        rig = Rig()
        rig.server.refusing = True
        with pytest.raises(ConnectError, match="refused"):
            await rig.connection.connect()
        assert rig.is_in(State.CLOSED)
        assert isinstance(rig.connection.last_error, ConnectionRefusedError)

    run(scenario())


def test_in_flight_fails_once_and_is_never_sent_again() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        future = rig.submit("INCR", "n")
        await turns()
        old = rig.server.link
        old.protocol.eof_received()
        old.cut()  # two ends of one link report the same loss
        with pytest.raises(ConnectionLostError) as caught:
            await future
        assert caught.value.may_have_executed
        await turns()
        assert rig.is_in(State.OPEN)
        assert (rig.server.dials, rig.connection.generation) == (2, 2)
        assert rig.server.link.commands() == []
        assert rig.connection.pending == (0, 0)
        await rig.connection.close()

    run(scenario())


def test_an_unsent_request_survives_a_reconnection() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        rig.server.link.protocol.pause_writing()
        future = rig.submit("INCR", "n")
        await turns()
        rig.server.link.cut()
        await turns()
        assert rig.server.link.commands() == [[b"INCR", b"n"]]
        rig.server.link.say(b":1\r\n")
        assert await future == 1
        await rig.connection.close()

    run(scenario())


def test_reconnecting_queues_and_backoff_rejects() -> None:
    async def scenario() -> None:
        rig = await Rig(backoff=Backoff(immediate=1, jitter=0)).open()
        rig.server.hello = None  # the next handshake hangs
        rig.server.link.cut()
        await turns()
        assert rig.is_in(State.RECONNECTING)
        queued = rig.submit("PING")
        rig.server.link.cut()
        await turns()
        assert rig.is_in(State.FAILED)
        with pytest.raises(NotConnectedError) as caught:
            await queued
        assert not caught.value.may_have_executed
        with pytest.raises(NotConnectedError):
            rig.submit("PING")
        rig.server.hello = FakeServer().hello
        rig.clock.advance(0.1)
        await turns(20)
        assert rig.is_in(State.OPEN)
        assert rig.connection.attempts == 0
        await rig.connection.close()

    run(scenario())


def test_a_connection_is_tried_for_ever_and_ever_more_slowly() -> None:
    async def scenario() -> None:
        rig = await Rig(backoff=Backoff(jitter=0)).open()
        rig.server.refusing = True
        rig.server.link.cut()
        await turns(40)
        assert rig.server.dials == 1 + 5
        for n in range(20):
            before = rig.server.dials
            delay_s = min(0.1 * 2**n, 30.0)
            rig.clock.advance(delay_s - 0.001)
            await turns()
            assert rig.server.dials == before
            rig.clock.advance(0.002)
            await turns()
            assert rig.server.dials == before + 1
        rig.server.refusing = False
        rig.clock.advance(30)
        await turns(20)
        assert (rig.connection.state, rig.connection.attempts) == (State.OPEN, 0)
        await rig.connection.close()

    run(scenario())


def test_delays_are_spread_by_a_fifth() -> None:
    backoff = Backoff()
    assert [backoff.delay_s(n, 0.5) for n in (1, 5, 6, 7, 99)] == [0, 0, 0.1, 0.2, 30.0]
    assert backoff.delay_s(6, 0.0) == pytest.approx(0.08)
    assert backoff.delay_s(6, 1.0) == pytest.approx(0.12)


def test_without_reconnection_the_end_is_closed_and_the_reason_kept() -> None:
    async def scenario() -> None:
        rig = await Rig(reconnect=False).open()
        future = rig.submit("PING")
        await turns()
        rig.server.link.cut()
        with pytest.raises(ConnectionLostError):
            await future
        await turns()
        assert rig.is_in(State.CLOSED)
        assert isinstance(rig.connection.last_error, ConnectionResetError)
        with pytest.raises(ClosedError, match="closed"):
            rig.submit("PING")
        await rig.connection.close()

    run(scenario())


def test_bytes_that_are_no_reply_end_the_connection_not_the_client() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        future = rig.submit("PING")
        await turns()
        rig.server.link.say(b"HTTP/1.1 400 Bad Request\r\n")
        with pytest.raises(BadReplyError) as caught:
            await future
        assert caught.value.domain == "protocol"
        await turns()
        assert rig.is_in(State.OPEN)
        await rig.connection.close()

    run(scenario())


def test_an_old_link_has_no_say() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        old = rig.server.link
        old.cut()
        await turns()
        future = rig.submit("PING")
        await turns()
        old.say(b"+WRONG\r\n")
        old.cut()
        rig.server.link.say(b"+PONG\r\n")
        assert await future == b"PONG"
        assert rig.server.dials == 2
        await rig.connection.close()

    run(scenario())
