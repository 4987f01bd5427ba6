"""maxmemory policies that delete: which keys go, which stay, and that none comes back."""

import random
from pathlib import Path

import pytest

from holdfast.server.core.cron import Cron
from holdfast.store.memory import scanning
from holdfast.store.store import FileStore, MemoryStore, Store
from tests.harness.in_process import InProcess, Peer
from tests.store.consistency import check_counts

DELETING = [
    f"{whose}-{how}" for whose in ("allkeys", "volatile") for how in ("lru", "lfu", "random")
]
OOM = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"


def names(peer: Peer) -> set[str]:
    return {key.name.decode() for key in peer.session.db.space.keys.values()}


def fill(peer: Peer, count: int, *options: str, prefix: str = "key") -> None:
    for number in range(count):
        assert peer.command("SET", f"{prefix}:{number}", "x" * 100, *options) == b"+OK\r\n"


def limit(world: InProcess, policy: str, share: float, **more: str) -> None:
    """Set the limit so that this share of the data may stay."""
    for name, value in more.items():
        world.set(name.replace("_", "-"), value)
    world.set("maxmemory-policy", policy)
    world.set("maxmemory", int(world.engine.keyspace.used_bytes * share) or 1)


def settle(world: InProcess, peer: Peer) -> None:
    """A command makes room for some keys at a time."""
    for _ in range(1000):
        peer.command("PING")
        if world.engine.keyspace.used_bytes <= world.engine.config.maxmemory:
            return


@pytest.mark.parametrize("policy", [*DELETING, "volatile-ttl"])
def test_memory_stays_below_the_limit_and_writes_go_on(policy: str) -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 300, "EX", "1000")
    limit(world, policy, 0.5)
    fill(peer, 300, "EX", "1000", prefix="more")
    settle(world, peer)
    assert world.engine.keyspace.used_bytes <= world.engine.config.maxmemory
    left = len(names(peer))
    assert 100 < left < 200
    assert world.engine.keyspace.evicted == 600 - left
    assert f"evicted_keys:{600 - left}\r\n".encode() in peer.command("INFO", "stats")
    assert peer.command("DBSIZE") == b":%d\r\n" % left


@pytest.mark.parametrize("how", ["lru", "lfu", "random", "ttl"])
def test_volatile_policies_never_touch_a_key_without_expiry(how: str) -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 100, prefix="stays")
    fill(peer, 100, "EX", "1000")
    peer.command("PERSIST", "key:7")  # has had one: it stays, too
    limit(world, f"volatile-{how}", 0.001)
    assert peer.command("GET", "key:7") == b"$100\r\n" + b"x" * 100 + b"\r\n"
    settle(world, peer)
    assert names(peer) == {f"stays:{number}" for number in range(100)} | {"key:7"}
    assert peer.command("SET", "new", "x") == OOM
    assert peer.command("SET", "new", "x", "EX", "10") == OOM
    assert peer.command("GET", "stays:1").startswith(b"$100")
    assert peer.command("DEL", "stays:1") == b":1\r\n"


@pytest.mark.parametrize("seed", range(3))
def test_volatile_ttl_takes_them_in_the_order_of_their_expiry(seed: int) -> None:
    world = InProcess()
    peer, other = world.peer(), world.peer()
    other.command("SUBSCRIBE", "__keyevent@0__:evicted")
    world.set("notify-keyspace-events", "Ee")
    ttls = list(range(1000, 1200))
    random.Random(seed).shuffle(ttls)
    for ttl in ttls:
        peer.command("SET", f"{ttl}", "x", "EX", ttl)
    peer.command("EXPIRE", "1000", 5000)  # changed its mind
    peer.command("EXPIRE", "1199", 999)
    limit(world, "volatile-ttl", 0.3)
    settle(world, peer)
    gone = [message.split(b"\r\n")[-2].decode() for message in other.replies()]
    assert 130 < len(gone) < 150
    assert gone == ["1199", *(str(ttl) for ttl in range(1001, 1000 + len(gone)))]


def test_lru_keeps_what_was_used_lately() -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 1000)
    world.clock.advance(100)
    used = {f"key:{number}" for number in range(0, 1000, 10)}
    for name in used:
        peer.command("GET", name)
    world.clock.advance(100)
    limit(world, "allkeys-lru", 0.4)
    settle(world, peer)
    assert len(used & names(peer)) == 100


def test_a_look_from_outside_is_no_use() -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 100)
    world.clock.advance(100)
    for number in range(100):
        peer.command("GET" if number % 2 else "TTL", f"key:{number}")
        peer.command("OBJECT", "ENCODING", f"key:{number}")
    limit(world, "allkeys-lru", 0.6)
    settle(world, peer)
    assert {f"key:{number}" for number in range(1, 100, 2)} < names(peer)


def test_lfu_keeps_what_is_used_often_even_if_not_lately() -> None:
    world = InProcess()
    world.set("maxmemory-policy", "allkeys-lfu")
    peer = world.peer()
    fill(peer, 1000)
    often = {f"key:{number}" for number in range(0, 1000, 10)}
    for name in often:
        for _ in range(40):
            peer.command("GET", name)
    world.clock.advance(30)
    for number in range(1000):
        if number % 10:
            peer.command("GET", f"key:{number}")
    limit(world, "allkeys-lfu", 0.4)
    settle(world, peer)
    assert len(often & names(peer)) > 95


