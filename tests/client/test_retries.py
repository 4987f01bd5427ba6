"""A loop that retries at once never blocks the event loop, which may bring the connection back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.errors import ClientError, ClosedError, NotConnectedError, QueueFullError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import Request
from holdfast.client.transport.options import parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, turns

TRIES = 20
Call = Callable[[Client], Awaitable[object]]
CALLS: dict[str, Call] = {
    "a method": lambda client: client.get("k"),
    "a method within a time": lambda client: client.within(1).get("k"),
    "any command": lambda client: client.exec("GET", "k"),
    "a request": lambda client: client.exec_dynamic(Request([("GET", "k")])),
    "a transaction": lambda client: client.transaction().add("GET", "k").commit(),
    "a scan": lambda client: anext(client.scan_iter()),
    "a script": lambda client: client.script("return 1")(),
}

LENT: dict[str, Call] = {
    "a pop": lambda client: client.blpop("q", timeout_s=0),
    "a pop within a time": lambda client: client.within(1).blpop("q", timeout_s=0),
    "a watch": lambda client: client.transaction("k").__aenter__(),
    "messages": lambda client: client.pubsub().__aenter__(),
    "connecting": lambda client: client.connect(),
}


class Down:
    """A client whose server refuses it: FAILED, before the next attempt."""

    def __init__(self) -> None:
        self.server, self.clock = FakeServer(), ManualClock()
        self.client = make_client(parse_url("redis://h"), dial=self.server.dial, clock=self.clock)

    async def __aenter__(self) -> "Down":
        await self.client.connect()
        self.server.refusing = True
        self.server.link.cut()
        await turns(100)
        assert self.client.state is State.FAILED
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close(0)


async def count_turns_of_others(call: Callable[[], Awaitable[object]], error: type) -> int:
    """How often others had a turn while this was tried again and again."""
    seen = 0

    async def others() -> None:
        nonlocal seen
        while True:
            await asyncio.sleep(0)
            seen += 1

    task = asyncio.create_task(others())
    for _ in range(TRIES):
        with pytest.raises(error):
            await call()
    task.cancel()
    return seen


@pytest.mark.parametrize("name", CALLS)
def test_a_rejected_call_lets_others_run_before_it_raises(name: str) -> None:
    async def scenario() -> None:
        async with Down() as down:
            call = CALLS[name]
            seen = await count_turns_of_others(lambda: call(down.client), NotConnectedError)
            assert seen >= TRIES - 1

    asyncio.run(scenario())


@pytest.mark.parametrize("name", [*CALLS, *LENT])
def test_a_closed_client_lets_others_run_before_it_raises(name: str) -> None:
    """A loop that ignores the error must not freeze those that would end it."""

    async def scenario() -> None:
        async with Down() as down:
            await down.client.close(0)
            dials = down.server.dials
            call = (CALLS | LENT)[name]
            seen = await count_turns_of_others(lambda: call(down.client), ClosedError)
            assert seen >= TRIES - 1
            assert down.server.dials == dials, "a closed client stays closed"

    asyncio.run(scenario())


def test_pubsub_that_was_not_entered_or_is_closed_lets_others_run_before_it_raises() -> None:
    async def scenario() -> None:
        client = make_client(parse_url("redis://h"), dial=FakeServer().dial, clock=ManualClock())
        await client.connect()
        pubsub = client.pubsub()
        for _ in range(2):
            seen = await count_turns_of_others(lambda: pubsub.subscribe("a"), NotConnectedError)
            assert seen >= TRIES - 1
            await pubsub.close()
        await client.close(0)

    asyncio.run(scenario())


def test_a_call_that_finds_the_queue_full_lets_others_run_before_it_raises() -> None:
    async def scenario() -> None:
        server = FakeServer()
        target = parse_url("redis://h", max_requests=1)
        client = make_client(target, dial=server.dial, clock=ManualClock())
        await client.connect()
        first = asyncio.create_task(client.get("k"))
        await turns()
        seen = await count_turns_of_others(lambda: client.get("k"), QueueFullError)
        assert seen >= TRIES - 1
        server.link.say(b"+v\r\n")
        assert await first == "v"
        await client.close(0)

    asyncio.run(scenario())


def test_a_lost_watch_lets_others_run_before_it_raises() -> None:
    async def scenario() -> None:
        server = FakeServer()
        client = make_client(parse_url("redis://h"), dial=server.dial, clock=ManualClock())
        await client.connect()
        transaction = client.transaction("k")
        entering = asyncio.create_task(transaction.__aenter__())
        await turns(20)
        server.link.say(b"+OK\r\n")
        await entering
        server.link.cut()
        await turns()
        seen = await count_turns_of_others(lambda: transaction.exec("GET", "k"), NotConnectedError)
        assert seen >= TRIES - 1
        await transaction.__aexit__()
        await client.close(0)

    asyncio.run(scenario())


def test_a_loop_that_polls_a_cached_key_hears_of_its_change() -> None:
    """A reply from memory needs no turn of the loop, but a push that ends its validity does."""

    async def scenario() -> None:
        server = FakeServer()
        server.hello = b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n+OK\r\n"
        target = parse_url("redis://h", cache_keys=10)
        client = make_client(target, dial=server.dial, clock=ManualClock())
        await client.connect()
        first = asyncio.create_task(client.get("k"))
        await turns()
        server.link.say(b"+old\r\n")
        assert await first == "old"
        changed = b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n"
        asyncio.get_running_loop().call_soon(server.link.say, changed)
        asyncio.get_running_loop().call_soon(lambda: asyncio.create_task(answer(server)))
        for _ in range(10_000):
            value = await client.get("k")
            if value == "new":
                break
        assert value == "new"
        await client.close(0)

    async def answer(server: FakeServer) -> None:
        await turns()
        server.link.say(b"+new\r\n")

    asyncio.run(scenario())


def test_a_retry_loop_is_answered_once_the_server_is_back() -> None:
    async def scenario() -> None:
        async with Down() as down:
            tries = 0

            async def insist() -> str | None:
                nonlocal tries
                while True:
                    try:
                        return await down.client.get("k")
                    except ClientError as error:
                        if not error.is_retryable:
                            raise
                        tries += 1

            call = asyncio.create_task(insist())
            await turns()
            assert tries
            down.server.refusing = False
            down.clock.advance(1)
            await turns(20)
            down.server.link.say(b"+v\r\n")
            assert await call == "v"

    asyncio.run(scenario())
