"""A value that exceeds the options fails its own caller, with a sentence, and no other call."""

import asyncio
from collections.abc import Callable

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.errors import ReplyTooLargeError, RequestTooLargeError
from holdfast.client.protocol.request import Request
from holdfast.client.topology.single import Single

Play = Callable[..., None]
ELEMENTS = 100_000
PATIENT = {"request_timeout_s": None}  # these replies may take long on a busy machine
MANY = f"local t = {{}} for n = 1, {ELEMENTS + 1} do t[n] = n end return t"
LONG = "return string.rep('x', 1000001)"


def generation(client: Client) -> int:
    assert isinstance(client._caller, Single)
    return client._caller.connection.generation


@pytest.mark.parametrize("script", [MANY, LONG], ids=["elements", "bytes"])
def test_a_reply_that_is_too_large_fails_its_caller_and_no_other(play: Play, script: str) -> None:
    async def scenario(client: Client) -> None:
        calls = [client.exec("ECHO", str(n), into=str) for n in range(20)]
        calls.insert(10, client.exec("EVAL", script, 0))
        replies = await asyncio.gather(*calls, return_exceptions=True)
        error = replies.pop(10)
        assert isinstance(error, ReplyTooLargeError)
        assert "max_reply_" in str(error)
        assert error.may_have_executed
        assert not error.is_retryable
        assert replies == [str(n) for n in range(20)]
        assert generation(client) == 1

    play(scenario, **PATIENT, max_reply_elements=ELEMENTS, max_reply_bytes=1_000_000)


def test_a_reply_that_is_too_large_is_one_slot_of_a_request(play: Play) -> None:
    async def scenario(client: Client) -> None:
        request = Request().add("ECHO", "a").add("EVAL", MANY, 0).add("ECHO", "b")
        first, second, third = await client.exec_dynamic(request, into=str)
        assert (first, third) == ("a", "b")
        assert isinstance(second, ReplyTooLargeError)
        results = client.transaction().add("ECHO", "a").add("EVAL", MANY, 0).commit()
        with pytest.raises(ReplyTooLargeError):  # EXEC has one reply for all
            await results
        assert await client.ping() == "PONG"
        assert generation(client) == 1

    play(scenario, **PATIENT, max_reply_elements=ELEMENTS)


def test_a_pop_that_takes_too_much_says_so_and_the_next_one_is_served(play: Play) -> None:
    async def scenario(client: Client) -> None:
        push = "for n = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], n) end"
        await client.exec("EVAL", push, 1, "q", ELEMENTS + 2)
        with pytest.raises(ReplyTooLargeError):
            await client.exec("BLMPOP", 0, 1, "q", "LEFT", "COUNT", ELEMENTS + 1)
        assert await client.blpop("q", timeout_s=0) == ("q", str(ELEMENTS + 2))

    play(scenario, "blmpop", **PATIENT, max_reply_elements=ELEMENTS)


def test_more_elements_than_a_million_are_no_problem_by_default(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            many = MANY.replace(str(ELEMENTS + 1), "1048577")
            assert len(await client.exec("EVAL", many, 0, timeout_s=None)) == 1_048_577

    asyncio.run(scenario())


def test_a_request_that_is_too_large_is_never_retryable(play: Play) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(RequestTooLargeError, match="max_bytes=1000 allows no more") as error:
            await client.set("k", "x" * 2000)
        assert not error.value.is_retryable
        assert not error.value.may_have_executed
        with pytest.raises(RequestTooLargeError):
            await client.exec_dynamic(Request(("SET", n, "x" * 100) for n in range(10)))
        assert await client.get("k") is None

    play(scenario, max_bytes=1000)
