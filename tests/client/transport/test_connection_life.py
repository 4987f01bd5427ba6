"""How a connection begins and ends, on a fake transport and a clock that stands still."""

import asyncio
from typing import Any

import pytest

from holdfast.client.errors import (
    ClientError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    NotConnectedError,
    QueueFullError,
    RequestTimeoutError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.hooks import ConnectionEvent, GuardedHooks, Hooks
from holdfast.client.transport.options import Backoff, ClientOptions
from tests.client.fakes import FakeServer, Rig, turns


def run(scenario: Any) -> None:
    asyncio.run(scenario)


# -- closing ----------------------------------------------------------------------------------


def test_close_lets_requests_in_flight_finish() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        future = rig.submit("GET", "a")
        closing = asyncio.ensure_future(rig.connection.close())
        await turns()
        assert rig.is_in(State.CLOSING)
        with pytest.raises(ClosedError):
            rig.submit("GET", "b")
        rig.server.link.say(b"+a\r\n")
        assert await future == b"a"
        await closing
        assert rig.is_in(State.CLOSED)
        assert rig.server.link.aborted
        assert rig.clock.pending_timers == 0

    run(scenario())


def test_close_twice_with_three_in_flight_gives_three_closed_errors() -> None:
    async def scenario() -> None:
        rig = await Rig(close_grace_s=2).open()
        futures = [rig.submit("BLPOP", "q", "0") for _ in range(3)]
        await turns()
        closing = [asyncio.ensure_future(rig.connection.close()) for _ in range(2)]
        await turns()
        assert rig.is_in(State.CLOSING)
        rig.clock.advance(2)
        await asyncio.gather(*closing)
        for error in await asyncio.gather(*futures, return_exceptions=True):
            assert isinstance(error, ClosedError)
            assert error.may_have_executed
        await rig.connection.close()

    run(scenario())


def test_close_does_not_wait_for_cancelled_calls() -> None:
    async def scenario() -> None:
        rig = await Rig().open()
        in_flight = rig.submit("GET", "a")
        await turns()
        rig.server.link.protocol.pause_writing()
        unsent = rig.submit("GET", "b")
        for future in (in_flight, unsent):
            future.cancel()
        await rig.connection.close()  # the clock stands still: there is no grace period to wait
        assert rig.is_in(State.CLOSED)

        rig = await Rig(close_grace_s=1000).open()
        slow = rig.submit("GET", "a", timeout_s=1)
        closing = asyncio.ensure_future(rig.connection.close())
        await turns()
        assert rig.is_in(State.CLOSING)
        rig.clock.advance(1)
        with pytest.raises(RequestTimeoutError):
            await slow
        await closing

    run(scenario())


@pytest.mark.parametrize("moment", ["init", "connecting", "failed", "reconnecting"])
def test_close_works_in_every_state(moment: str) -> None:
    async def scenario() -> None:
        rig = Rig(backoff=Backoff(immediate=0))
        connecting: asyncio.Future[None] | None = None
        if moment == "connecting":
            rig.server.hello = None
            connecting = asyncio.ensure_future(rig.connection.connect())
            await turns()
        elif moment != "init":
            await rig.open()
            rig.server.hello = None
            rig.server.link.cut()
            await turns()
            if moment == "reconnecting":
                rig.clock.advance(1)
                await turns()
        assert rig.connection.state.name.lower() == moment
        await rig.connection.close()
        assert rig.is_in(State.CLOSED)
        if connecting is not None:
            with pytest.raises(ClosedError):
                await connecting
        assert rig.clock.pending_timers == 0

    run(scenario())


# -- reconnecting -----------------------------------------------------------------------------


def test_reconnecting_queues_up_to_the_limits_and_no_further() -> None:
    async def scenario() -> None:
        rig = await Rig(max_requests=3, max_bytes=200).open()
        rig.server.hello = None
        rig.server.link.cut()
        await turns()
        assert rig.is_in(State.RECONNECTING)
        queued = [rig.submit("PING") for _ in range(3)]
        with pytest.raises(QueueFullError, match="3 requests are pending"):
            rig.submit("PING")
        queued.pop().cancel()
        with pytest.raises(QueueFullError, match="bytes are pending"):
            rig.submit("SET", "k", "v" * 150)  # alone it would be allowed
        queued.append(rig.submit("ECHO", "late"))
        rig.server.link.say(b"%0\r\n+OK\r\n+OK\r\n")
        await turns()
        rig.server.link.writes.pop(0)  # the handshake
        assert rig.server.link.commands() == [[b"PING"], [b"PING"], [b"ECHO", b"late"]]
        rig.server.link.say(b"+PONG\r\n+PONG\r\n$4\r\nlate\r\n")
        assert await asyncio.gather(*queued) == [b"PONG", b"PONG", b"late"]
        assert rig.connection.pending == (0, 0)
        await rig.connection.close()

    run(scenario())


def test_a_reconnection_that_hangs_times_out_and_is_tried_again() -> None:
    async def scenario() -> None:
        rig = await Rig(backoff=Backoff(immediate=1, jitter=0), connect_timeout_s=5).open()
        rig.server.hello = None
        rig.server.link.cut()
        await turns()
        assert rig.is_in(State.RECONNECTING)
        hanging = rig.server.link
        rig.clock.advance(5)
        await turns()
        assert rig.is_in(State.FAILED)
        assert hanging.aborted
        assert isinstance(rig.connection.last_error, ConnectTimeoutError)
        rig.server.hello = FakeServer().hello
        rig.clock.advance(0.1)
        await turns(20)
        assert rig.is_in(State.OPEN)
        await rig.connection.close()

    run(scenario())


def test_a_failed_connection_sends_nothing_more() -> None:
    """The fake transport refuses writes after its end; here nothing even tries."""

    async def scenario() -> None:
        rig = await Rig(backoff=Backoff(immediate=0)).open()
        link = rig.server.link
        in_flight = rig.submit("PING")
        await turns()
        link.writes.clear()
        unsent = rig.submit("INCR", "n")
        link.protocol.eof_received()  # in the same turn, before the flush
        await turns()
        assert rig.is_in(State.FAILED)
        assert link.writes == []
        with pytest.raises(ConnectionLostError) as lost:
            await in_flight
        assert lost.value.may_have_executed
        with pytest.raises(NotConnectedError) as rejected:
            await unsent
        assert not rejected.value.may_have_executed
        await rig.connection.close()

    run(scenario())


# -- handshake --------------------------------------------------------------------------------


def test_the_handshake_has_user_and_database() -> None:
    async def scenario() -> None:
        rig = Rig(username="ann", password="pw", client_name="me", db=3)
        rig.server.hello = None
        connecting = asyncio.ensure_future(rig.connection.connect())
        await turns()
        hello, name, version, select = rig.server.link.commands()
        assert hello == [b"HELLO", b"3", b"AUTH", b"ann", b"pw", b"SETNAME", b"me"]
        assert name == [b"CLIENT", b"SETINFO", b"LIB-NAME", b"holdfast"]
        assert version[:3] == [b"CLIENT", b"SETINFO", b"LIB-VER"]
        assert select == [b"SELECT", b"3"]
        rig.server.link.say(b"%0\r\n-ERR unknown subcommand\r\n-ERR no\r\n+OK\r\n")
        await connecting
        assert rig.connection.agreed.protocol == 3
        await rig.connection.close()

    run(scenario())


def test_a_server_that_knows_no_hello_is_spoken_to_in_resp2() -> None:
    async def scenario() -> None:
        rig = Rig(password="pw", client_name="me")
        rig.server.hello = None
        connecting = asyncio.ensure_future(rig.connection.connect())
        await turns()
        rig.server.link.commands()
        rig.server.link.say(b"-ERR unknown command `HELLO`\r\n-NOAUTH x\r\n-NOAUTH x\r\n")
        await turns()
        assert rig.server.link.commands()[:2] == [
            [b"AUTH", b"pw"],
            [b"CLIENT", b"SETNAME", b"me"],
        ]
        rig.server.link.say(b"+OK\r\n+OK\r\n-ERR x\r\n-ERR x\r\n:7\r\n")
        await connecting
        assert rig.connection.agreed == (2, 7)
        await rig.connection.close()

    run(scenario())


def test_a_wrong_password_is_said_as_the_server_said_it() -> None:
    async def scenario() -> None:
        rig = Rig(password="no")
        rig.server.hello = b"-WRONGPASS invalid\r\n-NOAUTH x\r\n-NOAUTH x\r\n"
        with pytest.raises(ConnectError, match="WRONGPASS invalid"):
            await rig.connection.connect()

    run(scenario())


def test_a_handshake_that_hangs_times_out() -> None:
    async def scenario() -> None:
        rig = Rig(connect_timeout_s=5)
        rig.server.hello = None
        connecting = asyncio.ensure_future(rig.connection.connect())
        await turns()
        rig.clock.advance(5)
        with pytest.raises(ConnectTimeoutError) as caught:
            await connecting
        assert caught.value.is_timeout
        assert rig.server.link.aborted

    run(scenario())


def test_a_connection_lost_in_the_handshake_is_no_connection() -> None:
    async def scenario() -> None:
        rig = Rig()
        rig.server.hello = None
        connecting = asyncio.ensure_future(rig.connection.connect())
        await turns()
        rig.server.link.cut()
        with pytest.raises(ClientError):
            await connecting

    run(scenario())


def test_a_connection_lost_in_the_turn_of_its_handshake_is_tried_again() -> None:
    """The handshake is answered, and the link breaks before the answer is read."""

    async def scenario() -> None:
        rig = await Rig().open()
        rig.server.hello = None
        rig.server.link.cut()
        await turns()
        rig.server.hello = FakeServer().hello
        rig.server.link.say(b"%0\r\n+OK\r\n+OK\r\n")
        rig.server.link.cut()
        await turns(20)
        assert rig.is_in(State.OPEN)
        assert (rig.server.dials, rig.connection.generation) == (3, 2)
        await rig.connection.close()

        first = Rig()
        first.server.hello = None
        connecting = asyncio.ensure_future(first.connection.connect())
        await turns()
        first.server.link.say(b"%0\r\n+OK\r\n+OK\r\n")
        first.server.link.cut()
        with pytest.raises(ConnectError, match="closed"):
            await connecting

    run(scenario())


# -- hooks ------------------------------------------------------------------------------------


def test_every_change_of_state_is_told_and_a_raising_hook_is_swallowed() -> None:
    class Recorder(Hooks):
        def __init__(self) -> None:
            self.events: list[ConnectionEvent] = []

        def connection(self, event: ConnectionEvent) -> None:
            self.events.append(event)
            raise RuntimeError("a bad hook")

    async def scenario() -> None:
        server, recorder = FakeServer(), Recorder()
        hooks = GuardedHooks([recorder])
        connection = Connection(ClientOptions(), dial=server.dial, hooks=hooks)
        await connection.connect()
        server.link.cut()
        await turns()
        await connection.close()
        stages = [event.stage for event in recorder.events]
        assert stages == [
            *("connecting", "connected", "disconnected"),
            *("reconnecting", "connected", "closing", "closed"),
        ]
        assert [event.generation for event in recorder.events] == [0, 1, 1, 1, 2, 2, 2]

    run(scenario())
