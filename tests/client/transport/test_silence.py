"""Peers that vanish without a word, or do not answer, and how little an idle connection costs."""

import asyncio
import gc
import random
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.errors import ConnectionLostError, RequestTimeoutError
from holdfast.client.protocol.special import longest_wait_s
from holdfast.client.topology.single import Single
from holdfast.client.transport.options import parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, FakeTransport, turns, until
from tests.client.proxy import ChaosProxy
from tests.harness import RedisServer

TCP_REPAIR = 19  # Linux: a socket in this mode is closed without telling the other side


def socket_of(client: Client) -> socket.socket:
    assert isinstance(client._caller, Single)
    link = client._caller.connection._link
    assert link is not None
    assert link._transport is not None
    sock: socket.socket = link._transport.get_extra_info("socket")
    return sock


def test_sockets_have_no_delay_and_are_kept_alive(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url, keepalive_s=12) as client:
            sock = socket_of(client)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            seconds = {"TCP_KEEPIDLE": 12, "TCP_KEEPINTVL": 4, "TCP_KEEPCNT": 3}
            for name, value in {**seconds, "TCP_USER_TIMEOUT": 24_000}.items():
                if hasattr(socket, name):
                    assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
        async with holdfast.connect(redis_url, keepalive_s=None) as client:
            assert not socket_of(client).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert socket_of(client).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    asyncio.run(scenario())


