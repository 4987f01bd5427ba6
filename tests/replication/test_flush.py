"""FLUSHALL on an active-active server is one effect, however many keys it removes.
(test_timelines.py tests it beside concurrent changes.)"""

from pathlib import Path

import pytest

from holdfast.crdt.causal_log import Record, encode
from holdfast.crdt.shapes import MalformedError
from tests.replication.nodes import Node, sync
from tests.replication.test_residue import rows_of


def fill(node: Node, count: int) -> None:
    for number in range(count):
        node("SET", f"string-{number}", number)
        node("INCR", f"counter-{number}")
        node("RPUSH", f"list-{number}", "a", "b")
        node("HSET", f"hash-{number}", "f", "v")


@pytest.mark.parametrize("fold", [False, True], ids=["killed", "closed"])
def test_keys_written_after_a_flush_and_a_restart_are_there(tmp_path: Path, fold: bool) -> None:
    """Also if the file has nothing any more by which ids could be known that are dead."""
    one = Node(1, tmp_path / "1.db")
    for number in range(3):
        for database in (0, 1, 2, 3):
            one("SELECT", database)
            fill(one, 3)
        one("FLUSHALL")
        one.restart(fold=fold)
        one("SELECT", 3)
        one("SET", "a", number)
        one("RPUSH", "b", number)
        for _ in range(2):
            one.restart(fold=fold)
            one("SELECT", 3)
            assert one("DBSIZE") == b":2\r\n"
            one.check()
            one.check_file()
        assert len(one.stage.replica_keys.addresses) == 2
    one.close()


@pytest.mark.parametrize("fold", [False, True], ids=["killed", "closed"])
def test_keys_that_survive_a_flush_survive_a_restart(tmp_path: Path, fold: bool) -> None:
    one, two = Node(1), Node(2, tmp_path / "2.db")
    fill(one, 3)
    sync(one, two)
    one("FLUSHALL")
    for name in ("counter-1", "counter-1"):
        two("INCR", name)
    two("RPUSH", "list-1", "c")
    two.restart(fold=fold)
    two.pull(one)
    for _ in range(3):
        two.check()
        two.check_file()
        assert two("GET", "counter-1") == b"$1\r\n2\r\n"
        assert two("LRANGE", "list-1", 0, -1) == b"*1\r\n$1\r\nc\r\n"
        assert two("DBSIZE") == b":2\r\n"
        two.restart(fold=fold)
    sync(one, two)
    two.close()


def test_of_many_keys_nothing_is_left_in_the_file(tmp_path: Path) -> None:
    """More keys than a slice of the fold removes at once; another database keeps its keys."""
    nodes = one, two = [Node(number, tmp_path / f"{number}.db") for number in (1, 2)]
    one("SELECT", 1)
    one("SET", "stays", "v")
    one("SELECT", 0)
    one("RPUSH", "long", *range(20_000))
    fill(one, 300)
    sync(*nodes)
    for node in nodes:
        node.restart(fold=True)
    two("FLUSHDB")
    sync(*nodes)
    for _ in range(2):
        for node in nodes:
            node.tidy()
        sync(*nodes)
    for node in nodes:
        node.restart(fold=True)
        assert node.stage.replica_keys.addresses == [(1, b"stays")]
        node.close()
        rows = rows_of(tmp_path / f"{node.number}.db")
        kept = ("crdt_keys", "crdt_rows", "redis_keys", "redis_names", "redis_strings")
        assert rows == dict.fromkeys(kept, 1)


def test_a_flush_in_the_middle_of_a_fold(tmp_path: Path) -> None:
    one, two = Node(1, tmp_path / "1.db"), Node(2)
    for round_ in range(4):
        fill(one, 50)
        sync(one, two)
        for _ in range(3 * round_):
            one.store.fold_step()
        (two if round_ % 2 else one)("FLUSHALL")
        sync(one, two)
        fill(one, 2)
        one.store.fold_step()
        one.check_file()
        one.restart(fold=bool(round_ % 2))
        assert one("DBSIZE") == b":8\r\n"
        one.check()
        one.check_file()
        sync(one, two)
    one.close()


