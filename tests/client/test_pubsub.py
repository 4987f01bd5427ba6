"""Pub/sub when things go wrong."""

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast.client.errors import ClosedError, ServerError
from tests.client.fakes import turns, until


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_lost_connection_subscribes_again_and_counts_the_loss(
    redis_url: str, protocol: int
) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(redis_url, protocol=protocol) as client,
            client.pubsub() as pubsub,
        ):
            await pubsub.subscribe("a")
            await pubsub.psubscribe("p*")
            assert await client.exec("CLIENT", "KILL", "TYPE", "pubsub", into=int) >= 1
            await until(lambda: pubsub.losses == 1)
            await pubsub.subscribe("b")  # confirmed after the others were asked for again
            assert await client.publish("a", "1") == 1
            assert (await anext(pubsub)).text == "1"
            await client.publish("pat", "2")
            assert (await anext(pubsub)).pattern == "p*"
            await pubsub.unsubscribe("a")
            assert await client.publish("a", "3") == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_refused_subscription_is_the_callers_error(redis_url: str, protocol: int) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as admin:
            await admin.exec("ACL", "SETUSER", "deaf", "on", ">pw", "+@all", "resetchannels")
            try:
                url = redis_url.replace("redis://", "redis://deaf:pw@")
                async with (
                    holdfast.connect(url, protocol=protocol) as client,
                    client.pubsub() as pubsub,
                ):
                    with pytest.raises(ServerError, match="NOPERM"):
                        await pubsub.subscribe("a")
                    assert pubsub.losses == 0
            finally:
                await admin.exec("ACL", "DELUSER", "deaf")

    asyncio.run(scenario())


def test_a_message_for_a_cancelled_reader_goes_to_the_next(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client, client.pubsub() as pubsub:
            await pubsub.subscribe("a")
            first = asyncio.create_task(anext(pubsub))
            second = asyncio.create_task(anext(pubsub))
            await turns()
            put = pubsub.on_message

            def put_and_cancel(push: list[Any]) -> None:
                put(push)  # wakes the first reader, which has not run yet
                first.cancel()

            pubsub.on_message = put_and_cancel  # type: ignore[method-assign]
            await client.publish("a", "1")
            assert (await second).text == "1"
            assert first.cancelled()

    asyncio.run(scenario())


def test_readers_that_give_up_leave_nothing_behind(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client, client.pubsub() as pubsub:
            for _ in range(20):
                reader = asyncio.create_task(anext(pubsub))
                await asyncio.sleep(0)
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
            assert not pubsub._waiting

    asyncio.run(scenario())


def test_closing_ends_iterations_and_pending_subscriptions(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            pubsub = client.pubsub()
            async with pubsub:
                reader = asyncio.create_task(anext(pubsub, None))
                await turns()
                asking = asyncio.create_task(pubsub.subscribe("a"))
                await asyncio.sleep(0)
            assert await reader is None
            with pytest.raises(ClosedError):
                await asking

    asyncio.run(scenario())
