"""What the families on sorted sets share: how scores and bounds are read, how entries are sent,
added and stored. Not a family itself.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.commands.args import digits
from holdfast.commands.context import Context
from holdfast.errors import NOT_A_FLOAT, CommandError
from holdfast.resp import Reply, double_text
from holdfast.store.events import GENERIC, ZSET
from holdfast.store.ops import WRITTEN_AGAIN, ZSET_MEMBERS
from holdfast.store.zsets import Entry, LexCut, ScoreCut, ZSet

NOT_A_SCORE_RANGE = CommandError("ERR min or max is not a float")
NOT_A_LEX_RANGE = CommandError("ERR min or max not valid string range item")

# What ZADD is told to heed, as bits.
NX: Final = 1
XX: Final = 2
GT: Final = 4
LT: Final = 8
CH: Final = 16
INCR: Final = 32
ADD_FLAGS = {b"NX": NX, b"XX": XX, b"GT": GT, b"LT": LT, b"CH": CH, b"INCR": INCR}

# What strtod accepts, without blanks. Digits are never given back (`++`), see args.py.
_DECIMAL = re.compile(
    rb"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?", re.IGNORECASE
).fullmatch
_INFINITE = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE).fullmatch
_HEX = re.compile(
    rb"[+-]?0x(?:[0-9a-f]++\.?[0-9a-f]*+|\.[0-9a-f]++)(?:p[+-]?[0-9]++)?", re.IGNORECASE
).fullmatch
_NOT_ZERO = re.compile(rb"[+-]?(?:0x[0.]*[1-9a-f]|[0.]*[1-9])", re.IGNORECASE).match
_ENDS = {b"-inf": float("-inf"), b"+inf": float("inf")}
_BLANKS = b" \t\n\v\f\r"


def _strtod(text: bytes) -> float | None:
    """The number that all of the text is, infinite or zero where it is out of range."""
    if _DECIMAL(text) or _INFINITE(text):
        return float(text)
    if _HEX(text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return float("-inf" if text.startswith(b"-") else "inf")
    return None


def parse_score(text: bytes, error: CommandError = NOT_A_FLOAT) -> float:
    """A double; not one that is too large or too small to be one, but "inf" is."""
    # Most are like this, and cannot be wrong: digits, with a point among them or not.
    whole = digits(text)
    if whole >= 0:
        return float(whole)
    if len(text) < 300 and (text.isdigit() or text.replace(b".", b"", 1).isdigit()):
        return float(text)
    number = _strtod(text)
    if number is None:
        raise error
    if number - number != 0.0 and not _INFINITE(text):
        raise error
    if number == 0.0 and _NOT_ZERO(text):
        raise error
    return number


def parse_score_range(low: bytes, high: bytes) -> tuple[ScoreCut, ScoreCut]:
    low_number, is_low_open = _score_bound(low)
    high_number, is_high_open = _score_bound(high)
    return (low_number, is_low_open), (high_number, not is_high_open)


def _score_bound(text: bytes) -> tuple[float, bool]:
    """`5` or `(5`: the score, and whether it is itself left out. Laxer than a score: strtod may
    skip blanks, ends at a NUL, takes nothing for 0, and may overflow."""
    if text.isdigit():
        return float(text), False
    if text in _ENDS:
        return _ENDS[text], False
    is_open = text.startswith(b"(")
    text = text[is_open:].partition(b"\0")[0]
    number = _strtod(text.lstrip(_BLANKS)) if text else 0.0
    if number is None:
        raise NOT_A_SCORE_RANGE
    return number, is_open


def parse_lex_range(low: bytes, high: bytes) -> tuple[LexCut, LexCut]:
    return _lex_cut(low, is_high=False), _lex_cut(high, is_high=True)


def _lex_cut(text: bytes, *, is_high: bool) -> LexCut:
    """`[member`, `(member`, `-` or `+`."""
    kind = text[:1]
    if kind == b"[":
        return text[1:], is_high
    if kind == b"(":
        return text[1:], not is_high
    if text[1:2] in (b"", b"\0"):
        if kind == b"-":
            return b"", False
        if kind == b"+":
            return None
    raise NOT_A_LEX_RANGE


def entries_reply(c: Context, entries: Iterable[Entry]) -> Reply:
    """With scores: pairs in RESP3, all in a row in RESP2."""
    if c.protocol == 3:
        return [[member, score] for score, member in entries]
    words: list[bytes] = []
    for score, member in entries:
        words.append(member)
        words.append(double_text(score))
    return tuple(words)


def put_entry(c: Context, name: bytes, score: float, member: bytes) -> int:
    """ZADD of one member without flags: whether it was added."""
    value = c.db.find_or_create_as(name, ZSet)
    log = c.keyspace
    old = value.score(member)
    if old is None or score != old:
        value.change(member, old, score, log)
        c.db.signal(name, b"zadd", ZSET)
    elif log.is_replicated:
        log.intend(WRITTEN_AGAIN, value.id, (ZSET_MEMBERS, member, score))
    return int(old is None)


def put_entries(
    c: Context, name: bytes, scores: list[float], members: list[bytes], flags: int
) -> int:
    """ZADD, with its flags but for INCR: how many were added, or with CH changed."""
    found = c.db.find_as(name, ZSet)
    if found is None:
        if flags & XX:
            return 0
        found = c.db.create_as(name, ZSet)
    value = found[1]
    log = c.keyspace
    added = updated = 0
    for at, member in enumerate(members):
        score = scores[at]
        old = value.score(member)
        if old is None:
            if not flags & XX:
                value.change(member, None, score, log)
                added += 1
        elif score != old and (not flags or may_change(flags, old, score)):
            value.change(member, old, score, log)
            updated += 1
        elif log.is_replicated and score == old and not flags:
            log.intend(WRITTEN_AGAIN, value.id, (ZSET_MEMBERS, member, score))
    if added or updated:
        c.db.signal(name, b"zadd", ZSET)
    return added + updated if flags & CH else added


def may_change(flags: int, old: float, new: float) -> bool:
    """Whether the conditions of ZADD let a member that is there have this score."""
    return not (flags & NX or (flags & GT and new <= old) or (flags & LT and new >= old))


def store_entries(c: Context, name: bytes, entries: Sequence[Entry], event: bytes) -> int:
    """Whatever the name held before, it has these members now, or is gone if there are none."""
    key = c.db.find_row(name)
    if key is not None:
        c.db.remove(key)
    if entries:
        _, value = c.db.create_as(name, ZSet, is_new=key is None)
        for score, member in entries:
            value.put(member, score, c.keyspace)
        c.db.signal(name, event, ZSET)
    elif key is not None:
        c.db.signal(name, b"del", GENERIC)
    return len(entries)
