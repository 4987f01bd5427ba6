"""Many usual changes are one, and mean the same as they would one by one."""

import random
from pathlib import Path

import msgspec
import pytest

from holdfast.crdt.causal_log import decode
from holdfast.crdt.effects import ADD, ADDS, OVERWRITES, REMOVE, WRITE, WRITES, frozen
from holdfast.store.change.ops import STRINGS
from holdfast.store.replicated.record_builder import NEXT_DOT, KeyChange, RecordBuilder, one_by_one
from holdfast.store.store import FileStore
from tests.harness.rawclient import Argument
from tests.replication.nodes import Node, sync

DOT = 7 * NEXT_DOT + 1
WRITES_OF_TWO: list[KeyChange] = [
    (0, b"a", "string", (WRITE, None, DOT, 5, b"x", (), ())),
    (0, b"b", "string", (WRITE, None, DOT + NEXT_DOT, 5, b"y", (NEXT_DOT + 2,), ())),
]
ADDS_OF_TWO: list[KeyChange] = [
    (0, b"a", "string", (ADD, None, DOT, 0, 0, 3)),
    (0, b"b", "string", (ADD, None, DOT + NEXT_DOT, 4, 10, 12)),
]
REMOVAL: KeyChange = (0, b"a", "string", (REMOVE, None, (DOT,), (), 0))


def told(changes: list[KeyChange]) -> list[KeyChange]:
    told = RecordBuilder()
    for change in changes:
        told.add(change[0], change[1], change[2], change[3])
    return told.changes


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        (WRITES_OF_TWO, 1),
        (ADDS_OF_TWO, 1),
        ([WRITES_OF_TWO[0], ADDS_OF_TWO[1]], 2),
        ([WRITES_OF_TWO[0], (1, *WRITES_OF_TWO[1][1:])], 2),  # of another database
        ([WRITES_OF_TWO[1], WRITES_OF_TWO[0]], 2),  # dots that do not follow each other
        ([WRITES_OF_TWO[0], REMOVAL, WRITES_OF_TWO[1]], 3),  # order is kept
        ([(0, b"a", "hash", WRITES_OF_TWO[0][3])], 1),  # no run
        ([(0, b"a", "string", (WRITE, None, DOT, 5, b"x", (1, 2), ()))], 1),
        ([(0, b"a", "string", (WRITE, None, DOT, 5, b"x", (), ((1, 2, 3),)))], 1),
    ],
)
def test_a_run_is_what_it_was_made_of(changes: list[KeyChange], count: int) -> None:
    made = told(changes)
    assert len(made) == count
    assert list(one_by_one(made)) == changes
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(made))
    assert frozen(list(one_by_one(sent))) == tuple(changes)


def test_a_string_that_changes_twice_is_in_the_record_once() -> None:
    made = RecordBuilder()
    for change in WRITES_OF_TWO:
        made.add(change[0], change[1], change[2], change[3])
    assert made.again(WRITES, DOT, b"z")
    assert not made.again(ADDS, DOT, 1), "the run is one of writes"
    assert not made.again(WRITES, DOT + 1, b"z"), "somebody else's"
    assert not made.again(WRITES, DOT - NEXT_DOT, b"z"), "before the run"
    assert not made.again(WRITES, DOT + 2 * NEXT_DOT, b"z"), "not told yet"
    assert [change[3][4] for change in one_by_one(made.changes)] == [b"z", b"y"]
    made.add(REMOVAL[0], REMOVAL[1], REMOVAL[2], REMOVAL[3])
    assert not made.again(WRITES, DOT, b"x"), "the run is over"
    for change in ADDS_OF_TWO:
        made.add(change[0], change[1], change[2], change[3])
    assert made.again(ADDS, DOT + NEXT_DOT, 13)
    assert [change[3][5] for change in one_by_one(made.changes[-1:])] == [3, 13]


