"""Connections lent to one caller: their end is not the client's, and they return as they were."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.errors import (
    ClosedError,
    ConnectionLostError,
    ConversionError,
    NotConnectedError,
)
from holdfast.client.topology.single import Single
from holdfast.client.transport.options import parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, turns

Play = Callable[..., None]
ELEMENT = b"*2\r\n$1\r\nq\r\n$1\r\n%b\r\n"


async def open_client() -> tuple[Client, FakeServer]:
    server = FakeServer()
    client = make_client(parse_url("redis://h"), dial=server.dial, clock=ManualClock())
    await client.connect()
    return client, server


def single(client: Client) -> Single:
    assert isinstance(client._caller, Single)
    return client._caller


def test_a_lent_connection_that_ends_with_its_last_reply_is_no_closed_client(
    redis_url: str,
) -> None:
    """The server answers and hangs up: reply and end arrive in one turn of the loop."""

    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            for _ in range(20):
                async with client.transaction("k") as tx:
                    me = await tx.exec("CLIENT", "ID", into=int)
                    await tx.exec("CLIENT", "KILL", "ID", me, "SKIPME", "no")
                    # The end may come a turn later than the reply; the command was sent then.
                    with pytest.raises((NotConnectedError, ConnectionLostError)) as lost:
                        await tx.exec("GET", "k")
                    assert not isinstance(lost.value, ClosedError)
                assert await client.ping() == "PONG"

    asyncio.run(scenario())


def test_a_command_not_yet_sent_when_its_lent_connection_broke_is_not_called_closed() -> None:
    async def scenario() -> None:
        client, server = await open_client()
        transaction = client.transaction("k")
        entering = asyncio.create_task(transaction.__aenter__())
        await turns(20)
        server.link.say(b"+OK\r\n")
        await entering
        server.link.protocol.pause_writing()  # so that it stays in the queue
        reading = asyncio.create_task(transaction.exec("GET", "k"))
        await turns()
        server.link.cut()
        with pytest.raises(NotConnectedError) as lost:
            await reading
        assert not isinstance(lost.value, ClosedError)
        assert lost.value.is_retryable
        await transaction.__aexit__()
        await client.close(0)

    asyncio.run(scenario())


def test_a_loop_of_pops_outlives_a_connection_that_ends_with_its_last_reply() -> None:
    """A request that was never sent over the broken connection goes over another one."""

    async def scenario() -> None:
        client, server = await open_client()

        async def pop_twice() -> list[Any]:
            return [await client.blpop("q", timeout_s=0), await client.blpop("q", timeout_s=0)]

        popping = asyncio.create_task(pop_twice())
        await turns(20)
        first = server.link
        assert first.commands() == [[b"BLPOP", b"q", b"0"]]
        first.say(ELEMENT % b"a")
        await turns(1)  # the loop's next pop is queued on this connection
        first.protocol.eof_received()
        await turns(30)
        assert server.link is not first
        assert server.link.commands() == [[b"BLPOP", b"q", b"0"]]
        server.link.say(ELEMENT % b"b")
        assert await popping == [("q", "a"), ("q", "b")]
        await client.close(0)

    asyncio.run(scenario())


def test_a_watch_not_yet_sent_when_its_connection_broke_goes_over_another_one() -> None:
    async def scenario() -> None:
        client, server = await open_client()
        popping = asyncio.create_task(client.blpop("q", timeout_s=0))
        await turns(20)
        server.link.say(ELEMENT % b"a")
        await popping
        first = server.link
        transaction = client.transaction("k")
        entering = asyncio.create_task(transaction.__aenter__())
        await turns(1)
        first.protocol.eof_received()
        await turns(30)
        assert server.link is not first
        assert server.link.commands() == [[b"WATCH", b"k"]]
        server.link.say(b"+OK\r\n")
        await entering
        leaving = asyncio.create_task(transaction.__aexit__())
        await turns()
        server.link.say(b"+OK\r\n")
        await leaving
        await client.close(0)

    asyncio.run(scenario())


def test_a_pop_that_was_sent_when_its_connection_broke_is_not_sent_again() -> None:
    async def scenario() -> None:
        client, server = await open_client()
        popping = asyncio.create_task(client.blpop("q", timeout_s=0))
        await turns(20)
        dials = server.dials
        server.link.cut()
        with pytest.raises(ConnectionLostError) as lost:
            await popping
        assert lost.value.may_have_executed
        assert server.dials == dials
        await client.close(0)

    asyncio.run(scenario())


def test_a_closed_client_says_so_to_those_it_lent_connections() -> None:
    async def scenario() -> None:
        client, server = await open_client()
        transaction = client.transaction("k")
        entering = asyncio.create_task(transaction.__aenter__())
        await turns(20)
        server.link.say(b"+OK\r\n")
        await entering
        in_flight = asyncio.create_task(transaction.exec("GET", "k"))
        await turns()
        server.link.protocol.pause_writing()
        unsent = asyncio.create_task(transaction.exec("GET", "k"))
        await turns()
        await client.close(0)
        errors = await asyncio.gather(in_flight, unsent, return_exceptions=True)
        assert [type(error) for error in errors] == [ClosedError, ClosedError]

    asyncio.run(scenario())


def test_a_watch_that_is_cancelled_as_it_is_answered_watches_nothing_later(play: Play) -> None:
    async def scenario(client: Client) -> None:
        leased = single(client)._leased
        entering = asyncio.create_task(client.transaction("watched").__aenter__())
        while not any(connection._pipeline._inflight for connection in leased):
            await turns(1)  # not longer: the reply may be there soon
        connection = next(iter(leased))
        deliver = connection.on_replies

        def deliver_and_cancel(replies: list[Any]) -> None:
            deliver(replies)
            entering.cancel()

        connection.on_replies = deliver_and_cancel  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await entering
        await client.set("watched", "changed")
        async with client.transaction("other") as tx:
            assert await tx.add("SET", "other", 1).commit((bool,)) == [True]

    play(scenario)


@pytest.mark.parametrize("turns_later", [1, 2, 3])
def test_an_unwatch_that_is_cancelled_leaves_no_watched_connection(turns_later: int) -> None:
    """If it is cancelled before it is sent, it never is: the connection must not be lent again."""

    async def scenario() -> None:
        client, server = await open_client()
        transaction = client.transaction("k")
        entering = asyncio.create_task(transaction.__aenter__())
        await turns(20)
        server.link.say(b"+OK\r\n")
        await entering
        lent = server.link
        lent.commands()
        leaving = asyncio.create_task(transaction.__aexit__())
        await turns(turns_later)
        leaving.cancel()
        await turns()
        assert leaving.cancelled()
        assert lent.aborted
        assert not single(client)._idle
        await client.close(0)

    asyncio.run(scenario())


@pytest.mark.parametrize("reply", [b":1\r\n", b"$2\r\nOK\r\n", b"*1\r\n:1\r\n"])
def test_an_odd_reply_to_a_transaction_is_a_conversion_error(reply: bytes) -> None:
    async def scenario() -> None:
        client, server = await open_client()
        committing = asyncio.create_task(client.transaction().add("GET", "a").add("PING").commit())
        await turns(20)
        server.link.say(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n" + reply)
        with pytest.raises(ConversionError, match="expected 2 replies from EXEC"):
            await committing
        await client.close()

    asyncio.run(scenario())
