"""Ranges of sorted sets: by index, by score and by member; read, counted, stored, removed."""

from abc import ABCMeta, abstractmethod
from functools import partial

from holdfast.commands.args import parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.commands.zsets.zset_args import (
    entries_reply,
    parse_lex_range,
    parse_score_range,
    store_entries,
)
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import ZSET
from holdfast.store.values.zset import Entry, ZSet

LIMIT_BY_INDEX = CommandError(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
)
SCORES_BY_LEX = CommandError("ERR syntax error, WITHSCORES not supported in combination with BYLEX")

range_command = partial(command, group="sorted-set", categories="sortedset")


# -- the kinds of ranges ----------------------------------------------------------------------


class Range(metaclass=ABCMeta):  # not ABC: the bases of a compiled class are compiled
    """A range of a sorted set. Each subclass reads its bounds in its own way. Options may make the
    range smaller."""

    __slots__ = ("limit", "offset", "reverse", "with_scores")

    def __init__(self, low: bytes, high: bytes, reverse: bool) -> None:
        """With `reverse`, `low` is the higher bound."""
        self.reverse = reverse
        self.with_scores = False
        self.offset = 0
        self.limit = -1  # negative: all

    @abstractmethod
    def find(self, value: ZSet) -> tuple[int, int]:
        """The start and the stop of the range as indexes. It is empty if start >= stop."""

    def entries(self, value: ZSet) -> list[Entry]:
        start, stop = self._bounds(value)
        entries = value.slice(start, stop)
        if self.reverse:
            entries.reverse()
        return entries

    def members(self, value: ZSet) -> list[bytes]:
        start, stop = self._bounds(value)
        members = value.members(start, stop)
        if self.reverse:
            members.reverse()
        return members

    def _bounds(self, value: ZSet) -> tuple[int, int]:
        start, stop = self.find(value)
        if self.offset < 0 or start >= stop:
            return 0, 0
        if self.reverse:
            stop -= self.offset
            return (start if self.limit < 0 else max(start, stop - self.limit)), stop
        start += self.offset
        return start, (stop if self.limit < 0 else min(stop, start + self.limit))


class ByIndex(Range):
    __slots__ = ("_start", "_stop")

    def __init__(self, low: bytes, high: bytes, reverse: bool) -> None:
        super().__init__(low, high, reverse)
        self._start, self._stop = parse_int(low), parse_int(high)

    def find(self, value: ZSet) -> tuple[int, int]:
        length = len(value)
        first = max(self._start + length, 0) if self._start < 0 else self._start
        end = min(self._stop + length if self._stop < 0 else self._stop, length - 1) + 1
        return (length - end, length - first) if self.reverse and first < end else (first, end)


class ByScore(Range):
    __slots__ = ("_high", "_low")

    def __init__(self, low: bytes, high: bytes, reverse: bool) -> None:
        super().__init__(low, high, reverse)
        low, high = (high, low) if reverse else (low, high)
        self._low, self._high = parse_score_range(low, high)

    def find(self, value: ZSet) -> tuple[int, int]:
        return value.score_range(self._low, self._high)


class ByLex(Range):
    __slots__ = ("_high", "_low")

    def __init__(self, low: bytes, high: bytes, reverse: bool) -> None:
        super().__init__(low, high, reverse)
        low, high = (high, low) if reverse else (low, high)
        self._low, self._high = parse_lex_range(low, high)

    def find(self, value: ZSet) -> tuple[int, int]:
        return value.lex_range(self._low, self._high, reverse=self.reverse)


# -- reading ----------------------------------------------------------------------------------


def _parse(
    argv: list[bytes],
    at: int,
    by: type[Range] | None = None,
    reverse: bool | None = None,
    *,
    is_stored: bool = False,
) -> Range:
    """Parse the bounds, from `at` on, and the options behind them. If `by` or `reverse` is None, an
    option may choose it."""
    with_scores = False
    offset, limit = 0, -1
    option_at = at + 2
    while option_at < len(argv):
        word = argv[option_at].upper()
        if word == b"WITHSCORES" and not is_stored:
            with_scores = True
        elif word == b"LIMIT" and option_at + 2 < len(argv):
            offset, limit = parse_int(argv[option_at + 1]), parse_int(argv[option_at + 2])
            option_at += 2
        elif word == b"REV" and reverse is None:
            reverse = True
        elif word == b"BYLEX" and by is None:
            by = ByLex
        elif word == b"BYSCORE" and by is None:
            by = ByScore
        else:
            raise SYNTAX
        option_at += 1
    by = by or ByIndex
    if by is ByIndex:
        if limit != -1:
            raise LIMIT_BY_INDEX
        offset = 0
    if with_scores and by is ByLex:
        raise SCORES_BY_LEX
    wanted = by(argv[at], argv[at + 1], bool(reverse))
    wanted.with_scores, wanted.offset, wanted.limit = with_scores, offset, limit
    return wanted


