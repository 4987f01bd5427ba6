"""Patterns match the same names as in redis-server, also unusual patterns."""

import random
import re

import pytest

from holdfast import glob
from holdfast.glob import compile_glob
from tests.harness import RawClient

ODD = [
    *(b"", b"*", b"**", b"?", b"*?", b"?*", b"a", b"a*", b"*a", b"a*b", b"**a**", b"a?c"),
    *(b"[", b"[]", b"[^", b"[^]", b"[a", b"[a-", b"[a-]", b"[a-]x", b"[^a", b"[^a-c]", b"[a-c]"),
    *(b"[c-a]", b"[]a]", b"[a]]", b"[\\]]", b"[\\", b"[\\]", b"[a\\-c]", b"[\\a-c]", b"[a-\\c]"),
    *(b"[-a]", b"[a-c-e]", b"[a^]", b"[^^]", b"[[]", b"x[", b"*[", b"[*]", b"[?]", b"[a*"),
    *(b"\\", b"\\\\", b"a\\", b"\\a", b"\\*", b"\\?", b"\\[", b"\\]", b"*\\", b"\\a*", b"a\\*"),
    *(b"]", b"^", b"-", b"a]", b"(a)", b"a.c", b"a|b", b"a+", b"^a$", b"\n", b"a*\n", b"[\n-a]"),
    *(b"*a*b*c", b"*ab*ab*", b"a*a*a", b"*a?c*", b"\xff*", b"[\x80-\xff]", b"\x00", b"h[^e]llo"),
]
ALPHABET = b"abc]-^\\*?[\n\xffA"


def names_for(rng: random.Random) -> list[bytes]:
    short = [bytes(rng.choices(ALPHABET, k=rng.randrange(6))) for _ in range(400)]
    return sorted({b"", b"a", b"hello", b"hallo", b"aXc", b"a.c", b"ababab", b"\x00", *short})


def keys_in(reply: bytes) -> set[bytes]:
    """The members of an array of bulk strings; a name may contain line ends."""
    found, at = set(), reply.index(b"\n") + 1
    while at < len(reply):
        start = reply.index(b"\n", at) + 1
        length = int(reply[at + 1 : start - 2])
        found.add(reply[start : start + length])
        at = start + length + 2
    return found


def test_a_pattern_finds_the_keys_that_redis_finds(
    oracle_client: RawClient, rng: random.Random
) -> None:
    names = names_for(rng)
    for name in names:
        oracle_client.command("SET", name, "")
    made_up = [bytes(rng.choices(ALPHABET, k=rng.randrange(1, 9))) for _ in range(1500)]
    for pattern in ODD + made_up:
        if pattern == b"*":  # a shortcut of KEYS, which finds the empty key as well
            continue
        theirs = keys_in(oracle_client.command("KEYS", pattern))
        assert set(filter(compile_glob(pattern), names)) == theirs, pattern


def test_both_matchers_agree(rng: random.Random) -> None:
    names = names_for(rng)
    for _ in range(500):
        pattern = bytes(rng.choices(ALPHABET, k=rng.randrange(9)))
        for nocase in (False, True):
            by_hand = glob.LongPattern(pattern, nocase)
            compiled = compile_glob(pattern, nocase=nocase)
            assert list(filter(by_hand, names)) == list(filter(compiled, names)), pattern


def test_long_patterns_are_matched_without_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "compile", None)
    assert compile_glob(b"*" + b"a" * 600 + b"*")(b"b" + b"a" * 600)
    assert not compile_glob(b"a" * 600)(b"a" * 599)


@pytest.mark.timeout(20)  # without care, these would outlive us all
@pytest.mark.parametrize(
    "pattern",
    [
        *(b"*a" * 60 + b"*b", b"*a?" * 60 + b"b", b"*a" * 400 + b"b"),
        *(b"*" + b"a" * 600 + b"b", b"*" + b"a" * 600 + b"b*", b"*" + b"a" * 500 + b"b*"),
        *(b"*" + b"[ab]" * 600 + b"c*", b"*" + b"a?" * 300 + b"b*", b"*" + b"?" * 600 + b"b*"),
        *(b"*" + b"[^b]" * 5000 + b"b*", b"*" + b"\\a" * 5000 + b"b*", b"*a[ab]" * 200 + b"*b*"),
    ],
    ids=range(12),
)
def test_long_names_and_patterns_do_not_multiply(pattern: bytes) -> None:
    assert not compile_glob(pattern)(b"a" * 100_000)
    assert not compile_glob(pattern, nocase=True)(b"A" * 100_000)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", [b"a", b"?", b"*", b"[a]", b"\\a", b"*?", b"["])
def test_a_pattern_is_read_no_further_than_names_are_long(part: bytes) -> None:
    pattern = part * (50_000_000 // len(part)) + b"b"
    matches = compile_glob(pattern)
    assert not any(matches(b"a" * size) for size in range(100))


@pytest.mark.parametrize("pattern", [b"HZ", b"h[z-y]", b"h[Y-Z]", b"h[^A-y]", b"\\Hz", b"H?"])
def test_case_can_be_ignored(pattern: bytes) -> None:
    assert compile_glob(pattern, nocase=True)(b"Hz")


def test_a_range_of_both_cases_is_empty_without_case() -> None:
    assert not compile_glob(b"h[a-Z]", nocase=True)(b"hz")
