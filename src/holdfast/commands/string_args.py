"""The options that SET shares with other commands on strings: conditions and expiry."""

from collections.abc import Sequence
from typing import Final

from holdfast.commands.args import EXPIRY_OPTIONS, INT64_MAX, Options, parse_int
from holdfast.commands.context import Context
from holdfast.errors import SYNTAX, CommandError
from holdfast.xxh3 import hex_digest

BAD_DIGEST = CommandError("ERR must be exactly 16 hexadecimal characters")
DIGEST_LENGTH: Final = 16

# For each comparison, whether the value must be equal, and whether its argument is a digest.
COMPARISONS = {
    b"IFEQ": (True, False),
    b"IFNE": (False, False),
    b"IFDEQ": (True, True),
    b"IFDNE": (False, True),
}
CONDITIONS = {b"NX", b"XX", *COMPARISONS}
Comparison = tuple[bytes, bytes]  # the option, and the text to compare with


def parse_set_options(
    argv: list[bytes], start: int, allowed: Sequence[bytes]
) -> tuple[set[bytes], tuple[bytes, bytes] | None, Comparison | None]:
    """Parse the options of SET or a similar command. Returns the words, the expiry option with its
    value, and the comparison, which is allowed where IFEQ is.

    An option may be repeated; the last value counts. Contradicting options raise SYNTAX.
    """
    words: set[bytes] = set()
    expiry: tuple[bytes, bytes] | None = None
    comparison: Comparison | None = None
    options = Options(argv, start)
    while options:
        word = options.word()
        if word in EXPIRY_OPTIONS:
            if words & {b"KEEPTTL", b"PERSIST"} or (expiry is not None and expiry[0] != word):
                raise SYNTAX
            expiry = (word, options.value())
            continue
        if word in COMPARISONS and b"IFEQ" in allowed:
            comparison = (word, options.value())
        elif word not in allowed:
            raise SYNTAX
        words.add(word)
        if len(words & CONDITIONS) > 1 or (expiry is not None and word in (b"KEEPTTL", b"PERSIST")):
            raise SYNTAX
    return words, expiry, comparison


def expires_at_ms(c: Context, expiry: tuple[bytes, bytes] | None, command_name: str) -> int | None:
    """The expiry that an option and its value name."""
    if expiry is None:
        return None
    option, text = expiry
    ms_per_unit, is_absolute = EXPIRY_OPTIONS[option]
    time = parse_int(text)
    at_ms = time * ms_per_unit + (0 if is_absolute else c.keyspace.now_ms)
    if time <= 0 or at_ms > INT64_MAX:
        raise CommandError(f"ERR invalid expire time in '{command_name}' command")
    return at_ms


def is_met(comparison: Comparison, value: bytes | None) -> bool:
    """Whether the value of a string meets the comparison. A missing value differs from any text. As
    in Redis, only the length of a digest is checked, and only if there is a value."""
    option, text = comparison
    wants_same, is_digest = COMPARISONS[option]
    if value is None:
        return not wants_same
    if not is_digest:
        return (value == text) == wants_same
    if len(text) != DIGEST_LENGTH:
        raise BAD_DIGEST
    return (hex_digest(value) == text.lower()) == wants_same
