"""Masters that are stopped (SIGSTOP): connections to them stay open, and nothing comes over them.

A replica is promoted meanwhile. The client has to notice, and to go there.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.errors import ClientError, ConnectionLostError, ServerError
from holdfast.client.topology.slots import slot_of
from tests.harness import RedisServer, wait_until
from tests.harness.cluster import add_replica, start_cluster
from tests.harness.sentinel import Sentinel

T = TypeVar("T")
pytestmark = pytest.mark.timeout(90)


def answer(server: RedisServer, *args: str) -> bytes:
    """Nothing, if it hangs up: so it does when it is promoted or demoted."""
    try:
        with server.client() as raw:
            return raw.command(*args)
    except (OSError, AssertionError):
        return b""


class Failover:
    """A master whose replica is promoted when it does not answer."""

    def __init__(self, url: str, master: RedisServer, replica: RedisServer) -> None:
        self.url = url
        self.master = master
        self.replica = replica
        self.promoted_s = 0.0

    def is_promoted(self) -> bool:
        return answer(self.replica, "ROLE").startswith(b"*3\r\n$6\r\nmaster")

    def is_followed(self) -> bool:
        return b"master_link_status:up" in answer(self.replica, "INFO", "replication")

    def swap(self) -> None:
        self.master, self.replica = self.replica, self.master
        self.promoted_s = 0.0

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """While the replica takes over."""
        self.master.suspend()
        watching = asyncio.ensure_future(asyncio.to_thread(self._watch))
        try:
            yield
            await watching
        finally:
            self.master.resume()

    def _watch(self) -> None:
        wait_until(self.is_promoted, "the replica is promoted")
        self.promoted_s = time.monotonic()

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Until it is answered; pytest's timeout is the limit."""
        while True:
            try:
                reply = await call()
            except (ClientError, ServerError):
                await asyncio.sleep(0.02)
            else:
                behind_s = time.monotonic() - self.promoted_s if self.promoted_s else 0
                print(f"back {behind_s:.2f} s after the promotion")  # noqa: T201 - for a reader of the output
                return reply


@pytest.fixture(params=["sentinel", "cluster"])
def failover(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Failover]:
    with ExitStack() as stack:
        if request.param == "cluster":
            nodes = start_cluster(stack, tmp_path)
            replica = add_replica(stack, tmp_path / "replica", nodes, of=0)
            yield Failover(nodes.url, nodes.servers[0], replica)
            return
        master = stack.enter_context(RedisServer(tmp_path / "master"))
        follow = ("--replicaof", f"127.0.0.1 {master.port}")
        replica = stack.enter_context(RedisServer(tmp_path / "replica", *follow))
        found = Failover("", master, replica)
        wait_until(found.is_followed, "the replica follows")
        config = tmp_path / "sentinel.conf"
        lines = (
            f"sentinel monitor main 127.0.0.1 {master.port} 1",
            "sentinel down-after-milliseconds main 500",
            "sentinel failover-timeout main 5000",
        )
        config.write_text("\n".join([*lines, ""]))
        sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", config))
        with sentinel.client() as raw:
            wait_until(
                lambda: b"num-slaves\r\n$1\r\n1" in raw.command("SENTINEL", "MASTER", "main"),
                "the sentinel knows the replica",
            )
        found.url = f"redis+sentinel://127.0.0.1:{sentinel.port}/main"
        yield found


# Of the first node, in a cluster.
KEY = next(f"k{n}" for n in range(100) if slot_of(f"k{n}") < 5000)


async def asked(client: Client) -> None:
    await client.set(KEY, "before")


def test_commands_reach_the_promoted_replica(failover: Failover) -> None:
    async def scenario() -> None:
        async with holdfast.connect(failover.url) as client:
            await asked(client)
            async with failover.stopped():
                await failover.insist(lambda: client.set(KEY, "after"))
            assert answer(failover.replica, "GET", KEY) == b"$5\r\nafter\r\n"

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_client_that_was_idle_meanwhile_reaches_the_promoted_replica(failover: Failover) -> None:
    async def scenario() -> None:
        async with holdfast.connect(failover.url) as client:
            await asked(client)
            async with failover.stopped():
                await asyncio.to_thread(wait_until, failover.is_promoted, "promoted")
                await failover.insist(lambda: client.set(KEY, "after"))

    asyncio.run(scenario())


def test_a_pop_that_waits_at_a_stopped_master_ends_and_the_next_one_is_served(
    failover: Failover,
) -> None:
    async def scenario() -> None:
        async with holdfast.connect(failover.url) as client:
            await asked(client)
            popping = asyncio.create_task(client.blpop(QUEUE, timeout_s=0))
            await wait_for_pop(client)
            async with failover.stopped():
                with pytest.raises(ConnectionLostError) as lost:
                    await popping
                assert lost.value.may_have_executed
                await failover.insist(lambda: client.rpush(QUEUE, "x"))
                assert await client.blpop(QUEUE, timeout_s=0) == (QUEUE, "x")

    asyncio.run(scenario())


QUEUE = "{" + KEY + "}queue"


async def wait_for_pop(client: Client) -> None:
    """Until the server says that a client is blocked."""

    while "blocked_clients:1" not in await client.exec("EVAL", BLOCKED, 1, KEY, into=str):
        pass


BLOCKED = "return redis.call('INFO', 'clients')"


@pytest.mark.slow
def test_messages_come_from_the_promoted_replica(failover: Failover) -> None:
    async def scenario() -> None:
        async with holdfast.connect(failover.url) as client, client.pubsub() as pubsub:
            await asked(client)
            await pubsub.ssubscribe(KEY)
            received = asyncio.ensure_future(anext(pubsub))

            async def publish() -> Any:
                if await client.exec("SPUBLISH", KEY, "hello", into=int) == 0:
                    raise ClientError("nobody listens yet")

            async with failover.stopped():
                await failover.insist(publish)
                assert (await received).text == "hello"
            assert pubsub.losses

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_failover_after_the_other(failover: Failover) -> None:
    """The old master returns as a replica, and is promoted when the other one is stopped."""

    async def caller(client: Client, n: int) -> None:
        serial = 0
        while True:
            serial += 1
            token = f"{n}:{serial}"
            try:
                assert await client.exec("EVAL", "return ARGV[1]", 1, KEY, token, into=str) == token
            except (ClientError, ServerError):
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with holdfast.connect(failover.url, request_timeout_s=1.0) as client:
            await asked(client)
            callers = [asyncio.create_task(caller(client, n)) for n in range(20)]
            for turn in range(4):
                async with failover.stopped():
                    await failover.insist(lambda turn=turn: client.set(KEY, turn))  # type: ignore[misc]
                failover.swap()
                text = "the old master follows"
                await asyncio.to_thread(wait_until, failover.is_followed, text, 60.0)
                assert await client.get(KEY) == str(turn)
                assert not [task for task in callers if task.done()], (
                    "a call got what it should not"
                )
            for task in callers:
                task.cancel()
            await asyncio.gather(*callers, return_exceptions=True)

    asyncio.run(scenario())
