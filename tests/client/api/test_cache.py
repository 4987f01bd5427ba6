"""Client-side caching: fast, and never stale after the server said so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import holdfast
from holdfast.client.api.cache import Cache
from holdfast.client.api.client import Client
from tests.client.fakes import until


def cache_of(client: Client) -> Cache:
    assert client._cache is not None
    return client._cache


def test_the_cache_forgets_keys_that_others_change(redis_url: str) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(redis_url, cache_keys=100) as client,
            holdfast.connect(redis_url) as other,
        ):
            await other.set("k", "1")
            assert [await client.get("k") for _ in range(5)] == ["1"] * 5
            assert (cache_of(client).hits, cache_of(client).misses) == (4, 1)
            await other.set("k", "2")
            await until(lambda: b"k" not in cache_of(client)._replies)
            assert await client.get("k") == "2"
            await client.set("k", "3")
            assert await client.get("k") == "3"
            await other.flushall()
            await until(lambda: not cache_of(client)._replies)
            assert await client.get("k") is None

    asyncio.run(scenario())


def test_a_lost_connection_forgets_everything(redis_url: str) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(redis_url, cache_keys=100) as client,
            holdfast.connect(redis_url) as other,
        ):
            await other.set("k", "1")
            await client.get("k")
            mine = await client.exec("CLIENT", "ID", into=int)
            await other.exec("CLIENT", "KILL", "ID", mine)
            await until(lambda: not cache_of(client)._replies)
            await other.set("k", "2")
            await until(lambda: client.is_connected)
            assert await client.get("k") == "2"

    asyncio.run(scenario())


def test_without_resp3_nothing_is_kept(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url, cache_keys=100, protocol=2) as client:
            await client.set("k", "1")
            assert [await client.get("k"), await client.get("k")] == ["1", "1"]
            assert cache_of(client).hits == 0

    asyncio.run(scenario())


def test_a_key_changed_over_another_connection_is_read_anew(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url, cache_keys=100) as client:
            await client.rpush("q", "a", "b")
            assert await client.llen("q") == 2
            await client.blpop("q", timeout_s=0)
            assert await client.llen("q") == 1
            async with client.transaction("q") as tx:
                assert await client.llen("q") == 1
                await tx.add("RPUSH", "q", "c").commit()
            assert await client.llen("q") == 2

    asyncio.run(scenario())


def answer(
    reply: Any, meanwhile: Callable[[], None] = lambda: None
) -> Callable[[], Awaitable[Any]]:
    async def call() -> Any:
        meanwhile()
        return reply

    return call


def test_a_change_between_departure_and_arrival_wins() -> None:
    async def scenario() -> None:
        cache = Cache(10, 10_000)
        cache.is_on = True

        def change() -> None:
            cache.on_push([b"invalidate", [b"k"]])

        assert await cache.call(("GET", "k"), answer(b"old", change)) == b"old"
        assert await cache.call(("GET", "k"), answer(b"new")) == b"new"
        assert await cache.call(("GET", "k"), answer(b"never asked")) == b"new"
        await cache.call(("SET", "k", "x"), answer(b"OK"))
        assert await cache.call(("GET", "k"), answer(b"x")) == b"x"

    asyncio.run(scenario())


def test_the_cache_holds_so_many_replies_and_no_more() -> None:
    async def scenario() -> None:
        cache = Cache(3, 10_000)
        cache.is_on = True
        for n in range(10):
            await cache.call(("GET", str(n)), answer(n))
        assert list(cache._replies) == [b"7", b"8", b"9"]
        for n in range(10):
            await cache.call(("GETRANGE", "one", 0, n), answer(b"x"))
            assert cache.count <= 3

    asyncio.run(scenario())


def test_neither_reads_of_one_key_nor_large_replies_exceed_the_bounds() -> None:
    async def scenario() -> None:
        cache = Cache(100, 20_000)
        cache.is_on = True
        for n in range(1000):
            await cache.call(("GETRANGE", "one", 0, n), answer(b"x" * n))
            assert cache.count <= 100
            assert cache.nbytes <= 20_000
        await cache.call(("GET", "large"), answer(b"x" * 30_000))
        assert b"large" not in cache._replies
        for n in range(1000):
            await cache.call(("LRANGE", str(n), 0, -1), answer([b"x" * 100] * 10))
            assert cache.nbytes <= 20_000
        cache.on_push([b"invalidate", [b"999", [b"no name"], b"998"]])
        cache.on_push([b"invalidate", None])
        assert (cache.count, cache.nbytes) == (0, 0)

    asyncio.run(scenario())


def test_a_reply_that_has_no_room_drives_out_no_other() -> None:
    async def scenario() -> None:
        cache = Cache(100, 20_000)
        cache.is_on = True
        for n in range(10):
            await cache.call(("GET", str(n)), answer(b"small"))
        await cache.call(("GET", "large"), answer(b"x" * 30_000))
        await cache.call(("GETRANGE", "3", 0, -1), answer(b"x" * 30_000))
        assert list(cache._replies) == [b"%d" % n for n in range(10)]
        assert cache.count == 10

    asyncio.run(scenario())


def test_a_reader_that_changes_its_reply_changes_no_other(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url, cache_keys=100) as client:
            await client.delete("l", "h")
            await client.rpush("l", "a")
            await client.hset("h", {"f": "v"})
            for _ in range(3):
                elements = await client.exec("LRANGE", "l", 0, -1)
                assert elements == [b"a"]
                elements.append(b"mine")
                fields = await client.exec("HGETALL", "h")
                assert fields == {b"f": b"v"}
                fields.clear()
            assert cache_of(client).hits == 4

    asyncio.run(scenario())


def test_arguments_that_python_calls_equal_are_told_apart(redis_url: str) -> None:
    """1 == 1.0, but the fields "1" and "1.0" are two."""

    async def scenario() -> None:
        async with holdfast.connect(redis_url, cache_keys=100) as client:
            await client.delete("h")
            await client.hset("h", {"1": "whole", "1.0": "broken"})
            for _ in range(2):
                assert await client.exec("HGET", "h", 1, into=str) == "whole"
                assert await client.exec("HGET", "h", 1.0, into=str) == "broken"
                assert await client.exec("HGET", b"h", b"1", into=str) == "whole"
            assert cache_of(client).hits == 4, "the same bytes are the same read"

    asyncio.run(scenario())
