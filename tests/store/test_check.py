"""`check_file` finds every kind of damage, and none where there is none."""

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast.errors import StorageError
from holdfast.store.change.ops import KEYS, LIST_ITEMS, SPACES, STRINGS
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from holdfast.store.values.list import List

encode = msgspec.msgpack.encode


def fill(store: FileStore, rng: random.Random, steps: int) -> None:
    """Keys that come, change, move and go."""
    for step in range(steps):
        database = store.keyspace.databases[rng.randrange(3)]
        name = b"k%d" % rng.randrange(30)
        key = database.find(name)
        match rng.randrange(7):
            case 0:
                database.set_string(name, b"v%d" % step)
            case 1 | 2:
                found = database.find_as(name, List) if key and key.type_name == "list" else None
                if key is None or found:
                    _, value = found or database.create_as(name, List)
                    value.push_left([b"a", b"b"], store.keyspace)
            case 3 if key is not None and key.type_name == "list":
                assert isinstance(key.value, List)
                key.value.pop_left_one(store.keyspace)
                if not key.value:
                    database.remove(key)
            case 4 if key is not None:
                database.remove(key)
            case 5 if key is not None:
                target = store.keyspace.databases[rng.randrange(3)]
                if target.find(b"moved") is None:
                    database.move(key, target, b"moved")
            case 6 if not rng.randrange(10):
                database.flush()
        if rng.randrange(3) == 0:
            store.commit()
            if rng.randrange(3) == 0:
                store.fold_step()
    store.commit()


