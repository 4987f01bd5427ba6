"""No call hangs, and none gets another's reply: through a proxy that cuts, delays, half-closes and
swallows, to a server that is stopped at times."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.client.errors import ClientError
from holdfast.client.options import Backoff
from tests.client.proxy import ChaosProxy
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess

TASKS = 200
QUICK = Backoff(first_s=0.005, cap_s=0.05)


class Tally:
    """What became of every call."""

    def __init__(self) -> None:
        self.calls = 0
        self.ends = 0
        self.outcomes: Counter[str] = Counter()
        self.incr_answered = 0
        self.incr_maybe = 0


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
        async with holdfast.connect(f"redis://127.0.0.1:{port}") as direct:
            proxy.calm = True
            url += "?request_timeout_s=1&silence_timeout_s=1"
            async with holdfast.connect(url, backoff=QUICK) as client:
                proxy.calm = False
                disturbing = asyncio.create_task(disturb(server, proxy, rng))
                end_s = loop.time() + seconds
                callers = [caller(client, n, rng, end_s, tally) for n in range(TASKS)]
                await asyncio.gather(*callers)
                disturbing.cancel()
                await asyncio.gather(disturbing, return_exceptions=True)
                proxy.calm = True
                await comes_back(client)
            counted = await direct.exec("GET", "chaos", into=int | None) or 0
    print(dict(tally.outcomes), proxy.counts, counted)  # noqa: T201 - shown when it fails
    assert tally.calls == tally.ends == sum(tally.outcomes.values())
    # Never more than what was sent; never less than what was confirmed.
    assert tally.incr_answered <= counted <= tally.incr_answered + tally.incr_maybe
    assert proxy.counts["cut"] > 5, "the proxy was too kind"
    assert proxy.counts["hole"], "the proxy was too kind"
    assert tally.outcomes["ok"] > tally.calls / 10, "next to nothing got through"


async def comes_back(client: Client) -> None:
    """Also after a hole that nobody has noticed yet; pytest's timeout is the limit."""
    while True:
        try:
            await client.ping()
            return
        except ClientError:
            await asyncio.sleep(0.01)


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
