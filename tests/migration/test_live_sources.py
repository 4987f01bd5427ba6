"""Imports from servers that run: by PSYNC, and by SCAN where that is forbidden."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.migration import scanning
from holdfast.migration.errors import MigrationError
from holdfast.migration.following import PsyncRefusedError
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.migration.importing_live import Via, import_server
from holdfast.migration.live_server import LiveServer
from holdfast.migration.report import Report
from holdfast.migration.selection import Selection
from holdfast.progress import Progress, unseen
from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer
from tests.migration.conftest import WriteRdb, text
from tests.migration.contents import (
    Contents,
    connect,
    contents,
    fill,
    functions,
    without_seen,
)
from tests.migration.writes import Writer

Start = Callable[..., HoldfastServer]

pytestmark = pytest.mark.source_only

# Redis waits five seconds for more replicas, unless it is told not to.
AT_ONCE = ("--repl-diskless-sync-delay", "0")


def run(
    url: str,
    db: Path,
    options: ImportOptions | None = None,
    via: Via = "auto",
    progress: Progress = unseen,
    patience_s: float = 30.0,
) -> Report:
    with LiveServer(url) as server:
        server.patience_s = patience_s
        return import_server(server, db, options or ImportOptions(), via=via, progress=progress)


def url_of(server: ServerProcess, rest: str = "") -> str:
    return f"redis://127.0.0.1:{server.port}{rest}"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "source", *AT_ONCE) as server:
        yield server


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Path]:
    """The target. After the test, no half of an import lies beside it."""
    folder = tmp_path / "target"
    folder.mkdir()
    yield folder / "app.db"
    assert not [name for name in os.listdir(folder) if "importing" in name]


@pytest.fixture
def writer(redis: RedisServer, rng: random.Random) -> Iterator[Writer]:
    writer = Writer(redis.port, rng)
    yield writer
    writer.close()


def served(start_server: Start, db: Path) -> tuple[Contents, HoldfastServer]:
    ours = start_server(db=db)
    return without_seen(contents(ours.port)), ours


@pytest.mark.parametrize("via", ["psync", "scan"])
@pytest.mark.parametrize("source", [RedisServer, ValkeyServer, HoldfastServer])
def test_all_keys_expiries_databases_and_functions_come(
    source: type[ServerProcess],
    via: Via,
    tmp_path: Path,
    db: Path,
    rng: random.Random,
    start_server: Start,
) -> None:
    options = () if source is HoldfastServer else AT_ONCE
    with source(tmp_path / "source", *options) as server:
        fill(server.port, rng, expiring_fields=source is not RedisServer)
        before, library = without_seen(contents(server.port)), functions(server.port)
        report = run(url_of(server), db, via=via)
    assert (report.key_count, report.libraries, report.unfit) == (len(before), 1, 0)
    found, ours = served(start_server, db)
    assert found == before
    assert functions(ours.port) == library


@pytest.mark.parametrize("via", ["psync", "scan"])
def test_some_keys_and_other_databases(
    via: Via, redis: RedisServer, db: Path, rng: random.Random, start_server: Start
) -> None:
    fill(redis.port, rng)
    options = ImportOptions(Selection([b"string:*"], {3: 4}))
    report = run(url_of(redis), db, options, via)
    assert report.databases == {0, 4}
    assert report.unmatched > 10
    run(url_of(redis, "/3"), db, ImportOptions(merges=True), via)
    found, _ = served(start_server, db)
    names = {place for place in contents(redis.port) if place[1].startswith(b"string:")}
    assert set(found) == {(0, name) for index, name in names if not index} | {
        (4, b"string:1"),
        (3, b"string:1"),
        (3, b"list"),
    }


def test_a_dry_run_names_what_does_not_fit_and_writes_nothing(
    redis: RedisServer, db: Path, rng: random.Random
) -> None:
    fill(redis.port, rng)
    report = run(url_of(redis), db, ImportOptions(databases=4, dry_run=True))
    assert (report.key_count, report.unfit) == (35, 1)
    assert "key 'last' belongs to database 15, and the file has 4" in report.sentences[0]
    assert os.listdir(db.parent) == []
    with pytest.raises(MigrationError, match="has keys in database 15, and the file has 4"):
        run(url_of(redis), db, ImportOptions(databases=4), "psync")
    assert not db.exists()


# -- while it is written to -------------------------------------------------------------------


class During:
    """A progress that writes to the source at each of its first calls for some work."""

    def __init__(self, write: Callable[[], object], *works: str, calls: int = 20) -> None:
        self._write = write
        self._left = dict.fromkeys(works, calls)

    def __call__(self, work: str, done: int, total: int, unit: str) -> None:
        if self._left.get(work):
            self._left[work] -= 1
            self._write()

    @property
    def has_written(self) -> bool:
        return not any(self._left.values())


def test_keys_that_change_during_a_scan_are_read_again(
    redis: RedisServer,
    db: Path,
    writer: Writer,
    start_server: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scanning, "SHORT_PASS", 0)
    writer.run(3000)
    with connect(redis.port) as client:
        for number in range(3000):
            client.set(f"many:{number}", number)
        client.config_set("notify-keyspace-events", "Kx")
        works = ("reading", "reading what changed (1)", "reading what changed (2)")
        during = During(lambda: writer.run(50), *works, calls=3)
        report = run(url_of(redis), db, via="scan", progress=during)
        assert during.has_written
        assert set(client.config_get("notify-keyspace-events")["notify-keyspace-events"]) == {
            "K",
            "x",
        }
    before = without_seen(contents(redis.port))
    found, _ = served(start_server, db)
    assert found == before
    assert report.key_count == len(before)
    assert not any("was refused" in note for note in report.notes)


def test_acknowledgements_of_streams_come_although_nothing_tells_of_them(
    redis: RedisServer, db: Path, start_server: Start
) -> None:
    with connect(redis.port) as client:
        for number in range(5):
            client.xadd("stream", {"f": number}, id=f"{number + 1}-1")
        client.xgroup_create("stream", "group", "0")
        client.xreadgroup("group", "one", {"stream": ">"}, count=4)
        during = During(lambda: client.xack("stream", "group", "2-1"), "reading", calls=1)
        run(url_of(redis), db, via="scan", progress=during)
    assert during.has_written
    found, _ = served(start_server, db)
    assert found == without_seen(contents(redis.port))


@pytest.mark.parametrize("why", ["flush", "no CONFIG", "swap"])
def test_everything_is_read_twice_if_changes_are_not_told(
    why: str, tmp_path: Path, db: Path, rng: random.Random, start_server: Start
) -> None:
    options = ("--rename-command", "CONFIG", "") if why == "no CONFIG" else ()
    with RedisServer(tmp_path / "source", *options) as redis, connect(redis.port) as client:
        with closing(Writer(redis.port, rng)) as writer:
            writer.run(2000)
            for number in range(2500):
                client.set(f"many:{number}", number)

            def change() -> None:
                if why == "flush":
                    client.flushall()
                elif why == "swap":
                    client.swapdb(0, 5)
                client.delete("many:7", "many:8")
                writer.run(100)

            during = During(change, "reading", calls=1)
            report = run(url_of(redis), db, via="scan", progress=during)
        before = without_seen(contents(redis.port))
    assert during.has_written
    assert "everything was read twice" in report.notes[-1]
    found, _ = served(start_server, db)
    assert found == before


def test_a_server_that_forbids_psync_is_scanned(
    redis: RedisServer, db: Path, rng: random.Random, start_server: Start
) -> None:
    fill(redis.port, rng)
    with connect(redis.port) as client:
        client.acl_setuser(
            "mover", enabled=True, passwords=["+pw"], keys="*", channels="*", commands=["+@all"]
        )
        client.execute_command("ACL", "SETUSER", "mover", "-psync", "-sync")
    url = f"redis://mover:pw@127.0.0.1:{redis.port}"
    with pytest.raises(PsyncRefusedError, match="the primary refuses PSYNC: NOPERM"):
        run(url, db, via="psync")
    report = run(url, db)
    assert "without PSYNC, which was refused" in report.notes[0]
    found, _ = served(start_server, db)
    assert found == without_seen(contents(redis.port))


# -- following, and interruptions -------------------------------------------------------------


def start_import(url: str, db: Path, *options: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "holdfast", "import", url, "--db", str(db), *options]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_followed(port: int) -> bool:
    """A replica has said how far it is."""
    with connect(port) as client:
        replica = client.info("replication").get("slave0")
        return replica is not None and replica["state"] == "online" and replica["offset"] > 0


def test_following_until_the_operator_ends_it(
    redis: RedisServer, db: Path, writer: Writer, start_server: Start
) -> None:
    """All that was acknowledged before the signal is in the file."""
    writer.run(2000)
    process = start_import(url_of(redis), db, "--follow", "--json")
    try:
        wait_until(lambda: is_followed(redis.port), "the import follows", 60)
        for _ in range(40):
            writer.run(100)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert err == ""
    assert process.returncode == 0
    before = without_seen(contents(redis.port))
    assert json.loads(out)["keys"] == len(before)
    found, _ = served(start_server, db)
    assert found == before
    assert min(os.listdir(db.parent)) == "app.db"


@pytest.mark.timeout(240)
def test_an_import_that_was_killed_goes_on_where_it_was(
    redis: RedisServer, db: Path, writer: Writer, rng: random.Random, start_server: Start
) -> None:
    """SIGKILL at random moments, also in the middle of the stream. One snapshot is enough."""
    writer.run(2000)
    for _ in range(4):
        process = start_import(url_of(redis), db, "--follow")
        try:
            wait_until(lambda: is_followed(redis.port), "the import follows", 60)
            for _ in range(rng.randrange(10)):
                writer.run(rng.randrange(300))
        finally:
            process.kill()
            process.communicate()
        assert not db.exists()
        writer.run(200)
        with connect(redis.port) as client:
            wait_until(
                lambda client=client: client.info("replication")["connected_slaves"] == 0,  # type: ignore[misc]
                "the server has noticed",
            )
    report = run(url_of(redis), db, via="psync")
    before = without_seen(contents(redis.port))
    assert report.key_count == len(before)
    with connect(redis.port) as client:
        stats = client.info("stats")
    assert (stats["sync_full"], stats["sync_partial_ok"]) == (1, 4)
    found, _ = served(start_server, db)
    assert found == before


def test_a_part_of_a_snapshot_is_forgotten(
    redis: RedisServer, db: Path, start_server: Start, write_rdb: WriteRdb
) -> None:
    """As an import leaves it that was killed before its snapshot was complete."""
    import_file(write_rdb([text(b"gone")]), db.with_name(".app.db.following"), ImportOptions())
    with connect(redis.port) as client:
        client.set("new", "x")
    run(url_of(redis), db, via="psync")
    found, _ = served(start_server, db)
    assert list(found) == [(0, b"new")]


def test_an_import_begins_again_if_the_server_cannot_go_on(
    tmp_path: Path, db: Path, rng: random.Random, start_server: Start
) -> None:
    with RedisServer(tmp_path / "source", *AT_ONCE, "--repl-backlog-size", "16kb") as redis:
        with closing(Writer(redis.port, rng)) as writer:
            writer.run(500)
            process = start_import(url_of(redis), db, "--follow")
            try:
                wait_until(lambda: is_followed(redis.port), "the import follows", 60)
            finally:
                process.kill()
                process.communicate()
            for _ in range(20):
                writer.run(1000)
        report = run(url_of(redis), db, via="psync")
        assert any("began again" in note for note in report.notes)
        before = without_seen(contents(redis.port))
    found, _ = served(start_server, db)
    assert found == before


def test_an_import_that_was_killed_takes_nothing_of_it_to_another_server(
    redis: RedisServer, db: Path, writer: Writer, start_server: Start
) -> None:
    """The offset of the other server is smaller. So before the two have agreed on a history, the
    file seems to have all of it."""
    writer.run(500)
    process = start_import(url_of(redis), db, "--follow")
    try:
        wait_until(lambda: is_followed(redis.port), "the import follows", 60)
    finally:
        process.kill()
        process.communicate()
    other = start_server()
    with connect(other.port) as client:
        client.set("other", "x")
    report = run(url_of(other), db, via="psync")
    assert any("began again" in note for note in report.notes)
    found, _ = served(start_server, db)
    assert list(found) == [(0, b"other")]


class Hostile:
    """Accepts connections, and answers every request with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._answer = answer
        self.is_asked = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while connection.recv(65536):
                self.is_asked.set()
                connection.sendall(self._answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()


def test_a_signal_before_the_end_leaves_the_target_as_it_was(db: Path) -> None:
    with closing(Hostile(b"")) as silent:
        process = start_import(f"redis://127.0.0.1:{silent.port}?connect_timeout_s=50", db)
        try:
            assert silent.is_asked.wait(50)
            process.send_signal(signal.SIGINT)
            try:
                _, err = process.communicate(timeout=15)
            except subprocess.TimeoutExpired:  # seen once: the first signal was lost
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=50)
        finally:
            process.kill()
    assert process.returncode == 130
    assert err == f"holdfast: interrupted: {db} is as it was, and the same command goes on\n"
    assert not db.exists()


