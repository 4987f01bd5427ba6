"""The file of a standalone server becomes that of an active-active one, however large it is, and
whenever the server is killed meanwhile."""

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.clock import ManualClock
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.store.memory import scanning
from holdfast.store.replicated.survey import seen
from holdfast.store.store import FileStore
from tests.harness import HoldfastServer, processes, wait_until
from tests.harness.in_process import Peer
from tests.replication.crew import ask
from tests.replication.nodes import Node, sync
from tests.replication.test_random_lives import command


def standalone(path: Path, *commands: tuple[Any, ...]) -> dict[tuple[int, bytes], Any]:
    """Make a file with the effects of these commands; return its content."""
    store = FileStore(path)
    engine = Engine(store, Config({"appendfsync": "no"}), ManualClock(), random.Random(1))
    client = Peer(engine)
    for each in commands:
        client.command(*each)
    shown = contents(store)
    store.close()
    return shown


def contents(store: Any) -> dict[tuple[int, bytes], Any]:
    return {
        (database.index, name): seen(database.find(name))
        for database in store.keyspace.databases
        for name in scanning.names(store.keyspace, database.space)
    }


@pytest.fixture
def small_rows() -> Iterator[None]:
    """SQLite takes rows of 10 MB and no more, instead of 1 GB."""

    def limit(connection: apsw.Connection) -> None:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, 10 << 20)

    apsw.connection_hooks.append(limit)
    yield
    apsw.connection_hooks.remove(limit)


def test_a_file_larger_than_a_row_becomes_active_active(tmp_path: Path, small_rows: None) -> None:
    path = tmp_path / "a.db"
    before = standalone(path, *(("SET", f"key-{n}", bytes([n]) * (1 << 20)) for n in range(12)))
    node, other = Node(1, path), Node(2)
    assert node.engine.condition.failure is None
    node.restart()
    assert contents(node.store) == before
    sync(node, other)
    assert other("DBSIZE") == b":12\r\n"
    node.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_server_that_is_killed_goes_on_where_it_was(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.db"
    before = standalone(path, *(tuple(command(rng)) for _ in range(300)), ("SET", "k", "v"))
    kills, is_over = 0, False
    while not is_over:
        store = FileStore(path, node=1)
        adoption = store._adoption
        if adoption is not None:
            adoption._piece_keys = rng.choice((1, 2, 5))
        steps = rng.randrange(15) if kills else 3
        is_over = not all(store.adopt_step() for _ in range(steps))
        kills += 1
        store.abandon()
    node, other = Node(1, path), Node(2)
    assert contents(node.store) == before
    assert kills > 1
    assert not node.stage.is_adopting
    assert len(node.stage.log) == 0, "nothing has to be kept until all have it"
    sync(node, other)
    assert contents(other.store) == before
    node("SET", "k", "w")
    other("DEL", *(name for database, name in before if not database and name != b"k"))
    sync(node, other)
    node.restart(fold=True)
    assert node("GET", "k") == b"$1\r\nw\r\n"
    sync(node, other)
    node.close()


def test_all_of_it_leaves_memory_again(tmp_path: Path) -> None:
    """The file may be larger than memory."""
    path = tmp_path / "a.db"
    standalone(path, *(("RPUSH", f"key-{n}", *range(100)) for n in range(50)), ("SET", "s", "v"))
    node = Node(1, path)
    assert not node.keyspace.databases[0].space.keys
    assert not node.stage.replica_keys.names(0)
    assert not node.stage.addresses
    assert node.keyspace.used_bytes == 0
    assert node("DBSIZE") == b":51\r\n"
    node.close()


def test_it_tells_how_far_it_has_got(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    standalone(path, *(("SET", f"key-{n}", "v") for n in range(20)))
    told: list[tuple[object, ...]] = []
    store = FileStore(path, node=1, progress=lambda *progress: told.append(progress))
    assert store._adoption is not None
    store._adoption._piece_keys = 5
    while store.adopt_step():
        pass
    work = "making the file active-active"
    assert told == [(work, count, 20, "keys") for count in (5, 10, 15, 20)]
    store.abandon()


def test_keys_that_were_flushed_before_are_not_adopted(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    for number in range(10):
        store.keyspace.databases[0].set_string(b"old-%d" % number, b"v", None)
    store.commit()
    store.fold()
    store.keyspace.databases[0].flush()
    store.keyspace.databases[0].set_string(b"new", b"v", None)
    store.commit()
    store.abandon()
    node, other = Node(1, path), Node(2)
    sync(node, other)
    assert other("KEYS", "*") == b"*1\r\n$3\r\nnew\r\n"
    node.close()


@pytest.mark.slow
@pytest.mark.source_only
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_file_of_more_than_1_gb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    monkeypatch.setattr(processes, "START_TIMEOUT_S", 900)
    path = tmp_path / "a.db"
    store = FileStore(path)
    for number in range(1100):
        store.keyspace.databases[0].set_string(b"%d" % number, b"%04d" % number * (1 << 18), None)
        store.commit()
        store.fold()
        if store.wal_pages > 16384:
            store.sync_and_checkpoint()
    store.close()
    server = HoldfastServer(tmp_path, "--active-active", "--node-id", "1", db=path)

    def start() -> None:
        with suppress(AssertionError):  # it is ended before it is ready
            server.start()

    def is_at_work() -> bool:
        return "making the file active-active: " in (server.stderr + server.stdout)

    starting = threading.Thread(target=start)
    starting.start()
    wait_until(lambda: (tmp_path / "stderr").exists() and is_at_work(), "a third is done", 600)
    server.process.send_signal(end)
    starting.join()
    assert "Traceback" not in server.stderr
    with server:
        server.start()
        assert ask(server, "DBSIZE") == b":1100\r\n"
        for number in (0, 329, 330, 1099):
            assert ask(server, "GETRANGE", number, 4, 7) == b"$4\r\n%04d\r\n" % number
