"""Strings written one after the other are one operation of the journal, with the same result."""

import random
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast.errors import StorageError
from holdfast.store.change.ops import (
    FIRST_ID,
    KEYS,
    STRING_PARTS,
    STRINGS,
    Op,
    Run,
    row_op,
)
from holdfast.store.change.runs import (
    MANY_FIELD_RUNS,
    MANY_MEMBER_RUNS,
    NEW_KEY_RUNS,
    NEW_STRING_RUNS,
    RUNS,
    STRING_RUNS,
    rows_in,
)
from holdfast.store.check import check_file
from holdfast.store.file import journal
from holdfast.store.file.tables import ROWS
from holdfast.store.memory.database import LARGE_STRING
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.store import FileStore, open_store
from holdfast.store.values.list import List

A, B = FIRST_ID, FIRST_ID + 1


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    store = FileStore(tmp_path / "a.db")
    for name in (b"a", b"b"):
        store.keyspace.databases[0].set_string(name, b"at first")
    store.commit()
    return store


def reopened(store: FileStore) -> FileStore:
    """As after a crash."""
    store.abandon()
    return FileStore(store.path)


def singles(keyspace: Keyspace) -> list[Op]:
    return [single for op in keyspace.ops for single in rows_in(op)]


def contents(store: FileStore) -> list[bytes | None]:
    return store.keyspace.databases[0].read_strings([b"a", b"b"])


