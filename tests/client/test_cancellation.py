"""Cancelled callers lose nothing and shift nothing."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.errors import ClosedError, RequestTimeoutError
from holdfast.client.topology.slots import first_key
from holdfast.client.transport.options import parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, turns, until

Play = Callable[..., None]


@pytest.mark.parametrize("command", ["blpop", "brpop", "blmpop", "bzpopmin"])
def test_a_pop_cancelled_at_any_moment_loses_nothing(
    play: Play, rng: random.Random, command: str
) -> None:
    """1,000 times: an element is pushed while its reader is cancelled. All elements are found."""

    async def scenario(client: Client) -> None:
        got: list[str] = []
        cancelled = 0

        async def read() -> None:
            if command == "bzpopmin":
                three = await client.bzpopmin("q", timeout_s=0)
                got.append(three[1] if three else "")
            elif command == "blmpop":
                many = await client.exec("BLMPOP", 0, 1, "q", "LEFT", "COUNT", 2, into=MANY)
                got.extend(many[1])
            else:
                two = await getattr(client, command)("q", timeout_s=0)
                got.append(two[1])

        async def push(n: int) -> None:
            if command == "bzpopmin":
                await client.zadd("q", {str(n): n})
            else:
                await client.rpush("q", n)

        async def one(n: int) -> None:
            nonlocal cancelled
            reader = asyncio.create_task(read())
            await jitter(rng)
            pusher = asyncio.create_task(push(n))
            await jitter(rng)
            reader.cancel()
            [end] = await asyncio.gather(reader, return_exceptions=True)
            cancelled += isinstance(end, asyncio.CancelledError)
            await pusher

        async def lane(first: int) -> None:
            for n in range(first, first + 125):
                await one(n)

        await asyncio.gather(*(lane(first) for first in range(0, 1000, 125)))
        left = await (
            client.zrange("q", 0, -1) if command == "bzpopmin" else client.lrange("q", 0, -1)
        )
        assert sorted(map(int, got + left)) == list(range(1000))
        assert 0 < cancelled < 1000, "the test did not cancel at interesting moments"

    play(scenario, command, "client|unblock", "zadd" if command == "bzpopmin" else "rpush")


MANY = tuple[str, list[str]]


async def jitter(rng: random.Random) -> None:
    """A random moment: so many loop turns, or a round trip's time."""
    for _ in range(rng.randint(0, 12)):
        await asyncio.sleep(0)
    if rng.random() < 0.4:
        await asyncio.sleep(rng.random() * 0.002)


POPS: dict[str, tuple[tuple[Any, ...], bool]] = {  # command, whether from a sorted set
    "BLPOP": (("BLPOP", "q", 0), False),
    "BRPOP": (("BRPOP", "q", 0), False),
    "BLMPOP LEFT": (("BLMPOP", 0, 1, "q", "LEFT", "COUNT", 2), False),
    "BLMPOP RIGHT": (("BLMPOP", 0, 1, "q", "RIGHT", "COUNT", 2), False),
    "BLMPOP RIGHT of left": (("BLMPOP", 0, 1, "left", "RIGHT"), False),
    "BLMPOP LEFT of right": (("BLMPOP", 0, 2, "right", "right2", "left"), False),
    "BZPOPMIN": (("BZPOPMIN", "q", 0), True),
    "BZPOPMAX": (("BZPOPMAX", "q", 0), True),
    "BZMPOP": (("BZMPOP", 0, 1, "q", "MAX", "COUNT", 2), True),
}


@pytest.mark.parametrize("name", POPS)
def test_an_element_given_back_is_where_it_was(play: Play, name: str) -> None:
    """Cancelled in the worst moment: the server popped, and the caller has not run yet."""
    command, is_sorted = POPS[name]
    key = str(first_key(command))

    async def scenario(client: Client) -> None:
        reader = asyncio.create_task(client.exec(*command))
        leased = client._caller._leased  # type: ignore[attr-defined]
        await until(lambda: any(c.pending[0] for c in leased))
        await client.ping()
        future = next(iter(leased))._pipeline._inflight[0].future
        future.add_done_callback(lambda _: reader.cancel())
        if is_sorted:
            await client.zadd(key, {"a": 1, "b": 2.5, "c": 3})
        else:
            await client.rpush(key, "a", "b", "c")
        with pytest.raises(asyncio.CancelledError):
            await reader
        if is_sorted:
            assert await client.zrange_withscores(key, 0, -1) == [("a", 1), ("b", 2.5), ("c", 3)]
        else:
            assert await client.lrange(key, 0, -1) == ["a", "b", "c"]

    play(scenario)


