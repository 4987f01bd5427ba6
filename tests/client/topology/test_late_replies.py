"""A cluster whose nodes answer late, or whose slots move without a message to earlier readers."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import holdfast
from holdfast.client.errors import RequestTimeoutError
from holdfast.client.topology.slots import slot_of
from tests.client.fakes import until
from tests.harness.cluster import Nodes, begin_move, end_move, move, start_cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield start_cluster(stack, tmp_path_factory.mktemp("cluster"))


def test_a_command_that_follows_ask_to_a_node_that_does_not_answer_is_an_error(
    nodes: Nodes,
) -> None:
    """ASKING and the command are one request, whose error must not become the reply."""

    async def scenario() -> None:
        async with holdfast.connect(nodes.url, cache_keys=10) as client:
            slot, target = await asyncio.to_thread(begin_move, nodes, "asked")
            try:
                assert await client.incr("asked") == 1  # it is at the new node from now on
                nodes.servers[target].suspend()
                for command in ("INCR", "GET"):
                    with pytest.raises(RequestTimeoutError) as timed_out:
                        await client.exec(command, "asked", timeout_s=0.2)
                    assert timed_out.value.may_have_executed
                with pytest.raises(RequestTimeoutError):
                    await client.within(0.2).incr("asked")
            finally:
                nodes.servers[target].resume()
                await asyncio.to_thread(end_move, nodes, slot, target)

    asyncio.run(scenario())


def test_a_missing_key_whose_slot_moves_is_not_cached(nodes: Nodes) -> None:
    """No node deletes it when the slot moves, so no node says that what was read is out of date."""

    async def scenario() -> None:
        async with (
            holdfast.connect(nodes.url, cache_keys=10) as client,
            holdfast.connect(nodes.url) as other,
        ):
            reads = [("GET",), ("TYPE",), ("HGETALL",), ("HMGET", "a", "b"), ("LRANGE", "0", "-1")]
            for n in range(2):  # at the second time all nodes are connected
                name = f"missing:{n}"
                for command, *args in reads:
                    await client.exec(command, name, *args)
                await asyncio.to_thread(move, nodes, name)
                await other.set(name, "v")
                assert await client.get(name) == "v"

    asyncio.run(scenario())


def test_a_sharded_subscription_that_was_not_confirmed_in_time_can_be_ended(nodes: Nodes) -> None:
    async def scenario() -> None:
        names = [f"late:{n}" for n in range(100) if nodes.owner(slot_of(f"late:{n}")) == 0][:2]
        async with (
            holdfast.connect(nodes.url) as client,
            holdfast.connect(nodes.url, request_timeout_s=1) as hasty,
            hasty.pubsub() as pubsub,
        ):
            await pubsub.ssubscribe(names[0])  # connected to this node
            nodes.servers[0].suspend()
            try:
                with pytest.raises(RequestTimeoutError):
                    await pubsub.ssubscribe(names[1])
            finally:
                nodes.servers[0].resume()
            await pubsub.sunsubscribe(names[1])
            assert await client.exec("SPUBLISH", names[1], "1", into=int) == 0
            await pubsub.ssubscribe(names[1])
            await pubsub.sunsubscribe()
            assert await client.exec("SPUBLISH", names[1], "1", into=int) == 0

    asyncio.run(scenario())


def test_a_sharded_subscription_that_is_ended_while_its_slot_moves_stays_ended(
    nodes: Nodes,
) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client, client.pubsub() as pubsub:
            await pubsub.ssubscribe("ended")
            await asyncio.to_thread(move, nodes, "ended")
            await until(lambda: bool(pubsub._moving))
            following = pubsub._moving["ended"]
            await pubsub.sunsubscribe("ended")
            await asyncio.wait([following])
            assert await client.exec("SPUBLISH", "ended", "1", into=int) == 0
            assert not pubsub._homes

    asyncio.run(scenario())
