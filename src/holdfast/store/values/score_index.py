"""Members in the order of their scores. Members with equal scores are in the order of their bytes.

They are in chunks. A chunk has its scores in one sequence and its members in another, because most
comparisons need only scores, and an entry then takes two pointers and no object of its own. If
scores are numbers, compiled functions change both sequences (_score_index.c). Otherwise, or if C is
not compiled, the functions at the end of this file do.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Final

try:
    from holdfast.store.values import _score_index
except ImportError:  # it is not compiled on every system
    NUMBERS: Any = None
else:
    NUMBERS = _score_index

# Anything that can be compared: numbers of sorted sets, ids of streams. (With the type `float`,
# compiled code would hold numbers without objects, and make a new object for each list and dict.)
Score = Any
Scores = Any  # a list, or an array of numbers: the objects of a large set do not fit into a cache
Entry = tuple[Score, bytes]

# (Compiled code looks up a name that is not Final in a dict.)
_left: Final = bisect_left
_right: Final = bisect_right

CHUNK: Final = 1024  # the most entries; at least half as many if entries arrive in order
FEW: Final = CHUNK // 4  # a chunk of this size or smaller is joined with a neighbour
# the size of the first chunk, from which entries are popped: in a longer one all would move
FRONT: Final = CHUNK // 16


class Ranking:
    """An ordered index of entries.

    `_sums` is a Fenwick tree over the lengths of chunks: it gives the number of entries from a
    chunk on without counting all. The last chunk is first in it, because most chunks are added and
    removed in front, where entries are popped. It is built when it is needed, and dropped when a
    chunk is added or removed, which happens once in hundreds of changes.
    """

    __slots__ = (
        "_find",
        "_insert",
        "_last_members",
        "_last_scores",
        "_length",
        "_members",
        "_no_scores",
        "_pop",
        "_scores",
        "_sums",
        "_take",
    )

    def __init__(self, scores: Scores, members: list[bytes]) -> None:
        """`scores` and `members` of all entries, in order."""
        how = NUMBERS if isinstance(scores, array) else None
        self._find: Callable[[Scores, list[bytes], Score, bytes | None], int]
        self._insert: Callable[[Scores, list[bytes], Score, bytes], None]
        self._take: Callable[[Scores, list[bytes], Score, bytes], bytes]
        # (returns an Entry, so that it is made only once)
        self._pop: Callable[[Scores, list[bytes], int], Any]
        self._find, self._insert = (how.find, how.insert) if how else (find, insert)
        self._take, self._pop = (how.take, how.pop) if how else (take, pop)
        self._length = len(members)
        starts = range(0, len(members), CHUNK // 2)
        self._scores: list[Scores] = [scores[start : start + CHUNK // 2] for start in starts]
        self._members = [members[start : start + CHUNK // 2] for start in starts]
        self._no_scores: Scores = scores[:0]  # an empty sequence of the same type
        self._last_scores: Scores = scores[:0]
        self._last_scores.extend([chunk[-1] for chunk in self._scores])
        self._last_members = [chunk[-1] for chunk in self._members]
        self._sums: list[int] = []

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Entry]:
        for scores, members in zip(self._scores, self._members, strict=True):
            yield from zip(scores, members, strict=True)

    def parts(self) -> list[Any]:
        """The large objects in it; see Collection."""
        return [self._scores, self._members]

    # -- changing -----------------------------------------------------------------------------

    def add(self, score: Score, member: bytes) -> None:
        """Add an entry that does not exist."""
        at = self._find(self._last_scores, self._last_members, score, member)
        self._length += 1
        if at == len(self._scores):
            at -= 1
            if at < 0:
                scores = self._no_scores[:]
                scores.append(score)
                self._insert_chunk(0, scores, [member])
                return
            self._last_scores[at], self._last_members[at] = score, member
            scores, members = self._scores[at], self._members[at]
            scores.append(score)
            members.append(member)
        else:
            scores, members = self._scores[at], self._members[at]
            self._insert(scores, members, score, member)
        if self._sums:
            self._change_length(at, 1)
        if len(members) > CHUNK:
            self._split(at, CHUNK // 2)

    def remove(self, score: Score, member: bytes) -> bytes:
        """Remove an entry that exists. Returns the member, as the object that was kept."""
        at = self._find(self._last_scores, self._last_members, score, member)
        scores, members = self._scores[at], self._members[at]
        kept = self._take(scores, members, score, member)
        self._shrunk(at, 1, kept is self._last_members[at])
        return kept

    def pop(self, highest: bool) -> Any:
        """Remove and return the last Entry or the first; there must be one."""
        at = len(self._scores) - 1 if highest else 0
        scores, members = self._scores[at], self._members[at]
        if not highest and len(members) > 2 * FRONT:
            self._split(0, FRONT)
            scores, members = self._scores[0], self._members[0]
        entry: Any = self._pop(scores, members, len(members) - 1 if highest else 0)
        if highest or not members:
            self._shrunk(at, 1, True)
        else:
            # The chunk is not joined with the next one, because it will soon be empty.
            self._length -= 1
            if self._sums:
                self._change_length(0, -1)
        return entry

    def remove_slice(self, start: int, stop: int) -> None:
        while start < stop:
            at, place = self._locate(start)
            end = min(place + stop - start, len(self._scores[at]))
            stop -= end - place
            is_end = end == len(self._scores[at])
            del self._scores[at][place:end], self._members[at][place:end]
            self._shrunk(at, end - place, is_end)

    # -- by place -----------------------------------------------------------------------------

    def entries(self, start: int, stop: int) -> list[Entry]:
        """The entries from one index up to another. Neither is negative."""
        found: list[Entry] = []
        stop = min(stop, self._length)
        if start < stop:
            at, place = self._locate(start)
            missing = stop - start
            while missing > 0:
                scores = self._scores[at][place : place + missing]
                found += zip(scores, self._members[at][place : place + missing], strict=True)
                missing -= len(scores)
                at, place = at + 1, 0
        return found

    def members(self, start: int, stop: int) -> list[bytes]:
        """The same without scores."""
        found: list[bytes] = []
        stop = min(stop, self._length)
        if start < stop:
            at, place = self._locate(start)
            missing = stop - start
            found = self._members[at][place : place + missing]
            while missing > len(found):
                at += 1
                found += self._members[at][: missing - len(found)]
        return found

    def _locate(self, index: int) -> tuple[int, int]:
        """The chunk and the place of an index, which must exist."""
        last = len(self._scores) - 1
        from_last = index - (self._length - len(self._scores[last]))
        if from_last >= 0:
            return last, from_last
        sums = self._built_sums()
        from_end = self._length - index
        # the number of chunks after the one of the index, counted from the last
        chunks, step = 0, 1 << len(sums).bit_length() - 1
        while step:
            more = chunks + step
            if more <= len(sums) and sums[more - 1] < from_end:
                from_end -= sums[more - 1]
                chunks = more
            step >>= 1
        at = last - chunks
        return at, len(self._scores[at]) - from_end

    # -- by score -----------------------------------------------------------------------------

    def count_before(self, score: Score, member: bytes | None) -> int:
        """The number of entries before this entry, which need not exist. The member None comes
        after all members of its score."""
        at = self._find(self._last_scores, self._last_members, score, member)
        if at == len(self._scores):
            return self._length
        return self._count_to(at, self._find(self._scores[at], self._members[at], score, member))

    def count_below(self, score: Score) -> int:
        """The number of entries with a lower score."""
        return self.count_before(score, b"")

    def count_up_to(self, score: Score) -> int:
        """The number of entries with this score or a lower one."""
        return self.count_before(score, None)

    def _count_to(self, at: int, place: int) -> int:
        sums = self._built_sums()
        return self._length - sum_of(sums, len(sums) - at) + place

    def _built_sums(self) -> list[int]:
        sums = self._sums
        if not sums:
            sums = self._sums = [len(scores) for scores in reversed(self._scores)]
            for at in range(len(sums)):
                parent = at | at + 1
                if parent < len(sums):
                    sums[parent] += sums[at]
        return sums

    def _change_length(self, at: int, change: int) -> None:
        sums = self._sums
        at = len(sums) - 1 - at
        while at < len(sums):
            sums[at] += change
            at |= at + 1

    # -- chunks -------------------------------------------------------------------------------

    def _shrunk(self, at: int, count: int, at_its_end: bool) -> None:
        """Note that a chunk has lost so many entries, at its end or elsewhere."""
        self._length -= count
        if self._sums:
            self._change_length(at, -count)
        members = self._members[at]
        if len(members) < FEW:
            self._join(at)
        elif at_its_end:
            self._last_scores[at], self._last_members[at] = self._scores[at][-1], members[-1]

    def _join(self, at: int) -> None:
        """Join a small chunk with a neighbour, if both fit into one."""
        scores, members = self._scores[at], self._members[at]
        if not scores:
            self._drop_chunk(at)
            return
        self._last_scores[at], self._last_members[at] = scores[-1], members[-1]
        for first in (at - 1, at):
            if 0 <= first < len(self._scores) - 1:
                after = first + 1
                if len(self._scores[first]) + len(self._scores[after]) <= CHUNK // 2:
                    scores = self._scores[first] + self._scores[after]
                    members = self._members[first] + self._members[after]
                    self._drop_chunk(after)
                    self._set_chunk(first, scores, members)
                    return

    def _split(self, at: int, place: int) -> None:
        scores, members, sums = self._scores[at], self._members[at], self._sums
        self._insert_chunk(at + 1, scores[place:], members[place:])
        self._set_chunk(at, scores[:place], members[:place])
        if at == 0 and sums:
            self._sums = sums
            self._change_length(0, -place)
            count = len(sums)
            sums.append(place + sum_of(sums, count) - sum_of(sums, count & count + 1))

    def _insert_chunk(self, at: int, scores: Scores, members: list[bytes]) -> None:
        self._scores.insert(at, scores)
        self._members.insert(at, members)
        self._last_scores.insert(at, scores[-1])
        self._last_members.insert(at, members[-1])
        self._sums = []

    def _set_chunk(self, at: int, scores: Scores, members: list[bytes]) -> None:
        self._scores[at], self._members[at] = scores, members
        self._last_scores[at], self._last_members[at] = scores[-1], members[-1]

    def _drop_chunk(self, at: int) -> None:
        del self._scores[at], self._members[at], self._last_scores[at], self._last_members[at]
        self._sums = self._sums[:-1] if at == 0 else []

    def check(self) -> None:
        """Raise AssertionError if the parts contradict each other."""
        assert list(map(len, self._scores)) == list(map(len, self._members))
        assert sum(map(len, self._scores)) == self._length
        assert all(0 < len(scores) <= CHUNK for scores in self._scores)
        assert list(self._last_scores) == [scores[-1] for scores in self._scores]
        assert self._last_members == [members[-1] for members in self._members]
        for at in range(len(self._sums)):
            assert self._count_to(at, 0) == sum(map(len, self._scores[:at]))


def sum_of(sums: list[int], count: int) -> int:
    """The sum of the first `count` numbers of a Fenwick tree."""
    total = 0
    while count:
        total += sums[count - 1]
        count &= count - 1
    return total


# -- entries of one chunk, whatever their scores are ----------------------------------------------


def find(scores: Scores, members: list[bytes], score: Score, member: bytes | None) -> int:
    """The first place whose entry is not before this one. The member None comes after all members
    of the score."""
    if member is None:
        after: int = _right(scores, score)
        return after
    at: int = _left(scores, score)
    if at == len(scores) or scores[at] != score:
        return at
    if at + 1 == len(scores) or scores[at + 1] != score:
        return at + 1 if members[at] < member else at
    return _left(members, member, at, _right(scores, score, at))


def insert(scores: Scores, members: list[bytes], score: Score, member: bytes) -> None:
    """Insert an entry that does not exist."""
    place = find(scores, members, score, member)
    scores.insert(place, score)
    members[place:place] = (member,)  # a quarter of the time of `insert`


def take(scores: Scores, members: list[bytes], score: Score, member: bytes) -> bytes:
    """Remove an entry that exists. Returns the member, as the object that was kept."""
    return pop(scores, members, find(scores, members, score, member))[1]


def pop(scores: Scores, members: list[bytes], place: int) -> Entry:
    """Remove the entry at a place, which must exist."""
    return scores.pop(place), members.pop(place)