def test_an_earlier_write_of_the_author_is_not_named() -> None:
    made, dot = RecordBuilder(), DOT
    made.overwrite(0, b"a", DOT, 5, b"x", 3 * NEXT_DOT + 1)
    made.overwrite(0, b"b", DOT + NEXT_DOT, 5, b"y", 4 * NEXT_DOT + 1)
    assert made.again(WRITES, DOT, b"z")
    assert not made.again(ADDS, DOT, 1)
    made.count(0, b"c", DOT + 2 * NEXT_DOT, 5, 10, 11)
    made.count(0, b"d", DOT + 3 * NEXT_DOT, 6, 20, 22)
    assert made.again(ADDS, DOT + 3 * NEXT_DOT, 23)
    assert not made.again(WRITES, DOT + 3 * NEXT_DOT, b"x")
    assert [change[3] for change in made.changes] == [
        (OVERWRITES, DOT, 5, [b"a", b"z", b"b", b"y"]),
        (ADDS, DOT + 2 * NEXT_DOT, [b"c", 5, 10, 11, b"d", 6, 20, 23]),
    ]
    expected: list[KeyChange] = []
    for name, value in ((b"a", b"z"), (b"b", b"y")):
        expected.append((0, name, "string", (WRITE, None, dot, 5, value, None, ())))
        dot += NEXT_DOT
    for name, last, until_now, now in ((b"c", 5, 10, 11), (b"d", 6, 20, 23)):
        expected.append((0, name, "string", (ADD, None, dot, last, until_now, now)))
        dot += NEXT_DOT
    assert list(one_by_one(made.changes)) == expected


def test_a_run_that_names_it_goes_on() -> None:
    """Where several write to the same strings, there are as few runs as before."""
    made = RecordBuilder()
    made.overwrite(0, b"a", DOT, 5, b"x", 3 * NEXT_DOT + 1)
    made.write(0, b"b", DOT + NEXT_DOT, 5, b"y", 4 * NEXT_DOT + 2)
    made.overwrite(0, b"c", DOT + 2 * NEXT_DOT, 5, b"z", 5 * NEXT_DOT + 1)
    made.count(0, b"d", DOT + 3 * NEXT_DOT, 0, 0, 1)
    made.count(0, b"e", DOT + 4 * NEXT_DOT, 6, 10, 11)
    assert [change[3][0] for change in made.changes] == [OVERWRITES, WRITES, ADDS]
    effects = [change[3] for change in one_by_one(made.changes)]
    assert effects[2] == (WRITE, None, DOT + 2 * NEXT_DOT, 5, b"z", (5 * NEXT_DOT + 1,), ())
    assert effects[4] == (ADD, None, DOT + 4 * NEXT_DOT, 6, 10, 11)


def test_writes_of_one_turn_to_many_strings_are_one_change() -> None:
    node = Node(1)
    commands: list[list[Argument]] = [["SET", f"k{i}", i] for i in range(9)]
    node.client.pipeline(*commands)
    node.client.replies()
    assert len(decode(node.stage.log.read(0)).changes) == 1


@pytest.mark.parametrize("fold", [False, True])
def test_a_run_meets_strings_in_every_state(tmp_path: Path, fold: bool) -> None:
    """The usual value, none, one changed concurrently by another server, one of another type, one
    with a counter; from a peer and from the journal."""
    one, two = Node(1), Node(2, tmp_path / "two.db")
    for name in ("usual", "both", "typed", "counted", "gone"):
        one("SET", name, 10)
        one("INCR", f"{name}:n")
    sync(one, two)
    two("SET", "both", "theirs")
    two("INCR", "both:n")
    two("DEL", "typed", "typed:n", "gone", "gone:n")
    two("SADD", "typed", "member")
    two("SADD", "typed:n", "member")
    two("INCR", "counted")
    two("SET", "counted:n", 20)
    names = ("usual", "both", "typed", "counted", "gone", "new")
    one.clock.advance(1)
    writes: list[list[Argument]] = [["SET", name, 30] for name in names]
    adds: list[list[Argument]] = [["INCR", f"{name}:n"] for name in names]
    one.client.pipeline(*writes, *adds)
    one.client.replies()
    two.pull(one)
    two.check()
    two.restart(fold=fold)
    two.check()
    sync(one, two)
    assert two("GET", "both") == b"$2\r\n30\r\n"
    assert two("GET", "both:n") == b"$1\r\n3\r\n"
    assert two("GET", "counted:n") == b"$2\r\n21\r\n"
    two.close()


def rows_of_strings(node: Node) -> int:
    """In the journal."""
    assert isinstance(node.store, FileStore)
    return sum(op[0] == STRINGS for _, ops in node.store.journal.batches() for op in ops)


