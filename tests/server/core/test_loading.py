"""A large cold collection is loaded in slices: other clients run between them, and the command that
touched it runs when it is in memory."""

from pathlib import Path

import pytest

from holdfast.server.core.cron import Cron
from holdfast.server.core.loading import MOST_WAITS
from holdfast.store.file.tables import SLICE_BLOCKS, SLICE_ROWS
from holdfast.store.memory.loads import ABREAST
from tests.harness.in_process import Peer
from tests.harness.rawclient import Argument
from tests.server.core.cold import (
    COUNT,
    STREAM_COUNT,
    ColdServer,
    Command,
    fill,
    is_loading,
    write_file,
)
from tests.store.consistency import check_counts, check_settled

BIG = "big"
SLICES = {
    "hash": COUNT // SLICE_ROWS,
    "set": COUNT // SLICE_ROWS,
    "zset": COUNT // SLICE_ROWS,
    "stream": STREAM_COUNT // 32 // SLICE_BLOCKS,
}
TOUCHES: dict[str, list[tuple[Command, bytes]]] = {
    "hash": [
        (("HGET", BIG, "f7"), b"$2\r\nv7\r\n"),
        (("HSET", BIG, "f7", "x", "new", "y"), b":1\r\n"),
        (("HINCRBY", BIG, "n", 3), b":3\r\n"),
        (("HDEL", BIG, "f7", "none"), b":1\r\n"),
        (("HEXISTS", BIG, "f9"), b":1\r\n"),
    ],
    "set": [
        (("SISMEMBER", BIG, "m7"), b":1\r\n"),
        (("SADD", BIG, "m7", "new"), b":1\r\n"),
        (("SREM", BIG, "m7"), b":1\r\n"),
        (("SINTERCARD", 2, BIG, "none"), b":0\r\n"),
    ],
    "zset": [
        (("ZSCORE", BIG, "m1"), b"$2\r\n31\r\n"),
        (("ZADD", BIG, 5, "new"), b":1\r\n"),
        (("ZRANGE", BIG, 0, 0), b"*1\r\n$2\r\nm0\r\n"),
        (("ZPOPMIN", BIG), b"*2\r\n$2\r\nm0\r\n$1\r\n0\r\n"),
        (("BZPOPMIN", BIG, 0), b"*3\r\n$3\r\nbig\r\n$2\r\nm0\r\n$1\r\n0\r\n"),
        (("ZRANK", BIG, "m0"), b":0\r\n"),
    ],
    "stream": [
        (("XRANGE", BIG, "1-8", "1-8"), b"*1\r\n*2\r\n$3\r\n1-8\r\n*2\r\n$1\r\nf\r\n$2\r\nv7\r\n"),
        (("XADD", BIG, "2-1", "f", "v"), b"$3\r\n2-1\r\n"),
        (("XDEL", BIG, "1-8"), b":1\r\n"),
    ],
}
KINDS = list(TOUCHES)
EACH_TOUCH = [(kind, *touch) for kind, touches in TOUCHES.items() for touch in touches]


def ints(reply: bytes) -> int:
    return int(reply[1:])


def size(server: ColdServer, kind: str, name: str = BIG) -> int:
    command = {"hash": "HLEN", "set": "SCARD", "zset": "ZCARD", "stream": "XLEN"}[kind]
    return ints(server.peer().command(command, name))


# -- others run meanwhile ------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "command", "reply"), EACH_TOUCH)
def test_other_clients_run_in_every_turn_of_a_load(
    tmp_path: Path, kind: str, command: Command, reply: bytes
) -> None:
    server = ColdServer(tmp_path / "a.db", *fill(kind, BIG))
    peer, other = server.waiting(*command), server.peer()
    turns = 0
    while is_loading(peer):
        other.send("INCR", "turns")
        assert server.turn()
        turns += 1
        assert server.engine.commands.stats["incr"].calls == turns
    assert turns >= SLICES[kind]
    assert peer.replies() == [reply]
    assert other.replies() == [b":%d\r\n" % number for number in range(1, turns + 1)]
    server.assert_no_load_left()
    check_counts(server.engine.keyspace)
    server.store.close()
    check_settled(tmp_path / "a.db")


