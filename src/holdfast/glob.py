"""Redis's glob patterns, for KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL rules.

One tokenizer decides what a pattern means; two matchers follow its tokens. Nothing
here knows what the names are names of.
"""

import re
from collections.abc import Callable
from functools import lru_cache

Matcher = Callable[[bytes], bool]

# A token is the set of bytes that may stand in one place; None is a run of `*`.
_Token = frozenset[int] | None
_ANY = frozenset(range(256))
_ONE = tuple(frozenset((byte,)) for byte in range(256))

# Compiling costs about a microsecond per byte and `re` keeps what it compiled, so
# patterns no person would write are matched by hand instead of being remembered.
_LONGEST_COMPILED = 512

_STAR, _QUESTION, _OPEN, _CLOSE, _CARET, _DASH, _ESCAPE = b"*?[]^-\\"


def compile_glob(pattern: bytes, *, nocase: bool = False) -> Matcher:
    """A predicate that says whether a whole name matches `pattern`.

    As in Redis, the empty name matches only the empty pattern: KEYS and SCAN have a
    rule of their own by which a lone `*` means every key.
    """
    if len(pattern) > _LONGEST_COMPILED:
        return _by_hand(_tokens(pattern, nocase), nocase)
    return _compiled(pattern, nocase)


@lru_cache(maxsize=256)
def _compiled(pattern: bytes, nocase: bool) -> Matcher:
    fullmatch = re.compile(_regex(_tokens(pattern, nocase)), re.DOTALL).fullmatch
    if nocase:
        return lambda name: fullmatch(name.lower()) is not None
    return lambda name: fullmatch(name) is not None


def _tokens(pattern: bytes, nocase: bool) -> list[_Token]:
    tokens: list[_Token] = []
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at]
        at += 1
        if byte == _STAR:
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        elif byte == _QUESTION:
            tokens.append(_ANY)
        elif byte == _OPEN:
            token, at = _bracket(pattern, at, nocase)
            tokens.append(token)
        else:
            if byte == _ESCAPE and at < end:
                byte = pattern[at]
                at += 1
            tokens.append(_ONE[_lower(byte) if nocase else byte])
    return tokens


def _bracket(pattern: bytes, at: int, nocase: bool) -> tuple[frozenset[int], int]:
    """The set that starts at `at`, and where it ends. One that is not closed ends with
    the pattern; an empty one matches nothing."""
    members: set[int] = set()
    end = len(pattern)
    negated = at < end and pattern[at] == _CARET
    at += negated
    while at < end and pattern[at] != _CLOSE:
        first = last = pattern[at]
        if first == _ESCAPE and at + 1 < end:
            at += 1
            first = last = pattern[at]
        elif at + 2 < end and pattern[at + 1] == _DASH:
            at += 2
            first, last = sorted((_signed(first), _signed(pattern[at])))
        at += 1
        # Lowered only after sorting, as Redis does: without case, [a-Z] is empty.
        if nocase:
            first, last = _lower(first), _lower(last)
        members.update(byte & 255 for byte in range(first, last + 1))
    return frozenset(_ANY - members if negated else members), min(at + 1, end)


def _signed(byte: int) -> int:
    """Ranges compare C chars, which are signed where nearly every Redis runs: there, [a-\\xff]
    is what lies between -1 and 97."""
    return byte - 256 if byte > 127 else byte


def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


def _regex(tokens: list[_Token]) -> bytes:
    """Every `*` but the last takes the shortest match and, being atomic, never gives it
    back: if a later part cannot match after the first place where the part behind a
    star fits, it cannot after a later place either. So `*a*a*a*b` stays linear in the
    number of stars."""
    if not tokens:
        return b""
    parts: list[bytes] = []
    stars = tokens.count(None)
    opened = False
    for token in tokens:
        if token is not None:
            parts.append(_class(token))
            continue
        if opened:
            parts.append(b")")
        stars -= 1
        opened = stars > 0
        parts.append(b"(?>.*?" if opened else b".*")
    return b"(?=.)" + b"".join(parts)


def _class(token: frozenset[int]) -> bytes:
    if token is _ANY:
        return b"."
    if len(token) == 1:
        return re.escape(bytes(token))
    if not token:
        return b"(?!)"
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(token)) + b"]"


def _by_hand(tokens: list[_Token], nocase: bool) -> Matcher:
    def matches(name: bytes) -> bool:
        if not name or not tokens:
            return not name and not tokens
        if nocase:
            name = name.lower()
        at = position = 0
        star, resume = -1, 0
        while position < len(name):
            token = tokens[at] if at < len(tokens) else frozenset()
            if token is None:
                star, resume = at, position
                at += 1
            elif name[position] in token:
                at += 1
                position += 1
            elif star >= 0:
                at = star + 1
                resume += 1
                position = resume
            else:
                return False
        return at == len(tokens) or (at == len(tokens) - 1 and tokens[at] is None)

    return matches
