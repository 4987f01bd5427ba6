"""Ranges of sorted sets: by index, by score and by member; read, counted, stored, removed."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holdfast.commands.args import parse_int
from holdfast.commands.context import Context
from holdfast.commands.scores import (
    entries_reply,
    parse_lex_range,
    parse_score_range,
    store_entries,
)
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply
from holdfast.store.events import ZSET
from holdfast.store.zsets import Entry, ZSet

LIMIT_BY_INDEX = CommandError(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
)
SCORES_BY_LEX = CommandError("ERR syntax error, WITHSCORES not supported in combination with BYLEX")

range_command = partial(command, group="sorted-set", categories="sortedset")


# -- what the two bounds of a range mean ------------------------------------------------------

# Which slice of the order it is: start and stop, nothing when start >= stop.
Finder = Callable[[ZSet], tuple[int, int]]
By = Callable[[bytes, bytes, bool], Finder]  # reversed, the higher bound comes first


def _by_index(low: bytes, high: bytes, reverse: bool) -> Finder:
    start, stop = parse_int(low), parse_int(high)

    def find(value: ZSet) -> tuple[int, int]:
        length = len(value)
        first = max(start + length, 0) if start < 0 else start
        end = min(stop + length if stop < 0 else stop, length - 1) + 1
        return (length - end, length - first) if reverse and first < end else (first, end)

    return find


def _by_score(low: bytes, high: bytes, reverse: bool) -> Finder:
    cuts = parse_score_range(*((high, low) if reverse else (low, high)))
    return lambda value: value.score_range(*cuts)


def _by_lex(low: bytes, high: bytes, reverse: bool) -> Finder:
    cuts = parse_lex_range(*((high, low) if reverse else (low, high)))
    return lambda value: value.lex_range(*cuts, reverse=reverse)


# -- reading ----------------------------------------------------------------------------------


class Range(NamedTuple):
    find: Finder
    reverse: bool
    with_scores: bool
    offset: int
    limit: int  # negative: all

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


def _parse(
    argv: list[bytes],
    at: int,
    by: By | None = None,
    reverse: bool | None = None,
    *,
    is_stored: bool = False,
) -> Range:
    """The bounds stand at `at`, options behind; what is not given can be chosen by an option."""
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
            by = _by_lex
        elif word == b"BYSCORE" and by is None:
            by = _by_score
        else:
            raise SYNTAX
        option_at += 1
    by = by or _by_index
    if by is _by_index:
        if limit != -1:
            raise LIMIT_BY_INDEX
        offset = 0
    if with_scores and by is _by_lex:
        raise SCORES_BY_LEX
    find = by(argv[at], argv[at + 1], bool(reverse))
    return Range(find, bool(reverse), with_scores, offset, limit)


def _read(c: Context, name: bytes, wanted: Range) -> Reply:
    value = c.db.read_as(name, ZSet)
    if wanted.with_scores:
        return entries_reply(c, wanted.entries(value) if value else [])
    return tuple(wanted.members(value)) if value else ()


@range_command("zrange", -4, "readonly", one("RO access"), since="1.2.0")
def zrange(c: Context, argv: list[bytes]) -> Reply:
    """The members from one index, score or member to another; `(5` leaves out 5 itself.

    ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
    """
    return _read(c, argv[1], _parse(argv, 2))


@range_command("zrevrange", -4, "readonly", one("RO access"), since="1.2.0")
def zrevrange(c: Context, argv: list[bytes]) -> Reply:
    """The members from one index to another, counted from the highest score.

    ZREVRANGE key start stop [WITHSCORES]
    """
    return _read(c, argv[1], _parse(argv, 2, _by_index, True))


@range_command("zrangebyscore", -4, "readonly", one("RO access"), since="1.0.5")
def zrangebyscore(c: Context, argv: list[bytes]) -> Reply:
    """The members with scores in a range, from the lowest; `(5` leaves out 5 itself.

    ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, _by_score, False))


