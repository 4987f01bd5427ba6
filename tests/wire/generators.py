"""Random commands from the grammar: correct, at the edge, and broken.

Every function takes a `random.Random`, so Hypothesis and plain seeds share it. This file knows
nothing of replies.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.wire.grammar import (
    BAD_CURSORS,
    BAD_NUMBERS,
    EXPIRE_NOW,
    GRAMMAR,
    GROUP_WEIGHTS,
    KEYS,
    KINDS,
    MILLISECONDS,
    SECONDS,
    TIMEOUT,
    TIMEOUT_MS,
    WORDS,
    Argv,
)

Element = Callable[[random.Random], list[bytes]]


@dataclass(frozen=True)
class Form:
    """One line of the grammar."""

    text: str
    name: str  # "client|kill" when a fixed word follows the name of a container
    required: tuple[Element, ...]
    options: tuple[Element, ...]

    def generate(self, rng: random.Random) -> list[bytes]:
        argv = [arg for element in self.required for arg in element(rng)]
        options = list(self.options)
        if rng.randrange(3) == 0:
            rng.shuffle(options)
        for option in options:
            if rng.randrange(2):
                argv += option(rng)
        return argv


def _parse(text: str, containers: frozenset[str]) -> Form:
    tokens = re.findall(r"\.\.\.|[\[\]()|]|[^\s\[\]()|.]+", text)
    words = text.split()
    is_sub = words[0].lower() in containers and len(words) > 1 and words[1].isupper()
    name = "|".join(words[: 1 + is_sub]).lower()
    required: list[Element] = []
    options: list[Element] = []
    while tokens:
        optional = tokens[0] == "["
        (options if optional else required).append(_element(tokens))
    return Form(text, name, tuple(required), tuple(options))


def _element(tokens: list[str]) -> Element:
    token = tokens.pop(0)
    if token in "[(":
        element = _choice(tokens)
    elif token in KINDS:
        kind = KINDS[token]
        element = lambda rng: [kind.choose(rng)]  # noqa: E731
    else:
        assert token.isupper(), f"{token} is no kind"
        element = lambda rng: [_any_case(token.encode(), rng)]  # noqa: E731
    if tokens and tokens[0] == "...":
        tokens.pop(0)
        return lambda rng: [arg for _ in range(rng.choice((1, 2, 3))) for arg in element(rng)]
    return element


def _choice(tokens: list[str]) -> Element:
    """The alternatives in brackets, without the opening one."""
    ways: list[list[Element]] = [[]]
    while tokens[0] not in "])":
        if tokens[0] == "|":
            tokens.pop(0)
            ways.append([])
        else:
            ways[-1].append(_element(tokens))
    tokens.pop(0)
    return lambda rng: [arg for element in rng.choice(ways) for arg in element(rng)]


def _any_case(word: bytes, rng: random.Random) -> bytes:
    return rng.choice((word, word, word.lower(), word.capitalize()))


CONTAINERS = frozenset(
    {"client", "command", "config", "object", "pubsub", "slowlog", "xgroup", "xinfo"}
)
FORMS: dict[str, list[Form]] = {
    group: [_parse(line.strip(), CONTAINERS) for line in lines.strip().splitlines()]
    for group, lines in GRAMMAR.items()
}

# -- breaking things -------------------------------------------------------------------------------


def _broken(argv: list[bytes], rng: random.Random) -> list[bytes]:
    """One mistake of the kinds people and programs make."""
    at = rng.randrange(len(argv))
    mistake = rng.randrange(7)
    if mistake == 0 and at:
        del argv[at]
    elif mistake == 1:
        argv.insert(at + 1, rng.choice(WORDS))
    elif mistake == 2:
        argv.insert(at + 1, argv[at])
    elif mistake == 3 and at:
        argv[at] = rng.choice((*BAD_NUMBERS, *WORDS, *KEYS))
    elif mistake == 5:
        argv[0] = rng.choice((argv[0] + b"x", b"", b"y" * 200, b"y\0y"))
    elif mistake == 4 and at:
        other = rng.randrange(1, len(argv))
        argv[at], argv[other] = argv[other], argv[at]
    else:
        del argv[at + 1 :]
    return argv


_TIMEOUT_AT = {
    b"blpop": -1, b"brpop": -1, b"brpoplpush": -1, b"blmove": -1, b"blmpop": 1,
    b"bzpopmin": -1, b"bzpopmax": -1, b"bzmpop": 1,
}  # fmt: skip
_HARMLESS_TIMEOUT = frozenset(
    {TIMEOUT, b"-1", b"nan", b"inf", b"1e300", *BAD_NUMBERS} - {b"1.0", b"-0", b"1e3", b"0x10"}
    - {b"+1", b"01", b"9223372036854775808", b"18446744073709551616", b"9" * 25}
)  # fmt: skip


def is_safe(argv: Sequence[bytes]) -> bool:
    """Whether a test gets an answer, soon, and keeps its connection."""
    name = argv[0].lower()
    if name in _TIMEOUT_AT:
        timeout = argv[_TIMEOUT_AT[name]] if len(argv) > 1 else b""
        return timeout in _HARMLESS_TIMEOUT or timeout in WORDS
    if name == b"client" and len(argv) > 2 and argv[1].lower() == b"reply":
        return argv[2].lower() not in (b"off", b"skip")
    if name == b"client" and len(argv) > 2:  # version: in Redis 7.0, fewer filters and one id each
        several = argv[1].lower() == b"list" or argv[2].lower() == b"id"
        return b"DB" not in argv and not (several and len(argv) > 4)
    if name == b"hello" and b"SETNAME" in (arg.upper() for arg in argv):
        return len(argv) < 5  # version: Redis 7.0 sets the name also if an error follows
    if name == b"bitop" and len(argv) > 1:
        return argv[1].upper() not in (b"DIFF", b"DIFF1", b"ANDOR", b"ONE")  # version
    if name in (b"xread", b"xreadgroup"):
        blocks = [at for at, arg in enumerate(argv[:-1], 1) if arg.upper() == b"BLOCK"]
        return all(argv[at] in (TIMEOUT_MS, b"-1", b"x") for at in blocks)
    if name == b"xadd":
        return b"*" not in argv
    if name == b"config":
        return b"DB" not in argv  # own-settings
    if name.endswith(b"unsubscribe"):
        return len(argv) < 3  # else there are several replies
    if name == b"scan" and len(argv) > 1:  # all at once: each server has its own order
        return argv[1] in BAD_CURSORS or (argv[1] == b"0" and b"1000" in argv)
    if name in (b"hscan", b"sscan", b"zscan") and len(argv) > 2:
        return argv[2] in BAD_CURSORS or (argv[2] == b"0" and b"1000" in argv)
    # All or none, so that chance has no say.
    if name in (b"spop", b"srandmember", b"hrandfield", b"zrandmember"):
        return len(argv) > 2 and argv[2] in (b"1000", b"0", *BAD_NUMBERS)
    if name.startswith(b"z") and b"-0" in argv:
        return False  # minus-zero
    if name in (b"zrank", b"zrevrank"):
        return len(argv) < 4  # version
    if b"lex" in name or b"BYLEX" in (arg.upper() for arg in argv):
        return b"lex" in argv[1:3]  # if scores differ, Redis's result is random
    if name != b"zrem" and b"lex" in argv:  # so there they must not
        return set(argv[2::2]) == {b"0"}
    if name in (b"sort", b"sort_ro"):  # these leave the order, or part of it, to the server
        words = [arg.upper() for arg in argv]
        by = next((argv[at + 1] for at in range(len(argv) - 1) if words[at] == b"BY"), None)
        return by is None or (b"ALPHA" not in words if b"*" in by else b"STORE" in words)
    if name == b"command":  # not about commands that are not here, so not about all
        return len(argv) > 2 and b"SYNC" not in argv
    return True


def command(rng: random.Random, is_wanted: Callable[[Form], bool]) -> Argv:
    """One command: as the grammar says, or in one of five cases with a mistake."""
    if rng.randrange(50) == 0:
        return EXPIRE_NOW, rng.choice(KEYS)
    while True:
        group = rng.choices(list(GROUP_WEIGHTS), list(GROUP_WEIGHTS.values()))[0]
        forms = [form for form in FORMS[group] if is_wanted(form)]
        if not forms:
            continue
        argv = rng.choice(forms).generate(rng)
        if rng.randrange(5) == 0:
            argv = _broken(argv, rng)
        if is_safe(argv):
            return tuple(argv)


def finish(argv: Argv, number: int, timeout: bytes) -> Argv:
    """Put times in that nothing else in the sequence has; `number` is the command's place."""
    seconds = 1000 + number * 7919 % 100_003
    times = {
        SECONDS: b"%d" % seconds,
        MILLISECONDS: b"%d" % (seconds * 1000),
        TIMEOUT: timeout,
        TIMEOUT_MS: b"0" if timeout == b"0" else b"10",
    }
    return tuple(times.get(arg, arg) for arg in argv)
