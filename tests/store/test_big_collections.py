"""Hashes, sets and sorted sets of very many elements: work is counted, not timed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.store import FileStore
from holdfast.store.values import insertion_order
from holdfast.store.values.hash import Hash
from holdfast.store.values.insertion_order import CHUNK, Places, PlacesChunk
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ALWAYS_ORDERED, Shuffle, ZSet
from tests.store.list_rows import KEY_ID

COUNT = 20_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "a.db")
    yield store
    store.close()


def fill(store: FileStore, *, folds: bool = True) -> None:
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    _, fields = database.create_as(b"hash", Hash)
    _, members = database.create_as(b"set", Set)
    _, scores = database.create_as(b"zset", ZSet)
    for number in range(COUNT):
        name = b"name:%d" % number
        fields.set(name, b"value", keyspace)
        members.add(name, keyspace)
        scores.put(name, float(number % 1000), keyspace)
    store.commit()
    if folds:
        store.fold()


def collections(store: FileStore) -> tuple[Hash, Set, ZSet]:
    database = store.keyspace.databases[0]
    fields, members, scores = (
        database.read_as(b"hash", Hash),
        database.read_as(b"set", Set),
        database.read_as(b"zset", ZSet),
    )
    assert fields is not None
    assert members is not None
    assert scores is not None
    return fields, members, scores


def sizes(store: FileStore) -> list[int]:
    database = store.keyspace.databases[0]
    keys = [database.find(name) for name in (b"hash", b"set", b"zset")]
    return [key.nbytes for key in keys if key is not None]


def rows_written_by(store: FileStore) -> int:
    """By committing and folding."""
    before = store._connection.total_changes()
    store.commit()
    store.fold()
    return store._connection.total_changes() - before


def test_the_fold_writes_changed_rows_only(store: FileStore) -> None:
    fill(store)
    keyspace = store.keyspace
    fields, members, scores = collections(store)
    fields.set(b"name:7", b"other", keyspace)
    members.remove(b"name:8", keyspace)
    scores.put(b"name:9", 3.5, keyspace)
    [(score, popped)] = scores.pop(1, False, keyspace)
    assert (score, popped) == (0.0, b"name:0")
    assert len(keyspace.ops) == 4
    size = 2  # rows: the first change deletes the size of a collection, the pass writes it again
    assert rows_written_by(store) <= 4 + 3 * size + 4  # the journal's own, and counters
    for number in range(500):
        scores.put(b"name:9", float(number), keyspace)
    assert rows_written_by(store) <= 1 + size + 4


def test_a_key_of_its_own_that_was_loaded_is_what_it_was(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    fill(store)
    database = store.keyspace.databases[0]
    key = database.find(b"hash")
    assert key is not None
    assert isinstance(key.value, Hash)
    key.value.set_expiry(b"name:5", 1 << 50, store.keyspace)
    store.commit()
    before = sizes(store)
    used = store.keyspace.used_bytes
    store.close()
    store = FileStore(tmp_path / "a.db")
    database = store.keyspace.databases[0]
    assert sizes(store) == before
    assert store.keyspace.used_bytes == used
    fields, members = database.read_as(b"hash", Hash), database.read_as(b"set", Set)
    scores = database.read_as(b"zset", ZSet)
    assert fields is not None
    assert members is not None
    assert scores is not None
    assert (fields.longest, fields.most_fields) == (len(b"name:19999"), COUNT)
    assert (fields.next_expiry_ms, fields.expires_at_ms(b"name:5")) == (1 << 50, 1 << 50)
    assert (members.has_only_integers, members.most_members) == (False, COUNT)
    assert (scores.longest, scores.most_members) == (len(b"name:19999"), COUNT)
    scores.check()
    assert fields.set(b"new", b"v", store.keyspace)
    assert list(fields)[-2:] == [b"name:19999", b"new"]
    assert members.scan(COUNT - 1, 5) == (0, [b"name:19999"])
    store.close()


class CountingFloat(float):
    comparisons = 0

    def __lt__(self, other: float) -> bool:
        CountingFloat.comparisons += 1
        return float(self) < float(other)

    def __eq__(self, other: object) -> bool:
        CountingFloat.comparisons += 1
        return isinstance(other, float) and float(self) == float(other)

    def __add__(self, other: float) -> "CountingFloat":
        return CountingFloat(float(self) + other)

    def __hash__(self) -> int:
        return super().__hash__()


def test_members_that_were_loaded_are_sorted_when_their_order_is_needed() -> None:
    value = ZSet(KEY_ID)
    rows = [(b"%d" % number, CountingFloat(number)) for number in range(COUNT)]
    CountingFloat.comparisons = 0
    value.fill(sorted(rows))  # as the file has them
    assert value.score(b"7") is not None
    assert CountingFloat.comparisons == 0
    assert [member for _, member in value.slice(0, 2)] == [b"0", b"1"]
    assert CountingFloat.comparisons < 16 * COUNT
    CountingFloat.comparisons = 0
    assert value.score_range((5000.0, True), (7000.0, True)) == (5001, 7001)
    value.put(b"5", 6000.5, ChangeLog())  # an increment
    assert value.rank(b"5") == 6000
    assert CountingFloat.comparisons < 300


def test_no_command_waits_until_very_many_members_are_sorted() -> None:
    """Adding a member sorts no more members than there were when the collection became large."""
    value, log = ZSet(KEY_ID), ChangeLog()
    most = 0
    for number in range(COUNT):
        CountingFloat.comparisons = 0
        value.put(b"%d" % number, CountingFloat(number * 7919 % COUNT), log)
        most = max(most, CountingFloat.comparisons)
    assert most < 3 * 16 * ALWAYS_ORDERED
    CountingFloat.comparisons = 0
    assert value.slice(0, 1)[0][1] == b"0"
    assert CountingFloat.comparisons < 100


@pytest.mark.parametrize("is_folded", [False, True])
def test_the_first_command_after_a_crash_does_not_sort_very_many_elements(
    tmp_path: Path, is_folded: bool
) -> None:
    """Recovery loads what the journal mentions. Clients are not there yet, so it makes the order:
    else the first ZADD, SPOP or HSCAN would make it, and all clients would wait."""
    path = tmp_path / "a.db"
    crashed = FileStore(path)
    fill(crashed, folds=is_folded)
    fields, members, scores = collections(crashed)
    fields.set(b"more", b"value", crashed.keyspace)
    members.add(b"more", crashed.keyspace)
    scores.put(b"more", 1.0, crashed.keyspace)
    crashed.commit()
    crashed.abandon()
    store = FileStore(path)
    fields, members, scores = collections(store)
    assert fields._places is not None
    assert members._places is not None
    assert scores._order is not None
    scores.check()
    assert scores.rank(b"more") == 20
    store.close()


@pytest.mark.source_only
def test_closing_holes_touches_one_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close_holes = PlacesChunk.close_holes

    def counted(chunk: PlacesChunk) -> None:
        closed.append(len(chunk.names))
        close_holes(chunk)

    monkeypatch.setattr(insertion_order.PlacesChunk, "close_holes", counted)
    value, log = Set(KEY_ID), ChangeLog()
    for number in range(COUNT):
        value.add(b"%d" % number, log)
    for number in range(0, COUNT, 1):
        value.remove(b"%d" % (number * 7919 % COUNT), log)
    assert len(value) == 0
    assert max(closed) <= CHUNK
    assert sum(closed) < 3 * COUNT


def test_places_hold_together_whatever_goes_and_comes_back() -> None:
    ordinals = range(1, 5000)
    places = Places([b"%d" % number for number in ordinals], ordinals)
    for number in ordinals:
        if number % 17:
            places.remove(number)
    for number in reversed(ordinals):
        if number % 17 and number % 3 == 0:
            places.put_back(b"%d" % number, number)
    expected = [number for number in ordinals if number % 17 == 0 or number % 3 == 0]
    cursor, found = 0, list[bytes]()
    while not found or cursor:
        cursor, names = places.after(cursor, 10)
        found += names
    assert found == [b"%d" % number for number in expected]


def test_a_scan_of_a_sorted_set_looks_into_fewbuckets() -> None:
    members = [b"%d" % number for number in range(COUNT)]
    shuffle = Shuffle(members)
    assert max(map(len, shuffle.buckets)) < 64
    cursor, found = shuffle.after(0, 10)
    assert len(found) == 10
    assert cursor > 0
    assert not shuffle.is_too_small_for(2 * COUNT)
    assert shuffle.is_too_small_for(10 * COUNT)
