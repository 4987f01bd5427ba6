"""HyperLogLog against redis-server: not only the counts, the strings are the same bytes."""

import random

import pytest

from tests.harness import Pair
from tests.wire.same import Line, assert_same

SEQUENCES: dict[str, list[Line]] = {
    "adding": [
        *("PFADD k", "GET k", "PFCOUNT k", "GET k", "PFADD k", "GET k", "PFADD k a b c", "GET k"),
        *("PFADD k a b", "PFADD k d a", "PFCOUNT k", "PFCOUNT k", "GET k", "STRLEN k", "TYPE k"),
        *("PFADD k ''", "GET k", "PFCOUNT k missing", "PFCOUNT missing", "PFCOUNT missing m2"),
        *("EXPIREAT k 33000000000", "PFADD k z", "EXPIRETIME k", "PFADD", "PFCOUNT", "PFMERGE"),
    ],
    "merging": [
        *("PFADD a 1 2 3", "PFADD b 3 4 5 6", "PFMERGE c a b", "GET c", "PFCOUNT c", "PFCOUNT a b"),
        *("PFMERGE a missing", "GET a", "PFMERGE new", "GET new", "PFMERGE m missing", "GET m"),
        *("PFCOUNT new", "GET new", "PFMERGE c a a b", "GET c", "PFMERGE a b", "GET a"),
    ],
    "debugging": [
        *("PFDEBUG ENCODING k", "PFADD k a b c", "PFDEBUG ENCODING k", "PFDEBUG DECODE k"),
        *("PFDEBUG todense k", "PFDEBUG TODENSE k", "PFDEBUG ENCODING k", "GET k"),
        *("PFDEBUG DECODE k", "PFADD r x y", "PFDEBUG GETREG r", "PFDEBUG ENCODING r", "GET r"),
        *("PFDEBUG NOPE r", "PFDEBUG GETREG r x", "PFDEBUG", "SET s text", "PFDEBUG ENCODING s"),
        *("RPUSH l a", "PFDEBUG ENCODING l", "PFADD c 1 2", "APPEND c hello", "PFDEBUG TODENSE c"),
        *("PFDEBUG GETREG c", "EXPIREAT r 33000000000", "PFDEBUG TODENSE r"),
        *("EXPIRETIME r", "PFSELFTEST", "PFSELFTEST x"),
    ],
    "no HyperLogLog": [
        *("SET s text", "RPUSH l a", "SET n 5", "SET almost HYLL", "PFADD a 1"),
        *(
            f"{command} {key}"
            for key in ("s", "l", "n", "almost")
            for command in ("PFADD", "PFCOUNT")
        ),
        *(
            "PFCOUNT a s",
            "PFCOUNT a l",
            "PFMERGE s a",
            "PFMERGE l a",
            "PFMERGE new a s",
            "EXISTS new",
        ),
        *("PFMERGE new l", "EXISTS new"),
        ("SET", "dense", b"HYLL\0" + bytes(100)),
        *("PFADD dense x", "PFCOUNT dense"),
        ("SET", "two", b"HYLL\2" + bytes(100)),
        "PFCOUNT two",
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence(pair: Pair, name: str) -> None:
    assert_same(pair, SEQUENCES[name])


@pytest.mark.parametrize("name", ["pfadd", "pfcount", "pfmerge", "pfdebug", "pfselftest"])
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    assert_same(pair, [f"COMMAND INFO {name}"], in_any_order=True)


def test_every_form_has_the_bytes_of_redis(pair: Pair, rng: random.Random) -> None:
    """From empty over sparse to dense, element by element, then in large steps."""
    for number in range(2500):
        lines: list[Line] = [f"PFADD k {rng.randrange(10**6)}"]
        if number % 20 == 0:
            lines += ["GET k", "PFCOUNT k", "GET k"]
        assert_same(pair, lines)
    for _ in range(20):
        elements = [rng.randbytes(rng.randrange(30)) for _ in range(1000)]
        assert_same(pair, [("PFADD", "k", *elements), "PFCOUNT k", "GET k"])


def test_merging_any_forms(pair: Pair, rng: random.Random) -> None:
    for size in (0, 3, 50, 700, 5000):
        assert_same(pair, [("PFADD", f"k{size}", *(rng.randrange(10**5) for _ in range(size)))])
    sizes = (0, 3, 50, 700, 5000)
    for a in sizes:
        for b in sizes:
            assert_same(
                pair,
                [
                    f"PFCOUNT k{a} k{b} missing",
                    f"PFMERGE m{a}-{b} k{a} k{b}",
                    f"GET m{a}-{b}",
                    f"PFCOUNT m{a}-{b}",
                    f"PFMERGE m{a}-{b} k{b}",
                    f"GET m{a}-{b}",
                ],
            )


def test_values_that_were_damaged_are_refused(pair: Pair, rng: random.Random) -> None:
    assert_same(pair, [("PFADD", "k", *range(300))])
    value = pair.oracle.command("GET", "k").partition(b"\r\n")[2][:-2]
    for length in (17, 40, len(value) - 1):
        pair.same("SET", "broken", value[:length])
        pair.same("PFCOUNT", "broken")
        pair.same("PFMERGE", "other", "broken")
        pair.same("PFCOUNT", "broken", "k")
