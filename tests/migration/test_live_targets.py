"""Exports into servers that run: Redis, Valkey, Holdfast, a cluster."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.migration import live_target
from holdfast.migration.errors import MigrationError
from holdfast.migration.exporting import ExportOptions, export_to_server
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.migration.live_server import LiveServer
from holdfast.migration.report import Report
from holdfast.migration.selection import Selection
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.records import Entry
from tests.harness import HoldfastServer, RedisServer
from tests.harness.cluster import Nodes, begin_move, end_move, start_cluster
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer
from tests.migration.conftest import WriteRdb, text
from tests.migration.contents import (
    FAR_MS,
    connect,
    contents,
    fill,
    functions,
    without_seen,
)

Start = Callable[..., HoldfastServer]
EXPIRING = Entry(0, b"h", Plain("hash", [(b"f", b"v", None), (b"g", b"w", FAR_MS)]), FAR_MS)

pytestmark = pytest.mark.source_only


def export(db: Path | str, url: str, options: ExportOptions | None = None) -> Report:
    with LiveServer(url) as server:
        return export_to_server(Path(db), server, options or ExportOptions())


def url_of(server: ServerProcess, options: str = "") -> str:
    return f"redis://127.0.0.1:{server.port}{options}"


@pytest.fixture
def filled(start_server: Start, rng: random.Random) -> HoldfastServer:
    server = start_server()
    fill(server.port, rng)
    return server


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "target") as server:
        yield server


@pytest.fixture
def db(write_rdb: WriteRdb, tmp_path: Path) -> Callable[..., Path]:
    def make(*entries: Entry) -> Path:
        path = tmp_path / "app.db"
        import_file(write_rdb(entries), path, ImportOptions(replaces=True))
        return path

    return make


@pytest.mark.parametrize("target", [RedisServer, ValkeyServer, HoldfastServer])
@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_server_gets_all_keys_expiries_databases_and_functions(
    target: type[RedisServer],
    in_pieces: bool,
    filled: HoldfastServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if in_pieces:
        monkeypatch.setattr(live_target, "BATCH_BYTES", -1)
    before = contents(filled.port)
    with target(tmp_path / "target") as server:
        report = export(filled.db, url_of(server))
        assert (report.key_count, report.libraries, report.present) == (len(before), 1, 0)
        found = contents(server.port)
        if in_pieces:  # no command makes the times at which consumers were seen
            before, found = without_seen(before), without_seen(found)
        assert found == before
        assert functions(server.port) == functions(filled.port)
        again = export(filled.db, url_of(server))
        assert (again.key_count, again.present) == (len(before), len(before))


def test_other_keys_of_the_target_stay_unless_they_may_be_replaced(
    db: Callable[..., Path], redis: RedisServer
) -> None:
    path = db(text(b"a", b"ours"), text(b"b", b"ours", at_ms=FAR_MS), text(b"c", b"ours"))
    with connect(redis.port) as client:
        client.mset({"b": "theirs", "d": "theirs"})
        with pytest.raises(MigrationError, match="has another key 'b' in database 0, which --re"):
            export(path, url_of(redis))
        assert client.mget("b", "d") == [b"theirs", b"theirs"]
        dry = export(path, url_of(redis), ExportOptions(dry_run=True))
        assert [sentence.partition(" has ")[2][:15] for sentence in dry.sentences] == [
            "another key 'b'"
        ]
        some = export(path, url_of(redis), ExportOptions(skips_unknown=True))
        assert (some.key_count, some.unfit) == (2, 1)
        export(path, url_of(redis), ExportOptions(replaces=True))
        assert client.mget("a", "b", "c", "d") == [b"ours"] * 3 + [b"theirs"]
        assert client.execute_command("PEXPIRETIME", "b") == FAR_MS


def test_a_dry_run_writes_nothing(db: Callable[..., Path], redis: RedisServer) -> None:
    report = export(db(text(b"a")), url_of(redis), ExportOptions(dry_run=True))
    assert (report.key_count, report.unfit) == (1, 0)
    assert contents(redis.port) == {}


def test_a_url_with_a_database_means_that_one(
    db: Callable[..., Path], redis: RedisServer, filled: HoldfastServer
) -> None:
    export(db(text(b"a", database=2)), url_of(redis, "/5"))
    assert list(contents(redis.port)) == [(5, b"a")]
    with pytest.raises(MigrationError, match="one database, and the source has keys in databases"):
        export(filled.db, url_of(redis, "/0"))
    moved = ExportOptions(Selection((), {2: 7}), replaces=True)
    export(db(text(b"a", database=2)), url_of(redis), moved)
    assert (7, b"a") in contents(redis.port)


def test_fields_that_expire_go_to_servers_that_have_them(
    db: Callable[..., Path], redis: RedisServer, tmp_path: Path
) -> None:
    path = db(EXPIRING)
    with ValkeyServer(tmp_path / "valkey") as valkey:
        export(path, url_of(valkey))
        found = contents(valkey.port)
    assert found == {(0, b"h"): (FAR_MS, ("hash", sorted(EXPIRING.value.content)))}
    with pytest.raises(MigrationError, match="does not take key 'h' of database 0: ERR unknown"):
        export(path, url_of(redis))
    with connect(redis.port) as client:
        assert client.exists("h") == 0


# -- clusters ---------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield start_cluster(stack, tmp_path / "cluster")


def in_cluster(nodes: Nodes) -> dict[bytes, object]:
    return {
        name: value
        for server in nodes.servers
        for (_, name), value in contents(server.port, 1).items()
    }


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_cluster_gets_each_key_at_its_node(
    in_pieces: bool,
    filled: HoldfastServer,
    cluster: Nodes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while a slot moves. (There, a large key waits until the slot has moved.)"""
    if in_pieces:
        monkeypatch.setattr(live_target, "BATCH_BYTES", -1)
    url = cluster.url.replace("redis+cluster", "redis-cluster")
    with pytest.raises(MigrationError, match="source has keys in databases 0, 3, 15"):
        export(filled.db, url)
    assert in_cluster(cluster) == {}
    with connect(filled.port, 3) as three, connect(filled.port, 15) as fifteen:
        three.flushdb()
        fifteen.flushdb()
    slot, to = begin_move(cluster, "list:1200")
    if in_pieces:
        end_move(cluster, slot, to)
    before = {name: value for (_, name), value in contents(filled.port).items()}
    export(filled.db, url)
    if not in_pieces:
        end_move(cluster, slot, to)
        assert in_cluster(cluster) == before
    assert in_cluster(cluster).keys() == before.keys()
    assert export(filled.db, url).present == len(before)
    for server in cluster.servers:
        assert functions(server.port) == functions(filled.port)


