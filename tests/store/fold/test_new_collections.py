"""Hashes and sets of new keys are read as a whole while they are small. No change is lost when they
grow, while a pass runs, after a pass that broke off, or after a crash."""

import random
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.insertion_order import MOST_WHOLE
from holdfast.store.values.set import Set
from tests.store.consistency import check_counts, check_settled
from tests.store.refusal import refusing_writes

Model = dict[bytes, dict[bytes, bytes]]  # by key: fields and values; of a set, values are empty


def read_all(store: FileStore) -> Model:
    database = store.keyspace.databases[0]
    found: Model = {}
    for name in [b"h%d" % number for number in range(6)] + [b"s%d" % number for number in range(6)]:
        key = database.find(name)
        if key is None:
            continue
        value = key.value
        if isinstance(value, Hash):
            found[name] = value.items
        else:
            assert isinstance(value, Set)
            found[name] = dict.fromkeys(value, b"")
    return found


def rows_of(store: FileStore) -> Model:
    """What the tables have."""
    found: Model = {}
    for name, field, value in store._connection.execute(
        "SELECT CAST(name AS BLOB), CAST(field AS BLOB), CAST(value AS BLOB)"
        " FROM redis_hash_fields JOIN redis_names ON id = key_id"
    ):
        found.setdefault(name, {})[field] = value
    for name, member in store._connection.execute(
        "SELECT CAST(name AS BLOB), CAST(member AS BLOB)"
        " FROM redis_set_members JOIN redis_names ON id = key_id"
    ):
        found.setdefault(name, {})[member] = b""
    return found


def change(store: FileStore, model: Model, rnd: random.Random) -> None:
    database, log = store.keyspace.databases[0], store.keyspace
    number = rnd.randrange(6)
    name = rnd.choice([b"h%d", b"s%d"]) % number
    kind: type[Hash | Set] = Hash if name.startswith(b"h") else Set
    what = rnd.random()
    if name in model and what < 0.05:
        key = database.find(name)
        assert key is not None
        database.remove(key)
        del model[name]
    elif name in model and what < 0.2:
        element = rnd.choice(list(model[name]))
        key = database.find(name)
        assert key is not None
        assert isinstance(key.value, Hash | Set)
        key.value.remove(element, log)
        del model[name][element]
        if not model[name]:
            database.remove(key)
            del model[name]
    else:
        value = database.find_or_create_as(name, kind)
        elements = model.setdefault(name, {})
        for _ in range(rnd.choice([1, 1, 2, MOST_WHOLE])):  # some pass the bound at once
            element = b"%d" % rnd.randrange(2 * MOST_WHOLE)
            if isinstance(value, Hash):
                elements[element] = b"%d" % rnd.randrange(1000)
                value.set(element, elements[element], log)
            else:
                elements[element] = b""
                value.add(element, log)


@pytest.mark.parametrize("seed", range(12))
def test_random_lives_of_new_collections(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    store = FileStore(tmp_path / "a.db")
    model: Model = {}
    for _ in range(60):
        for _ in range(rnd.randrange(6)):
            change(store, model, rnd)
            if rnd.random() < 0.5:
                store.commit()
        store.commit()
        what = rnd.random()
        if what < 0.5:
            for _ in range(rnd.randrange(12)):
                store.fold_step()
        elif what < 0.6:
            table = rnd.choice(["redis_hash_fields", "redis_names", "redis_set_members", "journal"])
            with refusing_writes(store, table):
                try:
                    store.fold()
                except StorageError:
                    pass  # there may be nothing to write to it
        elif what < 0.7:
            store.fold()
            assert rows_of(store) == model
        elif what < 0.8:
            store.abandon()
            assert check_file(store.path) == []
            store = FileStore(store.path)
        assert read_all(store) == model
    store.fold()
    assert rows_of(store) == model
    check_counts(store.keyspace)
    store.close()
    check_settled(store.path)
    assert check_file(store.path) == []
    store = FileStore(store.path)
    assert read_all(store) == model
    store.close()


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("grown", [1, MOST_WHOLE, 5 * MOST_WHOLE])
def test_elements_that_come_while_the_pass_runs_are_written(
    tmp_path: Path, steps: int, grown: int
) -> None:
    store = FileStore(tmp_path / "a.db")
    database, log = store.keyspace.databases[0], store.keyspace
    value = database.find_or_create_as(b"h0", Hash)
    value.set(b"first", b"v", log)
    store.commit()
    for _ in range(steps):
        store.fold_step()
    value = database.find_or_create_as(b"h0", Hash)
    for number in range(grown):
        value.set(b"%d" % number, b"v", log)
    store.commit()
    store.fold()
    assert rows_of(store) == {b"h0": {b"first": b"v"} | {b"%d" % n: b"v" for n in range(grown)}}
    store.close()


def test_a_small_new_hash_is_noted_nowhere_but_among_new_keys(tmp_path: Path) -> None:
    """Else each new hash would take a list and a tuple more, and a search in the pass."""
    store = FileStore(tmp_path / "a.db")
    database, log = store.keyspace.databases[0], store.keyspace
    value = database.find_or_create_as(b"h", Hash)
    for number in range(MOST_WHOLE):
        value.set(b"%d" % number, b"v", log)
    assert log.fold_state.dirty_elements == []
    value.set(b"one more", b"v", log)
    ((noted, names),) = log.fold_state.dirty_elements
    assert noted is value
    assert len(names) == MOST_WHOLE + 1
    store.commit()
    store.close()


def test_rows_of_new_hashes_of_which_some_have_fields_that_expire(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    keyspace = store.keyspace
    expected = []
    for number in range(9):
        value = keyspace.databases[0].find_or_create_as(b"h%d" % number, Hash)
        for name in (b"c", b"a", b"b")[: number % 3 + 1]:
            value.set(name, b"v" + name, keyspace)
        expires_at_ms = 1 << 42 if number in (3, 5) else None
        if expires_at_ms:
            value.set_expiry(b"c", expires_at_ms, keyspace)
        for ordinal, name in enumerate((b"c", b"a", b"b")[: number % 3 + 1], 1):
            row = (value.id, name, b"v" + name, ordinal, expires_at_ms if name == b"c" else None)
            expected.append(row)
    store.commit()
    store.fold()
    rows = store._connection.execute(
        "SELECT key_id, field, value, ordinal, expires_at_ms FROM redis_hash_fields"
    )
    assert list(rows) == sorted(expected)
    store.close()
    assert check_file(store.path) == []