def test_frequency_grows_as_a_logarithm_and_fades() -> None:
    world = InProcess()
    world.set("maxmemory-policy", "allkeys-lfu")
    peer = world.peer()

    def freq() -> int:
        return int(peer.command("OBJECT", "FREQ", "k")[1:])

    peer.command("SET", "k", "v")
    assert freq() == 5
    peer.command("GET", "k")
    assert freq() == 6  # the first step is certain
    for _ in range(1000):
        peer.command("GET", "k")
    high = freq()
    assert 10 < high < 30
    world.clock.advance(60 * 3)
    assert freq() == high - 3
    assert freq() == high - 3  # asking is no use
    world.set("lfu-decay-time", 0)
    assert freq() == high
    world.set("lfu-log-factor", 0)  # every use counts
    peer.command("GET", "k")
    assert freq() == high + 1
    for _ in range(300):
        peer.command("GET", "k")
    assert freq() == 255
    assert peer.command("RENAME", "k", "k2") == b"+OK\r\n"
    assert peer.command("OBJECT", "FREQ", "k2") == b":255\r\n"


def test_counters_of_dead_keys_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.memory.lfu.FEWEST_TO_SWEEP", 50)
    world = InProcess()
    world.set("maxmemory-policy", "allkeys-lfu")
    peer = world.peer()
    for number in range(1000):
        peer.command("SET", f"{number}", "v")
        peer.command("GET", f"{number}")
        peer.command("DEL", f"{number}")
    frequencies = world.engine.keyspace.frequencies
    assert frequencies is not None
    assert 0 < len(frequencies._counts) <= 50


def test_nothing_to_delete_refuses_what_needs_memory() -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 3)
    limit(world, "volatile-lru", 0.5)
    assert peer.command("SET", "a", "1") == OOM
    assert peer.command("APPEND", "key:1", "1") == OOM
    assert peer.command("GET", "key:1").startswith(b"$100")
    assert peer.command("MULTI") == b"+OK\r\n"
    assert peer.command("GET", "key:1") == OOM  # queueing would take memory
    assert peer.command("EXEC").startswith(b"-EXECABORT")
    assert b"errorstat_OOM:count=3" in peer.command("INFO", "errorstats")
    world.set("maxmemory", 0)
    assert peer.command("SET", "a", "1") == b"+OK\r\n"


def test_a_transaction_that_was_queued_before_is_refused_whole() -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 3)
    for args in (("MULTI",), ("SET", "a", "1"), ("GET", "a")):
        peer.command(*args)
    limit(world, "volatile-lru", 0.5)
    assert peer.command("EXEC").startswith(b"-EXECABORT Transaction discarded because of: OOM")
    peer.command("MULTI")
    assert peer.command("EXEC") == b"*0\r\n"


def test_without_a_file_nothing_can_be_forgotten_so_noeviction_refuses() -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 3)
    limit(world, "noeviction", 0.5)
    assert peer.command("SET", "a", "1") == OOM
    assert len(names(peer)) == 3


def test_with_a_file_noeviction_refuses_nothing_and_deletes_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    fill(peer, 100)
    limit(world, "noeviction", 0.1)
    fill(peer, 100, prefix="more")
    assert peer.command("DBSIZE") == b":200\r\n"
    assert world.engine.keyspace.evicted == 0
    store.close()


