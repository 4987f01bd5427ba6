"""The fold keeps pace with the writes, and no client waits long for it, however large a burst."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.store import store
from holdfast.store.fold import fold
from holdfast.store.fold.fold import Fold
from holdfast.store.store import MOST_ROOM_SLICES, MOST_SLICES, FileStore
from holdfast.store.values.list import List

pytestmark = pytest.mark.source_only

KEYS = 3000


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Fold]:
    """One for each slice that was folded; a slice is one row, and a pass is always due."""
    monkeypatch.setattr(fold, "PASS_ROWS", 1)
    monkeypatch.setattr(fold, "SLICE_ROWS", 1)
    done: list[Fold] = []
    step = Fold.step

    def counted(self: Fold) -> bool:
        done.append(self)
        return step(self)

    monkeypatch.setattr(Fold, "step", counted)
    return done


def write(opened: FileStore, keys: int) -> None:
    for number in range(keys):
        opened.keyspace.databases[0].set_string(b"key-%d" % number, b"v", None)
    opened.commit()


def behind(path: Path) -> FileStore:
    """A pass has just begun, and the next one is due."""
    opened = FileStore(path)
    write(opened, KEYS)
    opened.keep_up(0)
    write(opened, KEYS)
    return opened


def test_a_turn_is_not_held_up_by_all_that_was_put_off(tmp_path: Path, steps: list[Fold]) -> None:
    """As after a checkpoint, while which nothing is folded, or a command of a million keys."""
    opened = behind(tmp_path / "a.db")
    steps.clear()
    opened.keep_up(1_000_000)
    assert len(steps) == MOST_SLICES
    assert opened.owed_slices > 1000
    turns = 0
    while opened.folding.is_behind:
        before = len(steps)
        opened.keep_up(1)
        assert len(steps) - before <= MOST_SLICES
        turns += 1
    assert turns < KEYS, "the turns that follow do more than their own share"
    opened.keep_up(0)
    assert opened.owed_slices == 0
    opened.abandon()


def test_nothing_is_owed_when_all_is_folded(tmp_path: Path, steps: list[Fold]) -> None:
    """An idle server folds without `keep_up`. Links of peers wait while much is owed, and a server
    that only they write to would not call `keep_up` again."""
    opened = behind(tmp_path / "a.db")
    opened.keep_up(1_000_000)
    assert opened.owed_slices > 1000
    opened.fold()
    assert not opened.has_work_waiting
    assert opened.owed_slices == 0
    opened.abandon()


def test_under_a_load_that_the_fold_cannot_follow_each_turn_pays_for_itself(
    tmp_path: Path, steps: list[Fold], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the journal would grow for as long as that lasts."""
    monkeypatch.setattr(store, "MOST_OWED_SLICES", 100)
    opened = behind(tmp_path / "a.db")
    opened.keep_up(1_000_000)
    steps.clear()
    opened.keep_up(100 * store.OPS_PER_SLICE)
    assert len(steps) >= 101
    opened.abandon()


def test_no_client_waits_long_for_room_in_memory(tmp_path: Path, steps: list[Fold]) -> None:
    opened = FileStore(tmp_path / "a.db")
    write(opened, KEYS)
    opened.keyspace.databases[0].set_string(b"large", b"x" * 10_000_000, None)
    opened.commit()
    opened.max_bytes = 1
    turns = 0
    while opened.keyspace.used_bytes > 1 and turns < 20 * KEYS:
        before = len(steps)
        opened.make_room()
        assert len(steps) - before <= MOST_ROOM_SLICES
        turns += 1
    assert opened.keyspace.used_bytes <= 1
    opened.abandon()


class Cpu:
    """A clock of CPU time, by which each slice takes two milliseconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.002
        return self.now_s


def test_a_turn_that_owes_little_folds_for_a_millisecond(
    tmp_path: Path, steps: list[Fold], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The more slices are left over, the longer a turn may fold, up to the most."""
    opened = behind(tmp_path / "a.db")
    monkeypatch.setattr(store, "thread_time", Cpu())
    done = []
    for owed in (0, store.OWED_SLICES * 8, store.OWED_SLICES * 1000):
        opened._owed_slices = owed
        steps.clear()
        opened.keep_up(0)
        done.append(len(steps))
    assert done[0] == 1
    assert 1 < done[1] < MOST_SLICES
    assert done[2] == MOST_SLICES
    opened.abandon()


