"""Random changes of a sorted set, against a plain dict that is sorted for each comparison.

Some steps run like a script that fails: they are undone, and then replayed twice, as recovery
would. Scans go on meanwhile, and must return every member that exists from their beginning to their
end.
"""

import random
from bisect import bisect_left
from collections.abc import Callable

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.values.zset import Entry, LexCut, ZSet
from tests.store.list_rows import KEY_ID, roll_back

INF = float("inf")
SCORES = [0.0, -0.0, 1.0, 1.5, -2.0, 3.0, 1e300, 5e-324, -5e-324, INF, -INF]
MEMBERS = [b"", b"a", b"b", b"aa", b"\xff", *(b"member:%d" % number for number in range(40))]


class Model:
    """The set under test beside its expected content."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log = ChangeLog()
        self.scores: dict[bytes, float] = {}
        self.rows: dict[bytes, float] = {}
        self.subject = ZSet(KEY_ID)
        self.cursor = 0
        self.seen: set[bytes] = set()
        self.present: set[bytes] = set()  # since the scan began

    @property
    def order(self) -> list[Entry]:
        return sorted((score, member) for member, score in self.scores.items())

    def member(self) -> bytes:
        return self.rng.choice(MEMBERS)

    def index(self) -> int:
        return self.rng.randint(0, len(self.scores) + 2)

    # -- mutators -----------------------------------------------------------------------------

    def put(self) -> None:
        for _ in range(self.rng.choice([1, 1, 5])):
            member, score = self.member(), self.rng.choice(SCORES)
            self.subject.put(member, score, self.log)
            self.scores[member] = score

    def remove(self) -> None:
        member = self.member()
        assert self.subject.remove(member, self.log) == (member in self.scores)
        self.scores.pop(member, None)

    def pop(self) -> None:
        count, highest = self.rng.randint(0, 4), self.rng.random() < 0.5
        expected = (self.order[::-1] if highest else self.order)[:count]
        assert self.subject.pop(count, highest, self.log) == expected
        for _, member in expected:
            del self.scores[member]

    def remove_slice(self) -> None:
        start = self.index()
        stop = start + self.rng.choice([0, 1, 3, 100])
        expected = self.order[start:stop]
        assert self.subject.remove_slice(start, stop, self.log) == len(expected)
        for _, member in expected:
            del self.scores[member]

    MUTATORS: tuple[Callable[["Model"], None], ...] = (put, put, put, put, remove, remove, pop,
                                                       remove_slice)  # fmt: skip

    # -- readers ------------------------------------------------------------------------------

    def read(self) -> None:
        order = self.order
        start, stop = self.index(), self.index()
        assert self.subject.slice(start, stop) == order[start:stop]
        member = self.member()
        assert self.subject.score(member) == self.scores.get(member)
        rank = order.index((self.scores[member], member)) if member in self.scores else None
        assert self.subject.rank(member) == rank

    def read_scores(self) -> None:
        low, high = ((self.rng.choice(SCORES), self.rng.random() < 0.5) for _ in range(2))
        start, stop = self.subject.score_range(low, high)
        expected = [
            (score, member)
            for score, member in self.order
            if (score > low[0] if low[1] else score >= low[0])
            and (score <= high[0] if high[1] else score < high[0])
        ]
        assert self.subject.slice(start, stop) == expected if start < stop else not expected

    def read_lex(self) -> None:
        """In a copy where all score the same, as lexical ranges assume."""
        twin = ZSet(1)
        for member in self.scores:
            twin.put(member, 7.0, ChangeLog())
        members = sorted(self.scores)
        low, high = self.cut(), self.cut()
        start, stop = twin.lex_range(low, high)
        found = [member for _, member in twin.slice(start, max(start, stop))]
        assert found == members[place(members, low) : place(members, high)]
        assert twin.lex_range(low, high, reverse=True) == (start, stop)

    def cut(self) -> LexCut:
        return None if self.rng.random() < 0.1 else (self.member(), self.rng.random() < 0.5)

    def scan(self) -> None:
        if not self.cursor:
            self.seen, self.present = set(), set(self.scores)
        self.cursor, members = self.subject.scan(self.cursor, self.rng.randint(1, 7))
        assert set(members) <= set(self.scores)
        self.seen |= set(members)
        if not self.cursor:
            assert self.present <= self.seen

    # -- one step -----------------------------------------------------------------------------

    def step(self) -> None:
        change = self.change
        self.rng.choice(
            [self.read, self.read_scores, self.read_lex, self.scan, self.reload, *[change] * 5]
        )()
        self.present &= set(self.scores)
        self.subject.check()
        assert len(self.subject) == len(self.scores)
        assert dict(self.subject.items()) == self.scores == self.rows
        assert self.log.used_bytes == self.subject.nbytes

    def change(self) -> None:
        before = dict(self.rows)
        is_scripted = self.rng.random() < 0.4
        self.log.undo = [] if is_scripted else None
        self.rng.choice(self.MUTATORS)(self)
        ops = [(member, score) for _, _, member, score in self.log.ops]
        self.log.ops.clear()
        for member, score in ops:
            if score is None:
                del self.rows[member]
            else:
                self.rows[member] = score
        if is_scripted:
            roll_back(self.log)
            assert dict(self.subject.items()) == before
            assert self.log.used_bytes == self.subject.nbytes
            for _ in range(2):  # the second time nothing changes
                for member, score in ops:
                    self.subject.apply(member, score)
            self.log.used_bytes = self.subject.nbytes

    def reload(self) -> None:
        """The value is evicted, and made from its rows again; or it is copied."""
        if self.rng.random() < 0.5:
            self.subject = self.subject.copy(KEY_ID, self.log)
            assert {member: score for _, _, member, score in self.log.ops} == self.rows
            self.log.ops.clear()
            return
        self.subject = ZSet(KEY_ID)
        for member in self.rng.sample(sorted(self.rows), len(self.rows)):
            self.subject.apply(member, self.rows[member])


def place(members: list[bytes], cut: LexCut) -> int:
    if cut is None:
        return len(members)
    return bisect_left(members, cut[0]) + (cut[1] and cut[0] in members)


@pytest.mark.parametrize("seed", range(40))
def test_a_sorted_set_equals_a_sorted_dict(seed: int) -> None:
    model = Model(random.Random(seed))
    for _ in range(300):
        model.step()
