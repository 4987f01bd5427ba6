"""Functions that the commands on sorted sets share: they read scores and bounds, and show, add and
store entries. No commands are here.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.commands.args import digits
from holdfast.commands.context import Context
from holdfast.errors import NOT_A_FLOAT, CommandError
from holdfast.resp import Reply, double_text
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import ZSET
from holdfast.store.values.zset import Entry, LexCut, ScoreCut, ZSet

NOT_A_SCORE_RANGE = CommandError("ERR min or max is not a float")
NOT_A_LEX_RANGE = CommandError("ERR min or max not valid string range item")

# The options of ZADD, as bits.
NX: Final = 1
XX: Final = 2
GT: Final = 4
LT: Final = 8
CH: Final = 16
INCR: Final = 32
ADD_FLAGS = {b"NX": NX, b"XX": XX, b"GT": GT, b"LT": LT, b"CH": CH, b"INCR": INCR}

# The texts that strtod accepts, without blanks. `++` never gives digits back: see args.py.
_DECIMAL = re.compile(
    rb"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?", re.IGNORECASE
).fullmatch
# These are compiled when first used, because most servers never use them.
_INFINITE = rb"(?i)[+-]?inf(?:inity)?"
_HEX = rb"(?i)[+-]?0x(?:[0-9a-f]++\.?[0-9a-f]*+|\.[0-9a-f]++)(?:p[+-]?[0-9]++)?"
_NOT_ZERO = rb"(?i)[+-]?(?:0x[0.]*[1-9a-f]|[0.]*[1-9])"
_ENDS = {b"-inf": float("-inf"), b"+inf": float("inf")}
_BLANKS = b" \t\n\v\f\r"


def _strtod(text: bytes) -> float | None:
    """The number that the whole text denotes. A number out of range becomes infinite or zero."""
    if _DECIMAL(text) or re.fullmatch(_INFINITE, text):
        return float(text)
    if re.fullmatch(_HEX, text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return float("-inf" if text.startswith(b"-") else "inf")
    return None


def parse_score(text: bytes, error: CommandError = NOT_A_FLOAT) -> float:
    """A double. A number out of its range is an error, but "inf" is a number."""
    # Most scores are digits, with or without a point, and need no further checks.
    whole = digits(text)
    if whole >= 0:
        return float(whole)
    if len(text) < 300 and (text.isdigit() or text.replace(b".", b"", 1).isdigit()):
        return float(text)
    number = _strtod(text)
    if number is None:
        raise error
    if number - number != 0.0 and not re.fullmatch(_INFINITE, text):
        raise error
    if number == 0.0 and re.match(_NOT_ZERO, text):
        raise error
    return number


def parse_score_range(low: bytes, high: bytes) -> tuple[ScoreCut, ScoreCut]:
    low_number, is_low_open = _score_bound(low)
    high_number, is_high_open = _score_bound(high)
    return (low_number, is_low_open), (high_number, not is_high_open)


def _score_bound(text: bytes) -> tuple[float, bool]:
    """The score in `5` or `(5`, and whether it is excluded. A bound is read less strictly than a
    score: strtod skips blanks, ends at a NUL, reads an empty text as 0, and may overflow."""
    if text.isdigit():
        return float(text), False
    if text in _ENDS:
        return _ENDS[text], False
    is_open = text.startswith(b"(")
    text = c_string(text[is_open:])
    number = _strtod(text.lstrip(_BLANKS)) if text else 0.0
    if number is None:
        raise NOT_A_SCORE_RANGE
    return number, is_open


def parse_lex_range(low: bytes, high: bytes) -> tuple[LexCut, LexCut]:
    return _lex_cut(low, is_high=False), _lex_cut(high, is_high=True)


def _lex_cut(text: bytes, *, is_high: bool) -> LexCut:
    """Parse a bound: `[member`, `(member`, `-` or `+`."""
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
    """The reply for members with scores: pairs in RESP3, one flat array in RESP2."""
    if c.protocol == 3:
        return [[member, score] for score, member in entries]
    words: list[bytes] = []
    for score, member in entries:
        words.append(member)
        words.append(double_text(score))
    return tuple(words)


def put_entry(c: Context, name: bytes, score: float, member: bytes) -> int:
    """ZADD of one member without flags. Returns 1 if it was added."""
    value = c.db.find_or_create_as(name, ZSet)
    log = c.keyspace
    old = value.score(member)
    if old is None or score != old:
        value.change(member, old, score, log)
        c.db.signal(name, b"zadd", ZSET)
    else:
        value.write_again(member, score, log)
    return int(old is None)


def put_entries(
    c: Context, name: bytes, scores: list[float], members: list[bytes], flags: int
) -> int:
    """ZADD with all flags but INCR. Returns how many members were added, with CH also changed."""
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
        elif score == old and not flags:
            value.write_again(member, score, log)
    if added or updated:
        c.db.signal(name, b"zadd", ZSET)
    return added + updated if flags & CH else added


def may_change(flags: int, old: float, new: float) -> bool:
    """Whether the conditions of ZADD allow this new score for an existing member."""
    return not (flags & NX or (flags & GT and new <= old) or (flags & LT and new >= old))


def store_entries(c: Context, name: bytes, entries: Sequence[Entry], event: bytes) -> int:
    """Replace a key of any type by a sorted set of these entries. Without entries, remove it."""
    if entries:
        value = c.db.replace_as(name, ZSet)
        for score, member in entries:
            value.put(member, score, c.keyspace)
        c.db.signal(name, event, ZSET)
    else:
        c.db.discard(name)
    return len(entries)