def _read(c: Context, name: bytes, wanted: Range) -> Reply:
    value = c.db.read_as(name, ZSet)
    if wanted.with_scores:
        return entries_reply(c, wanted.entries(value) if value else [])
    return tuple(wanted.members(value)) if value else ()


@range_command("zrange", -4, "readonly", one("RO access"), since="1.2.0")
def zrange(c: Context, argv: list[bytes]) -> Reply:
    """The members from one index, score or member to another; `(5` excludes 5 itself.

    ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
    """
    return _read(c, argv[1], _parse(argv, 2))


@range_command("zrevrange", -4, "readonly", one("RO access"), since="1.2.0")
def zrevrange(c: Context, argv: list[bytes]) -> Reply:
    """The members from one index to another, counted from the highest score.

    ZREVRANGE key start stop [WITHSCORES]
    """
    return _read(c, argv[1], _parse(argv, 2, ByIndex, True))


@range_command("zrangebyscore", -4, "readonly", one("RO access"), since="1.0.5")
def zrangebyscore(c: Context, argv: list[bytes]) -> Reply:
    """The members with scores in a range, from the lowest; `(5` excludes 5 itself.

    ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, ByScore, False))


@range_command("zrevrangebyscore", -4, "readonly", one("RO access"), since="2.2.0")
def zrevrangebyscore(c: Context, argv: list[bytes]) -> Reply:
    """The members with scores in a range, from the highest; `(5` excludes 5 itself.

    ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, ByScore, True))


@range_command("zrangebylex", -4, "readonly", one("RO access"), since="2.8.9")
def zrangebylex(c: Context, argv: list[bytes]) -> Reply:
    """The members between two of equal score, written `[a` or `(a`; the ends are `-` and `+`.

    ZRANGEBYLEX key min max [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, ByLex, False))


@range_command("zrevrangebylex", -4, "readonly", one("RO access"), since="2.8.9")
def zrevrangebylex(c: Context, argv: list[bytes]) -> Reply:
    """The members between two of equal score, from the last to the first.

    ZREVRANGEBYLEX key max min [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, ByLex, True))


@range_command(
    "zrangestore", -5, "write denyoom", one("OW update"), one("RO access", 2), since="6.2.0"
)
def zrangestore(c: Context, argv: list[bytes]) -> Reply:
    """Store the members that ZRANGE returns, with their scores; return how many they are.

    ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]
    """
    wanted = _parse(argv, 3, is_stored=True)
    value = c.db.read_as(argv[2], ZSet)
    entries = wanted.entries(value) if value else []
    return store_entries(c, argv[1], entries, b"zrangestore")


# -- counting, removing -----------------------------------------------------------------------


def _count(c: Context, argv: list[bytes], by: type[Range]) -> int:
    wanted = by(argv[2], argv[3], False)
    value = c.db.read_as(argv[1], ZSet)
    if value is None:
        return 0
    start, stop = wanted.find(value)
    return max(stop - start, 0)


@range_command("zcount", 4, "readonly fast", one("RO access"), since="2.0.0")
def zcount(c: Context, argv: list[bytes]) -> Reply:
    """How many members have scores in a range.

    ZCOUNT key min max
    """
    return _count(c, argv, ByScore)


@range_command("zlexcount", 4, "readonly fast", one("RO access"), since="2.8.9")
def zlexcount(c: Context, argv: list[bytes]) -> Reply:
    """How many members are between two, where all have the same score.

    ZLEXCOUNT key min max
    """
    return _count(c, argv, ByLex)


def _remove(c: Context, argv: list[bytes], by: type[Range], event: bytes) -> int:
    wanted = by(argv[2], argv[3], False)
    found = c.db.find_as(argv[1], ZSet)
    if found is None:
        return 0
    key, value = found
    start, stop = wanted.find(value)
    removed = value.remove_slice(start, stop, c.keyspace) if start < stop else 0
    if removed:
        c.db.shrunk(key, event, ZSET)
    return removed


@range_command("zremrangebyrank", 4, "write", one("RW delete"), since="2.0.0")
def zremrangebyrank(c: Context, argv: list[bytes]) -> Reply:
    """Remove the members from one index to another; return how many.

    ZREMRANGEBYRANK key start stop
    """
    return _remove(c, argv, ByIndex, b"zremrangebyrank")


@range_command("zremrangebyscore", 4, "write", one("RW delete"), since="1.2.0")
def zremrangebyscore(c: Context, argv: list[bytes]) -> Reply:
    """Remove the members with scores in a range; return how many.

    ZREMRANGEBYSCORE key min max
    """
    return _remove(c, argv, ByScore, b"zremrangebyscore")


@range_command("zremrangebylex", 4, "write", one("RW delete"), since="2.8.9")
def zremrangebylex(c: Context, argv: list[bytes]) -> Reply:
    """Remove the members between two, where all have the same score; return how many.

    ZREMRANGEBYLEX key min max
    """
    return _remove(c, argv, ByLex, b"zremrangebylex")