def test_a_timed_out_pop_keeps_what_came_at_the_last_moment(play: Play, rng: random.Random) -> None:
    async def scenario(client: Client) -> None:
        got: list[int] = []

        async def read() -> None:
            reply = await client.within(rng.random() * 0.004).blpop("q", timeout_s=0)
            assert reply is not None
            got.append(int(reply[1]))

        for n in range(200):
            reader = asyncio.create_task(read())
            await jitter(rng)
            await client.rpush("q", n)
            (error,) = await asyncio.gather(reader, return_exceptions=True)
            assert error is None or isinstance(error, RequestTimeoutError)
        got += map(int, await client.lrange("q", 0, -1))
        assert sorted(got) == list(range(200))

    play(scenario, "client|unblock")


def test_a_pop_that_timed_out_and_is_then_cancelled_loses_nothing(
    play: Play, rng: random.Random
) -> None:
    """600 times: the caller's time is over, an element comes, and the caller is cancelled."""

    async def scenario(client: Client) -> None:
        got: list[int] = []
        cancelled = 0

        async def read() -> None:
            reply = await client.within(rng.random() * 0.002).blpop("q", timeout_s=0)
            assert reply is not None
            got.append(int(reply[1]))

        async def one(n: int) -> None:
            nonlocal cancelled
            reader = asyncio.create_task(read())
            await jitter(rng)
            pusher = asyncio.create_task(client.rpush("q", n))
            await jitter(rng)
            reader.cancel()
            (end,) = await asyncio.gather(reader, return_exceptions=True)
            assert end is None or isinstance(end, RequestTimeoutError | asyncio.CancelledError)
            cancelled += isinstance(end, asyncio.CancelledError)
            await pusher

        async def lane(first: int) -> None:
            for n in range(first, first + 75):
                await one(n)

        await asyncio.gather(*(lane(first) for first in range(0, 600, 75)))
        got += map(int, await client.lrange("q", 0, -1))
        assert sorted(got) == list(range(600))
        assert 0 < cancelled < 600, "the test did not cancel at interesting moments"

    play(scenario, "client|unblock")


