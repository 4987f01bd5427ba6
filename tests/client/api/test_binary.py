"""Names and values that are not UTF-8: bytes stay bytes, a str can represent any name, and a popped
element is never thrown away."""

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

import holdfast
import holdfast.sync
from holdfast.client import Client, ConversionError, Request, RequestTimeoutError
from holdfast.client.protocol.convert import convert
from holdfast.client.protocol.reply_parser import ReplyParser
from tests.client.fakes import until

Play = Callable[..., None]
NAME = b"\xffq\x00"
TEXT = "\udcffq\x00"  # the same, as Python has it for names of files


def test_the_binary_view_has_bytes_everywhere(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.flushdb()
        binary = client.binary
        await binary.rpush(NAME, b"\xfe", b"\xfd")
        assert await binary.blpop(NAME, timeout_s=1) == (NAME, b"\xfe")
        assert await binary.keys(b"\xff*") == [NAME]
        assert await binary.randomkey() == NAME
        assert [key async for key in binary.scan_iter(b"\xff*")] == [NAME]
        assert await binary.lpop(NAME) == b"\xfd"
        await binary.hset("h", {NAME: b"\xfc"})
        assert await binary.hgetall("h") == {NAME: b"\xfc"}
        assert await binary.hkeys("h") == [NAME]
        id = await binary.xadd("x", {NAME: b"\xfb"})
        assert await binary.xrange("x") == [(id, {NAME: b"\xfb"})]
        await binary.zadd(NAME, {b"\xfa": 1})
        assert await binary.bzpopmin(NAME, timeout_s=1) == (NAME, b"\xfa", 1.0)

    play(scenario)


def test_binary_and_within_combine(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.set("k", b"\xff")
        for view in (client.binary.within(5), client.within(5).binary):
            assert await view.get("k") == b"\xff"
        for view in (client.binary.within(0.01), client.within(0.01).binary):
            with pytest.raises(RequestTimeoutError):
                await view.blpop("missing", timeout_s=20)

    play(scenario)


def test_a_name_as_text_stands_for_its_bytes_both_ways(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.flushdb()
        await client.set(NAME, "v")
        assert await client.keys("*") == [TEXT]
        assert [key async for key in client.scan_iter()] == [TEXT]
        assert await client.randomkey() == TEXT
        assert await client.get(TEXT) == "v"
        assert await client.exec(Request().add("GET", TEXT), into=(str,)) == ("v",)
        assert await client.delete(TEXT) == 1
        await client.hset("h", {TEXT: "v"})
        assert await client.hgetall("h") == {TEXT: "v"}
        assert await client.binary.hkeys("h") == [NAME]
        await client.rpush(TEXT, "v")
        assert await client.blpop(TEXT, timeout_s=1) == (TEXT, "v")

    play(scenario)


def test_a_popped_element_that_is_not_text_is_in_the_error(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.flushdb()
        await client.rpush("q", b"\xff1", b"\xff2", b"\xff3", b"\xff4")
        with pytest.raises(ConversionError, match="UTF-8") as popped:
            await client.lpop("q")
        assert popped.value.reply == b"\xff1"
        with pytest.raises(ConversionError, match="UTF-8") as waited:
            await client.blpop("q", timeout_s=1)
        assert waited.value.reply == [b"q", b"\xff2"]
        (failed,) = await client.exec(Request().add("LPOP", "q"), into=(str,))
        assert isinstance(failed, ConversionError)
        assert failed.reply == b"\xff3"
        with pytest.raises(ConversionError) as scripted:
            await client.script("return redis.call('LPOP', KEYS[1])")(["q"], into=str)
        assert scripted.value.reply == b"\xff4"
        await client.rpush("q", b"\xff5")
        async with client.transaction("other") as transaction:
            with pytest.raises(ConversionError) as watched:
                await transaction.exec("LPOP", "q", into=str)
        assert watched.value.reply == b"\xff5"

    play(scenario)


def test_a_popped_element_that_a_function_refuses_is_in_the_error(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.flushdb()
        await client.rpush("q", "{1", "{2", "{3", "4", "{5")
        with pytest.raises(ConversionError, match="JSONDecodeError") as popped:
            await client.exec("LPOP", "q", into=json.loads)
        assert popped.value.reply == b"{1"
        assert isinstance(popped.value.__cause__, json.JSONDecodeError)
        with pytest.raises(ConversionError, match="KeyError") as missing:
            await client.exec("LPOP", "q", into={}.__getitem__)
        assert missing.value.reply == b"{2"
        request = Request().add("LPOP", "q").add("LPOP", "q")
        failed, four = await client.exec(request, into=(json.loads, json.loads))
        assert isinstance(failed, ConversionError)
        assert failed.reply == b"{3"
        assert four == 4, "an error costs its neighbours nothing"
        results = client.transaction().add("LPOP", "q").add("LLEN", "q").commit((json.loads, int))
        failed, none = await results
        assert isinstance(failed, ConversionError)
        assert (failed.reply, none) == (b"{5", 0)

    play(scenario)


def test_the_same_without_await(redis_url: str) -> None:
    with holdfast.sync.connect(redis_url) as client:
        client.flushdb()
        client.rpush(NAME, b"\xff")
        assert list(client.binary.within(5).scan_iter()) == [NAME]
        assert list(client.within(5).scan_iter(match=b"\xff*")) == [TEXT]
        assert client.within(5).binary.lrange(TEXT, 0, -1) == [b"\xff"]
        with pytest.raises(ConversionError) as popped:
            client.lpop(NAME)
        assert popped.value.reply == b"\xff"


def test_channels_may_be_bytes(redis_url: str) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(redis_url) as client,
            client.pubsub() as pubsub,
        ):
            await pubsub.subscribe(NAME, "plain")
            await pubsub.psubscribe(b"\xfe*")
            await client.publish(NAME, "1")
            await client.publish(b"\xfe2", "2")
            first, second = await anext(pubsub), await anext(pubsub)
            assert (first.channel, first.data) == (TEXT, b"1")
            assert (second.channel, second.pattern) == ("\udcfe2", "\udcfe*")
            mine = await client.exec("CLIENT", "LIST", "TYPE", "pubsub", into=str)
            await client.exec("CLIENT", "KILL", "ID", mine.split()[0].removeprefix("id="))
            await until(lambda: pubsub.losses == 1)
            while await client.publish(NAME, "again") == 0:
                pass
            assert (await anext(pubsub)).data == b"again"
            await pubsub.unsubscribe(NAME)
            await pubsub.punsubscribe(b"\xfe*")
            bad: Any = 5
            with pytest.raises(TypeError, match="channel or pattern is str or bytes, not 5"):
                await pubsub.subscribe(bad)

    asyncio.run(scenario())


class Text:
    __hash__ = None  # type: ignore[assignment]  # as dataclasses have it

    def length(self, reply: Any) -> int:
        return len(reply)


@pytest.mark.parametrize(
    ("reply", "into", "value"),
    [
        (b"1.50", Decimal, Decimal("1.50")),
        (3, Decimal, Decimal(3)),
        ([b"1", b"2.5"], list[Decimal], [Decimal(1), Decimal("2.5")]),
        (b"abc", Text().length, 3),
        (b"abc", len, 3),
        (b"2", partial(int, base=8), 2),
        (None, Decimal | None, None),
    ],
)
def test_classes_and_everything_callable_convert(reply: Any, into: Any, value: Any) -> None:
    assert convert(reply, into) == value


class Picky:
    def __init__(self, _: Any) -> None:
        raise LookupError("never")


@pytest.mark.parametrize("into", [Picky, Picky | None, list[Picky], {}.pop])
def test_whatever_a_class_or_function_raises_is_a_conversion_error(into: Any) -> None:
    with pytest.raises(ConversionError, match=r"(Lookup|Type|Key)Error"):
        convert([b"a"], into)


@pytest.mark.parametrize("reply", [b"one", b"\xff", None, [b"1", b"2"]])
def test_a_value_that_a_class_refuses_is_a_conversion_error(reply: Any) -> None:
    with pytest.raises(ConversionError, match=r"expected (Decimal|UTF-8)"):
        convert(reply, Decimal)


@pytest.mark.parametrize(
    "data", [b"%1\r\n>1\r\n+a\r\n+b\r\n", b"%1\r\n*1\r\n>1\r\n+a\r\n+b\r\n", b"*1\r\n>1\r\n+a\r\n"]
)
@pytest.mark.parametrize("step", [1, 100])
def test_a_push_inside_of_a_reply_is_read_as_an_array(data: bytes, step: int) -> None:
    parser = ReplyParser()
    replies = [
        reply for start in range(0, len(data), step) for reply in parser.feed(data[start:][:step])
    ]
    assert len(replies) == 1