LARGE = "x" * 5000
USUAL: list[list[Argument]] = [
    ["SET", "s", "new"],
    ["INCRBY", "n", 5],
    ["APPEND", "s", "er"],
    ["SET", "large", LARGE],
    ["SETRANGE", "large", 0, "y"],
    ["DECR", "n"],
]
SEEN = {"s": b"newer", "n": b"5", "large": b"y" + LARGE[1:].encode()}


@pytest.mark.parametrize("forgotten", [False, True])
def test_strings_that_a_record_tells_are_recovered_from_it(tmp_path: Path, forgotten: bool) -> None:
    """Where they were written and where they were followed; also those that only the file had."""
    one, two = Node(1, tmp_path / "one.db"), Node(2, tmp_path / "two.db")
    for name in ("s", "large"):
        one("SET", name, "old")
    one("INCR", "n")
    sync(one, two)
    for node in (one, two):
        node.restart(fold=True)
        if not forgotten:
            node("MGET", *SEEN)
    one.client.pipeline(*USUAL)
    one.client.replies()
    sync(one, two)
    for node in (one, two):
        assert rows_of_strings(node) == 0
        for fold in (False, True):
            node.restart(fold=fold)
            node.check()
            for name, value in SEEN.items():
                assert node("GET", name) == b"$%d\r\n%b\r\n" % (len(value), value)
    one("INCR", "n")
    sync(one, two)
    assert two("GET", "n") == b"$1\r\n6\r\n"
    one.close()
    two.close()


def test_strings_that_come_go_move_and_expire_are_recovered(tmp_path: Path) -> None:
    one, two = Node(1, tmp_path / "one.db"), Node(2, tmp_path / "two.db")
    for name in ("gone", "moved", "typed", "expired", "kept"):
        one("SET", name, 1)
    sync(one, two)
    commands: list[list[Argument]] = [
        ["SET", "gone", 2],
        ["SET", "moved", 3],
        ["RENAME", "moved", "there"],
        ["INCR", "there"],
        ["SET", "typed", 5],
        ["DEL", "gone", "typed"],
        ["RPUSH", "typed", "x"],
        ["SET", "expired", 6, "PX", 10],
        ["SET", "kept", 7],
        ["EVAL", "redis.call('SET', 'kept', 8); redis.call('INCR', 'typed')", 0],
        ["SET", "made", 1],
        ["INCR", "made"],
    ]
    one.client.pipeline(*commands)
    one.client.replies()
    for node in (one, two):
        sync(one, two)
        for each in (one, two):
            each.clock.advance(0.02)
            each.tidy()
        node.restart()
        node.check()
        assert node("MGET", "there", "kept", "made") == b"*3\r\n$1\r\n4\r\n$1\r\n7\r\n$1\r\n2\r\n"
        assert node("EXISTS", "gone", "moved", "expired") == b":0\r\n"
        assert node("TYPE", "typed") == b"+list\r\n"
    one.close()
    two.close()


def test_a_watched_string_notices_changes_of_other_servers() -> None:
    one, two = Node(1), Node(2)
    one("SET", "s", 1)
    one("INCR", "n")
    sync(one, two)
    for name, command in (("s", ("SET", "s", 2)), ("n", ("INCR", "n"))):
        two("WATCH", name)
        two("MULTI")
        two("PING")
        one(*command)
        two.pull(one)
        assert two("EXEC") == b"*-1\r\n"


def test_several_servers_that_write_to_the_same_strings_agree(tmp_path: Path) -> None:
    """Each over its own writes, over writes of others, and over concurrent writes of others."""
    rng = random.Random(20)
    nodes = [Node(1), Node(2, tmp_path / "two.db"), Node(3)]
    names = [f"k{i}" for i in range(4)]
    for _ in range(60):
        node = rng.choice(nodes)
        commands: list[list[Argument]] = []
        for name in rng.choices(names, k=rng.randrange(1, 9)):
            number = rng.randrange(100)
            commands.append(
                rng.choice([["SET", name, number], ["INCR", f"{name}:n"], ["INCR", name]])
            )
        if rng.random() < 0.1:
            commands.append(["DEL", rng.choice(names), f"{rng.choice(names)}:n"])
        node.client.pipeline(*commands)
        node.client.replies()
        node.clock.advance(rng.random())
        if rng.random() < 0.4:
            node.pull(rng.choice([each for each in nodes if each is not node]))
        if rng.random() < 0.1:
            nodes[1].restart(fold=rng.random() < 0.5)
    sync(*nodes)
    nodes[1].close()
