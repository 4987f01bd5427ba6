"""The value of a sorted set: the score of each member, and the members in the order of scores.

Each method that changes the set reports the changed rows to its last argument, the `ChangeLog`.
Nothing here knows key names, replies or SQL, nor the syntax of bounds in commands.
"""

from array import array
from collections.abc import Collection, Generator, Iterable, Iterator
from itertools import repeat
from typing import Any, Final

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.intents import ADDED, WRITTEN_AGAIN
from holdfast.store.change.ops import ZSET_MEMBERS, row_ops, zset_member
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.packed_form import LONGEST_PACKED, MOST_PACKED
from holdfast.store.values.score_index import Ranking

# Score and member, in this order because entries are sorted so. (score_index.py explains why the
# score is Any.)
Entry = tuple[Any, bytes]

# A place between scores, or between members: directly before the given one, or directly after it
# (True).
ScoreCut = tuple[float, bool]
LexCut = tuple[bytes, bool] | None  # None: after everything

# The bytes that a short member takes in addition to its own, measured: headers, a float, its slots
# in the dict and the order.
MEMBER_OVERHEAD: Final = 130

# from so many members on, the order is kept up to date, because building it takes long
ALWAYS_ORDERED = 16_384
SETTLED: Final = 500  # members in a slice, about 0.5 ms

HASH_BITS = 63
HASH_MASK = (1 << HASH_BITS) - 1


class Shuffle:
    """Members roughly in the order of their hashes: in buckets by the highest bits, which are
    sorted when they are read. So building it takes a third of the time that sorting would take."""

    __slots__ = ("_most", "_shift", "buckets")

    def __init__(self, members: Collection[bytes]) -> None:
        bits = max(4, len(members).bit_length() - 4)  # eight to sixteen members in each
        self._shift = HASH_BITS - bits
        self._most = 64 << bits
        self.buckets: list[list[bytes]] = [[] for _ in range(1 << bits)]
        shift, buckets = self._shift, self.buckets
        for member in members:
            buckets[_place(member) >> shift].append(member)

    def is_too_small_for(self, members: int) -> bool:
        return members > self._most

    def add(self, member: bytes) -> None:
        self.buckets[_place(member) >> self._shift].append(member)

    def remove(self, member: bytes) -> None:
        self.buckets[_place(member) >> self._shift].remove(member)

    def after(self, place: int, limit: int) -> tuple[int, list[bytes]]:
        """The members from this place on, `limit` of them or a few more; and the place to continue
        with, 0 at the end."""
        found: list[bytes] = []
        for at in range(place >> self._shift, len(self.buckets)):
            found += [member for member in self.buckets[at] if _place(member) >= place]
            if len(found) > limit:
                # Two members with the same hash are very unlikely, but a scan must return both at
                # once.
                found.sort(key=_place)
                last = _place(found[limit - 1])
                while limit < len(found) and _place(found[limit]) == last:
                    limit += 1
                rest = found[limit:]
                return (_place(rest[0]) if rest else last + 1), found[:limit]
        return 0, sorted(found, key=_place)


