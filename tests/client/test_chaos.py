"""No call hangs, and none gets the reply of another, through a proxy that cuts, delays, half-closes
and swallows, to a server that is stopped at times.

An error tells the truth about a pop, no error calls an open client closed, and a loop that retries
at once lets other tasks run.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.errors import ClientError, ClosedError
from holdfast.client.protocol.request import Request
from holdfast.client.transport.options import Backoff
from tests.client.proxy import ChaosProxy
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess

TASKS = 200
POPPERS = 20
QUICK = Backoff(first_s=0.005, cap_s=0.05)


class Tally:
    """The results of all calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.ends = 0
        self.outcomes: Counter[str] = Counter()
        self.incr_answered = 0
        self.incr_maybe = 0
        self.rejections = 0
        self.closed = 0
        self.pops: dict[str, bool] = {}  # by queue, each of which got one element: was it taken?
        self.pops_maybe = 0


async def disturb(server: ServerProcess, proxy: ChaosProxy, rng: random.Random) -> None:
    """Black holes, and a server that is stopped, for less or for more than a call's patience."""
    try:
        while True:
            await asyncio.sleep(rng.uniform(0.3, 2))
            proxy.swallow()
            await asyncio.sleep(rng.uniform(0.3, 2))
            server.suspend()
            await asyncio.sleep(rng.choice([0.2, 1.5]))
            server.resume()
    finally:
        server.resume()


async def chaos(server: ServerProcess, rng: random.Random, seconds: float) -> None:
    tally = Tally()
    loop = asyncio.get_running_loop()
    port = server.port
    async with ChaosProxy(port, rng) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}"
        direct_url = f"redis://127.0.0.1:{port}?request_timeout_s=none"
        async with holdfast.connect(direct_url) as direct:
            proxy.calm = True
            url += "?request_timeout_s=1&silence_timeout_s=1"
            async with holdfast.connect(url, backoff=QUICK) as client:
                proxy.calm = False
                disturbing = asyncio.create_task(disturb(server, proxy, rng))
                end_s = loop.time() + seconds
                callers = [caller(client, n, rng, end_s, tally) for n in range(TASKS)]
                callers += [popper(client, direct, n, rng, end_s, tally) for n in range(POPPERS)]
                await asyncio.gather(*callers, impatient(client, end_s, tally))
                disturbing.cancel()
                await asyncio.gather(disturbing, return_exceptions=True)
                proxy.calm = True
                await comes_back(client)
            counted = await direct.exec("GET", "chaos", into=int | None) or 0
            for queue, is_taken in tally.pops.items():
                assert await direct.llen(queue) == (not is_taken), f"{queue}: taken? {is_taken}"
    pops = Counter(tally.pops.values())
    print(dict(tally.outcomes), proxy.counts, counted, pops, tally.pops_maybe)  # noqa: T201 - shown when it fails
    assert tally.calls == tally.ends == sum(tally.outcomes.values())
    # Never more than were sent, never fewer than were confirmed.
    assert tally.incr_answered <= counted <= tally.incr_answered + tally.incr_maybe
    assert proxy.counts["cut"] > 5, "the proxy was too kind"
    assert proxy.counts["hole"], "the proxy was too kind"
    assert tally.outcomes["ok"] > tally.calls / 10, "next to nothing got through"
    assert not tally.closed, "the client was open"
    assert tally.rejections, "the loop without pauses met no closed door"
    assert pops[True], "no pop was answered"
    assert pops[False], "no pop was in vain"


async def comes_back(client: Client) -> None:
    """Also after a break that the client has not noticed yet; pytest's timeout is the limit."""
    while True:
        try:
            await client.ping()
            return
        except ClientError:
            await asyncio.sleep(0.01)


async def popper(
    client: Client, direct: Client, n: int, rng: random.Random, end_s: float, tally: Tally
) -> None:
    """Each pop has a queue of its own, to which one element is pushed at about the same time."""
    loop = asyncio.get_running_loop()
    serial = 0
    while loop.time() < end_s:
        serial += 1
        queue = f"pop:{n}:{serial}"
        patience_s = rng.choice([0.001, 0.01, 0.1, 2])
        popping = asyncio.create_task(client.within(patience_s).blpop(queue, timeout_s=0))
        await asyncio.sleep(rng.random() * 0.01)
        await direct.rpush(queue, "x")
        try:
            await popping
        except ClientError as error:
            tally.closed += isinstance(error, ClosedError)
            if error.may_have_executed:
                tally.pops_maybe += 1
            else:
                tally.pops[queue] = False
        else:
            tally.pops[queue] = True


async def impatient(client: Client, end_s: float, tally: Tally) -> None:
    """Tries again at once. A rejected call gives the event loop a turn before it raises."""
    loop = asyncio.get_running_loop()
    calls: list[Callable[[], Awaitable[object]]] = [
        client.ping,
        client.within(1).ping,
        client.transaction().add("PING").commit,
        lambda: client.exec_dynamic(Request([("PING",)])),
    ]
    while loop.time() < end_s:
        for call in calls:
            turned: asyncio.Future[None] = loop.create_future()
            loop.call_soon(turned.set_result, None)
            try:
                await call()
            except ClientError:
                tally.rejections += 1
                assert turned.done(), "nothing else can run while this tries again"


async def caller(client: Client, n: int, rng: random.Random, end_s: float, tally: Tally) -> None:
    loop = asyncio.get_running_loop()
    serial = 0
    while loop.time() < end_s:
        serial += 1
        tally.calls += 1
        counting = rng.random() < 0.3
        token = f"{n}:{serial}:{'x' * rng.choice([0, 10, 3000])}"
        task: asyncio.Task[Any]
        if counting:
            task = asyncio.create_task(client.exec("INCR", "chaos", into=int))
        else:
            task = asyncio.create_task(client.exec("ECHO", token, into=str))
        if rng.random() < 0.1:
            for _ in range(rng.randint(0, 5)):
                await asyncio.sleep(0)
            task.cancel()
        outcome = "ok"
        try:
            reply = await task
            assert counting or reply == token, f"{token[:20]} got {reply!r:.40}"
            tally.incr_answered += counting
        except asyncio.CancelledError:
            outcome = "cancelled"
            tally.incr_maybe += counting
        except ClientError as error:
            tally.closed += isinstance(error, ClosedError)
            outcome = type(error).__name__
            tally.incr_maybe += counting and error.may_have_executed
            await asyncio.sleep(0.002)
        tally.ends += 1
        tally.outcomes[outcome] += 1


@pytest.mark.timeout(120)
def test_chaos_for_ten_seconds(oracle: RedisServer, rng: random.Random) -> None:
    with oracle.client() as raw:
        raw.command("FLUSHALL")
    asyncio.run(chaos(oracle, rng, 10))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_chaos_for_a_minute(oracle: RedisServer, rng: random.Random) -> None:
    with oracle.client() as raw:
        raw.command("FLUSHALL")
    asyncio.run(chaos(oracle, rng, 60))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_chaos_on_our_own_server(server: HoldfastServer, rng: random.Random) -> None:
    with server.client() as raw:
        raw.command("FLUSHALL")
    asyncio.run(chaos(server, rng, 60))
