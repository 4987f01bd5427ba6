"""Random work on a whole store, against plain dicts: its content, its counters, its durability.

Commits, fold slices, evictions, checkpoints, failures, clean restarts and crashes come at any
moment between the changes. Slices, chunks and windows are tiny, so that nearly every change meets a
fold that is half done. A crash is a copy of the files, opened as they are.
"""

import copy
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.file import journal
from holdfast.store.fold import collect, delete_rows, fold, pending_rows
from holdfast.store.memory import eviction, scanning
from holdfast.store.memory.database import Database
from holdfast.store.memory.events import GENERIC, HASH, LIST, SET, ZSET
from holdfast.store.memory.expiry import expire_due
from holdfast.store.memory.key import Key
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.store import FileStore
from holdfast.store.values import list as lists
from holdfast.store.values import list_chunks
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.registry import TYPE_NAMES
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ZSet
from tests.model.plain import (
    KINDS,
    Entry,
    Members,
    Model,
    Scan,
    Scores,
    lose_fields,
    plain,
)
from tests.store.consistency import check_counts, check_rows, check_settled
from tests.store.refusal import refusing_writes

DATABASES = 4
NAMES = [b"name:%d" % number for number in range(10)]
ELEMENTS = [b"", b"a", b"bb", b"ccc", b"d" * 30, b"long" * 99]
FOLDED_INTO = [
    "journal", "redis_graves", "redis_keys", "redis_names", "redis_strings",
    "redis_list_blocks", "redis_list_items", "redis_list_meta",
]  # fmt: skip
FOREVER = b"the field that a hash has as long as it lives"


