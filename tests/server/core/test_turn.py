"""The end of a turn, on a real file and loop: which replies are held, in which order they leave,
and the effect of a failed sync on them."""

import asyncio
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast import all_commands as all_commands
from holdfast.server.core import turn
from holdfast.server.core.engine import Engine
from holdfast.server.sessions.session import Session
from holdfast.store.store import FileStore
from tests.store.refusal import refusing_writes


class Wire:
    """A sink that keeps the replies sent."""

    output_bytes = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._more = asyncio.Event()

    def deliver(self, replies: list[bytes]) -> None:
        self.sent += replies
        self._more.set()

    def close(self) -> None: ...

    async def receive(self, count: int) -> list[bytes]:
        """Wait until that many replies have come, in all."""
        while len(self.sent) < count:
            self._more.clear()
            await self._more.wait()
        return self.sent


class Disk:
    """Stands in for fdatasync: returns when the test says so, or fails."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._outcomes: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()

    def sync(self, fd: int) -> None:
        self._loop.call_soon_threadsafe(self.started.set)
        error = self._outcomes.get()
        if error is not None:
            raise error

    def land(self, error: OSError | None = None) -> None:
        self.started.clear()
        self._outcomes.put(error)


class Server:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk = Disk()
        self.store = FileStore(path)
        monkeypatch.setattr(os, "fdatasync", self.disk.sync)
        self.engine = Engine(self.store)
        monkeypatch.setattr(turn, "SYNC_HERE_BELOW_S", 0.0)
        self.engine.turn.start(asyncio.get_running_loop())

    def client(self) -> tuple[Session, Wire]:
        wire = Wire()
        session = Session(self.engine, wire, "127.0.0.1:1", "127.0.0.1:2")
        self.engine.connected(session)
        return session, wire

    def send(self, session: Session, *commands: bytes) -> None:
        self.engine.receive(session, [command.split() for command in commands])


Scenario = Callable[[Server], Awaitable[None]]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
    async def main() -> None:
        server = Server(tmp_path / "a.db", monkeypatch)
        try:
            await scenario(server)
        finally:
            server.disk.land()
            await turns()
            server.engine.turn.stop()
            monkeypatch.undo()
            server.store.close()

    asyncio.run(main())


def test_a_write_is_acknowledged_only_after_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        session, wire = server.client()
        server.send(session, b"SET k v")
        await server.disk.started.wait()
        await turns()
        assert wire.sent == []
        server.disk.land()
        await wire.receive(1)
        assert wire.sent == [b"+OK\r\n"]

    run(tmp_path, monkeypatch, scenario)


def test_a_read_that_saw_an_unsynced_write_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        writer, _ = server.client()
        reader, seen = server.client()
        server.send(writer, b"SET k v")
        await server.disk.started.wait()
        server.send(reader, b"GET k")
        await turns()
        assert seen.sent == []
        server.disk.land()
        await seen.receive(1)
        assert seen.sent == [b"$1\r\nv\r\n"]

    run(tmp_path, monkeypatch, scenario)


def test_replies_to_woken_clients_go_before_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        heard: list[str] = []
        clients = {}
        for name in ("first", "second", "reader", "pusher"):
            clients[name], wire = server.client()
            monkeypatch.setattr(wire, "deliver", lambda _, name=name: heard.append(name))
        last, wire = server.client()
        server.send(clients["first"], b"BLPOP k 0")
        server.send(clients["second"], b"BLPOP k 0")
        for count, woken in enumerate((["first", "second"], []), 1):
            server.send(clients["reader"], b"GET x")
            server.send(clients["pusher"], b"RPUSH k a b")
            server.send(last, b"PING")
            await server.disk.started.wait()
            server.disk.land()
            await wire.receive(count)
            assert heard == [*woken, "reader", "pusher"]
            heard.clear()

    run(tmp_path, monkeypatch, scenario)


def test_what_arrives_during_a_sync_is_one_more_batch_and_leaves_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        session, wire = server.client()
        server.send(session, b"SET k 1")
        await server.disk.started.wait()
        for _ in range(10):
            server.send(session, b"INCR k")
            await turns(2)
        server.disk.land()
        await server.disk.started.wait()
        assert wire.sent == [b"+OK\r\n"]
        server.disk.land()
        await wire.receive(11)
        assert wire.sent[1:] == [b":%d\r\n" % number for number in range(2, 12)]
        assert server.engine.turn.syncs == 2

    run(tmp_path, monkeypatch, scenario)


def test_a_failed_sync_turns_every_waiting_reply_into_one_error_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        fatal: list[str] = []
        server.engine.on_fatal = lambda error: fatal.append(str(error))
        session, wire = server.client()
        server.send(session, b"SET a 1", b"SET b 2")
        await server.disk.started.wait()
        server.send(session, b"GET a")  # waits for the next batch
        await turns()
        server.disk.land(OSError(5, "Input/output error"))
        await wire.receive(3)
        await turns()
        assert len(wire.sent) == 3
        assert all(reply.startswith(b"-MISCONF ") for reply in wire.sent)
        assert len(fatal) == 1
        server.send(session, b"SET c 3")
        await turns()
        assert wire.sent[3].startswith(b"-MISCONF ")

    run(tmp_path, monkeypatch, scenario)


def test_a_quick_disk_is_waited_for_on_the_loop_and_a_slow_one_on_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        threads: list[str] = []
        monkeypatch.setattr(turn, "SYNC_HERE_BELOW_S", 60.0)
        monkeypatch.setattr(
            os, "fdatasync", lambda fd: threads.append(threading.current_thread().name)
        )
        session, wire = server.client()
        server.send(session, b"SET k 1")
        await wire.receive(1)
        monkeypatch.setattr(turn, "SYNC_HERE_BELOW_S", 0.0)
        server.send(session, b"SET k 2")
        await wire.receive(2)
        assert threads == [threading.current_thread().name, "holdfast-flusher"]

    run(tmp_path, monkeypatch, scenario)


def test_relaxing_the_policy_does_not_let_replies_overtake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        session, wire = server.client()
        server.send(session, b"SET k 1")
        await server.disk.started.wait()
        server.engine.turn.set_appendfsync("everysec")
        server.send(session, b"GET k")
        await turns()
        assert wire.sent == []
        server.disk.land()
        await wire.receive(2)
        assert wire.sent == [b"+OK\r\n", b"$1\r\n1\r\n"]

    run(tmp_path, monkeypatch, scenario)


def test_messages_and_invalidations_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        (writer, _), (listener, heard), (tracker, told) = (server.client() for _ in range(3))
        server.send(listener, b"SUBSCRIBE x")
        server.send(tracker, b"HELLO 3", b"CLIENT TRACKING ON", b"GET k")
        await told.receive(3)
        await heard.receive(1)
        server.send(writer, b"MULTI", b"SET k v", b"PUBLISH x y", b"EXEC")
        await server.disk.started.wait()
        await turns()
        assert len(heard.sent) == 1
        assert len(told.sent) == 3
        server.disk.land()
        await heard.receive(2)
        await told.receive(4)
        assert b"message" in heard.sent[1]
        assert b"invalidate" in told.sent[3]

    run(tmp_path, monkeypatch, scenario)


def test_of_a_batch_that_failed_no_message_leaves_and_no_reply_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalidation is sent: the client drops a value without need, but the key is no longer
    tracked."""

    async def scenario(server: Server) -> None:
        (writer, answers), (listener, heard), (tracker, told) = (server.client() for _ in range(3))
        server.send(listener, b"HELLO 3", b"SUBSCRIBE x")
        server.send(tracker, b"HELLO 3", b"CLIENT TRACKING ON", b"GET k")
        await told.receive(3)
        await heard.receive(2)

        with refusing_writes(server.store, "journal"):
            server.send(listener, b"PING")
            server.send(writer, b"SET k v", b"PUBLISH x y")
            server.send(listener, b"PING")
            await answers.receive(2)
            await turns()
        assert [reply[:9] for reply in answers.sent] == [b"-MISCONF "] * 2
        assert [reply[:9] for reply in heard.sent[2:]] == [b"-MISCONF "] * 2
        assert told.sent[3:] == [b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"]

    run(tmp_path, monkeypatch, scenario)


def test_a_checkpoint_that_ends_as_the_server_stops_begins_no_other_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        errors: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        for _ in range(20):
            server.disk.land()
        monkeypatch.setattr(turn, "CHECKPOINT_PAGES", 0)
        monkeypatch.setattr(turn, "FEW_PAGES", -1)  # so that each round is followed by another one
        session, wire = server.client()
        server.send(session, b"SET k 1")
        server.engine.turn.end()  # the checkpoint begins beside the sync
        server.engine.turn.stop()  # waits for both
        await wire.receive(1)
        await turns()
        assert errors == []
        server.engine.turn.start(loop)  # for the end of the test

    run(tmp_path, monkeypatch, scenario)
