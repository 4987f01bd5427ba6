"""A cluster whose slots move while they are used: pops, transactions, messages, scans, caching."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.errors import ConnectError, ServerError, TransactionAbortedError
from holdfast.client.protocol.request import Request
from holdfast.client.topology import cluster
from holdfast.client.topology.cluster import Cluster
from holdfast.client.topology.slots import slot_of
from holdfast.client.transport.deadlines import sleep
from holdfast.clock import Clock
from tests.client.fakes import turns, until
from tests.harness.cluster import Nodes, begin_move, end_move, move, start_cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield start_cluster(stack, tmp_path_factory.mktemp("cluster"))


def cluster_of(client: Client) -> Cluster:
    assert isinstance(client._caller, Cluster)
    return client._caller


def misdirect(client: Client, name: str) -> None:
    """Let a client believe that another node has a slot."""
    slots = cluster_of(client)._slots
    right = slots[slot_of(name)]
    slots[slot_of(name)] = next(address for address in slots if address != right)


async def waiting_in_pop(client: Client, name: str) -> asyncio.Task[tuple[str, str] | None]:
    task = asyncio.create_task(client.blpop(name, timeout_s=0))
    owners = cluster_of(client)._owners
    await until(lambda: any(connection.pending[0] for connection in owners))
    await turns()
    return task


def test_a_pop_follows_to_where_its_key_is(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            misdirect(client, "pop:stale")
            popping = await waiting_in_pop(client, "pop:stale")
            await client.rpush("pop:stale", "x")
            assert await popping == ("pop:stale", "x")

    asyncio.run(scenario())


def test_a_pop_follows_a_slot_that_moves_while_it_waits(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(nodes.url) as client,
            holdfast.connect(nodes.url) as other,
        ):
            popping = await waiting_in_pop(client, "pop:moves")
            await asyncio.to_thread(move, nodes, "pop:moves")
            await other.rpush("pop:moves", "x")
            assert await popping == ("pop:moves", "x")
            # And a cancelled one is ended where it waits now.
            popping = await waiting_in_pop(client, "pop:moves")
            popping.cancel()
            await asyncio.gather(popping, return_exceptions=True)
            await other.rpush("pop:moves", "y")
            assert await other.lrange("pop:moves", 0, -1) == ["y"]

    asyncio.run(scenario())


def test_a_pop_asks_where_a_slot_is_moving_to(nodes: Nodes) -> None:
    async def scenario() -> None:
        slot, target = await asyncio.to_thread(begin_move, nodes, "pop:asks")
        try:
            async with holdfast.connect(nodes.url) as client:
                await client.rpush("pop:asks", "x")
                assert await client.blpop("pop:asks", timeout_s=0) == ("pop:asks", "x")
        finally:
            await asyncio.to_thread(end_move, nodes, slot, target)

    asyncio.run(scenario())


def test_transactions_follow(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            misdirect(client, "tx")
            commit = client.transaction().add("SET", "tx", 1).add("INCR", "tx").commit((bool, int))
            assert await commit == [True, 2]
            misdirect(client, "tx")
            async with client.transaction("tx") as tx:
                value = await tx.exec("GET", "tx", into=int)
                assert await tx.add("SET", "tx", value * 10).commit() == [b"OK"]
            assert await client.get("tx") == "20"
            with pytest.raises(ServerError, match="EXECABORT") as caught:
                await client.transaction().add("SET", "tx", 1).add("SET", "elsewhere", 1).commit()
            assert isinstance(caught.value.__cause__, ServerError)
            assert not cluster_of(client)._owners

    asyncio.run(scenario())


def test_transactions_ask_where_a_slot_is_moving_to(nodes: Nodes) -> None:
    async def scenario() -> None:
        slot, target = await asyncio.to_thread(begin_move, nodes, "tx:asks")
        try:
            async with holdfast.connect(nodes.url) as client:
                transaction = client.transaction().add("SET", "tx:asks", 1).add("INCR", "tx:asks")
                assert await transaction.commit((bool, int)) == [True, 2]
                async with client.transaction("tx:asks") as tx:
                    value = await tx.exec("GET", "tx:asks", into=int)
                    results = (
                        await tx.add("SET", "tx:asks", value * 10).add("GET", "tx:asks").commit()
                    )
                    assert results == [b"OK", b"20"]
                assert not cluster_of(client)._owners
        finally:
            await asyncio.to_thread(end_move, nodes, slot, target)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_done", [False, True], ids=["is moving", "has moved"])
def test_a_watched_transaction_whose_slot_moves_is_aborted_and_can_be_retried(
    nodes: Nodes, is_done: bool
) -> None:
    """Its watch is at the old node, so it cannot follow."""
    name = f"watched:{is_done}"

    async def scenario() -> None:
        async with (
            holdfast.connect(nodes.url) as client,
            client.transaction(name) as reading,
            client.transaction(name) as writing,
        ):
            slot, target = await asyncio.to_thread(begin_move, nodes, name)
            try:
                if is_done:
                    await asyncio.to_thread(end_move, nodes, slot, target)
                with pytest.raises(TransactionAbortedError, match="moved"):
                    await reading.exec("GET", name)
                with pytest.raises(TransactionAbortedError, match="moved") as aborted:
                    await writing.add("INCR", name).commit()
                assert aborted.value.is_retryable
                async with client.transaction(name) as again:
                    assert await again.add("INCR", name).commit(int) == [1]
                    with pytest.raises(ServerError, match="MOVED"):  # it was never there
                        await again.exec("GET", "elsewhere")
            finally:
                await asyncio.to_thread(end_move, nodes, slot, target)

    asyncio.run(scenario())


def test_a_watched_transaction_does_not_make_keys_anew_that_have_not_moved_yet(
    nodes: Nodes,
) -> None:
    """While a slot moves, the new node takes every key of it, also those that the old one has."""
    missing, present = "{moving}missing", "{moving}present"

    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            await client.set(present, 41)
            slot, target = await asyncio.to_thread(begin_move, nodes, missing)
            try:
                async with client.transaction(missing) as tx:
                    assert await tx.exec("GET", missing) is None
                    with pytest.raises(TransactionAbortedError, match="moving"):
                        await tx.exec("GET", present)
                    with pytest.raises(TransactionAbortedError, match="moving"):
                        await tx.add("INCR", present).commit()
                assert await client.incr(present) == 42
            finally:
                await client.delete(present)
                await asyncio.to_thread(end_move, nodes, slot, target)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["command", "request", "transaction", "pop", "watch"])
def test_a_slot_that_two_nodes_disclaim_for_a_moment_is_waited_for(
    nodes: Nodes, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old owner learns first that the slot has moved. The new one still sends back to it."""
    name = f"disclaimed:{kind}"

    async def use(client: Client) -> object:
        if kind == "command":
            return await client.incr(name)
        if kind == "request":
            return (await client.exec_dynamic(Request().add("INCR", name), into=int))[0]
        if kind == "transaction":
            return (await client.transaction().add("INCR", name).commit(int))[0]
        if kind == "pop":
            await client.rpush(name, "x")
            return len(await client.blpop(name, timeout_s=0) or ()) - 1
        async with client.transaction(name) as tx:
            return (await tx.add("INCR", name).commit(int))[0]

    pauses: list[float] = []

    async def pause(clock: Clock, delay_s: float) -> None:
        pauses.append(delay_s)
        await sleep(clock, delay_s)

    monkeypatch.setattr(cluster, "sleep", pause)

    async def scenario() -> None:
        slot, target = await asyncio.to_thread(begin_move, nodes, name)
        there, here = nodes.servers[target], nodes.servers[(target + 2) % 3]
        new = nodes.ids[target]
        await asyncio.to_thread(nodes.ask, here, "CLUSTER", "SETSLOT", slot, "NODE", new)
        try:
            async with holdfast.connect(nodes.url) as client:
                using = asyncio.create_task(use(client))
                await until(lambda: bool(pauses) or using.done())
                assert pauses, "it asks them in turn, but not without a pause"
                await asyncio.to_thread(nodes.ask, there, "CLUSTER", "SETSLOT", slot, "NODE", new)
                assert await using == 1
        finally:
            await asyncio.to_thread(end_move, nodes, slot, target)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "text",
    [
        *("MOVED", "MOVED 1", "MOVED x 127.0.0.1:1", "MOVED 99999 127.0.0.1:1", "MOVED 1 nowhere"),
        *("MOVED 1 127.0.0.1:x", "MOVED 1 127.0.0.1:99999", "ASK -1 127.0.0.1:1"),
    ],
)
def test_a_malformed_redirection_is_an_error_of_the_server(nodes: Nodes, text: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            script = f"return redis.error_reply('{text}')"
            with pytest.raises(ServerError, match=text.split()[0]):
                await client.exec("EVAL", script, 1, "k")
            (slot,) = await client.exec_dynamic(Request().add("EVAL", script, 1, "k"))
            assert isinstance(slot, ServerError)
            assert await client.set("k", "v")

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["a" * 300, "a" * 64 + ".example", "a..b", ".", "x" * 5000])
def test_a_redirection_to_what_cannot_be_a_host_is_an_error_of_connecting(
    nodes: Nodes, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            script = f"return redis.error_reply('MOVED {slot_of('k')} {host}:1')"
            with pytest.raises(ConnectError):
                await client.exec("EVAL", script, 1, "k")
            await until(lambda: cluster_of(client)._slots[slot_of("k")] != (host, 1))
            assert await client.set("k", "v")

    asyncio.run(scenario())
    gc.collect()
    assert "never retrieved" not in caplog.text, "a task of ours ended with what it does not expect"


def test_scan_iter_goes_through_all_masters(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            for n in range(60):
                await client.set(f"scan:{n}", n)
            found = [key async for key in client.scan_iter("scan:*", count=7)]
            assert sorted(found) == sorted(f"scan:{n}" for n in range(60))

    asyncio.run(scenario())


def test_a_cached_reply_is_forgotten_whichever_node_has_the_key(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(nodes.url, cache_keys=100) as client,
            holdfast.connect(nodes.url) as other,
        ):
            cache = client._cache
            assert cache is not None
            names = [f"cache:{n}" for n in range(12)]
            assert {nodes.owner(slot_of(name)) for name in names} == {0, 1, 2}
            for name in names:
                await other.set(name, "old")
            for _ in range(2):  # nodes that are connected meanwhile forget the first ones
                for name in names:
                    await client.get(name)
            hits = cache.hits
            assert [await client.get(name) for name in names] == ["old"] * 12
            assert cache.hits == hits + 12
            for name in names:
                await other.set(name, "new")
                await until(lambda name=name: name.encode() not in cache._replies)  # type: ignore[misc]
                assert await client.get(name) == "new"

    asyncio.run(scenario())


def test_sharded_channels_are_heard_at_their_nodes_and_followed(nodes: Nodes) -> None:
    async def scenario() -> None:
        names = [f"shard:{n}" for n in range(6)]
        assert {nodes.owner(slot_of(name)) for name in names} == {0, 1, 2}
        async with (
            holdfast.connect(nodes.url) as client,
            client.pubsub() as pubsub,
        ):
            misdirect(client, names[0])
            await pubsub.ssubscribe(*names)
            for name in names:
                assert await client.exec("SPUBLISH", name, "1", into=int) == 1
                message = await anext(pubsub)
                assert (message.channel, message.text) == (name, "1")
            before = pubsub.losses
            await asyncio.to_thread(move, nodes, names[1])
            await until(lambda: pubsub.losses > before and not pubsub._moving)
            assert await client.exec("SPUBLISH", names[1], "2", into=int) == 1
            assert (await anext(pubsub)).text == "2"
            await pubsub.sunsubscribe()
            for name in names:
                assert await client.exec("SPUBLISH", name, "3", into=int) == 0

    asyncio.run(scenario())


def test_messages_of_a_cluster_survive_a_lost_connection(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client, client.pubsub() as pubsub:
            await pubsub.subscribe("news")
            await pubsub.ssubscribe("lost:shard")
            for server in nodes.servers:
                await asyncio.to_thread(nodes.ask, server, "CLIENT", "KILL", "TYPE", "pubsub")
            await until(lambda: pubsub.losses >= 2)  # one that returns early is lost again
            await pubsub.subscribe("confirmed after the others")
            await pubsub.ssubscribe("lost:shard")
            await client.publish("news", "1")
            assert (await anext(pubsub)).text == "1"
            assert await client.exec("SPUBLISH", "lost:shard", "2", into=int) == 1
            assert (await anext(pubsub)).text == "2"

    asyncio.run(scenario())


def test_a_closed_cluster_stays_closed_and_a_dropped_one_warns(nodes: Nodes) -> None:
    async def scenario() -> None:
        client = holdfast.connect(nodes.url)
        async with client:
            assert await client.ping() == "PONG"
        with pytest.raises(holdfast.HoldfastError, match="closed"):
            await client.connect()
        clients = [holdfast.connect(nodes.url)]
        await clients[0].connect()
        with pytest.warns(ResourceWarning, match=r"unclosed client of 127\.0\.0\.1:\d+,"):
            clients.clear()
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
