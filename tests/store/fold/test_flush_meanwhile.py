"""FLUSHALL while a pass of the fold runs: nothing of the keys that went is written later."""

from pathlib import Path

import pytest

from holdfast.store.check import check
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List

MANY = 600  # more than a pass collects in one step


@pytest.mark.parametrize("kind", [Hash, List])
def test_a_new_key_that_changed_while_a_pass_ran(tmp_path: Path, kind: type[Hash | List]) -> None:
    store = FileStore(tmp_path / "a.db")
    keyspace = store.keyspace
    database = keyspace.databases[0]

    def change(name: bytes, element: bytes) -> None:
        value = database.find_or_create_as(name, kind)
        if isinstance(value, Hash):
            value.set(element, b"v", keyspace)
        else:
            value.push_right([element], keyspace)

    for number in range(MANY):
        change(b"k%d" % number, b"first")
    store.commit()
    store.fold_step()  # the pass has collected some of the keys, and not the last
    change(b"k%d" % (MANY - 1), b"second")
    database.flush()
    store.commit()
    while keyspace.freeing.step():
        pass
    store.fold()
    store.close()
    assert check(tmp_path / "a.db").problems == []


@pytest.mark.parametrize("kind", [bytes, Hash, List])
def test_a_new_key_moves_to_a_database_that_is_flushed_while_a_pass_runs(
    tmp_path: Path, kind: type[bytes | Hash | List]
) -> None:
    """The database shows a space that the pass does not know, and the pass writes the key."""
    store = FileStore(tmp_path / "a.db")
    keyspace = store.keyspace
    source, target, other = keyspace.databases[:3]
    for database in (target, other):
        database.set_string(b"old", b"v")
    store.commit()
    store.fold()
    other.flush()  # so the pass looks which spaces are shown
    for number in range(MANY):
        source.set_string(b"k%d" % number, b"v")
    if kind is bytes:
        source.set_string(b"moved", b"v")
    elif kind is Hash:
        source.find_or_create_as(b"moved", Hash).set(b"f", b"v", keyspace)
    else:
        source.find_or_create_as(b"moved", List).push_right([b"v"], keyspace)
    store.commit()
    store.fold_step()  # the pass has collected some of the keys, and not the last
    target.flush()
    moved = source.find(b"moved")
    assert moved is not None
    source.move(moved, target, b"moved")
    store.commit()
    store.fold()
    store.close()
    assert check(tmp_path / "a.db").problems == []
    store = FileStore(tmp_path / "a.db")
    moved = store.keyspace.databases[1].find(b"moved")
    assert moved is not None
    if kind is bytes:
        assert moved.value == b"v"
    else:
        assert len(moved.value) == 1
    assert [len(database) for database in store.keyspace.databases[:3]] == [MANY, 1, 0]
    store.close()
    assert check(tmp_path / "a.db").problems == []
