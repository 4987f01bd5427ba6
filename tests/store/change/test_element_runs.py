"""Fields of hashes and members of sets that come one after the other are one operation of the
journal, and are folded from memory: each once, as it is, and only if the journal has it."""

import random
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.store.change.ops import FIRST_ID, HASH_FIELDS, SET_MEMBERS, Run, row_op
from holdfast.store.change.runs import (
    FIELD_RUNS,
    MANY_FIELD_RUNS,
    MANY_MEMBER_RUNS,
    MEMBER_RUNS,
)
from holdfast.store.check import check_file
from holdfast.store.file import journal
from holdfast.store.fold import fold, pending_rows
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.store import FileStore, MemoryStore, open_store
from holdfast.store.values.hash import Hash
from holdfast.store.values.set import Set
from tests.store.refusal import refusing_writes

LATER_MS = 1 << 50

# By name of the hash and of the field: value and expiry.
Contents = dict[bytes | None, dict[bytes, tuple[bytes, int | None]]]


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    store = FileStore(tmp_path / "a.db")
    hash_of(store).set(b"a", b"at first", store.keyspace)
    store.commit()
    return store


def hash_of(store: FileStore | MemoryStore, name: bytes = b"h") -> Hash:
    return store.keyspace.databases[0].find_or_create_as(name, Hash)


def reopened(store: FileStore) -> FileStore:
    """As after a crash."""
    store.abandon()
    return FileStore(store.path)


def folded(store: FileStore) -> Contents:
    """The rows of the tables, in order; None for a key that they do not have."""
    sql = (
        "SELECT name, element, text, at_ms FROM (SELECT key_id, field element, value text,"
        " expires_at_ms at_ms, ordinal FROM redis_hash_fields"
        " UNION ALL SELECT key_id, member, X'', NULL, ordinal FROM redis_set_members)"
        " LEFT JOIN redis_keys ON id = key_id ORDER BY ordinal"
    )
    found: Contents = {}
    with closing(apsw.Connection(str(store.path), apsw.SQLITE_OPEN_READONLY)) as connection:
        for name, element, text, at_ms in connection.execute(sql):
            found.setdefault(name, {})[element] = (text, at_ms)
    return found


def contents(store: FileStore) -> Contents:
    found: Contents = {}
    for name in (b"h", b"i", b"s", b"t"):
        key = store.keyspace.databases[0].find(name)
        value = None if key is None else key.value
        if isinstance(value, Hash):
            found[name] = {
                field: (text, value.expires_at_ms(field)) for field, text in value.items.items()
            }
        elif isinstance(value, Set):
            found[name] = dict.fromkeys(value, (b"", None))
    return found


def tables(store: FileStore) -> list[int]:
    return [op[0] for op in store.keyspace.ops]


# -- the journal ------------------------------------------------------------------------------


def test_fields_that_are_set_one_after_the_other_are_one_operation(store: FileStore) -> None:
    keyspace, value = store.keyspace, hash_of(store)
    for name in (b"a", b"b", b"a"):
        value.set(name, b"v" + name, keyspace)
    run = [b"a", b"va", 1, b"b", b"vb", 2, b"a", b"va", 1]
    assert keyspace.ops == [Run((FIELD_RUNS, value.id, None, run))]
    assert store.commit() == 3
    *_, (_, ops) = store.journal.batches()
    assert ops == [
        row_op(HASH_FIELDS, value.id, name, (b"v" + name, ordinal, None))
        for name, ordinal in ((b"a", 1), (b"b", 2), (b"a", 1))
    ]
    assert hash_of(reopened(store)).items == {b"a": b"va", b"b": b"vb"}


def test_whatever_comes_between_ends_a_run(store: FileStore) -> None:
    keyspace, value, other = store.keyspace, hash_of(store), hash_of(store, b"other")
    keyspace.ops.clear()
    value.set(b"a", b"1", keyspace)
    other.set(b"a", b"1", keyspace)
    value.set(b"a", b"2", keyspace)
    value.remove(b"a", keyspace)
    value.set(b"a", b"3", keyspace)
    value.set_expiry(b"a", LATER_MS, keyspace)
    value.set(b"a", b"4", keyspace, keep_expiry=True)
    value.set(b"a", b"5", keyspace)
    one, run, many = HASH_FIELDS, FIELD_RUNS, MANY_FIELD_RUNS
    assert tables(store) == [many, one, run, one, one, run]