class ZSet:
    """A sorted set. A score is never nan, and -0 becomes 0, because the file keeps neither.

    The order is built at its first use, or when there are many members. So filling a small set and
    looking up scores costs no more than a dict; but sorting a million members at once would delay
    all clients by a second. The order of scans is built at its first use.

    `most_members` and `longest` (member) are maxima since the value came to memory. They decide the
    encoding, because in Redis, too, a large set keeps its encoding when it becomes small.
    """

    __slots__ = ("_order", "_scores", "_shuffle", "id", "longest", "most_members", "nbytes")

    def __init__(self, key_id: int) -> None:
        self.id: Any = key_id  # as in Elements
        self.nbytes = self.longest = self.most_members = 0
        self._scores: dict[bytes, float] = {}
        self._order: Ranking | None = None
        self._shuffle: Shuffle | None = None

    def __len__(self) -> int:
        return len(self._scores)

    def parts(self) -> list[Any]:
        parts: list[Any] = [self._scores]
        if self._order is not None:
            parts += self._order.parts()
        if self._shuffle is not None:
            parts.append(self._shuffle.buckets)
        return parts

    def __iter__(self) -> Iterator[bytes]:
        """The members, in any order."""
        return iter(self._scores)

    def __contains__(self, member: bytes) -> bool:
        return member in self._scores

    def score(self, member: bytes) -> float | None:
        return self._scores.get(member)

    def items(self) -> Iterable[tuple[bytes, float]]:
        """Members and scores, in any order."""
        return self._scores.items()

    # -- changing -----------------------------------------------------------------------------

    def put(self, member: bytes, score: float, log: ChangeLog) -> None:
        """Set the score of a member, which may be new."""
        self.change(member, self._scores.get(member), score, log)

    def add_to(self, member: bytes, amount: float, score: float, log: ChangeLog) -> None:
        """ZINCRBY: set the score of a member to a sum."""
        log.intend(ADDED, 0, amount)
        self.put(member, score, log)

    def write_again(self, member: bytes, score: float, log: ChangeLog) -> None:
        """ZADD of the score that the member already has. No row changes, but for replicas the write
        is a newer one."""
        log.intend(WRITTEN_AGAIN, self.id, (ZSET_MEMBERS, member, score))

    def change(self, member: bytes, old: float | None, score: float, log: ChangeLog) -> None:
        """`put`, for callers that know the score until now; None if the member did not exist."""
        new: Any = score + 0.0  # -0 becomes 0; one object for the dict and the operation
        self._scores[member] = new
        order = self._order
        if order is not None:
            if old is not None:
                # From here on use the object that dict and order have. The one that came with the
                # command can be freed at once, and its memory, which is in the caches, is used for
                # the next one.
                member = order.remove(old, member)
            order.add(new, member)
        elif len(self._scores) >= ALWAYS_ORDERED:
            self._ordered()
        if old is None:
            if self._shuffle is not None:
                self._shuffle.add(member)
            log.used_bytes += self._came(member)
        if len(self._scores) >= log.fold_state.large_from:
            log.fold_state.large[self.id] = self
        log.ops.append(zset_member(self.id, member, new))
        if log.undo is not None:
            log.undo.append(RowUndo(ZSET_MEMBERS, self, member, old))

    def remove(self, member: bytes, log: ChangeLog) -> bool:
        """Remove a member. Returns False if it did not exist."""
        score = self._scores.get(member)
        if score is None:
            return False
        if self._order is not None:
            self._order.remove(score, member)
        self._gone(score, member, log)
        return True

    def pop(self, count: int, highest: bool, log: ChangeLog) -> list[Entry]:
        """Pop up to `count` members from one end, in order."""
        order = self._ordered()
        popped: list[Entry] = []
        for _ in range(min(count, len(self._scores))):
            # (If compiled code knew that it is a tuple, it would make a new one.)
            entry: Any = order.pop(highest)
            self._gone(entry[0], entry[1], log)
            popped.append(entry)
        return popped

    def remove_slice(self, start: int, stop: int, log: ChangeLog) -> int:
        """Remove a slice of the order. Returns the number of its members."""
        order = self._ordered()
        entries = order.entries(start, stop)
        order.remove_slice(start, start + len(entries))
        for score, member in entries:
            self._gone(score, member, log)
        return len(entries)

    def _gone(self, score: Any, member: bytes, log: ChangeLog) -> None:
        """Remove a member, which has left the order, from everything else."""
        del self._scores[member]
        if self._shuffle is not None:
            self._shuffle.remove(member)
        nbytes = len(member) + MEMBER_OVERHEAD
        self.nbytes -= nbytes
        log.used_bytes -= nbytes
        if len(self._scores) >= log.fold_state.large_from:
            log.fold_state.large[self.id] = self
        log.ops.append(zset_member(self.id, member, None))
        if log.undo is not None:
            log.undo.append(RowUndo(ZSET_MEMBERS, self, member, score))

    def _came(self, member: bytes) -> int:
        """Count a new member. Returns the bytes that it takes."""
        length, members = len(member), len(self._scores)
        if length > self.longest:
            self.longest = length
        if members > self.most_members:
            self.most_members = members
        nbytes = length + MEMBER_OVERHEAD
        self.nbytes += nbytes
        return nbytes

    def fill(self, rows: list[tuple[bytes, float]]) -> None:
        """Add rows of the file, many at once, sorted by member. The order of scores is built at its
        first use."""
        self._scores.update(rows)
        for member, _ in rows:
            length = len(member)
            self.nbytes += length + MEMBER_OVERHEAD
            if length > self.longest:
                self.longest = length
        self.most_members = len(self._scores)

    def settle(self) -> Generator[None]:
        """Build the order of a large set that was loaded, a slice at a time."""
        order = Ranking(array("d"), [])
        for number, (member, score) in enumerate(self._scores.items()):
            order.add(score, member)
            if number % SETTLED == 0:
                yield
        self._order = order

    def apply(self, member: bytes, score: float | None) -> None:
        """Apply one row operation that is logged already. Nothing changes if the row is in effect
        already."""
        old = self._scores.pop(member, None)
        order = self._order
        self._shuffle = None
        if old is not None:
            self.nbytes -= len(member) + MEMBER_OVERHEAD
            if order is not None:
                order.remove(old, member)
        if score is not None:
            self._scores[member] = score
            self._came(member)
            if order is not None:
                order.add(score, member)

    def copy(self, new_id: int, log: ChangeLog) -> "ZSet":
        """See Collection. No undo, and no bytes are counted: the key of the copy does both."""
        new = ZSet(new_id)
        new._scores = self._scores.copy()
        new.nbytes, new.longest, new.most_members = self.nbytes, self.longest, self.most_members
        log.ops += row_ops(ZSET_MEMBERS, repeat(new_id), new._scores, new._scores.values())
        return new

    # -- packed -------------------------------------------------------------------------------

    def packable(self) -> list[Any] | None:
        """See packed_form.py: each member with its score."""
        if self.most_members > MOST_PACKED or self.longest > LONGEST_PACKED or not self._scores:
            return None
        words: list[Any] = []
        for member, score in self._scores.items():
            words.append(member)
            words.append(score)
        return words

    def fill_packed(self, flat: list[Any]) -> None:
        for at in range(0, len(flat), 2):
            self._scores[flat[at]] = flat[at + 1]
            self._came(flat[at])

    # -- in order -----------------------------------------------------------------------------

    def _ordered(self) -> Ranking:
        order = self._order
        if order is None:
            scores = self._scores
            # Sort by member first: rows of the file are sorted so already. Then the sort by score
            # need only compare floats, because a sort keeps the order of equal scores.
            members = sorted(scores)
            members.sort(key=scores.__getitem__)
            order = self._order = Ranking(array("d", map(scores.__getitem__, members)), members)
        return order

    def slice(self, start: int, stop: int) -> list[Entry]:
        """The entries from one index up to another. Neither is negative."""
        return self._ordered().entries(start, stop)

    def members(self, start: int, stop: int) -> list[bytes]:
        """`slice` without scores."""
        return self._ordered().members(start, stop)

    def rank(self, member: bytes) -> int | None:
        """The number of entries before it; None if it does not exist."""
        score = self._scores.get(member)
        return None if score is None else self._ordered().count_before(score, member)

    def score_range(self, low: ScoreCut, high: ScoreCut) -> tuple[int, int]:
        """The entries between two cuts, as a slice of the order; empty if start >= stop."""
        return self._score_index(low), self._score_index(high)

    def _score_index(self, cut: ScoreCut) -> int:
        score, is_after = cut
        order = self._ordered()
        return order.count_up_to(score) if is_after else order.count_below(score)

    def lex_range(self, low: LexCut, high: LexCut, *, reverse: bool = False) -> tuple[int, int]:
        """The entries between two cuts, as a slice of the order, if all members have the same
        score.

        Otherwise the result has no meaning. But it is the same as in Redis: the run that a search
        through a small set finds from the front, or with `reverse` from the back.
        """
        order = self._ordered()
        if not len(order) or low is None or (high is not None and low >= high):
            return 0, 0
        [(first_score, _)] = order.entries(0, 1)
        [(last_score, _)] = order.entries(len(order) - 1, len(order))
        if first_score == last_score:
            return self._lex_index(low, first_score), self._lex_index(high, first_score)
        members = order.members(0, len(order))
        if not _is_after(members[-1], low) or _is_after(members[0], high):
            return 0, 0
        if not reverse:
            start = next(i for i, member in enumerate(members) if _is_after(member, low))
            stop = start
            while stop < len(members) and not _is_after(members[stop], high):
                stop += 1
            return start, stop
        stop = len(members)
        while _is_after(members[stop - 1], high):
            stop -= 1
        start = stop
        while start > 0 and _is_after(members[start - 1], low):
            start -= 1
        return start, stop

    def _lex_index(self, cut: LexCut, score: float) -> int:
        if cut is None:
            return len(self._scores)
        member, is_after = cut
        is_passed = is_after and self._scores.get(member) == score
        return self._ordered().count_before(score, member) + is_passed

    # -- in any order -------------------------------------------------------------------------

    def scan(self, cursor: int, limit: int) -> tuple[int, list[bytes]]:
        """Members, and the cursor to continue with, 0 at the end.

        They come in the order of their hashes, which nothing can change while the process lives,
        not even eviction. So a member that exists from the first call to the last is found.
        """
        shuffle = self._shuffle
        if shuffle is None or shuffle.is_too_small_for(len(self._scores)):
            shuffle = self._shuffle = Shuffle(self._scores)
        return shuffle.after(cursor, limit)

    def check(self) -> None:
        """Raise AssertionError if the parts contradict each other."""
        assert self.nbytes == sum(len(member) + MEMBER_OVERHEAD for member in self._scores)
        if self._order is not None:
            self._order.check()
            assert list(self._order) == sorted((s, m) for m, s in self._scores.items())


def _place(member: bytes) -> int:
    return hash(member) & HASH_MASK


def _is_after(member: bytes, cut: LexCut) -> bool:
    return cut is not None and (member > cut[0] or (member == cut[0] and not cut[1]))
