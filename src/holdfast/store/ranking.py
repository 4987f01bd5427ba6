"""Members in the order of their scores, and of their bytes where scores are the same.

They are in chunks, each of which has its scores and its members in two lists: `bisect` compares
scores alone, where those differ, and a member takes two places in lists and nothing else.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

# Whatever can be compared: numbers of sorted sets, ids of streams. (Compiled, a `float` would be a
# number without an object, of which every list and dict had to make one of its own.)
Score = Any
Entry = tuple[Score, bytes]

CHUNK = 1024  # entries at most, and half as many at least when they come in order
FEW = CHUNK // 4  # a chunk that has become so small is joined with a neighbour


class Ranking:
    """`_before` counts the entries before each chunk, as far as anybody has asked since the
    chunks in front changed."""

    __slots__ = ("_before", "_last_members", "_last_scores", "_length", "_members", "_scores")

    def __init__(self, scores: list[Score], members: list[bytes]) -> None:
        """Those of each entry, in order."""
        self._length = len(scores)
        starts = range(0, len(scores), CHUNK // 2)
        self._scores = [scores[start : start + CHUNK // 2] for start in starts]
        self._members = [members[start : start + CHUNK // 2] for start in starts]
        self._last_scores: list[Score] = [chunk[-1] for chunk in self._scores]
        self._last_members = [chunk[-1] for chunk in self._members]
        self._before = [0]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Entry]:
        for scores, members in zip(self._scores, self._members, strict=True):
            yield from zip(scores, members, strict=True)

    # -- changing -----------------------------------------------------------------------------

    def add(self, score: Score, member: bytes) -> None:
        """One that is not there."""
        at = _find(self._last_scores, self._last_members, score, member)
        self._length += 1
        if at == len(self._scores):
            at -= 1
            if at < 0:
                self._insert_chunk(0, [score], [member])
                return
            self._last_scores[at], self._last_members[at] = score, member
            scores, members = self._scores[at], self._members[at]
            scores.append(score)
            members.append(member)
        else:
            scores, members = self._scores[at], self._members[at]
            place = _find(scores, members, score, member)
            scores[place:place] = (score,)  # a quarter of the time of `insert`
            members[place:place] = (member,)
        if len(self._before) > at + 1:
            del self._before[at + 1 :]
        if len(scores) > CHUNK:
            half = CHUNK // 2
            self._insert_chunk(at + 1, scores[half:], members[half:])
            self._set_chunk(at, scores[:half], members[:half])

    def remove(self, score: Score, member: bytes) -> None:
        """One that is there."""
        at = _find(self._last_scores, self._last_members, score, member)
        place = _find(self._scores[at], self._members[at], score, member)
        self._remove(at, place, place + 1)

    def pop(self, highest: bool) -> Entry:
        """The last or the first; there must be one."""
        at = len(self._scores) - 1 if highest else 0
        scores, members = self._scores[at], self._members[at]
        if highest or len(scores) <= FEW:
            place = len(scores) - 1 if highest else 0
            entry = (scores[place], members[place])
            self._remove(at, place, place + 1)
            return entry
        self._length -= 1  # what `_remove` does where nothing else has to be done
        del self._before[1:]
        return scores.pop(0), members.pop(0)

    def remove_slice(self, start: int, stop: int) -> None:
        while start < stop:
            at, place = self._locate(start)
            end = min(place + stop - start, len(self._scores[at]))
            stop -= end - place
            self._remove(at, place, end)

    # -- by place -----------------------------------------------------------------------------

    def entries(self, start: int, stop: int) -> list[Entry]:
        """From one index up to another, neither of them negative."""
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
        """Chunk and place of an index that is there."""
        last = len(self._scores) - 1
        from_last = index - (self._length - len(self._scores[last]))
        if from_last >= 0:
            return last, from_last
        before = self._before
        while before[-1] <= index:
            before.append(before[-1] + len(self._scores[len(before) - 1]))
        at = bisect_right(before, index) - 1
        return at, index - before[at]

    # -- by score -----------------------------------------------------------------------------

    def count_before(self, score: Score, member: bytes) -> int:
        """How many come before this entry, whether or not it is there."""
        at = _find(self._last_scores, self._last_members, score, member)
        if at == len(self._scores):
            return self._length
        return self._count_to(at, _find(self._scores[at], self._members[at], score, member))

    def count_below(self, score: Score) -> int:
        """How many have a lower score."""
        at = bisect_left(self._last_scores, score)
        if at == len(self._scores):
            return self._length
        return self._count_to(at, bisect_left(self._scores[at], score))

    def count_up_to(self, score: Score) -> int:
        """How many have this score or a lower one."""
        at = bisect_right(self._last_scores, score)
        if at == len(self._scores):
            return self._length
        return self._count_to(at, bisect_right(self._scores[at], score))

    def _count_to(self, at: int, place: int) -> int:
        before = self._before
        while len(before) <= at:
            before.append(before[-1] + len(self._scores[len(before) - 1]))
        return before[at] + place

    # -- chunks -------------------------------------------------------------------------------

    def _remove(self, at: int, start: int, stop: int) -> None:
        """Entries of one chunk."""
        scores, members = self._scores[at], self._members[at]
        is_end = stop == len(scores)
        del scores[start:stop]
        del members[start:stop]
        self._length -= stop - start
        if len(self._before) > at + 1:
            del self._before[at + 1 :]
        if len(scores) < FEW:
            self._join(at)
        elif is_end:
            self._last_scores[at], self._last_members[at] = scores[-1], members[-1]

    def _join(self, at: int) -> None:
        """A chunk that has become small with a neighbour, if they fit together well."""
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

    def _insert_chunk(self, at: int, scores: list[Score], members: list[bytes]) -> None:
        self._scores.insert(at, scores)
        self._members.insert(at, members)
        self._last_scores.insert(at, scores[-1])
        self._last_members.insert(at, members[-1])
        del self._before[max(1, at) :]

    def _set_chunk(self, at: int, scores: list[Score], members: list[bytes]) -> None:
        self._scores[at], self._members[at] = scores, members
        self._last_scores[at], self._last_members[at] = scores[-1], members[-1]

    def _drop_chunk(self, at: int) -> None:
        del self._scores[at], self._members[at], self._last_scores[at], self._last_members[at]
        del self._before[max(1, at) :]

    def check(self) -> None:
        """Raise AssertionError if the parts contradict each other."""
        assert list(map(len, self._scores)) == list(map(len, self._members))
        assert sum(map(len, self._scores)) == self._length
        assert all(0 < len(scores) <= CHUNK for scores in self._scores)
        assert self._last_scores == [scores[-1] for scores in self._scores]
        assert self._last_members == [members[-1] for members in self._members]
        for at, count in enumerate(self._before):
            assert count == sum(map(len, self._scores[:at]))


def _find(scores: list[Score], members: list[bytes], score: Score, member: bytes) -> int:
    """The first place whose entry is not before this one."""
    at = bisect_left(scores, score)
    if at < len(scores) and scores[at] == score:
        return bisect_left(members, member, at, bisect_right(scores, score, at))
    return at