def test_fields_of_several_hashes_are_one_operation(store: FileStore) -> None:
    keyspace, values = store.keyspace, [hash_of(store, name) for name in (b"h", b"i", b"j")]
    keyspace.ops.clear()
    before = keyspace.changes
    for value in values:
        value.set(b"a", b"v", keyspace)
    values[2].set(b"b", b"w", keyspace)
    run = [word for value in values for word in (value.id, b"a", b"v", 1)]
    run += [values[2].id, b"b", b"w", 2]
    assert keyspace.ops == [Run((MANY_FIELD_RUNS, 0, None, run))]
    assert keyspace.changes == before + 4


def test_a_hash_with_several_fields_in_a_run_keeps_its_run(store: FileStore) -> None:
    keyspace, value, other = store.keyspace, hash_of(store), hash_of(store, b"other")
    keyspace.ops.clear()
    value.set(b"a", b"1", keyspace)
    value.set(b"b", b"2", keyspace)
    other.set(b"a", b"1", keyspace)
    value.set(b"a", b"3", keyspace)
    assert keyspace.ops == [
        Run((FIELD_RUNS, value.id, None, [b"a", b"1", 1, b"b", b"2", 2])),
        Run((MANY_FIELD_RUNS, 0, None, [other.id, b"a", b"1", 1, value.id, b"a", b"3", 1])),
    ]