class Work:
    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng = rng
        self.folder = folder
        self.generation = 0
        self.model: Model = [{} for _ in range(DATABASES)]
        self.committed: Model = copy.deepcopy(self.model)
        self.overdue = 0  # expired keys that may not have been read yet
        self.now_ms = 1_000_000
        self.scan: Scan | None = None
        self.store = self.open(self.path)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.generation}.db"

    def open(self, path: Path) -> FileStore:
        opened = FileStore(path, DATABASES)
        opened.keyspace.now_ms = self.now_ms
        return opened

    def database(self) -> tuple[Database, dict[bytes, Entry]]:
        index = self.rng.choice([0, 0, 0, 1, 1, 2, 3])
        return self.store.keyspace.databases[index], self.model[index]

    def name(self) -> bytes:
        if self.rng.random() < 0.1:
            return b"other:%d" % self.rng.randrange(200)
        return self.rng.choice(NAMES)

    def elements(self) -> list[bytes]:
        return [self.rng.choice(ELEMENTS) for _ in range(self.rng.choice([1, 1, 2, 5, 20]))]

    def some_expiry(self) -> int | None:
        return self.rng.choice([None, None, self.now_ms + self.rng.randrange(1, 3000)])

    def find_or_row(self, database: Database, name: bytes) -> Key | None:
        """For changes of the row; mostly as commands do it, which load no collection for that."""
        return self.rng.choice([database.find, database.find_row, database.find_row])(name)

    # -- changes ------------------------------------------------------------------------------

    def set(self) -> None:
        database, entries = self.database()
        name, expires_at_ms = self.name(), self.some_expiry()
        value = self.rng.randbytes(self.rng.choice([3, 3, 5]))
        keep_ttl = expires_at_ms is None and self.rng.random() < 0.3
        database.set_string(name, value, expires_at_ms, keep_ttl=keep_ttl)
        database.signal(name, b"set", GENERIC)
        old = entries.get(name)
        if keep_ttl and old is not None:
            expires_at_ms = old.expires_at_ms
        if old is not None and isinstance(old.value, bytes):
            old.value, old.expires_at_ms = value, expires_at_ms
        else:
            entries[name] = Entry(value, expires_at_ms)

    def set_many(self) -> None:
        database, entries = self.database()
        for number in self.rng.sample(range(200), 20):
            name = b"other:%d" % number
            database.set_string(name, b"many")
            entries[name] = Entry(b"many")

    def remove(self) -> None:
        database, entries = self.database()
        name = self.name()
        key = self.find_or_row(database, name)
        assert (key is not None) == (name in entries)
        if key is not None:
            database.remove(key)
            del entries[name]

    def rename(self) -> None:
        database, entries = self.database()
        target, target_entries = (database, entries)
        if self.rng.random() < 0.4:
            target, target_entries = self.database()
        old, new = self.name(), self.name()
        key = self.find_or_row(database, old)
        assert (key is not None) == (old in entries)
        if key is None or (target is database and old == new):
            return
        in_the_way = self.find_or_row(target, new)
        assert (in_the_way is not None) == (new in target_entries)
        if in_the_way is not None:
            target.remove(in_the_way)
        database.move(key, target, new)
        target_entries[new] = entries.pop(old)

    def copy(self) -> None:
        database, entries = self.database()
        target, target_entries = self.database()
        old, new = self.name(), self.name()
        key = database.find(old)
        if key is None or (target is database and old == new):
            return
        in_the_way = self.find_or_row(target, new)
        if in_the_way is not None:
            target.remove(in_the_way)
        target.copy(key, new)
        entry = entries[old]
        target_entries[new] = Entry(copy.copy(entry.value), entry.expires_at_ms)

    def expire(self) -> None:
        database, entries = self.database()
        name, expires_at_ms = self.name(), self.some_expiry()
        key = self.find_or_row(database, name)
        if key is not None:
            assert key.expires_at_ms == entries[name].expires_at_ms
            database.set_expiry(key, expires_at_ms)
            entries[name].expires_at_ms = expires_at_ms

    def flush(self) -> None:
        database, entries = self.database()
        database.flush()
        entries.clear()

    def swap(self) -> None:
        one, other = self.rng.sample(range(DATABASES), 2)
        databases = self.store.keyspace.databases
        databases[one].swap(databases[other])
        self.model[one], self.model[other] = self.model[other], self.model[one]
        self.scan = None

    # -- changes of lists ---------------------------------------------------------------------

    def push(self) -> None:
        database, entries = self.database()
        name, values = self.name(), self.elements()
        if name in entries and not isinstance(entries[name].value, list):
            return
        _, subject = database.find_as(name, List) or database.create_as(name, List)
        elements = entries.setdefault(name, Entry([])).value
        assert isinstance(elements, list)
        if self.rng.random() < 0.5:
            subject.push_left(values, self.store.keyspace)
            elements[:0] = reversed(values)
        else:
            subject.push_right(values, self.store.keyspace)
            elements += values

    def change_list(self) -> None:
        database, entries = self.database()
        name = self.rng.choice([name for name in entries if name in NAMES] or NAMES)
        if name not in entries or not isinstance(entries[name].value, list):
            return
        found = database.find_as(name, List)
        assert found is not None
        key, subject = found
        elements = entries[name].value
        assert isinstance(elements, list)
        self.rng.choice(
            [self._pop_left, self._pop_right, self._pop_all, self._lset, self._linsert, self._lrem]
        )(subject, elements)
        if not elements:
            del entries[name]
        database.shrunk(key, b"changed", LIST)

    def _pop_left(self, subject: List, elements: list[bytes]) -> None:
        count = self.rng.randint(1, 4)
        assert subject.pop_left(count, self.store.keyspace) == elements[:count]
        del elements[:count]

    def _pop_right(self, subject: List, elements: list[bytes]) -> None:
        count = self.rng.randint(1, 4)
        assert subject.pop_right(count, self.store.keyspace) == elements[::-1][:count]
        del elements[-count:]

    def _pop_all(self, subject: List, elements: list[bytes]) -> None:
        subject.trim(1, 0, self.store.keyspace)
        elements.clear()

    def _lset(self, subject: List, elements: list[bytes]) -> None:
        at, value = self.rng.randrange(len(elements)), self.rng.choice(ELEMENTS)
        assert subject.set(at, value, self.store.keyspace)
        elements[at] = value

    def _linsert(self, subject: List, elements: list[bytes]) -> None:
        pivot = self.rng.choice(elements)
        for value in self.elements():
            assert subject.insert(pivot, value, True, self.store.keyspace)
            elements.insert(elements.index(pivot), value)

    def _lrem(self, subject: List, elements: list[bytes]) -> None:
        value = self.rng.choice(ELEMENTS)
        assert subject.remove(1, value, self.store.keyspace) == (value in elements)
        if value in elements:
            elements.remove(value)

    # -- changes of hashes and sets -----------------------------------------------------------

    def change_set(self) -> None:
        database, entries = self.database()
        name, elements = self.name(), self.elements()
        members = entries[name].value if name in entries else Members()
        if not isinstance(members, Members):
            return
        key, subject = database.find_as(name, Set) or database.create_as(name, Set)
        if self.rng.random() < 0.5 or not members:
            entries.setdefault(name, Entry(members))
            for element in elements:
                assert subject.add(element, self.store.keyspace) == (element not in members)
                members.setdefault(element)
            return
        for element in elements:
            assert subject.remove(element, self.store.keyspace) == (element in members)
            members.pop(element, None)
        if not members:
            del entries[name]
        database.shrunk(key, b"changed", SET)

    def change_zset(self) -> None:
        database, entries = self.database()
        name, elements = self.name(), self.elements()
        scores = entries[name].value if name in entries else Scores()
        if not isinstance(scores, Scores):
            return
        key, subject = database.find_as(name, ZSet) or database.create_as(name, ZSet)
        if self.rng.random() < 0.5 or not scores:
            for element in elements:
                scores[element] = float(self.rng.randint(-2, 2))
                subject.put(element, scores[element], self.store.keyspace)
            entry = entries.setdefault(name, Entry(scores))
            entry.value = Scores(sorted(scores.items(), key=lambda item: (item[1], item[0])))
            return
        if self.rng.random() < 0.5:
            for _, member in subject.pop(2, False, self.store.keyspace):
                assert member == next(iter(scores))
                del scores[member]
        for element in elements:
            assert subject.remove(element, self.store.keyspace) == (element in scores)
            scores.pop(element, None)
        if not scores:
            del entries[name]
        database.shrunk(key, b"changed", ZSET)

    def change_hash(self) -> None:
        database, entries = self.database()
        name, elements = self.name(), self.elements()
        fields = entries[name].value if name in entries else {}
        if not isinstance(fields, dict) or isinstance(fields, Members | Scores):
            return
        key, subject = database.find_as(name, Hash) or database.create_as(name, Hash)
        log = self.store.keyspace
        if not fields:
            subject.set(FOREVER, b"", log)
            fields[FOREVER] = (b"", None)
            entries[name] = Entry(fields)
        elif self.rng.random() < 0.1:
            for field in fields:
                assert subject.remove(field, log)
            del entries[name]
            database.shrunk(key, b"changed", HASH)
            return
        for field in elements:
            if self.rng.random() < 0.6:
                value = self.rng.choice(ELEMENTS)
                assert subject.set(field, value, log) == (field not in fields)
                fields[field] = (value, None)
                expires_at_ms = self.some_expiry()
                if expires_at_ms is not None:
                    subject.set_expiry(field, expires_at_ms, log)
                    fields[field] = (value, expires_at_ms)
            else:
                assert subject.remove(field, log) == (field in fields)
                fields.pop(field, None)
        log.watch_fields(key)

    # -- changes that a failing script takes back -----------------------------------------------

    def script(self) -> None:
        keyspace = self.store.keyspace
        before = copy.deepcopy(self.model)
        savepoint = Savepoint(keyspace)
        for _ in range(self.rng.randint(1, 5)):
            self.rng.choice([*self.CHANGES, Work.flush, Work.swap])(self)
        if self.rng.random() < 0.7:
            savepoint.roll_back()
            self.model = before
        else:
            savepoint.keep()

    # -- looking ------------------------------------------------------------------------------

    def read_row(self) -> None:
        database, entries = self.database()
        name = self.name()
        row, entry = database.read_row(name), entries.get(name)
        if entry is None:
            assert row is None
            return
        assert row == (KINDS[type(entry.value)], entry.expires_at_ms)
        kind = next(kind for kind, named in TYPE_NAMES.items() if named == row[0])
        assert database.read_size(name, kind) == len(entry.value)

    def read(self) -> None:
        database, entries = self.database()
        name = self.name()
        key, entry = database.find(name), entries.get(name)
        assert (key is None) == (entry is None)
        if key is None or entry is None:
            return
        assert key.expires_at_ms == entry.expires_at_ms
        if isinstance(entry.value, dict):
            assert plain(key) == (entry.value, list(entry.value))
        elif isinstance(key.value, List):
            at = self.rng.randrange(len(entry.value))
            assert key.value.index(at) == entry.value[at]
            assert len(key.value) == len(entry.value)
        else:
            assert key.value == entry.value

    def go_on_scanning(self) -> None:
        if self.scan is None:
            index = self.rng.randrange(DATABASES)
            self.scan = Scan(index, self.model[index])
        scan = self.scan
        database = self.store.keyspace.databases[scan.index]
        scan.cursor, found = scanning.scan(
            self.store.keyspace, database.space, scan.cursor, self.rng.randint(1, 8)
        )
        entries = self.model[scan.index]
        for name, type_name in found:
            assert type_name == KINDS[type(entries[name].value)]
            scan.seen.add(name)
        if not scan.cursor:
            assert set(scan.throughout) <= scan.seen
            self.scan = None

    def keep_track_of_scan(self) -> None:
        """Forget keys that were removed during the scan: it need not return them."""
        if self.scan is not None:
            entries = self.model[self.scan.index]
            self.scan.throughout = {
                name: token
                for name, token in self.scan.throughout.items()
                if name in entries and entries[name].token == token
            }

    # -- the passing of time ------------------------------------------------------------------

    def wait(self) -> None:
        self.now_ms += self.rng.choice([1, 100, 1000])
        self.store.keyspace.now_ms = self.now_ms
        for model in (self.model, self.committed):
            for entries in model:
                gone = [
                    name
                    for name, entry in entries.items()
                    if entry.expires_at_ms is not None and entry.expires_at_ms <= self.now_ms
                ]
                for name in gone:
                    del entries[name]
                for entry in entries.values():
                    lose_fields(entry, self.now_ms)
                if model is self.model:
                    self.overdue += len(gone)

    def reap(self) -> None:
        expire_due(self.store.keyspace, 10_000)
        self.overdue = 0

    # -- the file -----------------------------------------------------------------------------

    def commit(self) -> None:
        self.store.commit()
        self.committed = copy.deepcopy(self.model)

    def fold_some(self) -> None:
        for _ in range(self.rng.randint(1, 6)):
            self.store.fold_step()

    def fold_all(self) -> None:
        self.commit()
        self.store.fold()

    def evict(self) -> None:
        self.store.max_bytes = self.rng.choice([1, 1000, 5000])
        for _ in range(self.rng.randint(1, 4)):
            self.store.make_room()

    def evict_all(self) -> None:
        """But keys that a script changed and put back: those stay until there is a fold."""
        self.fold_all()
        self.store.max_bytes = 1
        while self.store.keyspace.used_bytes and self.store.make_room():
            pass

    def free(self) -> None:
        self.store.keyspace.freeing.step()

    def checkpoint(self) -> None:
        self.rng.choice([self.store.checkpoint, self.store.sync_and_checkpoint])()

    def fail_to_commit(self) -> None:
        if not self.store.keyspace.ops:
            return
        with refusing_writes(self.store, "journal"), pytest.raises(StorageError):
            self.store.commit()
        self.reload()

    def fail_to_fold(self) -> None:
        with refusing_writes(self.store, self.rng.choice(FOLDED_INTO)):
            try:
                for _ in range(self.rng.randint(1, 6)):
                    self.store.fold_step()
            except StorageError:
                if self.rng.random() < 0.5:
                    self.reload()

    def reload(self) -> None:
        self.store.reload()
        self.roll_back()

    def roll_back(self) -> None:
        self.model = copy.deepcopy(self.committed)
        self.overdue = 1 << 30  # reaped keys may be back
        self.scan = None

    def restart(self) -> None:
        self.store.close()
        self.committed = copy.deepcopy(self.model)
        self.check_settled_file()
        self.store = self.open(self.path)
        self.scan = None
        self.overdue = 1 << 30

    def crash(self) -> None:
        old, self.generation = self.path, self.generation + 1
        _copy_files(old, self.path)
        self.store.abandon()
        self.store = self.open(self.path)
        self.roll_back()

    def look_at_a_crash(self) -> None:
        """The files that a crash now would leave. The store itself goes on undisturbed, and
        cold."""
        aside = self.folder / "aside.db"
        _copy_files(self.path, aside)
        opened = self.open(aside)
        check_rows(aside)
        if self.rng.random() < 0.5:
            self.compare(opened, self.committed)
        check_counts(opened.keyspace)
        opened.close()
        check_settled(aside)
        opened = self.open(aside)
        self.compare(opened, self.committed)
        opened.abandon()

    def check_settled_file(self) -> None:
        check_settled(self.path)

    # -- comparing ----------------------------------------------------------------------------

    def compare(self, store: FileStore, model: Model) -> None:
        keyspace = store.keyspace
        for database, entries in zip(keyspace.databases, model, strict=True):
            assert sorted(scanning.names(keyspace, database.space)) == sorted(entries)
            for name, entry in entries.items():
                key = database.find(name)
                assert key is not None, name
                in_order = list(entry.value) if isinstance(entry.value, dict) else None
                assert plain(key) == (entry.value, in_order)
                assert key.expires_at_ms == entry.expires_at_ms
        check_counts(keyspace)

    def check(self) -> None:
        check_counts(self.store.keyspace)
        living = sum(map(len, self.model))
        assert living <= sum(map(len, self.store.keyspace.databases)) <= living + self.overdue
        for database, entries in zip(self.store.keyspace.databases, self.model, strict=True):
            names = list(scanning.names(self.store.keyspace, database.space))
            assert sorted(names) == sorted(entries)

    CHANGES: tuple[Callable[["Work"], None], ...] = (
        set, set, set, set_many, remove, remove, rename, rename, rename, copy, expire,
        push, push, push, change_list, change_list, change_list, change_list,
        change_set, change_set, change_hash, change_hash, change_zset, change_zset,
    )  # fmt: skip
    RARE_CHANGES: tuple[Callable[["Work"], None], ...] = (flush, swap, wait, reap)
    FILE_WORK: tuple[Callable[["Work"], None], ...] = (
        commit, commit, commit, commit, fold_some, fold_some, fold_some, fold_some, evict,
        evict_all,
    )  # fmt: skip
    RARE_FILE_WORK: tuple[Callable[["Work"], None], ...] = (
        fold_all, free, checkpoint, fail_to_commit, fail_to_fold, restart, crash, crash,
        look_at_a_crash, look_at_a_crash,
    )  # fmt: skip

    def step(self) -> None:
        steps = self.rng.choices(
            (self.CHANGES, (Work.script,), self.RARE_CHANGES, self.FILE_WORK, self.RARE_FILE_WORK),
            (20, 2, 1, 10, 1),
        )[0]
        self.rng.choice(steps)(self)
        self.keep_track_of_scan()
        self.rng.choice([Work.read, Work.read_row, Work.go_on_scanning])(self)
        if self.rng.random() < 0.1:
            self.check()