# -- sources that misbehave -------------------------------------------------------------------


@pytest.mark.parametrize("via", ["psync", "scan"])
def test_a_source_that_is_stopped_is_given_up(via: Via, redis: RedisServer, db: Path) -> None:
    with connect(redis.port) as client:
        client.set("k", "v")
    with LiveServer(url_of(redis, "?request_timeout_s=0.5&connect_timeout_s=0.5")) as server:
        server.patience_s = 1.0
        redis.suspend()
        try:
            with pytest.raises(MigrationError, match=f"127.0.0.1:{redis.port}"):
                import_server(server, db, ImportOptions(), via=via)
        finally:
            redis.resume()
    assert not db.exists()


@pytest.mark.parametrize("via", ["psync", "scan", "auto"])
@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xffgarbage\r\n",
        b"+OK\r\n",
        b":-1\r\n",
        b"$-1\r\n",
        b"-ERR go away\r\n",
        b"*1000000000\r\n",
        b"+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " + b"a" * 40 + b" 0\r\n$5\r\nREDIS",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_garbage_is_one_sentence_and_changes_nothing(answer: bytes, via: Via, db: Path) -> None:
    with closing(Hostile(answer)) as hostile:
        url = f"redis://127.0.0.1:{hostile.port}?request_timeout_s=1&connect_timeout_s=1"
        with pytest.raises(MigrationError) as caught:
            run(url, db, via=via, patience_s=0.5)
        assert "\n" not in str(caught.value)
    assert not db.exists()
