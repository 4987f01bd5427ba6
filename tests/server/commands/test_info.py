"""INFO: its sections, and that its numbers are true."""

import re
from pathlib import Path

import pytest

from holdfast.server.commands.info import expiring_keys, human
from holdfast.server.features.meter import Rate
from holdfast.server.version import REDIS_VERSION
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer

DEFAULT = [
    "Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Modules",
    "Errorstats", "Cluster", "Keyspace",
]  # fmt: skip
EVERY = [*DEFAULT[:8], "Commandstats", "Errorstats", "Latencystats", "Cluster", "Keyspace"]


@pytest.fixture
def world() -> InProcess:
    return InProcess()


def text(peer: Peer, *sections: str) -> str:
    return peer.command("INFO", *sections).split(b"\r\n", 1)[1].decode()


def facts(peer: Peer, *sections: str) -> dict[str, str]:
    lines = (line for line in text(peer, *sections).split("\r\n") if ":" in line)
    return dict(line.split(":", 1) for line in lines)


@pytest.mark.parametrize(
    ("asked", "titles"),
    [
        ((), DEFAULT),
        (("default",), DEFAULT),
        (("all",), EVERY),
        (("everything",), EVERY),
        (("KEYSPACE", "server"), ["Server", "Keyspace"]),
        (("commandstats", "default"), [*DEFAULT[:8], "Commandstats", *DEFAULT[8:]]),
        (("nosuch",), []),
    ],
)
def test_sections(world: InProcess, asked: tuple[str, ...], titles: list[str]) -> None:
    shown = [line[2:] for line in text(world.peer(), *asked).split("\r\n") if line[:1] == "#"]
    assert shown == titles


def test_sections_are_apart_by_one_empty_line(world: InProcess) -> None:
    assert text(world.peer(), "modules", "cluster") == (
        "# Modules\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n"
    )


def test_versions_and_uptime(world: InProcess) -> None:
    world.clock.advance(90061)
    found = facts(world.peer(), "server")
    assert found["redis_version"] == REDIS_VERSION == "8.10.0"
    assert found["holdfast_version"].count(".") == 2
    assert found["uptime_in_seconds"] == "90061"
    assert found["uptime_in_days"] == "1"
    assert len(found["run_id"]) == 40


def told_versions(peer: Peer) -> set[bytes]:
    """The version of Redis, in each place that tells it."""
    hello, lolwut = peer.command("HELLO", 2), peer.command("LOLWUT")
    return {
        facts(peer, "server")["redis_version"].encode(),
        hello.split(b"version\r\n")[1].split(b"\r\n")[1],
        lolwut.split(b"Redis ver. ")[1].split(b"\n")[0],
        peer.command("EVAL", "return redis.REDIS_VERSION", 0).split(b"\r\n")[1],
    }


def test_all_places_tell_the_version_that_is_set() -> None:
    assert told_versions(InProcess().peer()) == {REDIS_VERSION.encode()}
    assert told_versions(InProcess({"redis-version": "7.0.15"}).peer()) == {b"7.0.15"}
    peer = InProcess().peer()
    assert peer.command("CONFIG", "SET", "redis-version", "7.2.4") == b"+OK\r\n"
    assert told_versions(peer) == {b"7.2.4"}
    number = peer.command("EVAL", "return redis.REDIS_VERSION_NUM", 0)
    assert number == b":%d\r\n" % 0x070204


@pytest.mark.parametrize("version", ["8.10.1", "8.11.0", "9.0.0", "99.0.0"])
def test_a_version_that_would_not_be_true_is_refused(version: str) -> None:
    peer = InProcess().peer()
    reply = peer.command("CONFIG", "SET", "redis-version", version)
    assert reply.endswith(b"argument can't be above 8.10.0: later commands are missing here\r\n")
    assert facts(peer, "server")["redis_version"] == "8.10.0"


@pytest.mark.parametrize("text", ["", "8", "8.2", "8.2.x", "v8.2.0", "8.02.0", "8.2.0.0", "-8.2.0"])
def test_a_version_has_three_numbers(text: str) -> None:
    reply = InProcess().peer().command("CONFIG", "SET", "redis-version", text)
    assert reply.endswith(b"argument must be a version such as 7.2.4\r\n")


def test_clients(world: InProcess) -> None:
    peer = world.peer()
    world.blocked("BLPOP", "k", 0)
    world.blocked("BLPOP", "k", 5)
    found = facts(peer, "clients")
    assert found["connected_clients"] == "3"
    assert found["blocked_clients"] == "2"
    assert found["clients_in_timeout_table"] == "1"