@pytest.mark.parametrize("turns_later", range(6))
def test_an_element_that_came_after_the_timeout_is_given_back_to_a_cancelled_caller(
    turns_later: int,
) -> None:
    """Whenever it is cancelled: before the element arrives, or so many turns after that."""

    async def scenario() -> None:
        server, clock = FakeServer(), ManualClock()
        server.hello = b"%1\r\n+id\r\n:7\r\n+OK\r\n+OK\r\n"
        client = make_client(parse_url("redis://h"), dial=server.dial, clock=clock)
        await client.connect()
        reader = asyncio.create_task(client.within(1).blpop("q", timeout_s=0))
        await turns(20)
        shared, leased = server.links
        clock.advance(1)
        await turns()
        assert shared.commands() == [[b"CLIENT", b"UNBLOCK", b"7"]]
        if not turns_later:
            reader.cancel()
            await turns()
        leased.say(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n")
        shared.say(b":0\r\n")  # it had popped before
        await turns(turns_later)
        if reader.done():
            assert await reader == ("q", "x")
        else:
            reader.cancel()
            await turns()
            assert shared.commands() == [[b"LPUSH", b"q", b"x"]]
            shared.say(b":1\r\n")
            with pytest.raises(asyncio.CancelledError):
                await reader
        await client.close(0)

    asyncio.run(scenario())


def test_cancelled_callers_never_shift_replies(play: Play, rng: random.Random) -> None:
    async def scenario(client: Client) -> None:
        async def caller(n: int) -> None:
            for m in range(30):
                token = f"{n}:{m}"
                task = asyncio.create_task(client.exec("ECHO", token, into=str))
                await asyncio.sleep(0)
                if rng.random() < 0.5:
                    for _ in range(rng.randint(0, 5)):
                        await asyncio.sleep(0)
                    task.cancel()
                (reply,) = await asyncio.gather(task, return_exceptions=True)
                assert reply == token or isinstance(reply, asyncio.CancelledError)

        await asyncio.gather(*(caller(n) for n in range(30)))
        assert await client.ping() == "PONG"

    play(scenario)


def test_closing_gives_back_elements_popped_for_waiting_calls(url: str, rng: random.Random) -> None:
    """Elements are pushed while the client closes: each is returned to a reader, or still there."""
    if not url.startswith("redis"):
        pytest.skip("a database in this process has one client, and ends with it")

    async def scenario() -> None:
        async with holdfast.connect(url) as other:
            for _ in range(25):
                await one(other)

    async def one(other: Client) -> None:
        client = holdfast.connect(url)
        await client.connect()
        readers = [asyncio.create_task(client.blpop("q", timeout_s=0)) for _ in range(8)]
        await jitter(rng)
        pushes = [asyncio.create_task(other.rpush("q", n)) for n in range(8)]
        await jitter(rng)
        await client.close()
        await asyncio.gather(*pushes)
        got = []
        for reply in await asyncio.gather(*readers, return_exceptions=True):
            if isinstance(reply, tuple):
                got.append(reply[1])
            else:
                assert isinstance(reply, ClosedError)
        left = await other.lrange("q", 0, -1)
        assert sorted(got + left) == [str(n) for n in range(8)]
        await other.delete("q")

    asyncio.run(scenario())


def test_closing_gives_back_an_element_that_is_already_on_its_way() -> None:
    async def scenario() -> None:
        server = FakeServer()
        server.hello = b"%1\r\n+id\r\n:7\r\n+OK\r\n+OK\r\n"
        client = make_client(parse_url("redis://h"), dial=server.dial, clock=ManualClock())
        await client.connect()
        reader = asyncio.create_task(client.blpop("q", timeout_s=0))
        await turns(20)
        shared, leased = server.links
        closing = asyncio.create_task(client.close())
        await turns()
        assert shared.commands() == [[b"CLIENT", b"UNBLOCK", b"7"]]
        leased.say(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n")
        shared.say(b":0\r\n")  # it had popped before
        await turns()
        assert shared.commands() == [[b"LPUSH", b"q", b"x"]]
        assert not closing.done()
        shared.say(b":1\r\n")
        await closing
        with pytest.raises(ClosedError):
            await reader

    asyncio.run(scenario())


def test_a_waiting_call_goes_on_in_the_turn_after_the_reply() -> None:
    async def scenario() -> None:
        server = FakeServer()
        client = make_client(parse_url("redis://h"), dial=server.dial, clock=ManualClock())
        await client.connect()
        reader = asyncio.create_task(client.blpop("q", timeout_s=0))
        await turns(20)
        server.link.say(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n")
        await turns(1)
        assert reader.done()
        assert await reader == ("q", "x")
        await client.close(0)

    asyncio.run(scenario())


def test_a_cancelled_pop_ends_also_without_permission_to_unblock(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as admin:
            rules = ("on", ">pw", "~*", "&*", "+@all", "-client|unblock")
            await admin.exec("ACL", "SETUSER", "modest", *rules)
            try:
                async with holdfast.connect(redis_url.replace("://", "://modest:pw@")) as client:
                    reader = asyncio.create_task(client.blpop("q", timeout_s=0))
                    leased = client._caller._leased  # type: ignore[attr-defined]
                    await until(lambda: any(c.pending[0] for c in leased))
                    await client.ping()
                    reader.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await reader
                    assert not leased
                    assert not client._caller._idle  # type: ignore[attr-defined]
                    assert await client.ping() == "PONG"
            finally:
                await admin.exec("ACL", "DELUSER", "modest")

    asyncio.run(scenario())


@pytest.mark.parametrize("hello", [b"+id\r\n:7", b"+proto\r\n:3"], ids=["id", "no id"])
def test_a_cancelled_pop_waits_for_a_silent_server_only_so_long(
    hello: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        server, clock = FakeServer(), ManualClock()
        server.hello = b"%1\r\n" + hello + b"\r\n+OK\r\n+OK\r\n"
        client = make_client(parse_url("redis://h"), dial=server.dial, clock=clock)
        await client.connect()
        reader = asyncio.create_task(client.blpop("q", timeout_s=0))
        await turns(20)
        assert server.link.commands() == [[b"BLPOP", b"q", b"0"]]
        reader.cancel()
        await turns()
        if b"id" in hello:
            assert server.links[0].commands() == [[b"CLIENT", b"UNBLOCK", b"7"]]
            assert not reader.done()
            clock.advance(5)  # the timeout of a request
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert server.links[1].aborted
        await client.close(0)
        assert clock.pending_timers == 0

    asyncio.run(scenario())
    assert "could not be ended" in caplog.text
