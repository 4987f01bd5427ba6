"""Replica keys: the numbers of their kinds in files, and the memory that they take."""

import gc
from pathlib import Path
from typing import Any

from holdfast.crdt.cell import Cell
from holdfast.crdt.replicated_key import KINDS as CLASSES
from holdfast.crdt.replicated_value import ReplicatedValue
from holdfast.store.replicated.replica_keys import KINDS, NUMBERS, PIECES
from tests.replication.nodes import Node

IN_FILES = {
    "string": 8,
    "list": 9,
    "hash": 10,
    "set": 11,
    "zset": 12,
    "stream": 13,
    "hyperloglog": 14,
    "expiry": 15,
}


def test_existing_files_keep_their_numbers_when_a_kind_is_added() -> None:
    assert NUMBERS.items() >= IN_FILES.items()
    assert PIECES == 8


def test_every_kind_has_a_number() -> None:
    assert set(KINDS) == set(CLASSES)


def containers_of(node: Node, name: bytes) -> dict[int, Any]:
    """By id: the dicts, sets and lists of a replica key and of its values."""
    found: dict[int, Any] = {}
    todo: list[Any] = [node.stage.replica_keys.at((0, name))]
    while todo:
        for part in gc.get_referents(todo.pop()):
            if isinstance(part, dict | set | list):
                found[id(part)] = part
            elif isinstance(part, ReplicatedValue | Cell):
                todo.append(part)
    return found


def test_a_string_that_expires_shares_all_its_containers(tmp_path: Path) -> None:
    """A dict for one cell is larger than the cell. Five containers were more than half of the
    memory that such a key took until it was folded."""
    node = Node(1, tmp_path / "1.db")
    for name in ("a", "b"):
        node("SET", name, "x", "PX", 100_000)
    a, b = containers_of(node, b"a"), containers_of(node, b"b")
    assert a
    assert a.keys() == b.keys()
    node("HSET", "hash", "f", "x")
    node("HPEXPIRE", "hash", 100_000, "FIELDS", 1, "f")
    assert containers_of(node, b"hash").keys() - a.keys()
    assert {each: containers_of(node, b"a")[each] for each in a} == a
    node.close()