def test_statistics_and_resetstat(world: InProcess) -> None:
    peer = world.peer()
    peer.command("SET", "k", "v")
    peer.command("GET", "k")
    peer.command("GET", "missing")
    peer.command("LPUSH", "k", "x")
    peer.command("GET")
    found = facts(peer, "stats", "commandstats", "errorstats")
    assert found["keyspace_hits"] == "1"
    assert found["keyspace_misses"] == "1"
    assert found["total_commands_processed"] == "4"
    assert found["total_error_replies"] == "2"
    assert found["errorstat_WRONGTYPE"] == "count=1"
    assert found["errorstat_ERR"] == "count=1"
    assert found["cmdstat_get"].startswith("calls=2,usec=")
    assert found["cmdstat_get"].endswith(",rejected_calls=1,failed_calls=0")
    assert found["cmdstat_lpush"].endswith(",rejected_calls=0,failed_calls=1")
    assert peer.command("CONFIG", "RESETSTAT") == b"+OK\r\n"
    found = facts(peer, "stats", "commandstats", "errorstats")
    assert found["keyspace_hits"] == "0"
    assert found["total_error_replies"] == "0"
    assert "cmdstat_get" not in found
    assert "errorstat_ERR" not in found


def test_memory_goes_up_and_down_and_the_peak_stays(world: InProcess) -> None:
    peer = world.peer()
    before = int(facts(peer, "memory")["used_memory"])
    peer.command("SET", "k", b"x" * 100_000)
    world.engine.meter.sample(0, world.engine.keyspace.used_bytes, 0)
    assert int(facts(peer, "memory")["used_memory"]) >= before + 100_000
    peer.command("DEL", "k")
    found = facts(peer, "memory")
    assert int(found["used_memory"]) == before
    assert int(found["used_memory_peak"]) >= 100_000
    assert int(found["used_memory_rss"]) > 1 << 20