# -- trouble ----------------------------------------------------------------------------------


def test_a_target_that_is_stopped_ends_the_export_with_a_sentence(
    db: Callable[..., Path], redis: RedisServer
) -> None:
    path = db(text(b"a"))
    with LiveServer(url_of(redis, "?request_timeout_s=0.5")) as server:
        redis.suspend()
        try:
            with pytest.raises(MigrationError, match=f"127.0.0.1:{redis.port}: "):
                export_to_server(path, server, ExportOptions())
        finally:
            redis.resume()


def test_an_export_goes_on_when_the_connection_breaks(
    db: Callable[..., Path], redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections are cut after every few batches, also inside of large keys."""
    monkeypatch.setattr(live_target, "BATCH_BYTES", 200_000)
    large = [
        Entry(0, b"l%d" % n, Plain("list", [b"%d" % i * 99 for i in range(999)])) for n in range(5)
    ]
    path = db(*(text(b"k%d" % number, b"x" * 999) for number in range(1000)), *large)
    with connect(redis.port) as client, LiveServer(url_of(redis)) as server:
        ask_many, calls = server.ask_many, 0

        def cutting(*args: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls % 2:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            return ask_many(*args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(server, "ask_many", cutting)
        report = export_to_server(path, server, ExportOptions())
        assert report.key_count == 1005
        assert calls > 5
        assert client.dbsize() == 1005
        assert client.llen("l4") == 999


def test_what_cannot_be_reached_is_a_sentence_without_the_password(redis: RedisServer) -> None:
    with connect(redis.port) as client:
        client.config_set("requirepass", "right")
    with pytest.raises(MigrationError, match=r"cannot use 127\.0\.0\.1:") as caught:
        LiveServer(f"redis://:wrong@127.0.0.1:{redis.port}").__enter__()
    assert "wrong" not in str(caught.value).replace("WRONGPASS", "")
