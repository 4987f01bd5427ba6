"""Redis's glob patterns, for KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL rules.

One tokenizer decides what a pattern means; two matchers follow its tokens. The matchers know
nothing about keys, channels or options: a name is bytes.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, final

Matcher = Callable[[bytes], bool]

# A token is a text, the set of bytes allowed in one place, or None for a run of `*`.
_Token = bytes | frozenset[int] | None
_ANY = frozenset(range(256))

# Longer patterns are matched without `re`: to compile one takes about a microsecond for each byte,
# and `re` keeps the compiled patterns in memory. People do not write patterns of this length.
_LONGEST_COMPILED = 512

_stars = re.compile(rb"\*+").match
_text = re.compile(rb"[^*?\[\\]+").match
_members = re.compile(rb"[^\]\\-]+(?=[^\]\\-])").match

_STAR, _QUESTION, _OPEN, _CLOSE, _CARET, _DASH, _ESCAPE = b"*?[]^-\\"


def compile_glob(pattern: bytes, *, nocase: bool = False) -> Matcher:
    """Return a predicate that tells whether a whole name matches `pattern`.

    As in Redis, the empty name matches only the empty pattern. KEYS and SCAN have a rule of their
    own, in `parse_pattern`: there a lone `*` matches every key, also the empty one.
    """
    if len(pattern) > _LONGEST_COMPILED:
        return LongPattern(pattern, nocase)
    return _compiled(pattern, nocase)


@lru_cache(maxsize=256)
def _compiled(pattern: bytes, nocase: bool) -> Matcher:
    fullmatch = re.compile(_regex(list(_tokens(pattern, nocase))), re.DOTALL).fullmatch
    if nocase:
        return lambda name: fullmatch(name.lower()) is not None
    return lambda name: fullmatch(name) is not None


def _tokens(pattern: bytes, nocase: bool) -> Iterator[_Token]:
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at]
        if byte == _STAR:
            run = _stars(pattern, at)
            assert run is not None
            at = run.end()
            yield None
        elif byte == _QUESTION:
            at += 1
            yield _ANY
        elif byte == _OPEN:
            token, at = _bracket(pattern, at + 1, nocase)
            yield token
        else:
            if byte == _ESCAPE and at + 1 < end:
                text = pattern[at + 1 : at + 2]
                at += 2
            elif byte == _ESCAPE:
                text = b"\\"
                at += 1
            else:
                run = _text(pattern, at)
                assert run is not None
                text = run[0]
                at = run.end()
            yield text.lower() if nocase else text


def _bracket(pattern: bytes, at: int, nocase: bool) -> tuple[frozenset[int], int]:
    """The set that starts at `at`, and the position behind it. A set that is not closed ends with
    the pattern. An empty set matches nothing."""
    members: set[int] = set()
    end = len(pattern)
    negated = at < end and pattern[at] == _CARET
    at += negated
    while at < end and pattern[at] != _CLOSE:
        run = _members(pattern, at)
        if run is not None:  # all but the last byte, which may begin a range
            members.update(run[0].lower() if nocase else run[0])
            at = run.end()
        first = last = pattern[at]
        if first == _ESCAPE and at + 1 < end:
            at += 1
            first = last = pattern[at]
        elif at + 2 < end and pattern[at + 1] == _DASH:
            at += 2
            first, last = sorted((_signed(first), _signed(pattern[at])))
        at += 1
        # As in Redis, lowered only after sorting: if case is ignored, [a-Z] is empty.
        if nocase:
            first, last = _lower(first), _lower(last)
        members.update(byte & 255 for byte in range(first, last + 1))
    return frozenset(_ANY - members if negated else members), min(at + 1, end)


def _signed(byte: int) -> int:
    """The value of a C char. Redis compares chars in ranges, and on nearly every machine a char is
    signed: there [a-\\xff] is the range from -1 to 97."""
    return byte - 256 if byte > 127 else byte


def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


def _regex(tokens: list[_Token]) -> bytes:
    """The pattern as a regular expression, whose time is linear in the number of stars.

    Every `*` but the last takes the shortest match and never gives it back (an atomic group). This
    loses no match: if the rest of the pattern does not match after the first place where the part
    behind a star fits, it does not match after a later place either.
    """
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


def _class(token: bytes | frozenset[int]) -> bytes:
    if isinstance(token, bytes):
        return re.escape(token)
    if token is _ANY:
        return b"."
    if len(token) == 1:
        return re.escape(bytes(token))
    if not token:
        return b"(?!)"
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(token)) + b"]"


@final
class Part:
    """The part of a pattern between two stars."""

    def __init__(self, tokens: list[bytes | frozenset[int]]) -> None:
        self._tokens = tokens
        texts = [token for token in tokens if isinstance(token, bytes)]
        if len(texts) == len(tokens) > 1:  # backslashes separated the texts
            self._tokens = [b"".join(texts)]
        self.length = sum(map(_length, self._tokens))
        self._masks: list[int] = []

    def fits(self, name: bytes, at: int) -> bool:
        """Whether the part matches a name at this position."""
        for token in self._tokens:
            if isinstance(token, bytes):
                if not name.startswith(token, at):
                    return False
            elif name[at] not in token:
                return False
            at += _length(token)
        return True

    def find(self, name: bytes, start: int, end: int) -> int:
        """The end of the first match of the part between `start` and `end` of a name, or -1.

        Bit i of the state says that the first i + 1 places match the bytes read last. So the cost
        of a byte is one step for each machine word of the state, not one for each place.
        """
        if not self.length:
            return start
        first = self._tokens[0]
        if len(self._tokens) == 1 and isinstance(first, bytes):
            at = name.find(first, start, end)
            return at + self.length if at >= 0 else -1
        masks = self._masks = self._masks or self._make_masks()
        state, complete = 0, 1 << (self.length - 1)
        for at in range(start, end):
            state = (state << 1 | 1) & masks[name[at]]
            if state >= complete:
                return at + 1
        return -1

    def _make_masks(self) -> list[int]:
        """For each byte, the places of the part that it matches, as bits."""
        nbytes = (self.length + 7) // 8
        anywhere = bytearray(nbytes)
        masks = [bytearray(nbytes) for _ in range(256)]
        place = 0
        for token in self._tokens:
            if token is _ANY:
                anywhere[place >> 3] |= 1 << (place & 7)
            elif isinstance(token, bytes):
                for offset, byte in enumerate(token, place):
                    masks[byte][offset >> 3] |= 1 << (offset & 7)
            else:
                for byte in token:
                    masks[byte][place >> 3] |= 1 << (place & 7)
            place += _length(token)
        every = int.from_bytes(anywhere, "little")
        return [int.from_bytes(mask, "little") | every for mask in masks]


def _length(token: bytes | frozenset[int]) -> int:
    return len(token) if isinstance(token, bytes) else 1


@final
class LongPattern:
    """A matcher for long patterns, without `re`. It reads only as much of its pattern as the name
    is long, so a pattern of many megabytes costs almost nothing when names are short."""

    def __init__(self, pattern: bytes, nocase: bool) -> None:
        self._nocase: Final = nocase
        self._unread: Final = _tokens(pattern, nocase)
        self._is_read = False
        self._parts: list[list[bytes | frozenset[int]]] = [[]]  # as far as it was read
        self._least_bytes = 0
        self._ready: list[Part] = []

    def __call__(self, name: bytes) -> bool:
        if not self._could_fit(len(name)):
            return False
        if self._nocase:
            name = name.lower()
        parts = self._ready
        if not name:
            return len(parts) == 1
        first, last = parts[0], parts[-1]
        at, end = first.length, len(name) - last.length
        if len(parts) == 1:
            return end == 0 and first.fits(name, 0)
        if not (first.fits(name, 0) and last.fits(name, end)):
            return False
        for part in parts[1:-1]:
            at = part.find(name, at, end)
            if at < 0:
                return False
        return True

    def _could_fit(self, nbytes: int) -> bool:
        """Read on in the pattern; tell whether a name of this length is long enough for it."""
        while self._least_bytes <= nbytes and not self._is_read:
            for token in self._unread:
                if token is None:
                    self._parts.append([])
                    continue
                self._parts[-1].append(token)
                self._least_bytes += _length(token)
                break
            else:
                self._is_read = True
                self._ready = [Part(tokens) for tokens in self._parts]
                self._parts = []
        return self._least_bytes <= nbytes
