"""The types that type checkers see. mypy checks this file; running it checks that they are true.

One method for each kind of result; test_methods calls all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Annotated, Any, assert_type

import holdfast
import holdfast.sync
from holdfast.client import Client, Failure, Message, Request, Script, State, optional
from holdfast.sync import SyncClient

Scored = list[tuple[str, float]]
Entries = list[tuple[str, dict[str, str]]]


class Odd:
    def twice(self, reply: Any) -> int:
        return 2 * int(reply)


def test_results_have_exact_types() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            assert_type(client, Client)
            assert_type(await client.set("k", "v"), bool)
            assert_type(await client.get("k"), str | None)
            assert_type(await client.binary.get("k"), bytes | None)
            assert_type(await client.within(5).get("k"), str | None)
            assert_type(await client.getrange("k", 0, 0), str)
            assert_type(await client.mget("k", "l"), list[str | None])
            assert_type(await client.binary.mget("k"), list[bytes | None])
            assert_type(await client.mset({"k": "v", "l": 1}), None)
            assert_type(await client.strlen("k"), int)
            assert_type(await client.incrbyfloat("f", 0.5), float)
            assert_type(await client.keys("*"), list[str])
            assert_type(await client.type("k"), str)
            assert_type(await client.randomkey(), str | None)
            assert_type(await client.dump("k"), bytes | None)
            assert_type(await client.rpush("r", "a"), int)
            assert_type(await client.lrange("r", 0, -1), list[str])
            assert_type(await client.lpop_many("r", 1), list[str] | None)
            assert_type(await client.lpos("r", "a"), int | None)
            assert_type(await client.blpop("q", timeout_s=0.001), tuple[str, str] | None)
            assert_type(await client.binary.blpop("q", timeout_s=0.001), tuple[bytes, bytes] | None)
            assert_type(await client.binary.keys("*"), list[bytes])
            assert_type(await client.binary.within(1).within(2).get("k"), bytes | None)
            assert_type(await client.within(1).binary.get("k"), bytes | None)
            assert_type([key async for key in client.within(1).binary.scan_iter()], list[bytes])
            assert_type(await client.within(1).get("k"), str | None)
            assert_type(
                await asyncio.gather(client.get("k"), client.strlen("k"), client.hgetall("h")),
                tuple[str | None, int, dict[str, str]],
            )
            assert_type(await client.exec("STRLEN", "k", into=Decimal), Decimal)
            assert_type(await client.exec("STRLEN", "k", into=[1, 2].count), int)
            assert_type(await client.exec("STRLEN", "k", into=Odd().twice), int)
            assert_type(await client.exec("STRLEN", "k", into=lambda reply: f"{reply}"), str)
            await client.exec("STRLEN", "k", into=Annotated[int, range(9)])
            lengths = Request().add("STRLEN", "k")
            assert_type(await client.exec_dynamic(lengths, into=Odd().twice), list[int | Failure])
            assert_type(await client.hgetall("h"), dict[str, str])
            assert_type(await client.binary.hgetall("h"), dict[bytes, bytes])
            assert_type(await client.smembers("s"), set[str])
            assert_type(await client.smismember("s", "a"), list[bool])
            assert_type(await client.zscore("z", "a"), float | None)
            assert_type(await client.zmscore("z", "a"), list[float | None])
            assert_type(await client.zrange_withscores("z", 0, -1), Scored)
            assert_type(await client.bzpopmin("z", timeout_s=0.001), tuple[str, str, float] | None)
            assert_type(await client.xadd("x", {"f": 1}), str | None)
            assert_type(await client.xrange("x"), Entries)
            assert_type(await client.time(), tuple[int, int])
            assert_type(await client.config_get("maxmemory"), dict[str, str])
            assert_type(client.state, State)
            two = Request().add("GET", "k").add("STRLEN", "k")
            assert_type(await client.exec("STRLEN", "k", into=int), int)
            assert_type(await client.exec("GET", "k", into=optional(str)), str | None)
            assert_type(await client.exec("MGET", "k", into=list[str]), list[str])
            assert_type(await client.exec("GET", "k"), Any)
            assert_type(await client.exec("TIME", into=tuple[int, int]), tuple[int, int])
            assert_type(
                await client.exec(two, into=(str, int)), tuple[str | Failure, int | Failure]
            )
            assert_type(await client.exec_dynamic(two, into=str), list[str | Failure])
            assert_type(await client.exec_dynamic(two), list[Any])
            assert_type(await client.exec_dynamic(two, into=None), list[Failure | None])
            nothing, number = await client.exec(two, into=(None, int))
            assert nothing is None
            assert number == 1
            assert_type(client.scan_iter(), AsyncIterator[str])
            script = client.script("return 1")
            assert_type(script, Script)
            assert_type(await script(), Any)
            assert_type(await script(into=int), int)
            assert_type(await script(into=Odd().twice), int)
            transaction = client.transaction().add("GET", "k")
            assert_type(await transaction.commit(str), list[str | Failure])
            async with client.transaction("k") as tx:
                assert_type(await tx.exec("GET", "k", into=str), str)
                assert_type(await tx.exec("STRLEN", "k", into=Odd().twice), int)
                assert_type(await tx.exec("GET", "k"), Any)
            async with client.pubsub() as pubsub:
                await pubsub.subscribe("a")
                await client.publish("a", "1")
                async for message in pubsub:
                    assert_type(message, Message)
                    break

    asyncio.run(scenario())


def test_blocking_results_are_plain() -> None:
    with holdfast.sync.connect("memory://") as client:
        assert_type(client, SyncClient)
        assert_type(client.set("k", "v"), bool)
        assert_type(client.get("k"), str | None)
        assert_type(client.binary.get("k"), bytes | None)
        assert_type(client.within(5).get("k"), str | None)
        assert_type(client.getrange("k", 0, 0), str)
        assert_type(client.mget("k", "l"), list[str | None])
        assert_type(client.binary.mget("k"), list[bytes | None])
        assert_type(client.mset({"k": "v", "l": 1}), None)
        assert_type(client.strlen("k"), int)
        assert_type(client.incrbyfloat("f", 0.5), float)
        assert_type(client.keys("*"), list[str])
        assert_type(client.type("k"), str)
        assert_type(client.randomkey(), str | None)
        assert_type(client.dump("k"), bytes | None)
        assert_type(client.rpush("r", "a"), int)
        assert_type(client.lrange("r", 0, -1), list[str])
        assert_type(client.lpop_many("r", 1), list[str] | None)
        assert_type(client.lpos("r", "a"), int | None)
        assert_type(client.blpop("q", timeout_s=0.001), tuple[str, str] | None)
        assert_type(client.binary.blpop("q", timeout_s=0.001), tuple[bytes, bytes] | None)
        assert_type(client.hgetall("h"), dict[str, str])
        assert_type(client.binary.hgetall("h"), dict[bytes, bytes])
        assert_type(client.smembers("s"), set[str])
        assert_type(client.smismember("s", "a"), list[bool])
        assert_type(client.zscore("z", "a"), float | None)
        assert_type(client.zmscore("z", "a"), list[float | None])
        assert_type(client.zrange_withscores("z", 0, -1), Scored)
        assert_type(client.bzpopmin("z", timeout_s=0.001), tuple[str, str, float] | None)
        assert_type(client.xadd("x", {"f": 1}), str | None)
        assert_type(client.xrange("x"), Entries)
        assert_type(client.time(), tuple[int, int])
        assert_type(client.config_get("maxmemory"), dict[str, str])
        two = Request().add("GET", "k").add("STRLEN", "k")
        assert_type(client.exec("STRLEN", "k", into=int), int)
        assert_type(client.exec("STRLEN", "k", into=Odd().twice), int)
        assert_type(client.exec("GET", "k", into=optional(str)), str | None)
        assert_type(client.exec("MGET", "k", into=list[str]), list[str])
        assert_type(client.exec("GET", "k"), Any)
        assert_type(client.exec("TIME", into=tuple[int, int]), tuple[int, int])
        assert_type(client.exec(two, into=(str, int)), tuple[str | Failure, int | Failure])
        assert_type(client.exec_dynamic(two, into=str), list[str | Failure])
        assert_type(client.exec_dynamic(two), list[Any])
        assert_type(client.exec_dynamic(two, into=None), list[Failure | None])
        nothing, number = client.exec(two, into=(None, int))
        assert nothing is None
        assert number == 1
        assert_type(client.scan_iter(), Iterator[str])
        assert_type(client.script("return 1")(into=int), int)
        assert_type(client.transaction().add("GET", "k").commit(str), list[str | Failure])
        with client.transaction("k") as tx:
            assert_type(tx.exec("GET", "k", into=str), str)
