"""redis-py's pub/sub and its client-side cache, unmodified, against our server."""

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.cache import CacheConfig

from tests.harness import HoldfastServer, wait_until

Message = dict[str, Any]


@pytest.fixture
def port(server: HoldfastServer) -> int:
    with server.client() as client:
        client.command("FLUSHALL")
    return server.port


def heard(pubsub: Any, count: int) -> list[tuple[str, Any, Any]]:
    messages: list[Message] = []
    while len(messages) < count:
        message = pubsub.get_message(timeout=20)
        assert message is not None, f"{count} messages; came: {messages}"
        messages.append(message)
    return [(message["type"], message["channel"], message["data"]) for message in messages]


@pytest.mark.parametrize("protocol", [2, 3])
def test_messages(port: int, protocol: int) -> None:
    with redis.Redis(port=port, protocol=protocol) as client, client.pubsub() as pubsub:
        pubsub.subscribe("x")
        pubsub.psubscribe("y*")
        assert heard(pubsub, 2) == [("subscribe", b"x", 1), ("psubscribe", b"y*", 2)]
        assert client.publish("x", "one") == 1
        assert client.publish("yes", "two") == 1
        assert client.publish("no", "three") == 0
        assert heard(pubsub, 2) == [("message", b"x", b"one"), ("pmessage", b"yes", b"two")]
        pubsub.ping("hello")
        pubsub.unsubscribe("x")
        pubsub.punsubscribe("y*")
        assert [kind for kind, _, _ in heard(pubsub, 3)] == ["pong", "unsubscribe", "punsubscribe"]
        assert client.pubsub_channels() == []
        assert client.pubsub_numpat() == 0


@pytest.mark.parametrize("protocol", [2, 3])
def test_shard_channels(port: int, protocol: int) -> None:
    with redis.Redis(port=port, protocol=protocol) as client, client.pubsub() as pubsub:
        pubsub.ssubscribe("s")
        assert heard(pubsub, 1) == [("ssubscribe", b"s", 1)]
        assert client.spublish("s", "hi") == 1
        assert heard(pubsub, 1) == [("smessage", b"s", b"hi")]
        assert client.pubsub_shardnumsub("s") == [(b"s", 1)]


def test_keyspace_notifications(port: int) -> None:
    with redis.Redis(port=port, decode_responses=True) as client, client.pubsub() as pubsub:
        client.config_set("notify-keyspace-events", "KEA")
        pubsub.psubscribe("__key*__:*")
        heard(pubsub, 1)
        client.set("k", "v")
        client.config_set("notify-keyspace-events", "")
        assert heard(pubsub, 2) == [
            ("pmessage", "__keyspace@0__:k", "set"),
            ("pmessage", "__keyevent@0__:set", "k"),
        ]


def test_a_thread_that_listens(port: int) -> None:
    came: list[Message] = []
    with redis.Redis(port=port) as client, client.pubsub() as pubsub:
        pubsub.subscribe(x=came.append)
        thread = pubsub.run_in_thread(sleep_time=0.01)
        client.publish("x", "hello")
        wait_until(lambda: len(came) == 1, "the handler is called")
        thread.stop()
        thread.join()
    assert came[0]["data"] == b"hello"


@pytest.mark.parametrize("protocol", [2, 3])
def test_coroutines_that_listen(port: int, protocol: int) -> None:
    async def main() -> list[Any]:
        async with (
            redis.asyncio.Redis(port=port, protocol=protocol) as client,
            client.pubsub() as pubsub,
        ):
            await pubsub.subscribe("x")
            received = []
            async for message in pubsub.listen():
                if message["type"] == "subscribe":
                    for number in range(3):
                        await client.publish("x", number)
                else:
                    received.append(message["data"])
                    if len(received) == 3:
                        return received
        return []

    assert asyncio.run(asyncio.wait_for(main(), 30)) == [b"0", b"1", b"2"]


def test_the_client_side_cache_is_kept_true(port: int) -> None:
    # redis-py caches only with servers that say they are Redis 7.4 or later.
    with (
        redis.Redis(port=port, protocol=3, cache_config=CacheConfig(max_size=128)) as caching,
        redis.Redis(port=port) as other,
    ):
        other.set("k", "one")
        assert caching.get("k") == b"one"
        cache = caching.get_cache()
        assert cache is not None
        assert cache.size == 1
        calls = other.info("commandstats")["cmdstat_get"]["calls"]
        assert caching.get("k") == b"one"
        assert other.info("commandstats")["cmdstat_get"]["calls"] == calls  # from the cache
        other.set("k", "two")
        wait_until(lambda: caching.get("k") == b"two", "the cache hears of the change")
        other.rpush("list", "a")
        assert caching.lrange("list", 0, -1) == [b"a"]
        other.flushall()
        wait_until(lambda: caching.get("k") is None, "the cache hears of the flush")
        assert caching.lrange("list", 0, -1) == []