def test_slices_that_write_no_rows_are_progress_of_the_pass(tmp_path: Path) -> None:
    """Else a pass that collects rows would seem to stand still, and fill whole turns."""
    opened = FileStore(tmp_path / "a.db")
    write(opened, KEYS)
    folding = opened.folding
    opened.fold_step()
    shares = []
    while folding.ops_of_pass[0] == 0:
        shares.append(folding._done_share)
        opened.fold_step()
    assert 0 <= shares[0] < shares[-1] <= 1
    opened.fold()
    opened.close()


@pytest.mark.parametrize(("keys", "most"), [(100, 16), (400, 4), (2000, 2)])
def test_where_few_keys_are_a_pass_has_few_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int, most: int
) -> None:
    """Until their pass has ended, new keys are objects. `most` is how many rows one counts as."""
    monkeypatch.setattr(fold, "PASS_ROWS", 200)
    opened = FileStore(tmp_path / "a.db")
    write(opened, keys)
    opened.fold()
    new = -(-200 // most)
    are_behind: list[bool] = []
    for number in range(new):
        opened.keyspace.databases[0].set_string(b"new-%d" % number, b"v", None)
        opened.commit()
        are_behind.append(opened.folding.is_behind)
    assert are_behind == [False] * (new - 1) + [True]
    opened.close()


def test_a_pass_of_list_elements_begins_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copies of elements that wait are memory which the process keeps."""
    monkeypatch.setattr(fold, "PASS_ROWS", 100 * fold.ELEMENT_ROWS)
    opened = FileStore(tmp_path / "a.db")
    keyspace = opened.keyspace
    value = keyspace.databases[0].find_or_create_as(b"list", List)
    value.push_right([b"the key is not new"], keyspace)
    opened.commit()
    opened.fold()
    value = keyspace.databases[0].find_or_create_as(b"list", List)  # it was packed
    for element in range(50):  # operations of their own, and runs
        value.push_right([b"%d" % element], keyspace)
        value.push_left([b"%d" % element], keyspace)
        opened.commit()
        assert opened.folding.is_behind is (element == 49)
    opened.fold()
    are_behind = []
    for count in (99, 1):
        value.push_right([b"a"] * count, keyspace)
        opened.commit()
        are_behind.append(opened.folding.is_behind)
    assert are_behind == [False, True]
    opened.close()


def test_jobs_that_come_and_go_make_few_passes(tmp_path: Path) -> None:
    """A pass that comes while a job lives writes it, and a later one removes it again."""
    opened = FileStore(tmp_path / "a.db")
    database = opened.keyspace.databases[0]
    many = fold.PASS_ROWS // fold.FEW_NEW_KEY_ROWS + 1
    for number in range(many):
        name = b"job-%d" % number
        database.set_string(name, b"v", None)
        database.discard(name)
        opened.commit()
    is_behind = [opened.folding.is_behind]
    write(opened, many)
    is_behind.append(opened.folding.is_behind)
    assert is_behind == [False, True]
    opened.abandon()


@pytest.mark.parametrize("owed", [store.OWED_SLICES * 8, store.MOST_OWED_SLICES + 1])
def test_the_fold_pauses_between_two_slices_while_a_client_waits_and_does_as_many(
    tmp_path: Path, steps: list[Fold], owed: int
) -> None:
    done = []
    askings: dict[str, Callable[[], bool]] = {"a.db": lambda: False, "b.db": lambda: True}
    for name, is_awaited in askings.items():
        opened = behind(tmp_path / name)
        opened._owed_slices = owed
        steps.clear()
        pauses = 0
        while opened.keep_up(0 if pauses else 10_000, is_awaited):
            pauses += 1
            assert len(steps) == pauses
        done.append((len(steps), opened.owed_slices))
        assert pauses == (len(steps) - 1 if is_awaited() else 0)
        opened.abandon()
    assert done[0] == done[1]


@pytest.mark.parametrize("parts", [1, 4])
def test_a_slice_may_have_parts(tmp_path: Path, steps: list[Fold], parts: int) -> None:
    opened = behind(tmp_path / "a.db")
    opened.folding.parts_of_slice = parts
    opened._owed_slices = store.MOST_OWED_SLICES  # which gives all the time that a turn may take
    before, due = opened.owed_slices, (1 + 1000 // store.OPS_PER_SLICE) * opened.folding.urgency
    steps.clear()
    opened.keep_up(1000)
    assert len(steps) == parts * MOST_SLICES
    assert opened.owed_slices == before + due - MOST_SLICES
    opened.abandon()
