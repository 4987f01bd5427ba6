"""Three real redis-servers as a cluster."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import holdfast
from holdfast.client.api.client import Client, View
from holdfast.client.errors import (
    ClientError,
    ClosedError,
    ConnectError,
    NotConnectedError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import Request
from holdfast.client.topology.cluster import Cluster
from holdfast.client.topology.slots import slot_of
from tests.client.fakes import turns, until
from tests.harness import wait_until
from tests.harness.cluster import Nodes, add_replica, start_cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield start_cluster(stack, tmp_path_factory.mktemp("cluster"))


def test_commands_find_their_nodes(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            for n in range(50):
                await client.set(f"k{n}", n)
            assert [await client.get(f"k{n}") for n in range(50)] == [str(n) for n in range(50)]
            request = Request(("INCR", f"k{n}") for n in range(50))
            assert await client.exec_dynamic(request, into=int) == list(range(1, 51))
            transaction = client.transaction().add("SET", "{t}a", 1).add("INCR", "{t}a")
            assert await transaction.commit((bool, int)) == [True, 2]
            assert await client.script("return KEYS[1]")(["{t}b"], into=str) == "{t}b"
            with pytest.raises(ServerError, match="CROSSSLOT"):
                await client.mget("a", "b")
        counts = [nodes.ask(server, "DBSIZE") for server in nodes.servers]
        assert all(count != b":0\r\n" for count in counts)

    asyncio.run(scenario())


def test_blocking_pops_and_watch_go_to_the_right_node(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            for name in ("q1", "q2", "q3", "q4"):
                waiting = asyncio.create_task(client.blpop(name, timeout_s=0))
                await client.ping()
                await client.rpush(name, "x")
                assert await waiting == (name, "x")
                cancelled = asyncio.create_task(client.blpop(name, timeout_s=0))
                await asyncio.sleep(0.005)
                cancelled.cancel()
                await asyncio.gather(cancelled, return_exceptions=True)
                async with client.transaction(name) as tx:
                    assert await tx.add("RPUSH", name, "y").commit() == [1]

    asyncio.run(scenario())


def test_moved_is_followed_and_remembered(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            cluster = client._caller
            assert isinstance(cluster, Cluster)
            slot = slot_of("moving")
            right = cluster._slots[slot]
            wrong = next(a for a in cluster._slots if a != right)
            cluster._slots[slot] = wrong
            assert await client.set("moving", "v")
            assert cluster._slots[slot] == right
            cluster._slots[slot] = wrong
            replies = await client.exec_dynamic(Request().add("GET", "moving"), into=str)
            assert replies == ["v"]

    asyncio.run(scenario())


def test_ask_is_followed_once_and_not_remembered(nodes: Nodes) -> None:
    async def scenario() -> None:
        slot = slot_of("asked")
        source = nodes.owner(slot)
        target = (source + 1) % 3
        there, here = nodes.servers[target], nodes.servers[source]
        nodes.ask(there, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodes.ids[source])
        nodes.ask(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodes.ids[target])
        try:
            async with holdfast.connect(nodes.url) as client:
                cluster = client._caller
                assert isinstance(cluster, Cluster)
                assert await client.set("asked", "v")
                assert await client.get("asked") == "v"
                assert cluster._slots[slot] == ("127.0.0.1", here.port)
                assert await client.delete("asked") == 1
        finally:
            nodes.ask(there, "CLUSTER", "SETSLOT", slot, "STABLE")
            nodes.ask(here, "CLUSTER", "SETSLOT", slot, "STABLE")

    asyncio.run(scenario())


async def all_keys(client: Client | View[str]) -> list[str]:
    return [key async for key in client.scan_iter()]


def test_the_time_of_a_call_covers_connecting_to_its_node(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            cluster = client._caller
            assert isinstance(cluster, Cluster)
            index = next(
                n for n in range(3) if ("127.0.0.1", nodes.servers[n].port) not in cluster._nodes
            )
            key = next(f"k{n}" for n in range(100) if nodes.owner(slot_of(f"k{n}")) == index)
            nodes.servers[index].suspend()  # before anything is connected to it
            try:
                calls = [
                    client.within(0.1).get(key),
                    client.within(0.1).blpop(key, timeout_s=0),
                    client.exec_dynamic(Request().add("GET", key), timeout_s=0.1),
                    all_keys(client.within(0.1)),
                ]
                for error in await asyncio.gather(*calls, return_exceptions=True):
                    assert isinstance(error, RequestTimeoutError)
                    assert error.is_retryable, "nothing was sent"
            finally:
                nodes.servers[index].resume()

    try:
        asyncio.run(scenario())
    finally:
        for server in nodes.servers:
            wait_until(lambda server=server: nodes.is_up(server, 3), "the cluster is up")  # type: ignore[misc]


def test_a_closed_cluster_opens_nothing_again(nodes: Nodes) -> None:
    async def scenario() -> None:
        client = holdfast.connect(nodes.url)
        await client.connect()
        pubsub = client.pubsub()
        with pytest.raises(NotConnectedError, match="async with"):
            await pubsub.ssubscribe("s")
        await client.close()
        for call in (all_keys(client), client.get("k"), client.pubsub().__aenter__()):
            with pytest.raises(ClosedError):
                await call
        await pubsub.close()
        with pytest.raises(ClosedError):
            await pubsub.ssubscribe("s")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_scan_of_a_cluster_that_is_closed_meanwhile_says_so(nodes: Nodes) -> None:
    async def scenario() -> None:
        client = holdfast.connect(nodes.url)
        await client.connect()
        scanning = asyncio.create_task(all_keys(client))
        await turns(1)  # it asks where the slots are
        await client.close()
        with pytest.raises(ClosedError):
            await scanning

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_dead_master_is_an_error_at_once_and_its_replica_takes_over(tmp_path: Path) -> None:
    def key_of(nodes: Nodes, owner: int) -> str:
        return next(f"k{n}" for n in range(100) if nodes.owner(slot_of(f"k{n}")) == owner)

    async def scenario(nodes: Nodes) -> None:
        dying, living = key_of(nodes, 0), key_of(nodes, 1)
        async with holdfast.connect(nodes.url, request_timeout_s=2.0) as client:
            await client.set(dying, "copied")
            await client.exec("WAIT", 1, 5000)
            await client.set(living, "v")
            cluster = client._caller
            assert isinstance(cluster, Cluster)
            address = ("127.0.0.1", nodes.servers[0].port)
            nodes.servers[0].kill()
            await until(lambda: cluster._nodes[address].state is not State.OPEN)
            with pytest.raises(ClientError):
                await client.get(dying)
            assert await client.get(living) == "v"
            while True:  # pytest's timeout is the limit
                try:
                    assert await client.get(dying) is not None
                    break
                except (ClientError, ServerError):
                    await asyncio.sleep(0.01)
            assert await client.set(dying, "again")

    with ExitStack() as stack:
        nodes = start_cluster(stack, tmp_path)
        add_replica(stack, tmp_path / "replica", nodes, of=0)
        asyncio.run(scenario(nodes))


def test_a_server_that_is_no_cluster_says_so(redis_url: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectError, match="cluster support disabled"):
            await holdfast.connect(redis_url.replace("redis://", "redis+cluster://")).connect()

    asyncio.run(scenario())
