"""The error of a blocking call that timed out says truly whether an element was taken."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client.api.factory import make_client
from holdfast.client.errors import (
    ClientError,
    ClosedError,
    ConnectionLostError,
    ReplyTooLargeError,
    RequestTimeoutError,
)
from holdfast.client.transport.options import parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, FakeTransport, turns

ELEMENT = b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n"
UNBLOCK = [[b"CLIENT", b"UNBLOCK", b"7"]]


class Waiting:
    """A caller in BLPOP, whose time of a second is over when the block begins."""

    def __init__(self, **options: Any) -> None:
        self.server, self.clock = FakeServer(), ManualClock()
        self.server.hello = b"%1\r\n+id\r\n:7\r\n+OK\r\n+OK\r\n"
        target = parse_url("redis://h", **options)
        self.client = make_client(target, dial=self.server.dial, clock=self.clock)

    async def __aenter__(self) -> "Waiting":
        await self.client.connect()
        self.popping = asyncio.create_task(self.client.within(1).blpop("q", timeout_s=0))
        await turns(20)
        self.clock.advance(1)
        await turns()
        assert self.shared.commands() == UNBLOCK
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close(0)

    @property
    def shared(self) -> FakeTransport:
        return self.server.links[0]

    @property
    def lent(self) -> FakeTransport:
        return self.server.links[1]


def fall_silent(waiting: Waiting) -> None:
    waiting.clock.advance(5)  # the timeout of a request


def lose(waiting: Waiting) -> None:
    waiting.lent.cut()
    waiting.shared.say(b":0\r\n")


def refuse(waiting: Waiting) -> None:
    waiting.shared.say(b"-NOPERM\r\n")


def answer_too_much(waiting: Waiting) -> None:
    waiting.lent.say(b"*2\r\n$1\r\nq\r\n$999999\r\n" + b"x" * 999_999 + b"\r\n")
    waiting.shared.say(b":0\r\n")


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        (fall_silent, RequestTimeoutError),
        (lose, ConnectionLostError),
        (refuse, RequestTimeoutError),
        (answer_too_much, ReplyTooLargeError),
    ],
)
def test_a_pop_whose_end_is_unknown_may_have_taken_an_element(
    happens: Callable[[Waiting], None], error: type[ClientError]
) -> None:
    async def scenario() -> None:
        async with Waiting(max_reply_bytes=1000) as waiting:
            happens(waiting)
            with pytest.raises(error) as raised:
                await waiting.popping
            assert raised.value.may_have_executed
            assert not raised.value.is_retryable

    asyncio.run(scenario())


def test_a_pop_that_was_ended_at_the_server_has_taken_nothing() -> None:
    async def scenario() -> None:
        async with Waiting() as waiting:
            waiting.lent.say(b"*-1\r\n")
            waiting.shared.say(b":1\r\n")
            with pytest.raises(RequestTimeoutError, match="nothing was taken") as raised:
                await waiting.popping
            assert raised.value.is_retryable

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("said", "given_back", "is_certain"),
    [(b"*-1\r\n", b"", True), (ELEMENT, b":1\r\n", True), (ELEMENT, b"-ERR\r\n", False)],
    ids=["nothing", "given back", "not given back"],
)
def test_a_client_that_closes_says_whether_a_pop_took_something(
    said: bytes, given_back: bytes, is_certain: bool
) -> None:
    async def scenario() -> None:
        async with Waiting() as waiting:
            waiting.lent.say(b"*-1\r\n")
            waiting.shared.say(b":1\r\n")
            await asyncio.gather(waiting.popping, return_exceptions=True)
            popping = asyncio.create_task(waiting.client.blpop("q", timeout_s=0))
            await turns(20)
            closing = asyncio.create_task(waiting.client.close())
            await turns()
            assert waiting.shared.commands() == UNBLOCK
            waiting.lent.say(said)
            waiting.shared.say(b":0\r\n")
            await turns()
            waiting.shared.say(given_back)
            await closing
            with pytest.raises(ClosedError) as raised:
                await popping
            assert raised.value.may_have_executed is not is_certain

    asyncio.run(scenario())


def test_an_unblock_that_may_still_arrive_never_ends_the_next_wait() -> None:
    """Its reply is lost, so the server may yet run it: the connection must not wait again."""

    async def scenario() -> None:
        async with Waiting() as waiting:
            waiting.shared.cut()
            waiting.lent.say(ELEMENT)
            assert await waiting.popping == ("q", "x")
            assert waiting.lent.aborted

    asyncio.run(scenario())


@pytest.mark.parametrize("client_id", [b"*1\r\n:1\r\n", b"$1\r\nx\r\n", b",1.5\r\n", b"#t\r\n"])
def test_a_connection_that_the_server_gives_no_number_is_closed_when_its_pop_ends(
    client_id: bytes,
) -> None:
    async def scenario() -> None:
        waiting = Waiting()
        waiting.server.hello = b"%1\r\n+id\r\n" + client_id + b"+OK\r\n+OK\r\n"
        await waiting.client.connect()
        popping = asyncio.create_task(waiting.client.blpop("q", timeout_s=0))
        await turns(20)
        popping.cancel()
        await turns()
        assert waiting.lent.aborted
        with pytest.raises(asyncio.CancelledError):
            await popping
        await waiting.client.close(0)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "reply", [b":1\r\n", b"*0\r\n", b"*1\r\n+q\r\n", b"*2\r\n+q\r\n*0\r\n", b"%1\r\n+a\r\n+b\r\n"]
)
def test_an_odd_reply_to_a_pop_is_not_given_back(
    reply: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Waiting() as waiting:
            waiting.popping.cancel()
            waiting.lent.say(reply)
            waiting.shared.say(b":0\r\n")
            with pytest.raises(asyncio.CancelledError):
                await waiting.popping

    asyncio.run(scenario())
    assert "is not given back" in caplog.text


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (("BZPOPMIN", "z", 0), b"*3\r\n$1\r\nz\r\n$1\r\na\r\n,1\r\n"),
        (("BZMPOP", 0, 1, "z", "MAX"), b"*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\na\r\n,1\r\n"),
    ],
)
def test_a_member_that_is_given_back_does_not_undo_what_others_did_meanwhile(
    command: tuple[Any, ...], reply: bytes
) -> None:
    """Another client may have added it again, with another score."""

    async def scenario() -> None:
        waiting = Waiting()
        await waiting.client.connect()
        popping = asyncio.create_task(waiting.client.exec(*command))
        await turns(20)
        popping.cancel()
        await turns()
        assert waiting.shared.commands() == UNBLOCK
        waiting.lent.say(reply)
        waiting.shared.say(b":0\r\n")
        await turns()
        assert waiting.shared.commands() == [[b"ZADD", b"z", b"NX", b"1.0", b"a"]]
        waiting.shared.say(b":1\r\n")
        with pytest.raises(asyncio.CancelledError):
            await popping
        await waiting.client.close(0)

    asyncio.run(scenario())
