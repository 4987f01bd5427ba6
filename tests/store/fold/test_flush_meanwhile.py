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
