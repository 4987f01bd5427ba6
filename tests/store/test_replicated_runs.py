"""Many usual changes are one, and mean the same as they would one by one."""

from pathlib import Path

import msgspec
import pytest

from holdfast.crdt.effects import ADD, REMOVE, WRITE, frozen
from holdfast.crdt.log import decode
from holdfast.store.replicated_runs import NEXT_DOT, Change, Told, one_by_one
from tests.harness.rawclient import Argument
from tests.replication.nodes import Node, sync

DOT = 7 * NEXT_DOT + 1
WRITES_OF_TWO: list[Change] = [
    (0, b"a", "string", (WRITE, None, DOT, 5, b"x", (), ())),
    (0, b"b", "string", (WRITE, None, DOT + NEXT_DOT, 5, b"y", (NEXT_DOT + 2,), ())),
]
ADDS_OF_TWO: list[Change] = [
    (0, b"a", "string", (ADD, None, DOT, 0, 0, 3)),
    (0, b"b", "string", (ADD, None, DOT + NEXT_DOT, 4, 10, 12)),
]
REMOVAL: Change = (0, b"a", "string", (REMOVE, None, (DOT,), (), 0))


def told(changes: list[Change]) -> list[Change]:
    told = Told()
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
def test_a_run_is_what_it_was_made_of(changes: list[Change], count: int) -> None:
    made = told(changes)
    assert len(made) == count
    assert list(one_by_one(made)) == changes
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(made))
    assert frozen(list(one_by_one(sent))) == tuple(changes)


def test_what_one_turn_does_to_many_strings_is_one_change() -> None:
    node = Node(1)
    commands: list[list[Argument]] = [["SET", f"k{i}", i] for i in range(9)]
    node.client.pipeline(*commands)
    node.client.replies()
    assert len(decode(node.replication.log.at(0).data).changes) == 1


@pytest.mark.parametrize("fold", [False, True])
def test_a_run_meets_strings_in_every_state(tmp_path: Path, fold: bool) -> None:
    """The usual one, none, one that somebody else changed at the same time, one of another type,
    one that was counted on; from the line and from the journal."""
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
