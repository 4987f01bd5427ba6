"""A queue on each kind of server, with a clock that a test moves."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import holdfast
from holdfast.builds import BuildQueue
from holdfast.client.transport.hooks import Hooks, RequestStart
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.cluster import Nodes, start_cluster

NOON_MS = 1_700_049_600_000  # Wednesday, 15 November 2023, 12:00 UTC


class Bench:
    """A queue, its client, and the time as the queue knows it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.now_ms = NOON_MS
        self.queue = self.another()

    def another(self, name: str = "builds", **options: Any) -> BuildQueue:
        return BuildQueue(self.client, name, now_ms=lambda: self.now_ms, **options)

    def pass_s(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def pass_min(self, minutes: float) -> None:
        self.pass_s(60 * minutes)


class Count(Hooks):
    """The commands that a client sent, by name."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def request_start(self, event: RequestStart) -> None:
        self.sent += [str(command[0]) for command in event.commands]


async def all_ended(queue: BuildQueue) -> None:
    """Wait for workers; pytest's timeout is the limit."""
    while (await queue.stats()).unfinished:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


Scenario = Callable[[Bench], Coroutine[Any, Any, None]]
Play = Callable[[Scenario], None]


@pytest.fixture(params=["redis", "holdfast"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty server of each kind."""
    fixture = {"redis": "oracle", "holdfast": "server"}[request.param]
    server: RedisServer | HoldfastServer = request.getfixturevalue(fixture)
    with RawClient.connect(server.port) as raw:
        assert raw.command("FLUSHALL") == b"+OK\r\n"
    return f"redis://127.0.0.1:{server.port}"


def run_scenario(url: str, scenario: Scenario) -> None:
    async def main() -> None:
        async with holdfast.connect(url) as client:
            await scenario(Bench(client))

    asyncio.run(main())


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster that does not fall apart on a busy machine."""
    with ExitStack() as stack:
        nodes = start_cluster(stack, tmp_path_factory.mktemp("cluster"))
        for server in nodes.servers:
            assert nodes.ask(server, "CONFIG", "SET", "cluster-node-timeout", 60_000) == b"+OK\r\n"
        for server in nodes.servers:
            wait_until(lambda server=server: nodes.is_up(server, 3), "it is up")  # type: ignore[misc]
        yield nodes


@pytest.fixture
def play(url: str) -> Play:
    return lambda scenario: run_scenario(url, scenario)
