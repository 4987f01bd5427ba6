"""The same tests on redis-server, our server, our engine in-process and a Redis Cluster; and with
the clients of others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import pytest
import redis.asyncio
import valkey.asyncio

import holdfast
from holdfast.client import Client
from holdfast.clock import ManualClock
from holdfast.coordination.backend_of import backend_of
from holdfast.semaphore import Semaphore
from tests.harness import RawClient
from tests.harness.cluster import Nodes, start_cluster

SERVERS = ["redis", "holdfast", "memory", "cluster"]
KINDS = [*SERVERS, "redis-py", "redis-py-cluster", "valkey-py"]
Scenario = Callable[[Any], Coroutine[Any, Any, None]]


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield start_cluster(stack, tmp_path_factory.mktemp("cluster"))


class Place:
    """Where a test plays: servers that are empty, and clients of one kind for them."""

    def __init__(self, kind: str, ports: list[int]) -> None:
        self.kind = kind
        self.ports = ports
        scheme = "redis+cluster" if kind == "cluster" else "redis"
        self.url = f"{scheme}://127.0.0.1:{ports[0]}" if ports else "memory://"

    def flush(self) -> None:
        for port in self.ports:
            with RawClient.connect(port) as raw:
                assert raw.command("FLUSHALL") == b"+OK\r\n"

    def client(self) -> Any:
        """A client that is not connected yet; the caller closes it."""
        if self.kind.startswith("redis-py") or self.kind == "valkey-py":
            make: Any = {
                "redis-py": redis.asyncio.Redis,
                "redis-py-cluster": redis.asyncio.RedisCluster,
                "valkey-py": valkey.asyncio.Valkey,
            }[self.kind]
            return make(host="127.0.0.1", port=self.ports[0])
        return holdfast.connect(self.url)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            client = self.client()
            if isinstance(client, Client):
                await stack.enter_async_context(client)
            else:
                stack.push_async_callback(client.aclose)
            yield client

    def play(self, scenario: Scenario) -> None:
        """Run a scenario with an open client."""

        async def main() -> None:
            async with self.opened() as client:
                await scenario(client)

        asyncio.run(main())


def place_of(request: pytest.FixtureRequest, kind: str) -> Place:
    if kind == "memory":
        return Place(kind, [])
    if "cluster" in kind:
        ports = [server.port for server in request.getfixturevalue("nodes").servers]
    else:
        name = "server" if kind == "holdfast" else "oracle"
        ports = [request.getfixturevalue(name).port]
    place = Place(kind, ports)
    place.flush()
    return place


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of server, with our client."""
    return place_of(request, request.param)


@pytest.fixture(params=KINDS)
def any_place(request: pytest.FixtureRequest) -> Place:
    """Each kind of server, and each kind of client."""
    return place_of(request, request.param)


@pytest.fixture
def redis_place(request: pytest.FixtureRequest) -> Place:
    return place_of(request, "redis")


class World:
    """Time that only the test moves: the server's, as the scripts are told, and the process's."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    def semaphore(self, client: Any, limit: int = 1, **options: Any) -> Semaphore:
        now = options.pop("now", lambda: self.clock.now_us() / 1e6)
        name = options.pop("name", "s")
        return Semaphore(client, name, limit, now=now, clock=self.clock, **options)


@pytest.fixture
def world() -> World:
    return World()


async def keys_of(client: Any) -> set[str]:
    """All keys except those that expire by themselves: the last fencing token, which is kept for an
    hour, and limits of semaphores that are not in use."""
    keys = {key.decode() async for key in backend_of(client).scan("*")}
    used = {key for key in keys if ":semaphore_token:" not in key}
    return set() if all(":semaphore_max:" in key for key in used) else used


async def eventually(look: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Until it is so at the server; pytest's timeout is the limit."""
    while not await look():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


async def emptied(client: Any) -> None:
    """Until nothing is left."""

    async def look() -> bool:
        return await keys_of(client) == set()

    await eventually(look)


async def waiting(semaphore: Semaphore, count: int = 1) -> None:
    """Until that many wait."""

    async def look() -> bool:
        return sum(row.waiting for row in await semaphore.stats([semaphore.name])) == count

    await eventually(look)


async def taken(semaphore: Semaphore, count: int) -> None:
    """Until that many hold."""

    async def look() -> bool:
        return await semaphore.count() == count

    await eventually(look)
