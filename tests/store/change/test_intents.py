"""Intents stand beside the operations of a batch, and say in front of which one they belong."""

from pathlib import Path

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.intents import ADDED, ChangeIntent, ListEndIntent
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from tests.replication.nodes import Node, sync


def stating_log() -> ChangeLog:
    log = ChangeLog()
    log.states_intents = True
    return log


def test_an_intent_knows_the_operation_that_it_explains() -> None:
    log = stating_log()
    value = Hash(2000)
    value.set(b"n", b"1", log)
    value.add_to(b"n", 5, b"6", log)
    [intent] = log.intents
    assert isinstance(intent, ChangeIntent)
    assert (intent.before, intent.what, intent.data) == (1, ADDED, 5)
    assert len(log.ops) == 2


def test_intents_alone_are_changes() -> None:
    log = stating_log()
    changes = log.changes
    List(2000).push_left([b"a"], log)
    assert log.ops == []
    assert [type(intent) for intent in log.intents] == [ListEndIntent]
    assert log.changes > changes


def test_a_log_that_states_none_has_none() -> None:
    log = ChangeLog()
    Hash(2000).add_to(b"n", 5, b"5", log)
    List(2001).push_left([b"a"], log)
    assert log.intents == []


def commit(node: Node) -> None:
    assert node.store.commit()


@pytest.mark.parametrize("is_kept", [True, False])
def test_intents_of_a_script_are_kept_or_go_with_it(tmp_path: Path, is_kept: bool) -> None:
    """Also where the batch before the script is committed while it runs, so that the numbers of
    its operations change."""
    one, two = Node(1, tmp_path / "1.db"), Node(2)
    one("RPUSH", "list", "a", "b", "c")
    one("HSET", "hash", "n", 1)
    database = one.keyspace.databases[0]
    _, elements = database.find_as(b"list", List) or pytest.fail("it is there")
    _, fields = database.find_as(b"hash", Hash) or pytest.fail("it is there")
    elements.push_right([b"before"], one.keyspace)
    fields.add_to(b"n", 1, b"2", one.keyspace)
    savepoint = Savepoint(one.keyspace)
    elements.push_left([b"pushed"], one.keyspace)
    elements.insert(b"b", b"inserted", True, one.keyspace)
    fields.add_to(b"n", 10, b"12", one.keyspace)
    savepoint.let_earlier_go(lambda: commit(one))
    elements.set(0, b"set", one.keyspace)
    if is_kept:
        savepoint.keep()
    else:
        savepoint.roll_back()
        assert not one.keyspace.open_ops
    one.engine.turn.end()
    sync(one, two)
    expected = (
        ["set", "a", "inserted", "b", "c", "before"] if is_kept else ["a", "b", "c", "before"]
    )
    assert two("LRANGE", "list", 0, -1) == one("LRANGE", "list", 0, -1)
    assert two.client.command("LRANGE", "list", 0, -1).split(b"\r\n")[2::2] == [
        element.encode() for element in expected
    ]
    assert two("HGET", "hash", "n") == (b"$2\r\n12\r\n" if is_kept else b"$1\r\n2\r\n")
    assert one.digest() == two.digest()
    one.close()
