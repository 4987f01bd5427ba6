"""Hooks receive every request and every change of state, with all fields."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.errors import ClientError, ConversionError, ServerError
from holdfast.client.protocol.connection_state import State
from holdfast.client.transport.hooks import ConnectionEvent, Hooks, RequestFinish, RequestStart
from holdfast.client.transport.options import Backoff, parse_url
from holdfast.clock import ManualClock
from tests.client.fakes import FakeServer, turns

Play = Callable[..., None]


class Recorder(Hooks):
    def __init__(self) -> None:
        self.started: list[RequestStart] = []
        self.finished: list[RequestFinish] = []
        self.changes: list[ConnectionEvent] = []

    def request_start(self, event: RequestStart) -> None:
        self.started.append(event)

    def request_finish(self, event: RequestFinish) -> None:
        self.finished.append(event)

    def connection(self, event: ConnectionEvent) -> None:
        self.changes.append(event)

    def last_error(self) -> BaseException | None:
        return self.finished[-1].first_error

    @property
    def names(self) -> list[Any]:
        return [start.commands[0][0] for start in self.started]


async def fake_client(recorder: Hooks, **options: Any) -> tuple[Client, FakeServer, ManualClock]:
    server, clock = FakeServer(), ManualClock()
    target = parse_url("redis://h", **options)
    client = make_client(target, dial=server.dial, clock=clock, hooks=[recorder])
    await client.connect()
    return client, server, clock


def test_a_duration_includes_the_time_in_the_queue() -> None:
    async def scenario() -> None:
        recorder = Recorder()
        client, server, clock = await fake_client(recorder)
        server.link.protocol.pause_writing()
        getting = asyncio.create_task(client.get("k"))
        await turns()
        clock.advance(3)
        server.link.protocol.resume_writing()
        await turns()
        clock.advance(1)
        server.link.say(b"$1\r\nv\r\n")
        assert await getting == "v"
        (finish,) = recorder.finished
        assert finish.duration_s == pytest.approx(4)
        assert finish.start.bytes == len(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        assert finish.start.commands == (("GET", "k"),)
        await client.close()

    asyncio.run(scenario())


def test_errors_are_reported_to_hooks() -> None:
    async def scenario() -> None:
        recorder = Recorder()
        client, server, clock = await fake_client(recorder)
        asked = asyncio.create_task(client.exec("GET", "k", into=int))
        await turns()
        server.link.say(b"+text\r\n")
        with pytest.raises(ConversionError):
            await asked
        assert recorder.last_error() is None  # it ran; the type is the caller's
        slow = asyncio.create_task(client.ping())
        await turns()
        clock.advance(5)
        with pytest.raises(TimeoutError):
            await slow
        assert isinstance(recorder.last_error(), TimeoutError)
        cancelled = asyncio.create_task(client.ping())
        await turns()
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert isinstance(recorder.last_error(), asyncio.CancelledError)
        lost = asyncio.create_task(client.ping())
        await turns()
        server.link.cut()
        with pytest.raises(ClientError):
            await lost
        assert (recorder.finished[-1].ok, recorder.finished[-1].errors) == (0, 1)
        await client.close()
        assert len(recorder.started) == len(recorder.finished) == 4

    asyncio.run(scenario())


def test_changes_of_state_say_from_where_to_where_and_how_often() -> None:
    async def scenario() -> None:
        recorder = Recorder()
        client, server, clock = await fake_client(recorder, backoff=Backoff(immediate=1, jitter=0))
        server.refusing = True
        server.link.cut()
        await turns()
        server.refusing = False
        clock.advance(0.1)
        await turns()
        await client.close()
        told = [
            (e.stage, e.before, e.after, e.generation, e.reconnect_attempts)
            for e in recorder.changes
        ]
        assert told == [
            ("connecting", State.INIT, State.CONNECTING, 0, 0),
            ("connected", State.CONNECTING, State.OPEN, 1, 0),
            ("disconnected", State.OPEN, State.FAILED, 1, 0),
            ("reconnecting", State.FAILED, State.RECONNECTING, 1, 1),
            ("failed", State.RECONNECTING, State.FAILED, 1, 1),
            ("reconnecting", State.FAILED, State.RECONNECTING, 1, 2),
            ("connected", State.RECONNECTING, State.OPEN, 2, 0),
            ("closing", State.OPEN, State.CLOSING, 2, 0),
            ("closed", State.CLOSING, State.CLOSED, 2, 0),
        ]
        assert isinstance(recorder.changes[2].error, ConnectionResetError)

    asyncio.run(scenario())


def test_every_kind_of_request_is_seen(play: Play) -> None:
    recorder = Recorder()

    async def scenario(client: Client) -> None:
        await client.set("k", 1)
        recorder.started.clear()
        await client.blpop("none", timeout_s=0.001)
        await client.transaction().add("INCR", "k").commit()
        async with client.transaction("k") as tx:
            await tx.exec("GET", "k")
            await tx.add("INCR", "k").commit()
        assert [key async for key in client.scan_iter()] == ["k"]
        kinds = [(start.kind, start.commands[0][0]) for start in recorder.started]
        assert kinds == [
            ("single", "BLPOP"),
            ("transaction", "MULTI"),
            ("single", "WATCH"),
            ("single", "GET"),
            ("transaction", "MULTI"),
            ("single", "SCAN"),
        ]
        assert len({start.id for start in recorder.started}) == len(kinds)

    play(scenario, hooks=[recorder])


@pytest.mark.parametrize("where", ["request_start", "request_finish", "connection"])
def test_a_hook_that_raises_changes_nothing_and_is_logged(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("a bad hook")

    bad, good = Hooks(), Recorder()
    setattr(bad, where, fail)

    async def scenario() -> None:
        async with holdfast.connect("memory://", hooks=[bad, good]) as client:
            assert await client.incr("n") == 1
            with pytest.raises(ServerError):
                await client.lpush("n", 1)

    with caplog.at_level(logging.ERROR, "holdfast.client.transport.hooks"):
        asyncio.run(scenario())
    assert "a client hook failed" in caplog.text
    assert "a bad hook" in caplog.text
    assert good.names == ["INCR", "LPUSH"]
    assert good.changes[-1].stage == "closed"


def test_a_script_is_sent_once_and_again_when_it_is_forgotten(play: Play) -> None:
    recorder = Recorder()

    async def scenario(client: Client) -> None:
        script = client.script(f"return #ARGV -- {id(recorder)}")
        recorder.started.clear()
        for _ in range(3):
            assert await script([], ["a", "b"], into=int) == 2
        assert recorder.names == ["EVALSHA", "EVAL", "EVALSHA", "EVALSHA"]
        await client.exec("SCRIPT", "FLUSH")
        recorder.started.clear()
        assert await script(["k"], into=int) == 0
        assert recorder.names == ["EVALSHA", "EVAL"]
        failing = client.script("return redis.error_reply('NOT so')")
        with pytest.raises(ServerError, match="NOT so"):
            await failing()

    play(scenario, hooks=[recorder])