def test_persistence_of_a_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "x.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    for number in range(5):
        peer.command("SET", f"k{number}", "v")
    found = facts(peer, "persistence")
    assert found["aof_enabled"] == "1"
    assert found["rdb_changes_since_last_save"] == "5"
    assert found["holdfast_journal_rows"] == "5"
    assert found["holdfast_unfolded_ops"] == "10"
    assert found["holdfast_file"] == str(tmp_path / "x.db")
    assert int(found["holdfast_wal_bytes"]) > 0
    world.clock.advance(10)
    assert peer.command("SAVE") == b"+OK\r\n"
    found = facts(peer, "persistence")
    assert found["holdfast_journal_rows"] == "0"
    assert found["rdb_changes_since_last_save"] == "0"
    assert found["rdb_last_save_time"] == str(world.clock.now_ms() // 1000)
    assert peer.command("LASTSAVE") == b":%d\r\n" % (world.clock.now_ms() // 1000)
    store.close()


def test_bgsave_folds_in_slices(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "x.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    peer.pipeline(*(("SET", f"k{number}", "v") for number in range(3000)))
    peer.replies()
    assert peer.command("BGSAVE") == b"+Background saving started\r\n"
    found = facts(peer, "persistence")
    assert found["rdb_bgsave_in_progress"] == "1"
    assert peer.command("BGSAVE") == b"-ERR Background save already in progress\r\n"
    assert peer.command("SAVE") == b"-ERR Background save already in progress\r\n"
    assert peer.command("BGREWRITEAOF").endswith(b" scheduled\r\n")
    for _ in range(10_000):  # more is written meanwhile, and it ends all the same
        peer.command("SET", "busy", "x")
        world.clock.advance(0.001)
        if not world.engine.saving.running:
            break
    found = facts(peer, "persistence")
    assert found["rdb_bgsave_in_progress"] == "0"
    assert found["rdb_last_bgsave_status"] == "ok"
    assert store.folded_lsn >= 1
    assert peer.command("BGREWRITEAOF") == (b"+Background append only file rewriting started\r\n")
    assert peer.command("BGREWRITEAOF").startswith(b"-ERR Background append only file rewriting a")
    store.abandon()


def test_keys_that_expire_are_counted_in_memory_and_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = FileStore(path)
    database, other = store.keyspace.databases[0], store.keyspace.databases[5]
    for number in range(10):
        database.set_string(b"k%d" % number, b"v", 1 << 60 if number < 4 else None)
    other.set_string(b"k", b"v", 1 << 60)
    assert expiring_keys(store.keyspace) == {database.space.id: 4, other.space.id: 1}
    store.close()

    store = FileStore(path)  # all cold
    database = store.keyspace.databases[0]
    assert expiring_keys(store.keyspace)[database.space.id] == 4
    for name in (b"k0", b"k1"):  # two hot ones, of which one does not expire any more
        key = database.find(name)
        assert key is not None
        if name == b"k1":
            database.set_expiry(key, None)
    assert expiring_keys(store.keyspace)[database.space.id] == 3
    store.close()


def test_very_many_keys_that_expire_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.commands.info.MAX_COUNTED", 50)
    world = InProcess()
    peer = world.peer()
    peer.pipeline(*(("SET", f"k{number}", "v", "EX", "100") for number in range(200)))
    peer.replies()
    assert text(peer, "keyspace") == ("# Keyspace\r\ndb0:keys=200,expires=200,avg_ttl=0\r\n\r\n")


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [(0, "0B"), (1023, "1023B"), (1536, "1.50K"), (1 << 20, "1.00M"), (5 << 30, "5.00G")],
)
def test_sizes_for_people(nbytes: int, shown: str) -> None:
    assert human(nbytes) == shown


def test_rates_are_over_the_last_samples() -> None:
    rate = Rate()
    assert rate.per_s == 0
    for tick in range(100):
        rate.sample(tick / 10, tick * 50)
    assert rate.per_s == pytest.approx(500)
    for tick in range(100, 120):
        rate.sample(tick / 10, 5000)
    assert rate.per_s == 0


def test_clients_that_a_pause_holds_are_blocked(world: InProcess) -> None:
    peer, held = world.peer(), world.peer()
    peer.command("CLIENT", "PAUSE", 60_000, "WRITE")
    held.send("SET", "k", "v")
    assert facts(peer, "clients")["blocked_clients"] == "1"
    peer.command("CLIENT", "UNPAUSE")
    assert facts(peer, "clients")["blocked_clients"] == "0"


def test_a_wait_that_ends_with_an_error_is_a_failed_call(world: InProcess) -> None:
    peer, waiting = world.peer(), world.blocked("BLPOP", "k", 0)
    assert peer.command("CLIENT", "UNBLOCK", waiting.session.id, "ERROR") == b":1\r\n"
    assert waiting.replies() == [b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"]
    found = facts(peer, "stats", "commandstats", "errorstats")
    assert found["errorstat_UNBLOCKED"] == "count=1"
    assert found["cmdstat_blpop"].startswith("calls=1,")
    assert found["cmdstat_blpop"].endswith(",rejected_calls=0,failed_calls=1")


def test_used_memory_is_that_of_data_and_clients(world: InProcess) -> None:
    peer = world.peer()
    peer.command("SET", "k", b"x" * 1000)
    found = facts(peer, "memory")
    data, overhead = int(found["used_memory_dataset"]), int(found["mem_clients_normal"])
    assert data == world.engine.keyspace.used_bytes
    assert overhead > 0
    assert int(found["used_memory_overhead"]) == overhead
    assert int(found["mem_not_counted_for_evict"]) == overhead
    assert int(found["used_memory"]) == data + overhead


def test_memory_stats_has_the_numbers_of_info(world: InProcess) -> None:
    peer, replica = world.peer(), world.peer()
    peer.command("SET", "k", b"x" * 1000)
    replica.send("PSYNC", "?", "-1")
    found = facts(peer, "memory")
    reply = peer.command("MEMORY", "STATS")
    stats = {
        name.decode(): int(number)
        for name, number in re.findall(rb"\$\d+\r\n([a-z.]+)\r\n:(\d+)", reply)
    }
    assert stats["total.allocated"] == int(found["used_memory"])
    assert stats["clients.normal"] == int(found["mem_clients_normal"]) > 0
    assert stats["clients.slaves"] == int(found["mem_clients_slaves"])
    assert stats["replication.backlog"] == int(found["mem_replication_backlog"])


def test_large_values_count_as_lazily_freed_until_resetstat(world: InProcess) -> None:
    peer = world.peer()
    peer.command("XADD", "small", "*", "f", "v")
    peer.command("XGROUP", "CREATE", "small", "g", 0)
    for _ in range(100):
        peer.command("XADD", "large", "*", "f", "v")
    freed = []
    for name in ("small", "large"):
        peer.command("UNLINK", name)
        while world.engine.keyspace.freeing.step():
            pass
        freed.append(facts(peer, "memory")["lazyfreed_objects"])
    assert freed == ["0", "1"]
    peer.command("CONFIG", "RESETSTAT")
    assert facts(peer, "memory")["lazyfreed_objects"] == "0"