def _copy_files(source: Path, target: Path) -> None:
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")
    Path(f"{target}-shm").unlink(missing_ok=True)


def work_and_compare(seed: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    patch.setattr(fold, "SLICE_ROWS", rng.choice([1, 2, 5, 20]))
    patch.setattr(fold, "SLICE_BYTES", rng.choice([1, 100, 1 << 18]))
    patch.setattr(fold, "STATEMENT_ROWS", rng.choice([1, 2, 3, 50]))
    patch.setattr(delete_rows, "STATEMENT_ROWS", rng.choice([1, 2, 3, 50]))
    patch.setattr(delete_rows, "FEWEST_IN_RANGE", rng.choice([2, 3, 8]))
    patch.setattr(delete_rows, "NAMES_AT_ONCE", rng.choice([2, 5, 128]))
    patch.setattr(collect, "COLLECTED_ROWS", rng.choice([1, 3, 500]))
    patch.setattr(fold, "COLLECTED_ROWS", rng.choice([1, 3, 500]))
    patch.setattr(pending_rows, "SORTED_ROWS", rng.choice([1, 3, 20, 2000]))
    patch.setattr("holdfast.store.memory.database.LARGE_STRING", rng.choice([1, 4, 4096]))
    patch.setattr(eviction, "MOST_FORGOTTEN", rng.choice([2, 64]))
    patch.setattr(journal, "LARGEST_ROW", rng.choice([60, 1 << 20]))
    patch.setattr(list_chunks, "CHUNK", rng.choice([2, 4, 16]))
    patch.setattr(lists, "WINDOW", rng.choice([2, 8]))
    work = Work(rng, folder)
    for _ in range(600):
        work.step()
    work.check()
    work.compare(work.store, work.model)
    work.restart()
    work.compare(work.store, work.model)
    work.store.abandon()


@pytest.mark.parametrize("seed", range(24))
def test_a_store_equals_dicts(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_and_compare(seed, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_a_store_equals_dicts_for_very_many_seeds(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_and_compare(seed, tmp_path, monkeypatch)
