"""The stream of a primary may break off anywhere, also in the middle of a transaction."""

import asyncio
import resource
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.migration.following import Attempt, Following
from holdfast.migration.live_server import LiveServer
from holdfast.psync import open_commands
from holdfast.psync.events import Command, Commands, Event, SnapshotEnds
from holdfast.psync.follower import Follower, acknowledgement
from holdfast.psync.handshake import Introduction
from tests.harness import HoldfastServer, RedisServer, encode_command, wait_until
from tests.migration.contents import contents
from tests.migration.test_live_sources import is_followed, start_import

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

DATABASES = 16
# All in database 5, which redis-server selects before the transaction.
WRITES = (
    *("MULTI", "INCR n", "RPUSH list a", "INCR n", "EXEC"),
    *("SET first x", "RENAME first last"),
)
LAST = b"last\r\n"


@pytest.fixture
def redis(tmp_path: Path) -> RedisServer:
    return RedisServer(tmp_path / "source", "--repl-diskless-sync-delay", "0")


def heard(redis: RedisServer, writes: bytes) -> list[Event]:
    """What a replica hears, from the snapshot to the end of writes that are sent after it."""
    events: list[Event] = []
    follower = Follower(Introduction())
    with socket.create_connection(("127.0.0.1", redis.port)) as replica, redis.client() as client:
        replica.settimeout(0.2)

        def has_heard() -> bool:
            with suppress(TimeoutError):
                events.extend(follower.receive(replica.recv(1 << 16)))
            # redis-server sends the stream from some acknowledgement on.
            is_loaded = any(isinstance(event, SnapshotEnds) for event in events)
            if request := follower.to_send() or (acknowledgement(0) if is_loaded else b""):
                replica.sendall(request)
            return LAST in b"".join(e.data for e in events if isinstance(e, Commands))

        replica.sendall(follower.to_send())
        wait_until(lambda: has_heard() or bool(events), "there is a snapshot")
        client.command("SELECT", 5)
        client.send(writes)
        wait_until(has_heard, "all of the stream is there")
    return events


def test_a_transaction_that_comes_in_pieces_is_applied_in_its_database(
    redis: RedisServer, tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> None:
    """In pieces of two commands: the first are SELECT and MULTI."""
    with redis:
        events = heard(redis, b"".join(encode_command(*line.split()) for line in WRITES))
        wanted = contents(redis.port)
    path = tmp_path / "app.db"
    attempt = Attempt(LiveServer(f"redis://127.0.0.1:{redis.port}"), path, DATABASES, False)
    attempt.left_out, attempt.progress = refuse, lambda *_: None

    async def take_all() -> None:
        commands: list[Command] = []
        for event in events:
            if isinstance(event, Commands):
                commands += event.commands
            else:
                await attempt.take(event)
        for at in range(0, len(commands), 2):
            await attempt.take(Commands(b"", commands[at : at + 2]))
        await attempt.finish()

    asyncio.run(take_all())
    assert contents(start_server(db=path).port) == wanted


def refuse(sentence: str) -> None:
    raise AssertionError(sentence)


def test_a_transaction_that_is_too_large_lets_the_import_begin_again(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new snapshot has its changes."""
    monkeypatch.setattr(open_commands, "MOST_OPEN_BYTES", 100_000)
    sets = ["MULTI", *["SET key value"] * 1000, "EXEC", "SET first last"]
    with redis:
        events = heard(redis, b"".join(encode_command(*line.split()) for line in sets))
    links = 0

    async def follow(attempt: Attempt) -> None:
        nonlocal links
        links += 1
        if links == 3:
            raise KeyboardInterrupt
        for event in events:
            await attempt.take(event)

    monkeypatch.setattr(Attempt, "_follow", follow)
    notes: list[str] = []
    server = LiveServer(f"redis://127.0.0.1:{redis.port}")
    with pytest.raises(KeyboardInterrupt):
        Following(
            server,
            tmp_path / "app.db",
            DATABASES,
            left_out=refuse,
            note=notes.append,
            progress=lambda *_: None,
        ).run()
    said = "a transaction of the server takes more than 100,000 bytes of memory"
    assert notes == [f"{said}, so the import began again"] * 2


class Relay:
    """Passes bytes on between clients and a server. It cuts one link: the first over which some
    bytes of the server come, and behind these bytes."""

    def __init__(self, port: int, cut_behind: bytes) -> None:
        self._server_port = port
        self._cut_behind = cut_behind
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.has_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            way_there = threading.Thread(target=self._pass_on, args=(client, server), daemon=True)
            way_there.start()
            self._pass_on(server, client, self._cut_behind)
            way_there.join()

    def _pass_on(
        self, source: socket.socket, sink: socket.socket, cut_behind: bytes | None = None
    ) -> None:
        passed = b""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if cut_behind is not None and not self.has_cut:
                    passed += data
                    if (end := passed.find(cut_behind)) >= 0:
                        self.has_cut = True
                        sink.sendall(data[: end + len(cut_behind) - len(passed)])
                        break
                sink.sendall(data)
        for socket_ in (source, sink):
            with suppress(OSError):
                socket_.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()


def test_a_link_that_breaks_in_a_transaction_applies_nothing_twice(
    redis: RedisServer, tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> None:
    """The primary sends the whole transaction again."""
    path = tmp_path / "app.db"
    with redis, closing(Relay(redis.port, encode_command("RPUSH", "list", "a"))) as relay:
        url = f"redis://127.0.0.1:{relay.port}"
        process = start_import(url, path, "--follow")
        try:
            wait_until(lambda: is_followed(redis.port), "the import follows", 60)
            with redis.client() as client:
                client.command("SELECT", 5)
                client.send(b"".join(encode_command(*line.split()) for line in WRITES))
                client.read_replies(len(WRITES))
            wait_until(lambda: relay.has_cut, "the link breaks")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert err == ""
        wanted = contents(redis.port)
    assert contents(start_server(db=path).port) == wanted


def test_a_full_disk_ends_an_import_that_leaves_things_out_and_the_next_one_goes_on(
    redis: RedisServer, tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> None:
    """What the disk refuses is not left out."""
    path = tmp_path / "app.db"
    with redis, redis.client() as client:
        url = f"redis://127.0.0.1:{redis.port}"
        process = start_import(url, path, "--follow", "--skip-unknown")
        try:
            wait_until(lambda: is_followed(redis.port), "the import follows", 60)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
            for n in range(8):
                client.command("SET", n, "x" * (1 << 18))
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 1
        assert err.splitlines()[-1].startswith("holdfast: cannot write the journal: ")
        with start_import(url, path, "--skip-unknown") as second:
            second.communicate(timeout=60)
        assert second.returncode == 0
        wanted = contents(redis.port)
    assert contents(start_server(db=path).port) == wanted
