"""Parts of strings: the journal has what changed, and a string that nothing else holds is not
copied."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.store.change.ops import FIRST_ID, STRING_PARTS, STRINGS, row_op, string_part
from holdfast.store.check import check_file
from holdfast.store.file import journal
from holdfast.store.memory import string_parts
from holdfast.store.memory.key import Key, Space
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.memory.string_parts import SHORTEST_IN_PARTS, edit_a_copy
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess
from tests.store.refusal import refusing_writes

LONG = bytes(range(256)) * 40


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    store = FileStore(tmp_path / "a.db")
    store.keyspace.databases[0].set_string(b"k", LONG)
    store.commit()
    return store


def reopened(store: FileStore) -> FileStore:
    """As after a crash."""
    store.abandon()
    return FileStore(store.path)


def write(store: FileStore, offset: int, part: bytes, name: bytes = b"k") -> int:
    database = store.keyspace.databases[0]
    key = database.find_string_key(name)
    assert key is not None
    return database.write_part(key, offset, part)


def value(store: FileStore, name: bytes = b"k") -> bytes | None:
    return store.keyspace.databases[0].read_string(name)


def in_tables(store: FileStore) -> list[bytes]:
    with closing(apsw.Connection(str(store.path), apsw.SQLITE_OPEN_READONLY)) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM redis_strings")]


def sound(store: FileStore) -> bool:
    return not list(check_file(store.path))


# -- the journal ----------------------------------------------------------------------------------


def test_the_journal_has_the_part_and_not_the_string(store: FileStore) -> None:
    assert write(store, 100, b"part") == len(LONG)
    assert write(store, len(LONG), b"end") == len(LONG) + 3
    assert store.keyspace.ops == [
        string_part(FIRST_ID, 100, b"part"),
        string_part(FIRST_ID, len(LONG), b"end"),
    ]
    store.commit()
    assert sound(store)
    expected = LONG[:100] + b"part" + LONG[104:] + b"end"
    assert value(store) == expected
    store = reopened(store)
    assert value(store) == expected
    store.fold()
    assert in_tables(store) == [expected]
    store = reopened(store)
    assert value(store) == expected
    store.close()


def test_a_string_of_one_byte_may_be_the_part_that_is_put_into_it(store: FileStore) -> None:
    """Python has one object for each byte."""
    store.keyspace.databases[0].set_string(b"k", b"c")
    assert write(store, 879, b"c") == 880
    assert value(store) == b"c" + bytes(878) + b"c"


def test_a_short_string_is_written_as_a_whole(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"short", b"abc")
    store.commit()
    write(store, SHORTEST_IN_PARTS - 2, b"x", b"short")
    assert STRING_PARTS not in [op[0] for op in store.keyspace.ops]
    write(store, SHORTEST_IN_PARTS - 1, b"y", b"short")
    assert STRING_PARTS in [op[0] for op in store.keyspace.ops]
    store.commit()
    expected = b"abc".ljust(SHORTEST_IN_PARTS - 2, b"\0") + b"xy"
    store = reopened(store)
    assert value(store, b"short") == expected
    store.close()


def test_a_part_that_is_most_of_the_string_is_written_as_a_whole(store: FileStore) -> None:
    write(store, 0, b"x" * len(LONG))
    assert [op[0] for op in store.keyspace.ops] == [STRINGS]
    store.commit()


def test_a_whole_string_after_a_part_stands_behind_it(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"k", LONG + b"1")
    write(store, 0, b"part")
    database.set_string(b"k", LONG + b"2")  # must not take the place of the first
    write(store, 8, b"again")
    store.commit()
    expected = LONG[:8] + b"again" + LONG[13:] + b"2"
    assert value(store) == expected
    store = reopened(store)
    assert value(store) == expected
    store.close()


def test_a_batch_that_is_too_large_for_one_row_has_its_parts(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST_ROW", 1000)
    for number in range(50):
        write(store, number * 100, b"%d" % number * 40)
    expected = value(store)
    store.commit()
    assert len(list(store.journal.batches())) > 5
    store = reopened(store)
    assert value(store) == expected
    store.close()


def test_parts_of_a_key_that_is_gone_do_no_harm(store: FileStore) -> None:
    write(store, 5, b"part")
    store.commit()
    database = store.keyspace.databases[0]
    key = database.find_row(b"k")
    assert key is not None
    database.remove(key)
    store.commit()
    store = reopened(store)
    assert value(store) is None
    store.fold()
    assert in_tables(store) == []
    assert sound(store)
    store.close()


@pytest.mark.parametrize("op", [(STRING_PARTS, FIRST_ID, -1, b"x"), (STRING_PARTS, 1, "a", 2)])
def test_check_finds_a_part_that_cannot_be(store: FileStore, op: tuple[Any, ...]) -> None:
    store.keyspace.ops.append(row_op(*op))
    store.commit()
    assert any("cannot be read" in line for line in check_file(store.path))
    store.abandon()
    with closing(apsw.Connection(str(store.path))) as connection:
        connection.execute("DELETE FROM journal WHERE lsn = (SELECT max(lsn) FROM journal)")
    FileStore(store.path).close()


# -- scripts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_failed_script_leaves_the_string_as_it_was(store: FileStore, seed: int) -> None:
    rng = random.Random(seed)
    database = store.keyspace.databases[0]
    for _ in range(10):
        before, used = value(store), store.keyspace.used_bytes
        savepoint = Savepoint(store.keyspace)
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.2:
                database.set_string(b"k", rng.randbytes(rng.choice([0, 1, 300, 9000])))
            else:
                write(store, rng.randrange(12_000), rng.randbytes(rng.choice([1, 3, 700])))
        savepoint.roll_back()
        assert (value(store), store.keyspace.used_bytes) == (before, used)
        assert not store.keyspace.ops
        write(store, rng.randrange(12_000), b"kept")
        expected = value(store)
        store.commit()
    store = reopened(store)
    assert value(store) == expected
    store.close()


# -- the fold -------------------------------------------------------------------------------------


def test_a_part_that_no_journal_has_is_in_no_table(store: FileStore) -> None:
    """The pass has read the string, and then it changes."""
    store.fold()
    write(store, 0, b"committed")
    store.commit()
    store.fold_step()
    savepoint = Savepoint(store.keyspace)
    write(store, 0, b"not yet!!")
    while store.may_fold and store.fold_step():
        pass
    assert in_tables(store)[0][:9] in (b"committed", LONG[:9])
    savepoint.roll_back()
    store.fold()
    assert in_tables(store)[0][:9] == b"committed"


def test_a_pass_that_fails_is_repeated_with_all_parts(store: FileStore) -> None:
    store.fold()
    write(store, 0, b"one")
    store.commit()
    with refusing_writes(store, "redis_strings"), pytest.raises(StorageError):
        store.fold()
    write(store, 10, b"two")
    store.commit()
    expected = value(store)
    store.fold()
    assert in_tables(store) == [expected]


@pytest.mark.parametrize("seed", range(15))
def test_any_history_is_recovered_after_a_crash_at_any_slice(tmp_path: Path, seed: int) -> None:
    """Parts are applied again to strings that have them, and all that followed."""
    rng = random.Random(seed)
    store = FileStore(tmp_path / "a.db")
    names = [b"a", b"b", b"c"]
    model: dict[bytes, bytes] = {}
    for _ in range(150):
        name = rng.choice(names)
        database = store.keyspace.databases[0]
        done = rng.random()
        if done < 0.15 or name not in model:
            model[name] = rng.randbytes(rng.choice([0, 3, 600, 5000]))
            database.set_string(name, model[name])
        elif done < 0.2:
            key = database.find_row(name)
            assert key is not None
            database.remove(key)
            del model[name]
        else:
            old, part = model[name], rng.randbytes(rng.choice([1, 1, 40]))
            offset = rng.choice([len(old), rng.randrange(6000)])
            model[name] = string_parts.with_part(
                old, offset, part, max(len(old), offset + len(part))
            )
            write(store, offset, part, name)
        if rng.random() < 0.5:
            store.commit()
            for _ in range(rng.choice([0, 0, 1, 2, 5, 20])):
                store.fold_step()
            if rng.random() < 0.2:
                store = reopened(store)
        for name in names:
            assert value(store, name) == model.get(name), f"seed {seed}"
    store.commit()
    store.close()


# -- in place -------------------------------------------------------------------------------------


def edits() -> list[Any]:
    return [] if string_parts.IN_C is None else [string_parts.IN_C.edit]


def key_with(value: bytes) -> Key:
    return Key(1, Space(0), b"k", value, None)


@pytest.mark.parametrize("edit", edits())
@pytest.mark.parametrize("seed", range(20))
def test_both_ways_to_edit_do_the_same(edit: Callable[..., None], seed: int) -> None:
    rng = random.Random(seed)
    ours, plain = key_with(LONG), key_with(LONG)
    assert ours.value == LONG
    kept: list[tuple[object, bytes]] = []
    for _ in range(200):
        length = rng.choice([len(LONG), rng.randint(600, 20_000)])
        offset = rng.randrange(length)
        part = rng.randbytes(rng.randrange(min(length - offset, 900)))
        edit(ours, offset, part, length)
        edit_a_copy(plain, offset, part, length)
        assert ours.value == plain.value
        assert hash(ours.value) == hash(plain.value), "a hash that was kept is out of date"
        if rng.random() < 0.3:
            assert isinstance(plain.value, bytes)
            kept.append((ours.value, bytes(bytearray(plain.value))))
        assert all(value == was for value, was in kept), "a string that is held has changed"
    assert bytes(range(256)) * 40 == LONG


@pytest.mark.parametrize("edit", edits())
def test_a_string_that_nothing_else_holds_is_changed_in_place(edit: Callable[..., None]) -> None:
    key = key_with(bytes(bytearray(100_000)))
    before = id(key.value)
    edit(key, 7, b"x", 100_000)
    assert id(key.value) == before
    view = memoryview(key.value)  # type: ignore[arg-type]
    edit(key, 7, b"y", 100_000)
    assert id(key.value) != before
    assert view[7] == ord("x")


@pytest.mark.parametrize("edit", edits())
@pytest.mark.parametrize(
    "arguments",
    [
        (-1, b"x", 10_240),
        (10_240, b"x", 10_240),
        (0, b"x" * 20, 10),
        (1 << 70, b"x", 10),
        (0, bytearray(b"x"), 10_240),
        (0, b"x"),
    ],
)
def test_a_part_outside_of_the_string_is_refused(
    edit: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    key = key_with(LONG)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        edit(key, *arguments)
    assert key.value is LONG


def test_a_string_is_appended_to_itself(store: FileStore) -> None:
    key = store.keyspace.databases[0].find_string_key(b"k")
    assert key is not None
    held = key.value
    assert isinstance(held, bytes)
    assert write(store, len(held), held) == 2 * len(LONG)
    assert (value(store), held) == (LONG + LONG, LONG)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_string_that_finds_no_memory_is_not_empty_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    """Not even if the command is taken for one that has changed nothing."""
    in_c = pytest.importorskip("holdfast.store.memory._string_parts")
    store = FileStore(tmp_path / "a.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    peer.command("SET", "k", LONG)
    held = store.keyspace.databases[0].read_string(b"k") if is_shared else None

    class TooLong:
        @staticmethod
        def edit(key: Key, offset: int, part: bytes, length: int) -> None:
            in_c.edit(key, offset, part, 1 << 60)

    with monkeypatch.context() as patch:
        patch.setattr(string_parts, "IN_C", TooLong)
        assert peer.command("APPEND", "k", "more").startswith(b"-MISCONF ")
    world.engine.storage_recovered()
    assert held in (None, LONG)
    assert peer.command("STRLEN", "k") == b":%d\r\n" % len(LONG)
    assert peer.command("APPEND", "k", "more") == b":%d\r\n" % (len(LONG) + 4)
    assert value(store) == LONG + b"more"
    world.engine.turn.end()
    store.close()
    assert sound(store)
