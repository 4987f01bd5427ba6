"""Dicts that have an entry for each key do not all grow in one turn."""

import sys
from typing import Any

from holdfast.store.replicated.growth import SMALL, grow_one
from tests.replication.nodes import Node

KEYS_IN_TURN = 250


def test_at_most_one_dict_grows_in_a_turn() -> None:
    """Each of them has as many entries as there are keys, so all would be full at once."""
    node = Node(1)
    most = 0
    sizes: dict[int, int] = {}
    dicts: list[dict[Any, Any]] = []
    for start in range(0, 45_000, KEYS_IN_TURN):
        names = range(start, start + KEYS_IN_TURN)
        assert node("MSET", *[word for name in names for word in (name, "x")]) == b"+OK\r\n"
        dicts = [each for each in node.keyspace.dicts_by_key() if len(each) >= SMALL]
        before, sizes = sizes, {id(each): sys.getsizeof(each) for each in dicts}
        grown_together = sum(sizes[each] != before.get(each, sizes[each]) for each in sizes)
        most = max(most, grown_together)
    assert len(dicts) == 4
    assert most == 1


def test_a_dict_that_grew_early_keeps_its_entries() -> None:
    entries: dict[bytes, int] = {}
    grown = 0
    for number in range(50_000):
        entries[b"%d" % number] = number
        if grow_one([entries]):
            grown += 1
    assert entries == {b"%d" % number: number for number in range(50_000)}
    assert 1 <= grown <= 3
    assert not grow_one([{}, entries])