def test_strings_that_are_written_one_after_the_other_are_one_operation(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    for name, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
        database.set_string(name, value)
    assert store.keyspace.ops == [Run((STRING_RUNS, 0, None, [A, b"1", B, b"2", A, b"3"]))]
    assert store.commit() == 3
    *_, (_, ops) = store.journal.batches()
    assert ops == [
        row_op(STRINGS, A, None, b"1"),
        row_op(STRINGS, B, None, b"2"),
        row_op(STRINGS, A, None, b"3"),
    ]
    store = reopened(store)
    assert contents(store) == [b"3", b"2"]
    store.close()


def test_each_batch_and_whatever_comes_between_has_a_run_of_its_own(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    key = database.set_string(b"a", b"1")
    database.set_expiry(key, 1 << 50)
    database.set_string(b"a", b"2", keep_ttl=True)
    tables = [op[0] for op in store.keyspace.ops]
    assert tables == [STRING_RUNS, KEYS, STRING_RUNS]
    store.commit()
    database.set_string(b"b", b"3")
    store.commit()
    assert [len(ops) for _, ops in store.journal.batches()] == [4, 3, 1]
    store = reopened(store)
    assert contents(store) == [b"2", b"3"]
    store.close()


@pytest.mark.parametrize("fails", [True, False])
def test_writes_of_a_script_are_not_mixed_with_earlier_ones(store: FileStore, fails: bool) -> None:
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    database.set_string(b"a", b"before")
    before = singles(keyspace)
    changes = keyspace.changes
    savepoint = Savepoint(keyspace)
    for name in (b"a", b"b", b"b"):
        database.set_string(name, b"within")
    if fails:
        savepoint.roll_back()
        assert singles(keyspace) == before
        assert keyspace.changes == changes
    else:
        savepoint.keep()
    database.set_string(b"b", b"after")
    store.commit()
    store = reopened(store)
    assert contents(store) == [b"before" if fails else b"within", b"after"]
    store.close()


def test_earlier_writes_are_committed_without_those_of_the_script(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"a", b"before")
    savepoint = Savepoint(store.keyspace)
    database.set_string(b"a", b"within")
    savepoint.let_earlier_go(lambda: assert_committed(store))
    database.set_string(b"b", b"within")
    savepoint.roll_back()
    assert store.keyspace.ops == []
    store = reopened(store)
    assert contents(store) == [b"before", b"at first"]
    store.close()


def assert_committed(store: FileStore) -> None:
    assert store.commit() >= 1


def test_a_command_that_breaks_off_within_a_run_has_changed_something(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"a", b"1")
    before = store.keyspace.changes
    database.set_string(b"a", b"2")
    assert store.keyspace.changes > before
    store.close()


def test_a_run_too_large_for_a_row_is_several_in_one_transaction(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST_ROW", 1000)
    database = store.keyspace.databases[0]
    for number in range(20):
        database.set_string(b"ab"[number % 2 :][:1], b"%d" % (number % 10) * 400)
    store.commit()
    assert len(list(store.journal.batches())) > 5
    store = reopened(store)
    assert contents(store) == [b"8" * 400, b"9" * 400]
    store.close()


def test_new_strings_are_one_operation_as_long_as_nothing_comes_between(store: FileStore) -> None:
    keyspace = store.keyspace
    one, other = keyspace.databases[:2]
    one.set_string(b"c", b"1")
    one.set_string(b"d", b"2")
    other.set_string(b"e", b"3")
    one.set_string(b"f", b"4")
    one.create_as(b"list", List)[1].push_right([b"x"], keyspace)
    one.set_string(b"g", b"5")
    one.set_string(b"h", b"6", 1 << 50)
    one.set_string(b"i", b"7" * LARGE_STRING)
    runs = [op for op in keyspace.ops if op[0] == NEW_STRING_RUNS]
    first = FIRST_ID + 2
    assert runs == [
        Run((NEW_STRING_RUNS, first, 0, [b"c", b"1", b"d", b"2"])),
        Run((NEW_STRING_RUNS, first + 2, 1, [b"e", b"3"])),
        Run((NEW_STRING_RUNS, first + 3, 0, [b"f", b"4"])),
        Run((NEW_STRING_RUNS, first + 5, 0, [b"g", b"5"])),
    ]
    assert store.commit() == 16, "two for each string, and two for the list"
    assert check_file(store.path) == []
    store = reopened(store)
    found = store.keyspace.databases[0].read_strings([b"c", b"d", b"f", b"g", b"h", b"i"])
    assert found == [b"1", b"2", b"4", b"5", b"6", b"7" * LARGE_STRING]
    assert store.keyspace.databases[1].read_string(b"e") == b"3"
    store.close()


@pytest.mark.parametrize("fails", [True, False])
def test_new_strings_of_a_script_are_not_mixed_with_earlier_ones(
    store: FileStore, fails: bool
) -> None:
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    database.set_string(b"c", b"before")
    savepoint = Savepoint(keyspace)
    database.set_string(b"d", b"within")
    if fails:
        savepoint.roll_back()
    else:
        savepoint.keep()
    database.set_string(b"e", b"after")
    store.commit()
    store.fold()
    store = reopened(store)
    found = store.keyspace.databases[0].read_strings([b"c", b"d", b"e"])
    assert found == [b"before", None if fails else b"within", b"after"]
    store.close()


def write_journal(path: Path, *batches: list[Op]) -> None:
    connection = apsw.Connection(str(path))
    for ops in batches:
        row = msgspec.msgpack.encode(ops)
        connection.execute("INSERT INTO journal SELECT max(lsn) + 1, ? FROM journal", (row,))
    connection.close()


def test_a_journal_that_has_no_runs_yet_is_read(store: FileStore) -> None:
    store.abandon()
    write_journal(
        store.path,
        [row_op(STRINGS, A, None, b"old"), row_op(STRINGS, B, None, b"old")],
        [Run((STRING_RUNS, 0, None, [A, b"new", A, b"newer"])), row_op(STRINGS, B, None, b"new")],
    )
    assert check_file(store.path) == []
    store = FileStore(store.path)
    assert contents(store) == [b"newer", b"new"]
    store.fold()
    store = reopened(store)
    assert contents(store) == [b"newer", b"new"]
    store.close()


@pytest.mark.parametrize("node", [0, 1])
def test_a_journal_with_operations_of_a_later_version_is_refused(
    store: FileStore, node: int
) -> None:
    store.abandon()
    write_journal(store.path, [Run((max(*ROWS, *RUNS, STRING_PARTS) + 1, 0, None, [A, b"v"]))])
    with pytest.raises(StorageError, match="newer"):
        open_store(str(store.path), node=node)


@pytest.mark.parametrize(
    "run",
    [
        *((STRING_RUNS, 0, None, parts) for parts in ([A], [b"a", b"v"], [A, 5], 7, None)),
        *((NEW_STRING_RUNS, A, 0, parts) for parts in ([b"a"], [A, b"v"], [b"a", 5], 7, None)),
        (NEW_STRING_RUNS, A, None, [b"a", b"v"]),
        *((NEW_KEY_RUNS, A, kind, [b"a"]) for kind in (None, [0], [None, "set"], [0, 5])),
        *((NEW_KEY_RUNS, A, [0, "set"], parts) for parts in ([5], 7, None)),
        *(
            (MANY_FIELD_RUNS, 0, None, parts)
            for parts in ([A, b"f", b"v"], [b"a", b"f", b"v", 1], 7)
        ),
        *((MANY_MEMBER_RUNS, 0, None, parts) for parts in ([A, b"m"], [b"a", b"m", 1], None)),
    ],
)
def test_a_run_that_makes_no_sense_is_found(store: FileStore, run: tuple[object, ...]) -> None:
    store.abandon()
    write_journal(store.path, [Run(run)])
    assert any("cannot be read" in problem for problem in check_file(store.path))


# -- several at once --------------------------------------------------------------------------

NAMES = [b"a", b"b", b"c", b"d", b"missing", b"list", b"expiring", b"expired", b"large"]


def a_keyspace() -> Keyspace:
    keyspace = Keyspace()
    keyspace.now_ms = 1000
    database = keyspace.databases[0]
    for name in (b"a", b"b", b"c", b"d"):
        database.set_string(name, b"at first")
    database.set_string(b"expiring", b"v", 2000)
    database.set_string(b"expired", b"v", 1000)
    database.set_string(b"large", b"v" * LARGE_STRING)
    database.create_as(b"list", List)[1].push_right([b"x"], keyspace)
    return keyspace


def told(keyspace: Keyspace) -> tuple[object, ...]:
    hot = keyspace.databases[0].space.keys
    return (
        singles(keyspace),
        {
            name: (key.id, key.expires_at_ms, key.accessed_s, key.dirty_in_fold)
            for name, key in hot.items()
        },
        {name: key.value for name, key in hot.items() if name != b"list"},
        [key.name for key in keyspace.fold_state.dirty_strings],
        (keyspace.used_bytes, keyspace.dirty, keyspace.hits, keyspace.misses, keyspace.changes),
    )


@pytest.mark.parametrize("seed", range(60))
def test_several_strings_at_once_are_set_as_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    names = NAMES[: rng.choice([4, 4, 5, 9])]
    at_once, one_at_a_time = a_keyspace(), a_keyspace()
    watching = rng.random() < 0.2
    for keyspace in (at_once, one_at_a_time):
        if watching:
            keyspace.databases[0].watched[b"a"] = set()
    for now_s in range(1, 6):
        argv = [b"mset"]
        for _ in range(rng.randint(1, 8)):
            argv += (rng.choice(names), rng.choice([b"", b"v", b"x" * LARGE_STRING]))
            if rng.random() < 0.8:
                argv[-1] = b"%d" % rng.randrange(1000)
        looked_for = rng.choices(NAMES, k=5)
        for keyspace in (at_once, one_at_a_time):
            keyspace.now_s = now_s
            if now_s == 3:
                keyspace.ops.clear()  # a batch is over, and
                keyspace.begin_fold()
        at_once.databases[0].set_strings(argv)
        values = at_once.databases[0].read_strings(looked_for)
        database = one_at_a_time.databases[0]
        for at in range(1, len(argv), 2):
            database.set_string(argv[at], argv[at + 1])
            one_at_a_time.dirty += 1
        keys = [database.read(name) for name in looked_for]
        assert values == [
            key.value if key is not None and isinstance(key.value, bytes) else None for key in keys
        ]
        assert told(at_once) == told(one_at_a_time)