def test_clients_hear_of_a_flush_elsewhere() -> None:
    """A client that watches a key, and one that waits for a stream that is removed."""
    one, two = Node(1), Node(2)
    one("SET", "k", "v")
    one("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    sync(one, two)
    two("WATCH", "k")
    waiter = two.another_client()
    waiter.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    one("FLUSHALL")
    two.pull(one)
    assert waiter.replies()[0].startswith(b"-")
    assert two.client.transaction(("SET", "other", "v")) == b"*-1\r\n"


@pytest.mark.parametrize("folded_before", [False, True])
def test_a_kill_at_every_step_of_the_fold(tmp_path: Path, folded_before: bool) -> None:
    """The tables may be ahead of the journal that is replayed, or behind it."""
    steps, is_done = 0, False
    while not is_done:
        one, two = Node(1, tmp_path / f"{steps}.db"), Node(2)
        fill(one, 3)
        sync(one, two)
        if folded_before:
            one.store.fold()
        fill(one, 3)
        two("FLUSHALL")
        one("INCR", "counter-2")
        one.pull(two)
        one("SET", "string-1", "new")
        for _ in range(steps):
            is_done = not one.store.fold_step()
        one.check_file()
        for _ in range(2):
            one.restart()
            one.check()
            one.check_file()
            assert one("GET", "string-1") == b"$3\r\nnew\r\n"
        sync(one, two)
        one.close()
        steps += 1
    assert steps > 5


@pytest.mark.parametrize("is_cold", [False, True], ids=["in memory", "in the file"])
def test_a_joiner_whose_log_does_not_reach_back(tmp_path: Path, is_cold: bool) -> None:
    """The node has counters from a snapshot, and then applies a flush that has seen less of them.
    The flush removes the part it has seen, even if its author had not loaded the counters."""
    one, two = Node(1, tmp_path / "1.db"), Node(2)
    one("INCRBY", "n", 5)
    one("HINCRBY", "h", "f", 5)
    one("ZINCRBY", "z", 5, "m")
    one("SET", "s", "v")
    for _ in range(2):
        sync(one, two)
        for node in (one, two):
            node.tidy()
    assert two.stage.log.base
    if is_cold:
        one.restart(fold=True)
    two("INCRBY", "n", 3)
    two("HINCRBY", "h", "f", 3)
    two("ZINCRBY", "z", 3, "m")
    joiner = Node(3)
    joiner.pull(two)
    assert joiner("GET", "n") == b"$1\r\n8\r\n"
    one("FLUSHALL")
    joiner.pull(one)
    sync(one, two, joiner)
    for node in (one, two, joiner):
        assert node("GET", "n") == b"$1\r\n3\r\n"
        assert node("HGET", "h", "f") == b"$1\r\n3\r\n"
        assert node("ZSCORE", "z", "m") == b"$1\r\n3\r\n"
        assert node("DBSIZE") == b":3\r\n"


@pytest.mark.parametrize(
    "effect",
    [
        (8,),
        (8, {1: 1}, (), 7),
        (8, {1: "x"}, (), 1 << 20),
        (8, {1: 1}, ((b"k", "list", None, 1, 1, 1),), 1 << 20),
        (8, {1: 1}, ((b"k", "string", None, 1, 1, "x"),), 1 << 20),
        (8, {1: 1}, 5, 1 << 20),
    ],
    ids=repr,
)
def test_a_malformed_flush_changes_nothing(effect: tuple[object, ...]) -> None:
    one = Node(1)
    one("SET", "k", "v")
    record = Record(2, 0, 1, 1, [(0, None, "flush", effect)])
    with pytest.raises(MalformedError):
        one.stage.inbound.apply(encode(record))
    assert one("GET", "k") == b"$1\r\nv\r\n"
    one.check()
