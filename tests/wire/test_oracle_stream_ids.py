"""Generated ids, most of them odd, in every command that reads one: both servers take the same ones
for the same."""

import random

import pytest

from tests.harness import Pair
from tests.wire.same import Line, assert_same

INT64_MAX, UINT64_MAX = (1 << 63) - 1, (1 << 64) - 1
BLANKS = ["", "", "", "", " ", "\t", "\n", "\v", "\f", "\r", "\0"]
SIGNS = ["", "", "", "-", "-", "+", "--", "+-", "-+", "- ", "+ "]
DIGITS = [
    *("0", "1", "5", "7", "00", "007", "1" * 30, "", "*", "x", "0x10", "1e3", "1.5"),
    *(str(number + near) for number in (INT64_MAX, UINT64_MAX) for near in (-1, 0, 1, 2)),
]
ENDS = ["", "", "", "", "", " ", "\0", "\0x", "x", "\n"]

FILLED: list[Line] = [
    "FLUSHALL",
    *(f"XADD s {entry_id} f v" for entry_id in ("5-1", "5-7")),
    *(f"XADD s {UINT64_MAX}-{sequence} f v" for sequence in (5, UINT64_MAX)),
    f"XADD late {INT64_MAX - 5}-5 f v",  # so that the time is never an id
    "XADD empty 5-1 f v",
    "XDEL empty 5-1",
    "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
]
KEPT: list[Line] = [
    "XRANGE new - +",
    "XRANGE late - +",
    "XRANGE s - +",
    "XINFO STREAM s",
    "XINFO STREAM empty",
    "XINFO GROUPS s",
    "XPENDING s g",
]


def commands_with(entry_id: str) -> list[tuple[str, ...]]:
    return [
        ("XADD", "new", f"5-{entry_id.partition('-')[2]}", "f", "v"),
        ("XADD", "late", entry_id, "f", "v"),
        ("XADD", "late", "MINID", entry_id, entry_id, "f", "v"),
        ("XRANGE", "s", entry_id, "+"),
        ("XRANGE", "s", "-", entry_id),
        ("XRANGE", "s", f"({entry_id}", "+"),
        ("XREVRANGE", "s", entry_id, f"({entry_id}"),
        ("XREAD", "STREAMS", "s", entry_id),
        ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", entry_id),
        ("XDEL", "s", "5-1", entry_id),
        ("XTRIM", "s", "MINID", entry_id),
        ("XSETID", "empty", entry_id),
        ("XSETID", "empty", "7-7", "ENTRIESADDED", "9", "MAXDELETEDID", entry_id),
        ("XGROUP", "CREATE", "s", "h", entry_id),
        ("XGROUP", "SETID", "s", "g", entry_id),
        ("XACK", "s", "g", entry_id),
        ("XCLAIM", "s", "g", "c", "0", entry_id, "JUSTID"),
        ("XCLAIM", "s", "g", "c", "0", "5-1", "LASTID", entry_id, "JUSTID"),
        ("XPENDING", "s", "g", "IDLE", "100000000", entry_id, "+", "10"),
        ("XPENDING", "s", "g", "IDLE", "100000000", "-", f"({entry_id}", "10"),
        ("XAUTOCLAIM", "s", "g", "c", "100000000", entry_id),
    ]


def odd_number(rng: random.Random) -> str:
    return "".join(rng.choice(some) for some in (BLANKS, SIGNS, DIGITS, ENDS))


def odd_id(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice("-+$>*") + rng.choice(["\0", "\0-", "\0" * 126, "\0" * 127])
    ms = rng.choice(["5", str(UINT64_MAX), odd_number(rng)])
    return ms if rng.random() < 0.1 else f"{ms}-{odd_number(rng)}"


@pytest.mark.parametrize("which", range(len(commands_with(""))))
def test_odd_ids_are_read_alike(pair: Pair, rng: random.Random, which: int) -> None:
    for _ in range(100):
        assert_same(pair, [*FILLED, commands_with(odd_id(rng))[which], *KEPT])