def test_watchers_and_trackers_hear_of_it() -> None:
    world = InProcess()
    peer, tracker, watcher = world.peer(), world.peer(protocol=3), world.peer()
    peer.command("SET", "k", "v")
    tracker.command("CLIENT", "TRACKING", "ON")
    tracker.command("GET", "k")
    watcher.command("WATCH", "k")
    limit(world, "allkeys-random", 0.5)
    peer.command("PING")
    assert tracker.replies() == [b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"]
    assert watcher.transaction(("PING",)) == b"*-1\r\n"


def test_readers_of_a_stream_that_is_deleted_wait_no_longer() -> None:
    world = InProcess()
    peer = world.peer()
    peer.command("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    reader = world.blocked("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    limit(world, "allkeys-lru", 0.5)
    peer.command("PING")
    assert not reader.is_waiting
    assert reader.replies()[0].startswith(b"-")
    world.assert_nothing_left()


def test_other_databases_too_and_none_twice_after_a_flush() -> None:
    world = InProcess()
    peer = world.peer()
    fill(peer, 50)
    peer.command("SELECT", 3)
    fill(peer, 50)
    limit(world, "allkeys-random", 0.9)
    settle(world, peer)
    peer.command("FLUSHDB")
    fill(peer, 50)
    world.set("maxmemory", 1)
    settle(world, peer)
    peer.command("PING")
    assert world.engine.keyspace.used_bytes == 0
    assert peer.command("DBSIZE") == b":0\r\n"


def test_evicted_keys_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    store.keyspace.may_pack = False  # as with this policy from the start
    fill(peer, 200)
    store.fold()  # the tables have them all, the journal has the deletions
    limit(world, "allkeys-lru", 0.5)
    settle(world, peer)
    left = names(peer)
    assert 50 < len(left) < 101
    store.abandon()
    store = FileStore(path)
    database = store.keyspace.databases[0]
    assert {name.decode() for name in scanning.names(store.keyspace, database.space)} == left
    store.close()


def test_keys_that_a_start_left_in_the_file_count_and_go(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    config = {"appendfsync": "no", "maxmemory-policy": "allkeys-lru"}  # packs no keys
    fill(InProcess(config, store).peer(), 1000)
    used = store.keyspace.used_bytes
    store.close()
    store = FileStore(path)
    world = InProcess(config | {"maxmemory": str(used // 2)}, store)
    peer, cron = world.peer(), Cron(world.engine)
    world.clock.advance(10)
    peer.command("SET", "key:77", "x" * 100)
    for _ in range(40):
        world.clock.advance(0.1)
        cron.tick()
    database = store.keyspace.databases[0]
    assert database.space.cold == 0
    assert store.keyspace.used_bytes <= used // 2
    assert 400 < len(database) <= 500
    assert peer.command("EXISTS", "key:77") == b":1\r\n"
    assert store.keyspace.evicted == 1000 - len(database)
    cron.stop()
    world.engine.turn.end()
    store.close()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_lowering_the_limit_takes_effect_without_commands(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    fill(world.peer(), 500)
    limit(world, "allkeys-random", 0.1)
    cron = Cron(world.engine)
    for _ in range(20):
        cron.tick()
    assert world.engine.keyspace.used_bytes <= world.engine.config.maxmemory
    world.engine.turn.end()
    store.close()


@pytest.mark.parametrize("policy", [*DELETING, "volatile-ttl"])
def test_keys_that_were_packed_before_the_policy_began_go_at_once(
    policy: str, tmp_path: Path
) -> None:
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    fill(peer, 1000, "EX", "1000")
    store.fold()
    assert store.keyspace.databases[0].space.packed_count == 1000
    limit(world, policy, 0.2)
    fill(peer, 100, "EX", "1000", prefix="more")  # none of them is refused
    settle(world, peer)
    assert store.keyspace.used_bytes <= world.engine.config.maxmemory
    check_counts(store.keyspace)
    world.engine.turn.end()
    store.close()


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu"])
def test_packed_keys_that_wait_go_before_keys_in_use(policy: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    fill(peer, 1000, "EX", "100000")
    fill(peer, 100, "EX", "100000", prefix="packed")
    store.fold()
    world.clock.advance(1000)
    for number in range(100):
        peer.command("GET", f"packed:{number}")  # used, and still packed
    fill(peer, 50, "EX", "100000", prefix="hot")
    assert store.keyspace.databases[0].space.packed_count == 1100
    limit(world, policy, 0.7)
    settle(world, peer)
    assert store.keyspace.used_bytes <= world.engine.config.maxmemory
    for prefix, count, fewest in (("hot", 50, 50), ("packed", 100, 80)):
        left = [peer.command("EXISTS", f"{prefix}:{number}") for number in range(count)]
        assert left.count(b":1\r\n") >= fewest
    check_counts(store.keyspace)
    world.engine.turn.end()
    store.close()


def test_volatile_lru_leaves_packed_keys_without_expiry(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    fill(peer, 100, prefix="stays")
    fill(peer, 100, "EX", "1000")
    store.fold()
    limit(world, "volatile-lru", 0.001)
    settle(world, peer)
    assert store.keyspace.evicted == 100
    assert peer.command("DBSIZE") == b":100\r\n"
    assert peer.command("SET", "new", "x") == OOM
    world.engine.turn.end()
    store.close()


def test_volatile_ttl_takes_packed_keys_in_the_order_of_their_expiry(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer, other = world.peer(), world.peer()
    other.command("SUBSCRIBE", "__keyevent@0__:evicted")
    world.set("notify-keyspace-events", "Ee")
    ttls = list(range(1000, 2000))
    random.Random(1).shuffle(ttls)
    for ttl in ttls:
        peer.command("SET", f"{ttl}", "x", "EX", ttl)
    store.fold()
    for ttl in range(1000, 1500, 2):  # these are not packed any more
        peer.command("APPEND", f"{ttl}", "x")
    limit(world, "volatile-ttl", 0.9)
    settle(world, peer)
    gone = [int(message.split(b"\r\n")[-2]) for message in other.replies()]
    assert len(gone) > 50
    assert gone == list(range(1000, 1000 + len(gone)))
    world.engine.turn.end()
    store.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_random_policy_spares_neither_packed_keys_nor_others(seed: int, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    world.engine.rng.seed(seed)
    peer = world.peer()
    fill(peer, 900)
    store.fold()
    fill(peer, 100, prefix="hot")
    limit(world, "allkeys-random", 0.7)
    settle(world, peer)
    hot = [peer.command("EXISTS", f"hot:{number}") for number in range(100)]
    assert 20 < hot.count(b":1\r\n") < 100
    world.engine.turn.end()
    store.close()