def test_an_idle_connection_notices_that_its_peer_is_gone() -> None:
    async def greet(listener: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        peer, _ = await loop.sock_accept(listener)
        data = b""
        while b"LIB-VER" not in data:
            data += await loop.sock_recv(peer, 4096)
        await loop.sock_sendall(peer, b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n")
        return peer

    async def scenario(listener: socket.socket) -> None:
        client = holdfast.connect(f"redis://127.0.0.1:{listener.getsockname()[1]}", keepalive_s=1)
        peer, _ = await asyncio.gather(greet(listener), client.connect())
        assert isinstance(client._caller, Single)
        connection = client._caller.connection
        try:
            peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        except OSError:
            await client.close()
            pytest.skip("only an administrator can make a socket vanish")
        finally:
            peer.close()
        again, _ = await asyncio.gather(greet(listener), until(lambda: connection.generation == 2))
        assert connection.last_error is not None
        await client.close()
        again.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        asyncio.run(scenario(listener))


def test_an_idle_connection_costs_little(redis_url: str) -> None:
    """Only the memory of Python objects: that of the loop and the kernel does not count."""

    async def scenario() -> None:
        async def connect(count: int) -> list[Client]:
            clients = [holdfast.connect(redis_url) for _ in range(count)]
            for client in clients:
                await client.connect()
            return clients

        clients = await connect(5)  # the first clients cost more
        gc.collect()
        tracemalloc.start()
        try:
            clients += await connect(50)
            gc.collect()
            each = tracemalloc.get_traced_memory()[0] / 50
        finally:
            tracemalloc.stop()
        for client in clients:
            await client.close()
        assert each < 20_000, f"{each:,.0f} bytes"

    asyncio.run(scenario())


class Silent:
    """A client of a server that says nothing more on its first connection."""

    def __init__(self, **options: Any) -> None:
        self.server, self.clock = FakeServer(), ManualClock()
        if options.get("cache_keys"):
            self.server.hello = b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n+OK\r\n"
        target = parse_url("redis://h", **options)
        self.client = make_client(target, dial=self.server.dial, clock=self.clock)

    async def __aenter__(self) -> "Silent":
        await self.client.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close(0)
        assert self.clock.pending_timers == 0

    @property
    def old(self) -> FakeTransport:
        return self.server.links[0]

    async def pass_s(self, seconds: int) -> None:
        await turns(20)  # callbacks that began before
        for _ in range(seconds):
            self.clock.advance(1)
            await turns(20)


def test_a_silent_connection_is_given_up_when_a_new_one_is_answered() -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            first = asyncio.create_task(silent.client.get("a"))
            await silent.pass_s(1)
            second = asyncio.create_task(silent.client.within(60).get("b"))
            await silent.pass_s(4)
            with pytest.raises(RequestTimeoutError):
                await first
            await silent.pass_s(1)
            assert not silent.old.aborted, "nothing better is known yet"
            silent.server.link.say(b"+PONG\r\n")
            await turns(20)
            assert silent.server.links[0].aborted
            with pytest.raises(ConnectionLostError) as lost:
                await second
            assert lost.value.may_have_executed
            assert len(silent.server.links) == 3  # the probe was one of them
            third = asyncio.create_task(silent.client.get("c"))
            await turns()
            silent.server.link.say(b"+v\r\n")
            assert await third == "v"

    asyncio.run(scenario())


@pytest.mark.parametrize("answer", [None, b"-BUSY a script runs\r\n", b"-LOADING\r\n"])
def test_a_silent_connection_is_kept_while_the_server_answers_no_connection(
    answer: bytes | None,
) -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            slow = asyncio.create_task(silent.client.get("a"))
            await silent.pass_s(5)
            with pytest.raises(RequestTimeoutError):
                await slow
            patient = asyncio.create_task(silent.client.within(None).get("b"))
            for _ in range(3):
                probes = len(silent.server.links)
                await silent.pass_s(6)
                assert len(silent.server.links) > probes, "it is asked again"
                if answer is not None:
                    silent.server.link.say(answer)
            assert not silent.old.aborted
            silent.old.say(b"+late\r\n+v\r\n")
            assert await patient == "v"

    asyncio.run(scenario())


def test_a_connection_is_kept_while_the_caller_of_its_oldest_command_waits() -> None:
    """It may be a script that takes long; those behind it time out."""

    async def scenario() -> None:
        async with Silent() as silent:
            script = asyncio.create_task(silent.client.exec("EVAL", "…", 0, timeout_s=None))
            behind = asyncio.create_task(silent.client.get("a"))
            await silent.pass_s(60)
            with pytest.raises(RequestTimeoutError):
                await behind
            assert silent.server.dials == 1
            silent.old.say(b":1\r\n")
            assert await script == 1

    asyncio.run(scenario())


def test_a_long_reply_that_is_still_coming_is_no_silence() -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            slow = asyncio.create_task(silent.client.get("a"))
            await turns()
            silent.old.say(b"$100\r\n")
            for _ in range(50):
                await silent.pass_s(1)
                silent.old.say(b"x")
            with pytest.raises(RequestTimeoutError):
                await slow
            assert silent.server.dials == 1
            assert not silent.old.aborted

    asyncio.run(scenario())


def test_a_request_that_is_still_leaving_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            slow = asyncio.create_task(silent.client.set("a", "x" * 1000))
            await turns()
            for left in reversed(range(1, 40)):
                monkeypatch.setattr(silent.old, "get_write_buffer_size", lambda left=left: left)
                await silent.pass_s(1)
            with pytest.raises(RequestTimeoutError):
                await slow
            assert silent.server.dials == 1

    asyncio.run(scenario())


def test_silence_may_be_ignored() -> None:
    async def scenario() -> None:
        async with Silent(silence_timeout_s=None) as silent:
            slow = asyncio.create_task(silent.client.get("a"))
            await silent.pass_s(60)
            with pytest.raises(RequestTimeoutError):
                await slow
            assert silent.server.dials == 1

    asyncio.run(scenario())


def test_an_idle_client_asks_nothing() -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            answered = asyncio.create_task(silent.client.get("a"))
            await turns()
            silent.old.say(b"+v\r\n")
            await answered
            await silent.pass_s(10)
            assert silent.clock.pending_timers == 0
            assert silent.old.commands() == [[b"GET", b"a"]]

    asyncio.run(scenario())


def test_a_client_with_a_cache_notices_that_nothing_would_be_pushed() -> None:
    async def scenario() -> None:
        async with Silent(cache_keys=10) as silent:
            await silent.pass_s(1)
            assert silent.old.commands() == [[b"PING"]]
            silent.server.hello = FakeServer().hello  # a probe caches nothing
            await silent.pass_s(7)
            silent.server.link.say(b"+PONG\r\n")
            await turns(20)
            assert silent.old.aborted

    asyncio.run(scenario())


def test_a_subscriber_notices_that_nothing_comes() -> None:
    async def scenario() -> None:
        async with Silent() as silent, silent.client.pubsub() as pubsub:
            asking = asyncio.create_task(pubsub.subscribe("news"))
            await turns()
            feed = silent.server.link
            assert feed.commands() == [[b"SUBSCRIBE", b"news"]]
            feed.say(b">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
            await asking
            for answer in (b"+PONG\r\n", b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", b"-NOPERM ping\r\n"):
                await silent.pass_s(2)
                assert feed.commands() == [[b"PING"]]
                feed.say(answer)
            await silent.pass_s(8)
            assert silent.server.link is not feed
            silent.server.link.say(b"+PONG\r\n")
            await turns(20)
            assert feed.aborted
            assert silent.server.link.commands()[-1] == [b"SUBSCRIBE", b"news"]

    asyncio.run(scenario())


def test_a_pop_is_lost_when_the_server_answers_others_long_after_its_time() -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            popping = asyncio.create_task(silent.client.blpop("q", timeout_s=10))
            await silent.pass_s(10)
            lent = silent.server.link
            assert silent.server.dials == 2
            await silent.pass_s(6)
            assert silent.server.dials == 3
            assert not lent.aborted
            silent.server.link.say(b"+PONG\r\n")
            with pytest.raises(ConnectionLostError) as lost:
                await popping
            assert lost.value.may_have_executed
            assert lent.aborted

    asyncio.run(scenario())


def test_a_pop_without_an_end_is_waited_for_without_an_end() -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            popping = asyncio.create_task(silent.client.blpop("q", timeout_s=0))
            await silent.pass_s(1000)
            assert silent.server.dials == 2
            silent.server.link.say(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n")
            assert await popping == ("q", "x")

    asyncio.run(scenario())


@pytest.mark.parametrize("command", [("BLPOP", "q", 0), ("XREAD", "BLOCK", 0, "STREAMS", "s", "$")])
def test_the_time_of_a_blocking_call_covers_connecting(command: tuple[Any, ...]) -> None:
    async def scenario() -> None:
        async with Silent() as silent:
            silent.server.hello = None  # new connections get no answer
            call = asyncio.create_task(silent.client.exec(*command, timeout_s=1))
            await silent.pass_s(1)
            with pytest.raises(RequestTimeoutError) as error:
                await call
            assert error.value.is_retryable
            assert silent.server.link.aborted

    asyncio.run(scenario())


def test_a_connection_in_a_black_hole_is_replaced(redis_url: str, rng: random.Random) -> None:
    async def scenario() -> None:
        port = int(redis_url.rpartition(":")[2])
        async with ChaosProxy(port, rng) as proxy:
            proxy.calm = True
            url = f"redis://127.0.0.1:{proxy.port}?request_timeout_s=0.5&silence_timeout_s=1"
            async with holdfast.connect(url) as client, client.pubsub() as pubsub:
                await pubsub.subscribe("news")
                await client.set("k", "v")
                proxy.swallow()
                with pytest.raises(RequestTimeoutError) as error:
                    await client.get("k")
                assert error.value.may_have_executed
                await until(lambda: generation(client) == 2)
                assert await client.get("k") == "v"
                await until(lambda: pubsub.losses == 1)
                await pubsub.subscribe("confirmed after the other")
                await client.publish("news", "hello")
                assert (await anext(pubsub)).text == "hello"

    asyncio.run(scenario())


def generation(client: Client) -> int:
    assert isinstance(client._caller, Single)
    return client._caller.connection.generation


def test_a_connection_that_waits_for_a_long_script_is_kept(tmp_path: Path) -> None:
    """The server answers others with BUSY meanwhile, and the script its caller."""

    async def scenario(server: RedisServer) -> None:
        url = f"redis://127.0.0.1:{server.port}?silence_timeout_s=1&request_timeout_s=1"
        async with holdfast.connect(url) as client:
            await client.exec("CONFIG", "SET", "busy-reply-threshold", 100)
            script = asyncio.create_task(client.exec("EVAL", "while true do end", 0))
            with pytest.raises(RequestTimeoutError):
                await script
            patient = asyncio.create_task(client.exec("ECHO", "in order", timeout_s=None, into=str))
            assert isinstance(client._caller, Single)
            judge = client._caller.silence
            await until(lambda: judge._probing is not None and judge._probing.done())
            with server.client() as raw:
                assert raw.command("PING").startswith(b"-BUSY")
                assert raw.command("SCRIPT", "KILL") == b"+OK\r\n"
            assert await patient == "in order"
            assert generation(client) == 1

    with RedisServer(tmp_path / "own") as server:
        asyncio.run(scenario(server))


@pytest.mark.parametrize(
    ("command", "wait_s"),
    [
        (("BLPOP", "q", 10), 10),
        (("BRPOP", "a", "b", b"1.5"), 1.5),
        (("blmove", "a", "b", "LEFT", "LEFT", "2"), 2),
        (("BLMPOP", 3, 1, "q", "LEFT"), 3),
        (("XREAD", "COUNT", 1, "BLOCK", 500, "STREAMS", "s", "$"), 0.5),
        (("BLPOP", "q", 0), None),
        (("BLPOP", "q", "nan"), None),
        (("BLPOP", "q", "inf"), None),
        (("BLPOP", "q", -1), None),
        (("BLPOP", "q", 10**400), None),
        (("BLPOP", "q"), None),
        (("XREAD", "BLOCK"), None),
    ],
)
def test_how_long_a_server_may_wait_is_read_from_the_command(
    command: tuple[Any, ...], wait_s: float | None
) -> None:
    assert longest_wait_s(command) == wait_s
