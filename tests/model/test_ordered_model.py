"""Random commands on a set and on a hash, against plain dicts: elements, order, rows, scans.

Some commands are taken back, as a failed script's are; now and then the value is loaded from its
rows again, or the rows since are applied over a mixture of old and new ones, as after a crash in
the middle of a fold.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.values.hash import Hash
from holdfast.store.values.set import Set
from tests.store.list_rows import KEY_ID, roll_back

NAMES = [b"", b"1", b"-7", b"x" * 70, *(b"name:%d" % n for n in range(60))]


class Scan:
    def __init__(self, names: set[bytes]) -> None:
        self.cursor = 0
        self.throughout = names
        self.seen: list[bytes] = []


class Model(ABC):
    """The value under test beside its expected content: names in order, with their values."""

    subject: Set | Hash

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log = ChangeLog()
        self.expected: dict[bytes, Any] = {}
        self.rows: dict[bytes, Any] = {}  # expected in the file when all is folded
        self.table: dict[bytes, Any] = {}  # the actual content of the file
        self.unfolded: list[tuple[bytes, Any]] = []
        self.scan: Scan | None = None
        self.subject = self.empty()

    @abstractmethod
    def empty(self) -> Set | Hash: ...

    @abstractmethod
    def change(self) -> None: ...

    @abstractmethod
    def contents(self) -> dict[bytes, Any]: ...

    def name(self) -> bytes:
        return self.rng.choice(NAMES)

    # -- one step -----------------------------------------------------------------------------

    def step(self) -> None:
        self.rng.choice([self.do, self.do, self.do, self.pick, self.go_on_scanning])()
        if self.rng.random() < 0.1:
            self.rng.choice([self.fold_some, self.reload, self.recover])()
        assert len(self.subject) == len(self.expected)
        assert self.log.used_bytes == self.subject.nbytes
        if self.rng.random() < 0.5:
            assert list(self.contents().items()) == list(self.expected.items())

    def do(self) -> None:
        is_scripted = self.rng.random() < 0.3
        before, places = dict(self.expected), list(self.subject.names)
        self.log.undo = [] if is_scripted else None
        for _ in range(self.rng.choice([1, 1, 3, 20])):
            self.change()
        if is_scripted and self.rng.random() < 0.7:
            roll_back(self.log)
            self.log.ops.clear()
            self.expected = before
            assert list(self.subject.names) == places
        for _, key_id, name, row in self.log.ops:
            assert key_id == KEY_ID
            self.unfolded.append((name, row))
            _write(self.rows, name, row)
        self.log.ops.clear()

    def forget(self, name: bytes) -> None:
        """It went, and may come again: a scan owes it nothing."""
        self.expected.pop(name, None)
        if self.scan is not None:
            self.scan.throughout.discard(name)

    def pick(self) -> None:
        if not self.expected:
            return
        assert self.subject.pick(self.rng) in self.expected
        count = self.rng.randint(1, len(self.expected) + 2)
        sample = list(self.subject.sample(count, self.rng))
        assert len(set(sample)) == len(sample) == min(count, len(self.expected))
        assert set(sample) <= self.expected.keys()

    def go_on_scanning(self) -> None:
        scan = self.scan = self.scan or Scan(set(self.expected))
        scan.cursor, names = self.subject.scan(scan.cursor, self.rng.randint(1, 10))
        assert set(names) <= self.expected.keys()
        scan.seen += names
        if not scan.cursor:
            assert all(scan.seen.count(name) == 1 for name in scan.throughout)
            self.scan = None

    # -- the file -----------------------------------------------------------------------------

    def fold_some(self) -> None:
        latest = dict(self.unfolded)
        for name in self.rng.sample(sorted(latest), self.rng.randint(0, len(latest))):
            _write(self.table, name, latest[name])

    def reload(self) -> None:
        self.table = dict(self.rows)
        self.unfolded.clear()
        self.load()

    def recover(self) -> None:
        self.fold_some()
        self.load()
        for _ in range(2):
            for name, row in self.unfolded:
                self.subject.apply(name, row)
        self.log.used_bytes = self.subject.nbytes

    def load(self) -> None:
        self.subject = self.empty()
        for name in sorted(self.table):
            self.subject.apply(name, self.table[name])
        self.log.used_bytes = self.subject.nbytes

    def copy(self) -> None:
        log = ChangeLog()
        twin = self.subject.copy(KEY_ID + 1, log)
        assert list(twin.names) == list(self.subject.names)
        assert {name: row for _, _, name, row in log.ops} == self.rows
        assert {key_id for _, key_id, _, _ in log.ops} <= {KEY_ID + 1}
        assert twin.nbytes == self.subject.nbytes
        assert log.used_bytes == 0


class SetModel(Model):
    subject: Set

    def empty(self) -> Set:
        return Set(KEY_ID)

    def contents(self) -> dict[bytes, Any]:
        return dict.fromkeys(self.subject)

    def change(self) -> None:
        name = self.name()
        assert (name in self.subject) == (name in self.expected)
        if self.rng.random() < 0.55:
            assert self.subject.add(name, self.log) == (name not in self.expected)
            self.expected.setdefault(name)
        else:
            assert self.subject.remove(name, self.log) == (name in self.expected)
            self.forget(name)


class HashModel(Model):
    """Of each field its value and its expiry."""

    subject: Hash

    def empty(self) -> Hash:
        return Hash(KEY_ID)

    def contents(self) -> dict[bytes, Any]:
        subject = self.subject
        deadlines = [at for _, at in self.expected.values() if at is not None]
        assert subject.next_expiry_ms == min(deadlines, default=None)
        assert tuple(subject.items.values()) == subject.values
        return {name: (value, subject.expires_at_ms(name)) for name, value in subject.items.items()}

    def change(self) -> None:
        self.rng.choice([self.set, self.set, self.set, self.remove, self.expire, self.pass_time])()

    def set(self) -> None:
        name, value, keep = self.name(), self.rng.randbytes(3), self.rng.random() < 0.5
        is_new = self.subject.set(name, value, self.log, keep_expiry=keep)
        assert is_new == (name not in self.expected)
        _, expires_at_ms = self.expected.get(name, (b"", None))
        self.expected[name] = (value, expires_at_ms if keep else None)

    def remove(self) -> None:
        name = self.name()
        assert self.subject.remove(name, self.log) == (name in self.expected)
        self.forget(name)

    def expire(self) -> None:
        name, expires_at_ms = self.name(), self.rng.choice([None, self.rng.randrange(100)])
        if name in self.expected:
            self.subject.set_expiry(name, expires_at_ms, self.log)
            self.expected[name] = (self.expected[name][0], expires_at_ms)

    def pass_time(self) -> None:
        now_ms, limit = self.rng.randrange(30), self.rng.choice([1, 3, 1000])
        due = [name for name, (_, at) in self.expected.items() if at is not None and at <= now_ms]
        assert len(self.subject.expire_due(now_ms, limit, self.log)) == min(limit, len(due))
        gone = [name for name in due if name not in self.subject]
        assert len(gone) == min(limit, len(due))
        for name in gone:
            self.forget(name)


def _write(rows: dict[bytes, Any], name: bytes, row: Any) -> None:
    if row is None:
        rows.pop(name, None)
    else:
        rows[name] = row


@pytest.mark.parametrize("make", [SetModel, HashModel], ids=["set", "hash"])
@pytest.mark.parametrize("seed", range(30))
def test_hashes_and_sets_equal_a_plain_dict(
    seed: int, make: Callable[[random.Random], Model]
) -> None:
    model = make(random.Random(seed))
    for _ in range(300):
        model.step()
    model.copy()
    model.recover()
    assert list(model.contents().items()) == list(model.expected.items())
