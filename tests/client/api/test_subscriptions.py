"""Pub/sub when things go wrong."""

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast.client.api.factory import make_client
from holdfast.client.api.subscriptions import PubSub
from holdfast.client.errors import ClosedError, RequestTimeoutError, ServerError
from holdfast.client.transport.options import parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, turns, until


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


class Peer:
    """A pub/sub connection to a server whose replies the test chooses."""

    def __init__(self, **options: Any) -> None:
        self.server = FakeServer()
        self.clock = ManualClock()
        target = parse_url("redis://h", **options)
        self.client = make_client(target, dial=self.server.dial, clock=self.clock)

    async def open(self) -> PubSub:
        await self.client.connect()
        return await self.client.pubsub().__aenter__()

    def say(self, *pushes: list[Any]) -> None:
        for push in pushes:
            parts = [
                b":%d\r\n" % part if isinstance(part, int) else b"$%d\r\n%b\r\n" % (len(part), part)
                for part in push
            ]
            self.server.link.say(b">%d\r\n%b" % (len(push), b"".join(parts)))


def test_an_error_refuses_the_subscription_that_it_answers_and_no_other() -> None:
    async def scenario() -> None:
        peer = Peer()
        pubsub = await peer.open()
        first = asyncio.create_task(pubsub.subscribe("a", "b"))
        second = asyncio.create_task(pubsub.subscribe("c"))
        third = asyncio.create_task(pubsub.psubscribe("d*"))
        await turns()
        peer.say([b"subscribe", b"a", 1], [b"subscribe", b"b", 2])
        peer.server.link.say(b"-NOPERM no\r\n")
        peer.say([b"psubscribe", b"d*", 3])
        await first
        with pytest.raises(ServerError, match="NOPERM"):
            await second
        await third
        peer.server.link.commands()
        peer.server.link.cut()
        await turns(20)
        again = peer.server.link.commands()
        assert again == [[b"SUBSCRIBE", b"a", b"b"], [b"PSUBSCRIBE", b"d*"]]
        await peer.client.close(0)

    asyncio.run(scenario())


def test_a_subscription_that_is_not_renewed_is_told_to_the_reader() -> None:
    async def scenario() -> None:
        peer = Peer()
        pubsub = await peer.open()
        asking = asyncio.create_task(pubsub.subscribe("a"))
        await turns()
        peer.say([b"subscribe", b"a", 1])
        await asking
        reader = asyncio.create_task(anext(pubsub))
        await turns()
        peer.server.link.cut()
        await turns(20)
        peer.server.link.say(b"-NOPERM not any more\r\n")
        with pytest.raises(ServerError, match="not any more"):
            await reader
        assert pubsub.losses == 1
        await peer.client.close(0)
        assert await anext(pubsub, None) is None

    asyncio.run(scenario())


def test_a_subscription_asked_for_before_a_loss_is_confirmed_after_it() -> None:
    async def scenario() -> None:
        peer = Peer()
        pubsub = await peer.open()
        asking = asyncio.create_task(pubsub.subscribe("a"))
        leaving = asyncio.create_task(pubsub.punsubscribe("b*"))
        await turns()
        peer.server.link.cut()
        await turns(20)
        assert not asking.done()
        for _ in range(2):  # once because it is wanted, once because it is awaited
            peer.say([b"subscribe", b"a", 1])
        peer.say([b"punsubscribe", b"b*", 1])
        await asking
        await leaving
        await peer.client.close(0)

    asyncio.run(scenario())


def test_a_subscription_has_the_timeout_of_a_request() -> None:
    async def scenario() -> None:
        peer = Peer(request_timeout_s=3)
        pubsub = await peer.open()
        asking = asyncio.create_task(pubsub.subscribe("a"))
        await turns()
        peer.clock.advance(3)
        with pytest.raises(RequestTimeoutError) as caught:
            await asking
        assert caught.value.may_have_executed
        peer.say([b"subscribe", b"a", 1], [b"message", b"a", b"late"])
        assert (await anext(pubsub)).text == "late"
        await peer.client.close(0)
        assert peer.clock.pending_timers == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "push",
    [[b"message"], [b"message", b"a"], [b"pmessage", b"a", b"b"], [b"message", 1, b"a"]],
    ids=str,
)
def test_a_message_that_is_none_costs_the_connection_and_no_more(push: list[Any]) -> None:
    async def scenario() -> None:
        peer = Peer()
        pubsub = await peer.open()
        before = peer.server.dials
        peer.say(push)
        await turns(20)
        assert (peer.server.dials, pubsub.losses) == (before + 1, 1)
        await peer.client.close(0)

    asyncio.run(scenario())


def test_pushes_of_other_kinds_are_not_for_us() -> None:
    async def scenario() -> None:
        peer = Peer()
        pubsub = await peer.open()
        peer.say([b"new kind", b"x"], [7], [], [b"unsubscribe", b"never asked", 0])
        peer.server.link.say(b">2\r\n*1\r\n+message\r\n+a\r\n")  # the kind is a list
        peer.say([b"message", b"a", b"1"])
        assert (await anext(pubsub)).text == "1"
        assert pubsub.losses == 0
        await peer.client.close(0)

    asyncio.run(scenario())