def test_a_run_too_large_for_a_row_is_several_in_one_transaction(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST_ROW", 1000)
    value = hash_of(store)
    for number in range(50):
        value.set(b"%d" % number, b"v" * 100, store.keyspace)
    store.commit()
    assert len(list(store.journal.batches())) > 5
    assert len(hash_of(reopened(store))) == 51


@pytest.mark.parametrize("fails", [True, False])
def test_writes_of_a_script_are_not_mixed_with_earlier_ones(store: FileStore, fails: bool) -> None:
    keyspace, value = store.keyspace, hash_of(store)
    value.set(b"a", b"before", keyspace)
    savepoint = Savepoint(keyspace)
    for name in (b"a", b"b"):
        value.set(name, b"within", keyspace)
    hash_of(store, b"new").set(b"a", b"within", keyspace)
    if fails:
        savepoint.roll_back()
        assert tables(store) == [FIELD_RUNS]
    else:
        savepoint.keep()
    value.set(b"c", b"after", keyspace)
    store.commit()
    within = {b"a": b"within", b"b": b"within", b"c": b"after"}
    expected = {b"a": b"before", b"c": b"after"} if fails else within
    assert value.items == expected
    store = reopened(store)
    assert hash_of(store).items == expected
    store.fold()
    assert {name: len(found) for name, found in folded(store).items()} == (
        {b"h": 2} if fails else {b"h": 3, b"new": 1}
    )
    assert check_file(store.path) == []


@pytest.mark.parametrize("run", [[b"a"], [b"a", b"v"], 7, None])
def test_a_run_that_makes_no_sense_is_found(tmp_path: Path, run: object) -> None:
    store = FileStore(tmp_path / "b.db")
    hash_of(store).set(b"a", b"v", store.keyspace)
    store.keyspace.ops.append(Run((FIELD_RUNS, FIRST_ID, None, run)))
    store.commit()
    store.abandon()
    assert any("cannot be read" in problem for problem in check_file(store.path))


# -- the fold ---------------------------------------------------------------------------------


def test_a_field_that_changed_often_is_one_row_with_its_last_value(store: FileStore) -> None:
    value = hash_of(store)
    for number in range(100):
        value.set(b"a", b"%d" % number, store.keyspace)
        store.commit()
    assert store.keyspace.fold_state.dirty_element_count == 1
    store.fold()
    assert folded(store) == {b"h": {b"a": (b"99", None)}}
    assert store.keyspace.fold_state.dirty_elements == []
    assert store.keyspace.fold_state.dirty_element_count == 0


def test_of_a_field_the_last_change_counts_whatever_it_is(store: FileStore) -> None:
    keyspace, value = store.keyspace, hash_of(store)
    value.set(b"b", b"1", keyspace)
    value.set_expiry(b"b", LATER_MS, keyspace)
    value.set(b"b", b"2", keyspace)  # which ends its expiry
    value.set(b"c", b"1", keyspace)
    value.set_expiry(b"c", LATER_MS, keyspace)
    value.set(b"d", b"1", keyspace)
    value.remove(b"d", keyspace)
    value.remove(b"a", keyspace)
    value.set(b"a", b"again", keyspace)
    store.commit()
    store.fold()
    expected = {b"b": (b"2", None), b"c": (b"1", LATER_MS), b"a": (b"again", None)}
    assert folded(store) == {b"h": expected}


@pytest.mark.parametrize("value", [b"1", b"2"])
def test_a_field_that_is_set_after_its_expiry_is_folded_as_it_is(
    store: FileStore, value: bytes
) -> None:
    store.fold()
    hash_of(store).set_expiry(b"a", LATER_MS, store.keyspace)
    hash_of(store).set(b"a", b"1", store.keyspace, keep_expiry=True)
    hash_of(store).set(b"a", value, store.keyspace)
    store.commit()
    store.fold()
    assert folded(store) == {b"h": {b"a": (value, None)}}


def test_an_open_batch_waits_while_fields_are_collected(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "COLLECTED_ROWS", 1)
    value = hash_of(store)
    for name in (b"a", b"b", b"c"):
        value.set(name, b"committed", store.keyspace)
    store.commit()
    store.fold_step()  # has collected the first
    savepoint = Savepoint(store.keyspace)
    value.set(b"c", b"not yet", store.keyspace)
    assert not store.may_fold
    for _ in range(10):
        store.fold_step()
    assert folded(store) == {}
    savepoint.roll_back()
    store.fold()
    assert folded(store) == {b"h": dict.fromkeys((b"a", b"b", b"c"), (b"committed", None))}


def test_a_field_that_changes_while_it_is_folded_is_folded_again(store: FileStore) -> None:
    key = store.keyspace.databases[0].space.keys[b"h"]
    store.fold_step()
    hash_of(store).set(b"a", b"second", store.keyspace)
    store.commit()
    assert store.keyspace.has_unwritten_value(key)
    store.fold()
    assert folded(store) == {b"h": {b"a": (b"second", None)}}
    assert not store.keyspace.has_unwritten_value(key)


def test_a_fold_that_fails_loses_no_field(store: FileStore) -> None:
    value = hash_of(store)
    value.set(b"b", b"1", store.keyspace)
    store.commit()
    with refusing_writes(store, "redis_hash_fields"), pytest.raises(StorageError):
        store.fold()
    assert store.keyspace.has_unwritten_value(store.keyspace.databases[0].space.keys[b"h"])
    assert store.keyspace.fold_state.dirty_element_count == 2
    value.set(b"b", b"2", store.keyspace)
    store.commit()
    store.fold()
    assert folded(store) == {b"h": {b"a": (b"at first", None), b"b": (b"2", None)}}


def test_a_hash_that_is_gone_leaves_nothing(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    store.fold()
    hash_of(store).set(b"b", b"v", store.keyspace)
    hash_of(store, b"new").set(b"b", b"v", store.keyspace)
    for name in (b"h", b"new"):
        key = database.find(name)
        assert key is not None
        database.remove(key)
    store.commit()
    store.fold()
    assert folded(store) == {}


def test_a_copy_that_a_script_takes_back_leaves_nothing(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    key = database.find(b"h")
    assert key is not None
    savepoint = Savepoint(store.keyspace)
    copy = database.copy(key, b"copy").value
    assert isinstance(copy, Hash)
    for name in (b"a", b"b"):
        copy.set(name, b"v", store.keyspace)
    savepoint.roll_back()
    hash_of(store).set(b"c", b"v", store.keyspace)
    store.commit()
    store.fold()
    assert folded(store) == {b"h": {b"a": (b"at first", None), b"c": (b"v", None)}}


def test_stores_without_a_fold_or_with_replication_keep_no_note(tmp_path: Path) -> None:
    """A store in memory has no fold, and replication needs the operations one by one."""
    for store in (MemoryStore(), open_store(str(tmp_path / "replicated.db"), node=1)):
        hash_of(store).set(b"a", b"v", store.keyspace)
        set_of(store).add(b"a", store.keyspace)
        runs = {FIELD_RUNS, MEMBER_RUNS, MANY_FIELD_RUNS, MANY_MEMBER_RUNS}
        assert not runs & {op[0] for op in store.keyspace.ops}
        store.commit()
        assert store.keyspace.fold_state.dirty_elements == []
        store.close()


# -- sets -------------------------------------------------------------------------------------


def set_of(store: FileStore | MemoryStore, name: bytes = b"s") -> Set:
    return store.keyspace.databases[0].find_or_create_as(name, Set)


def test_members_that_are_added_one_after_the_other_are_one_operation(store: FileStore) -> None:
    keyspace, value = store.keyspace, set_of(store)
    keyspace.ops.clear()
    for member in (b"a", b"b", b"a"):
        value.add(member, keyspace)
    value.remove(b"a", keyspace)
    value.add(b"a", keyspace)
    assert keyspace.ops == [
        Run((MEMBER_RUNS, value.id, None, [b"a", 1, b"b", 2])),
        row_op(SET_MEMBERS, value.id, b"a", None),
        Run((MEMBER_RUNS, value.id, None, [b"a", 3])),
    ]


def test_members_of_several_sets_and_fields_do_not_share_a_run(store: FileStore) -> None:
    keyspace, value = store.keyspace, hash_of(store)
    sets = [set_of(store, name) for name in (b"s", b"t")]
    keyspace.ops.clear()
    for each in sets:
        each.add(b"m", keyspace)
    value.set(b"a", b"1", keyspace)
    sets[0].add(b"n", keyspace)
    assert keyspace.ops == [
        Run((MANY_MEMBER_RUNS, 0, None, [sets[0].id, b"m", 1, sets[1].id, b"m", 1])),
        Run((FIELD_RUNS, value.id, None, [b"a", b"1", 1])),
        Run((MEMBER_RUNS, sets[0].id, None, [b"n", 2])),
    ]


# -- any life ---------------------------------------------------------------------------------


def change(rng: random.Random, store: FileStore, model: Contents, text: bytes) -> None:
    """One element of a hash or a set, or all of it, which may become two."""
    keyspace, name = store.keyspace, rng.choice((b"h", b"i", b"s", b"t"))
    elements, element = model.setdefault(name, {}), rng.choice((b"a", b"b", b"c", b"d"))
    what = rng.randrange(6)
    value: Hash | Set
    if name in (b"s", b"t"):
        value = set_of(store, name)
        if what < 4:
            assert value.add(element, keyspace) == (element not in elements)
            elements.setdefault(element, (b"", None))
    else:
        value = hash_of(store, name)
        _, was_at_ms = elements.get(element, (b"", None))
        if what < 3:
            keep = bool(rng.randrange(2))
            value.set(element, text, keyspace, keep_expiry=keep)
            elements[element] = (text, was_at_ms if keep else None)
        elif what == 3 and element in elements:
            at_ms = rng.choice((None, LATER_MS))
            value.set_expiry(element, at_ms, keyspace)
            elements[element] = (elements[element][0], at_ms)
    if what == 4:
        value.remove(element, keyspace)
        elements.pop(element, None)
    database = keyspace.databases[0]
    twin = {b"h": b"i", b"i": b"h", b"s": b"t", b"t": b"s"}[name]
    if not elements or (what == 5 and twin in model):
        database.remove(database.space.keys[name])
        del model[name]
    elif what == 5:
        database.copy(database.space.keys[name], twin)
        model[twin] = dict(elements)


def in_order(contents: Contents) -> list[tuple[bytes, list[tuple[bytes, object]]]]:
    return sorted((name or b"none", [*elements.items()]) for name, elements in contents.items())


@pytest.mark.parametrize("seed", range(30))
def test_memory_journal_and_tables_say_the_same(
    store: FileStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With scripts that fail, folds at any moment, and crashes; also in which order it came."""
    for module, name in (
        (fold, "COLLECTED_ROWS"),
        (fold, "SLICE_ROWS"),
        (pending_rows, "SORTED_ROWS"),
    ):
        monkeypatch.setattr(module, name, 2)
    rng = random.Random(seed)
    model: Contents = {b"h": {b"a": (b"at first", None)}}
    for step in range(400):
        fails = rng.random() < 0.1
        before = {name: dict(elements) for name, elements in model.items()}
        savepoint = Savepoint(store.keyspace) if fails or rng.random() < 0.1 else None
        for _ in range(rng.randrange(1, 4)):
            change(rng, store, model, b"%d" % step)
        if savepoint is not None and fails:
            savepoint.roll_back()
            model = before
        elif savepoint is not None:
            savepoint.keep()
        if rng.randrange(2):
            store.commit()
            for _ in range(rng.randrange(4)):
                store.fold_step()
            if rng.random() < 0.2:
                store.fold()
                assert in_order(folded(store)) == in_order(model), step
            if rng.random() < 0.05:
                store = reopened(store)
        assert in_order(contents(store)) == in_order(model), step
    store.commit()
    store.fold()
    assert check_file(store.path) == []
    assert in_order(contents(reopened(store))) == in_order(model)