@range_command("zrevrangebyscore", -4, "readonly", one("RO access"), since="2.2.0")
def zrevrangebyscore(c: Context, argv: list[bytes]) -> Reply:
    """The members with scores in a range, from the highest; `(5` leaves out 5 itself.

    ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, _by_score, True))


@range_command("zrangebylex", -4, "readonly", one("RO access"), since="2.8.9")
def zrangebylex(c: Context, argv: list[bytes]) -> Reply:
    """The members between two of equal score, written `[a` or `(a`; the ends are `-` and `+`.

    ZRANGEBYLEX key min max [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, _by_lex, False))


@range_command("zrevrangebylex", -4, "readonly", one("RO access"), since="2.8.9")
def zrevrangebylex(c: Context, argv: list[bytes]) -> Reply:
    """The members between two of equal score, from the last to the first.

    ZREVRANGEBYLEX key max min [LIMIT offset count]
    """
    return _read(c, argv[1], _parse(argv, 2, _by_lex, True))


@range_command(
    "zrangestore", -5, "write denyoom", one("OW update"), one("RO access", 2), since="6.2.0"
)
def zrangestore(c: Context, argv: list[bytes]) -> Reply:
    """Store what ZRANGE would reply with, scores included; how many members that is.

    ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]
    """
    wanted = _parse(argv, 3, is_stored=True)
    value = c.db.read_as(argv[2], ZSet)
    entries = wanted.entries(value) if value else []
    return store_entries(c, argv[1], entries, b"zrangestore")


# -- counting, removing -----------------------------------------------------------------------


def _count(c: Context, argv: list[bytes], by: By) -> int:
    find = by(argv[2], argv[3], False)
    value = c.db.read_as(argv[1], ZSet)
    if value is None:
        return 0
    start, stop = find(value)
    return max(stop - start, 0)


@range_command("zcount", 4, "readonly fast", one("RO access"), since="2.0.0")
def zcount(c: Context, argv: list[bytes]) -> Reply:
    """How many members have scores in a range.

    ZCOUNT key min max
    """
    return _count(c, argv, _by_score)


@range_command("zlexcount", 4, "readonly fast", one("RO access"), since="2.8.9")
def zlexcount(c: Context, argv: list[bytes]) -> Reply:
    """How many members are between two, where all have the same score.

    ZLEXCOUNT key min max
    """
    return _count(c, argv, _by_lex)


def _remove(c: Context, argv: list[bytes], by: By, event: bytes) -> int:
    find = by(argv[2], argv[3], False)
    found = c.db.find_as(argv[1], ZSet)
    if found is None:
        return 0
    key, value = found
    start, stop = find(value)
    removed = value.remove_slice(start, stop, c.keyspace) if start < stop else 0
    if removed:
        c.db.shrunk(key, event, ZSET)
    return removed


@range_command("zremrangebyrank", 4, "write", one("RW delete"), since="2.0.0")
def zremrangebyrank(c: Context, argv: list[bytes]) -> Reply:
    """Remove the members from one index to another; how many.

    ZREMRANGEBYRANK key start stop
    """
    return _remove(c, argv, _by_index, b"zremrangebyrank")


@range_command("zremrangebyscore", 4, "write", one("RW delete"), since="1.2.0")
def zremrangebyscore(c: Context, argv: list[bytes]) -> Reply:
    """Remove the members with scores in a range; how many.

    ZREMRANGEBYSCORE key min max
    """
    return _remove(c, argv, _by_score, b"zremrangebyscore")


@range_command("zremrangebylex", 4, "write", one("RW delete"), since="2.8.9")
def zremrangebylex(c: Context, argv: list[bytes]) -> Reply:
    """Remove the members between two, where all have the same score; how many.

    ZREMRANGEBYLEX key min max
    """
    return _remove(c, argv, _by_lex, b"zremrangebylex")