@pytest.mark.parametrize("kind", KINDS)
def test_a_collection_of_one_slice_is_loaded_at_once(tmp_path: Path, kind: str) -> None:
    count = SLICE_ROWS - 1
    commands = fill(kind, BIG, count)[: SLICE_BLOCKS * 20]
    server = ColdServer(tmp_path / "a.db", *commands)
    peer = server.peer()
    peer.send(*TOUCHES[kind][0][0])
    assert not is_loading(peer)
    assert len(peer.replies()) == 1


def test_a_hash_of_few_large_fields_is_loaded_in_slices(tmp_path: Path) -> None:
    fields = [("HSET", BIG, f"f{n}", "x" * 100_000) for n in range(20)]
    server = ColdServer(tmp_path / "a.db", *fields)
    assert server.turns_until_answered(server.waiting("HGET", BIG, "f7")) >= 5


def test_the_commands_of_one_client_keep_their_order(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    peer = server.peer()
    peer.pipeline(("SET", "a", 1), ("HGET", BIG, "f7"), ("INCR", "a"), ("HLEN", BIG))
    server.turn_until_loading(peer)
    peer.send("PING")
    other = server.peer()
    other.send("GET", "a")
    replies = [b"+OK\r\n", b"$2\r\nv7\r\n", b":2\r\n", b":%d\r\n" % COUNT, b"+PONG\r\n"]
    assert peer.replies() == replies
    assert other.replies() == [b"$1\r\n1\r\n"]


def test_clients_that_touch_one_key_wait_for_one_load(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("set", BIG))
    peers = [server.waiting("SADD", BIG, "new")]
    server.turn()
    peers += [server.waiting("SADD", BIG, "new") for _ in range(3)]
    assert len(server.engine.keyspace.loads) == 1
    assert [peer.replies() for peer in peers] == [[b":1\r\n"]] + [[b":0\r\n"]] * 3
    server.assert_no_load_left()


def test_a_command_waits_for_all_its_keys_together(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    server = ColdServer(tmp_path / "a.db", *[fill("set", name)[0] for name in names])
    peer = server.waiting("SINTERCARD", 3, *names)
    assert len(server.engine.keyspace.loads) == 3
    assert peer.replies() == [b":%d\r\n" % COUNT]
    assert server.engine.commands.stats["sintercard"].calls == 1
    assert (server.engine.keyspace.hits, server.engine.keyspace.misses) == (3, 0)


def test_a_key_that_is_overwritten_is_not_loaded(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("set", "a"), *fill("hash", BIG))
    peer = server.waiting("SUNIONSTORE", BIG, "a")
    assert len(server.engine.keyspace.loads) == 1
    assert peer.replies() == [b":%d\r\n" % COUNT]


def test_of_a_hundred_collections_few_are_loaded_in_part(tmp_path: Path) -> None:
    fills = [fill("set", f"s{n}", 3 * SLICE_ROWS)[0] for n in range(100)]
    server = ColdServer(tmp_path / "a.db", *fills)
    peers = [server.waiting("SADD", f"s{n}", "new") for n in range(100)]
    while server.turn():
        half = [load for load in server.engine.keyspace.loads.pending if load.value is not None]
        assert sum(len(load.value or b"") > SLICE_ROWS for load in half) <= ABREAST
    assert [peer.replies() for peer in peers] == [[b":1\r\n"]] * 100
    server.assert_no_load_left()


def test_a_small_collection_does_not_wait_for_a_huge_one(tmp_path: Path) -> None:
    huge = fill("set", "huge", 20 * SLICE_ROWS)
    server = ColdServer(tmp_path / "a.db", *huge, *fill("set", "small", SLICE_ROWS + 1))
    first, second = server.waiting("SADD", "huge", "x"), server.waiting("SADD", "small", "x")
    server.turns_until_answered(second)
    assert is_loading(first)
    assert first.replies() == [b":1\r\n"]


# -- what happens to the key meanwhile -----------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", [0, 2, 100])
def test_commands_that_need_the_row_only_do_not_wait(tmp_path: Path, kind: str, turns: int) -> None:
    server = ColdServer(tmp_path / "a.db", *fill(kind, BIG))
    waiting = server.waiting(*TOUCHES[kind][0][0])
    for _ in range(turns):
        server.turn()
    peer = server.peer()
    commands: list[Command] = [
        ("TYPE", BIG), ("EXISTS", BIG), ("TTL", BIG), ("EXPIRE", BIG, 100), ("PERSIST", BIG),
        ("RENAME", BIG, "other"), ("RENAME", "other", BIG),
    ]  # fmt: skip
    peer.pipeline(*commands)
    assert not is_loading(peer)
    assert waiting.replies() == [TOUCHES[kind][0][1]]
    assert peer.replies() == [
        b"+%s\r\n" % kind.encode(), b":1\r\n", b":-1\r\n", b":1\r\n", b":1\r\n",
        b"+OK\r\n", b"+OK\r\n",
    ]  # fmt: skip
    server.store.close()
    check_settled(tmp_path / "a.db")


ENDS: list[list[tuple[Argument, ...]]] = [
    [("DEL", BIG)],
    [("UNLINK", BIG)],
    [("FLUSHALL",)],
    [("FLUSHDB",)],
    [("SET", "x", "y"), ("RENAME", "x", BIG), ("DEL", BIG)],
    [("SET", BIG, "string"), ("DEL", BIG)],
    [("EXPIRE", BIG, -1)],
    [("MOVE", BIG, 1)],
    [("SWAPDB", 0, 1)],
    [("RENAME", BIG, "other")],
    [("EVAL", "redis.call('DEL', 'big')", 0)],
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("commands", ENDS, ids=lambda commands: commands[0][0])
def test_a_command_whose_key_is_gone_finds_no_key(
    tmp_path: Path, kind: str, commands: list[Command]
) -> None:
    server = ColdServer(tmp_path / "a.db", *fill(kind, BIG))
    adding = {
        "hash": ("HSET", BIG, "f7", "x"),
        "set": ("SADD", BIG, "m7"),
        "zset": ("ZADD", BIG, 1, "m7"),
        "stream": ("XADD", BIG, "1-2", "f", "v"),
    }  # fmt: skip
    waiting = server.waiting(*adding[kind])
    server.turn()
    server.peer().pipeline(*commands)
    assert waiting.replies() == [b"$3\r\n1-2\r\n" if kind == "stream" else b":1\r\n"]
    assert size(server, kind) == 1
    server.assert_no_load_left()
    while server.engine.keyspace.freeing.step():
        pass
    check_counts(server.engine.keyspace)
    server.store.close()
    check_settled(tmp_path / "a.db")


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_renamed_while_it_is_loaded_keeps_its_elements(
    tmp_path: Path, kind: str
) -> None:
    server = ColdServer(tmp_path / "a.db", *fill(kind, BIG))
    waiting = server.waiting(*TOUCHES[kind][0][0])
    server.turn()
    server.peer().send("RENAME", BIG, "other")
    waiting.replies()
    assert size(server, kind, "other") == (STREAM_COUNT if kind == "stream" else COUNT)
    check_counts(server.engine.keyspace)


def test_a_key_that_expires_while_it_is_loaded_is_missing(tmp_path: Path) -> None:
    fills = [*fill("hash", BIG), ("EXPIRE", BIG, 5)]
    for with_cron in (False, True):
        path = tmp_path / f"{with_cron}.db"
        server = ColdServer(path, *fills)
        cron = Cron(server.engine)
        waiting = server.waiting("HGET", BIG, "f7")
        server.turn()
        server.clock.advance(6)
        if with_cron:
            cron.tick()
        assert waiting.replies() == [b"$-1\r\n"]
        server.assert_no_load_left()
        cron.stop()
        server.store.close()
        check_settled(path)


def test_fields_that_expire_while_their_hash_is_loaded_are_gone(tmp_path: Path) -> None:
    fields = [f"f{n}" for n in range(COUNT // 2)]
    expiry: Command = ("HEXPIRE", BIG, 5, "FIELDS", len(fields), *fields)
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG), expiry)
    waiting = server.waiting("HGET", BIG, "f7")
    server.turn()
    server.clock.advance(6)
    assert waiting.replies() == [b"$-1\r\n"]
    assert size(server, "hash") == COUNT // 2
    check_counts(server.engine.keyspace)


def test_the_cron_loads_a_large_hash_with_expired_fields_in_slices(tmp_path: Path) -> None:
    expiry = ("HEXPIRE", BIG, 5, "FIELDS", 1, "f7")
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG), expiry)
    cron = Cron(server.engine)
    server.clock.advance(6)
    cron.tick()
    assert not server.is_hot(b"big")
    while server.turn():
        pass
    assert server.is_hot(b"big")
    cron.tick()
    assert size(server, "hash") == COUNT - 1
    cron.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fold_that_runs_during_a_load_harms_neither(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.db"
    server = ColdServer(path, *fill(kind, BIG), *fill("hash", "other"))
    peer = server.peer()
    peer.pipeline(("SADD", "s", *range(3 * SLICE_ROWS)), ("EXPIRE", BIG, 1000), ("DEL", "other"))
    peer.replies()
    waiting = server.waiting(*TOUCHES[kind][0][0])
    while is_loading(waiting):
        server.turn()
        server.store.commit()
        server.store.fold_step()
    assert waiting.replies() == [TOUCHES[kind][0][1]]
    check_counts(server.engine.keyspace)
    server.store.close()
    check_settled(path)


def test_a_reload_of_the_file_lets_waiting_commands_begin_anew(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("zset", BIG))
    waiting = server.waiting("ZSCORE", BIG, "m1")
    server.turn()
    server.peer().send("DEBUG", "RELOAD")
    assert waiting.replies() == [b"$2\r\n31\r\n"]
    server.assert_no_load_left()


# -- transactions, scripts, clients that wait ----------------------------------------------------


def test_exec_waits_for_the_keys_of_all_its_commands(tmp_path: Path) -> None:
    server = ColdServer(
        tmp_path / "a.db", *fill("hash", "h"), *fill("zset", "z"), ("SELECT", 1), *fill("set", "s")
    )
    peer = server.peer()
    peer.pipeline(
        ("MULTI",), ("SET", "a", 1), ("HGET", "h", "f7"), ("ZCARD", "z"), ("ZSCORE", "z", "m1"),
        ("SELECT", 1), ("SADD", "s", "new"), ("EXEC",),
    )  # fmt: skip
    server.turn_until_loading(peer)
    assert len(server.engine.keyspace.loads) == 3
    other = server.peer()
    other.send("EXISTS", "a")
    replies = peer.replies()
    assert replies[-1] == (b"*6\r\n+OK\r\n$2\r\nv7\r\n:%d\r\n$2\r\n31\r\n+OK\r\n:1\r\n" % COUNT)
    assert other.replies() == [b":0\r\n"]  # nothing of it had run
    server.assert_no_load_left()


def test_exec_does_not_load_what_it_only_removes(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", "h"), *fill("set", "s"))
    peer = server.peer()
    peer.pipeline(
        ("MULTI",), ("HLEN", "h"), ("EXPIRE", "h", 10), ("RENAME", "h", "g"), ("DEL", "g", "s"),
        ("EXEC",),
    )  # fmt: skip
    while server.turn():
        assert not is_loading(peer)
    assert peer.replies()[-1] == b"*4\r\n:%d\r\n:1\r\n+OK\r\n:2\r\n" % COUNT


def test_a_watched_key_that_changes_while_exec_waits_breaks_the_transaction(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    peer = server.peer()
    peer.pipeline(("WATCH", "a"), ("MULTI",), ("HSET", BIG, "new", 1), ("EXEC",))
    server.turn_until_loading(peer)
    server.peer().send("SET", "a", 1)
    assert peer.replies()[-1] == b"*-1\r\n"
    assert size(server, "hash") == COUNT


def test_a_script_waits_for_its_keys_and_is_shown_once(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    monitor = server.peer()
    monitor.command("MONITOR")
    script = "redis.call('SET', 'a', 1) return redis.call('HGET', KEYS[1], 'f7')"
    peer = server.waiting("EVAL", script, 1, BIG)
    assert server.turns_until_answered(peer) >= SLICES["hash"]
    assert peer.replies() == [b"$2\r\nv7\r\n"]
    assert len(monitor.replies()) == 3  # the script and what it calls
    assert server.engine.commands.stats["eval"].calls == 1


def test_a_key_that_a_script_does_not_declare_is_loaded_at_once(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    waiting = server.waiting("HGET", BIG, "f9")
    server.turn()
    peer = server.peer()
    peer.send("EVAL", "return redis.call('HGET', 'big', 'f7')", 0)
    assert not is_loading(peer)
    assert peer.replies() == [b"$2\r\nv7\r\n"]
    assert waiting.replies() == [b"$2\r\nv9\r\n"]
    server.assert_no_load_left()


def test_a_client_that_waits_for_a_name_is_served_when_a_cold_key_gets_it(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("zset", BIG))
    first, second = server.blocked("BZPOPMIN", "q", 0), server.blocked("BZPOPMIN", "q", 0)
    server.peer().send("RENAME", BIG, "q")
    assert first.is_waiting
    assert not server.is_hot(b"q")
    assert first.replies() == [b"*3\r\n$1\r\nq\r\n$2\r\nm0\r\n$1\r\n0\r\n"]
    assert second.replies()
    server.assert_no_load_left()


# -- clients that leave, limits, faults ----------------------------------------------------------


def test_a_load_ends_with_the_last_client_that_waits_for_it(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    used_bytes = server.engine.keyspace.used_bytes
    peers = [server.waiting("HGET", BIG, "f7") for _ in range(3)]
    server.turn()
    peers[0].leave()
    peers[1].leave()
    assert len(server.engine.keyspace.loads.pending) == 1
    peers[2].leave()
    server.assert_no_load_left()
    server.turn()
    assert not server.is_hot(b"big")
    assert server.engine.keyspace.used_bytes - used_bytes < 1000
    assert server.peer().command("HGET", BIG, "f7") == b"$2\r\nv7\r\n"


def test_a_pause_that_begins_during_a_load_holds_the_command(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    waiting = server.waiting("HSET", BIG, "new", 1)
    server.peer().send("CLIENT", "PAUSE", 1000, "WRITE")
    assert waiting.replies() == []
    server.forget_clean_keys()
    assert server.is_hot(b"big")
    server.clock.advance(2)
    assert waiting.replies() == [b":1\r\n"]
    server.assert_no_load_left()


@pytest.mark.parametrize("kind", KINDS)
def test_memory_below_the_size_of_a_collection_does_not_keep_commands_waiting(
    tmp_path: Path, kind: str
) -> None:
    """Memory forgets all that it may after every turn."""
    server = ColdServer(tmp_path / "a.db", *fill(kind, BIG), *fill("set", "other"))
    for _ in range(3):
        command, reply = TOUCHES[kind][0]
        peers = [server.waiting(*command), server.waiting("SMISMEMBER", "other", "m1")]
        peers += [server.waiting(*command)]
        turns = 0
        while server.turn():
            server.forget_clean_keys()
            turns += 1
        assert turns < 200
        assert [peer.replies()[0] for peer in peers] == [reply, b"*1\r\n:1\r\n", reply]
        server.store.commit()
        server.store.fold()
        server.forget_clean_keys()
        assert not server.is_hot(b"big")
        server.assert_no_load_left()


def test_a_policy_that_deletes_loads_what_is_in_the_file_in_slices(tmp_path: Path) -> None:
    server = ColdServer(
        tmp_path / "a.db", *fill("hash", BIG), *fill("zset", "z"), ("SET", "a", 1),
        maxmemory="100mb", maxmemory_policy="allkeys-lru",
    )  # fmt: skip
    cron = Cron(server.engine)
    cron.tick()
    assert server.is_hot(b"a")
    assert not server.is_hot(b"big")
    while server.turn():
        pass
    assert server.is_hot(b"big")
    assert server.is_hot(b"z")
    server.assert_no_load_left()
    cron.stop()


def test_a_command_that_needs_ever_more_keys_loads_at_once_in_the_end(tmp_path: Path) -> None:
    """SORT names keys that its arguments do not."""
    hashes = [fill("hash", f"h{n}", 2 * SLICE_ROWS)[0] for n in range(MOST_WAITS + 3)]
    names = [str(n) for n in range(MOST_WAITS + 3)]
    server = ColdServer(tmp_path / "a.db", *hashes, ("RPUSH", "l", *names))
    peer = server.waiting("SORT", "l", "BY", "nosort", "GET", "h*->f7")
    (reply,) = peer.replies()
    assert reply.count(b"v7") == len(names)
    assert server.engine.commands.stats["sort"].calls == 1
    server.assert_no_load_left()


@pytest.mark.source_only
def test_a_collection_that_cannot_be_read_is_an_error_and_no_endless_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apsw

    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG), ("SET", "a", 1))
    tables = server.engine.keyspace.tables
    assert tables is not None
    read, slices = tables._slice, 0

    def fail(*args: object) -> object:
        nonlocal slices
        slices += 1
        if slices % 3 == 0:
            raise apsw.IOError("disk I/O error")
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "_slice", fail)
    waiting = server.waiting("HGET", BIG, "f7")
    (reply,) = waiting.replies()
    assert reply.startswith(b"-MISCONF")
    assert server.peer().command("GET", "a") == b"$1\r\n1\r\n"
    server.assert_no_load_left()


def test_a_file_whose_collections_were_loaded_by_half_is_whole(tmp_path: Path) -> None:
    """As after SIGKILL: the store is abandoned in the middle of the loads."""
    path = tmp_path / "a.db"
    write_file(path, *[command for kind in KINDS for command in fill(kind, kind)])
    for turns in (1, 4, 9):
        server = ColdServer(path)
        for kind in KINDS:
            name, _, *arguments = TOUCHES[kind][0][0]
            server.waiting(name, kind, *arguments)
        server.peer().send("SET", "a", turns)
        for _ in range(turns):
            server.turn()
        server.store.commit()
        server.store.abandon()
    server = ColdServer(path)
    assert server.peer().command("GET", "a") == b"$1\r\n9\r\n"
    for kind in KINDS:
        assert size(server, kind, kind) == (STREAM_COUNT if kind == "stream" else COUNT)
    server.store.close()
    check_settled(path)


def test_an_error_of_the_command_is_found_out_before_the_load(tmp_path: Path) -> None:
    server = ColdServer(tmp_path / "a.db", *fill("hash", BIG))
    peer = server.peer()
    peer.send("HINCRBY", BIG, "f", "x")
    assert not is_loading(peer)
    assert peer.replies()[0].startswith(b"-ERR value is not an integer")
    waiting: Peer = server.waiting("ZADD", BIG, 1, "m")
    assert waiting.replies()[0].startswith(b"-WRONGTYPE")