def test_a_store_at_work_is_sound_at_every_moment(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "x.db"
    store = FileStore(path)
    for _ in range(20):
        fill(store, rng, 50)
        for _ in range(rng.randrange(4)):
            store.fold_step()
        assert check_file(path) == []
    store.close()
    assert check_file(path) == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two strings, a list of three, an empty journal."""
    path = tmp_path / "x.db"
    store = FileStore(path)
    database = store.keyspace.databases[0]
    database.set_string(b"s", b"1")
    database.set_string(b"t", b"2")
    _, value = database.create_as(b"l", List)
    value.push_left([b"a", b"b", b"c"], store.keyspace)
    store.close()
    assert check_file(path) == []
    return path


def run(path: Path, sql: str, *bindings: object) -> None:
    connection = apsw.Connection(str(path))
    list(connection.execute(sql, bindings))
    connection.close()


def journal(*ops: object) -> Callable[[Path], None]:
    return lambda path: run(path, "INSERT INTO journal VALUES (1, ?)", encode(list(ops)))


def sql(text: str) -> Callable[[Path], None]:
    return lambda path: run(path, text)


S, T, L = 1024, 1025, 1026


def empty(kind: str) -> Callable[[Path], None]:
    """A key of this type, alone."""

    def create(path: Path) -> None:
        run(path, f"UPDATE redis_keys SET type = ? WHERE id = {L}", kind)
        run(path, "DELETE FROM redis_list_blocks; DELETE FROM redis_list_meta")

    return create


B = -1 << 25  # the block that has the list
DAMAGE = [
    (sql("UPDATE redis_list_meta SET length = 9"), f"list {L} has 3 elements"),
    (sql("UPDATE redis_list_meta SET off_grid = 1"), f"list {L} has 0 elements off the grid"),
    (sql("DELETE FROM redis_list_meta"), f"list {L} has elements, but no meta"),
    (sql("DELETE FROM redis_list_blocks"), f"list {L} has 0 elements, but its length says 3"),
    (sql("UPDATE redis_list_meta SET singles = 1"), f"list {L} has 0 elements by themselves"),
    (sql("UPDATE redis_list_blocks SET data = x'00'"), f"block {B} of list {L} is damaged"),
    (sql("UPDATE redis_list_blocks SET sizes = '[1,1,'"), f"block {B} of list {L} is damaged"),
    (sql("UPDATE redis_list_blocks SET sizes = '[]'"), f"block {B} of list {L} is damaged"),
    (sql("UPDATE redis_list_blocks SET sizes = '[3,null]'"), f"block {B} of list {L} is damaged"),
    (sql("UPDATE redis_list_blocks SET sizes = '[4,-1]'"), f"block {B} of list {L} is damaged"),
    (sql("UPDATE redis_list_blocks SET first = 31"), f"block {B} of list {L} is damaged"),
    (sql("UPDATE redis_list_blocks SET pos = 7 WHERE pos < 0"), f"block 7 of list {L} is damaged"),
    (
        sql(f"INSERT INTO redis_list_items VALUES ({L}, {-1 << 20}, x'61')"),
        f"element {-1 << 20} of list {L} is there twice",
    ),
    (
        sql("DELETE FROM redis_list_blocks; DELETE FROM redis_list_meta"),
        f"list key {L} has no value",
    ),
    *((empty(kind), f"{kind} key {L} has no value") for kind in ("hash", "set", "zset", "stream")),
    (sql("UPDATE redis_space_sizes SET keys = 7"), "space 0 has 3 keys, but its size says 7"),
    (sql("DELETE FROM redis_space_sizes"), "space 0 has keys, but no size"),
    (sql(f"DELETE FROM redis_strings WHERE key_id = {S}"), f"string key {S} has no value"),
    (sql(f"DELETE FROM redis_keys WHERE id = {S}"), f"string {S} belongs to no key"),
    (sql(f"DELETE FROM redis_keys WHERE id = {L}"), "belong to no key and no grave"),
    (sql("UPDATE redis_keys SET type = 'blob' WHERE name = x'73'"), "type 'blob'"),
    (
        sql("UPDATE redis_keys SET name = x'73'; UPDATE redis_names SET name = 's'"),
        f"keys {S}, {T}, {L} have the same name b's'",
    ),
    (
        sql(f"UPDATE redis_keys SET name = x'ff' WHERE id = {S}"),
        f"a name in space 0 belongs to key {S}, which does not have it",
    ),
    (sql(f"DELETE FROM redis_names WHERE id = {T}"), f"key {T} is not in the table of names"),
    (sql("UPDATE redis_databases SET space = 0 WHERE db = 3"), "databases 0 and 3 both show"),
    (sql("INSERT INTO journal VALUES (1, x'c1ff')"), "batch 1 of the journal cannot be read"),
    (journal((77, S, None, None)), "there is no table 77"),
    (journal((KEYS, S, None, [0])), "wrong shape"),
    (journal((STRINGS, S, None, 5)), "5 is in the wrong place"),
    (journal((LIST_ITEMS, L, None, b"x")), "None is in the wrong place"),
    (journal((SPACES, 5, None, 0)), "databases 0 and 5 both show space 0"),
    (journal((KEYS, 2000, None, [0, b"s", "string", None]), (STRINGS, 2000, None, b"")),
     f"keys {S}, 2000 have the same name b's'"),
    (journal((KEYS, 2000, None, [0, b"new", "string", None])), "string key 2000 has no value"),
    (journal((KEYS, 2000, None, [0, b"new", "list", None])), "list key 2000 has no value"),
    (journal(*((LIST_ITEMS, L, -n << 20, None) for n in range(-3, 4))), f"list key {L} has no"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "sentence"), DAMAGE)
def test_damage_is_found(path: Path, damage: Callable[[Path], None], sentence: str) -> None:
    damage(path)
    problems = check_file(path)
    assert any(sentence in problem for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


HARMLESS = [
    # The old owner of the name is gone, or has moved.
    journal(
        (KEYS, S, None, None),
        (KEYS, 2000, None, [0, b"s", "string", None]),
        (STRINGS, 2000, None, b""),
    ),
    journal((KEYS, S, None, [0, b"t", "string", None]), (KEYS, T, None, None)),
    # No database shows that space any more.
    journal((SPACES, 0, None, 3000), (KEYS, T, None, [0, b"s", "string", None])),
    journal((LIST_ITEMS, L, 5, b"x")),
]


@pytest.mark.parametrize("change", HARMLESS)
def test_a_journal_that_makes_sense_is_no_damage(path: Path, change: Callable[..., None]) -> None:
    change(path)
    assert check_file(path) == []


def test_a_torn_page_is_found(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 4096 // 2 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    problems = check_file(path)
    assert problems
    assert all(problem.startswith("SQLite: ") for problem in problems)


def test_nothing_is_changed(path: Path) -> None:
    before = path.read_bytes()
    check_file(path)
    assert path.read_bytes() == before
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_not_ours_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(StorageError, match="not a SQLite database"):
        check_file(tmp_path / "x")
