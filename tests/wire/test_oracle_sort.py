"""SORT against redis-server: every option, on lists, sets and sorted sets."""

import random
from collections.abc import Callable

import pytest

from tests.harness import Pair
from tests.wire.same import Line, assert_same

START: list[Line] = [
    *("RPUSH l 3 1 10 2 -5 2.5", "RPUSH words banana apple Cherry '' apple", "RPUSH one x"),
    *("SADD s 3 1 10 2", "SADD sw b a c", "ZADD z 5 a 1 b 3 c", "ZADD zn 1 30 2 10 3 20"),
    *("MSET w_1 30 w_2 20 w_3 10 w_10 5 w_a 2 w_b 3 w_c 1", "MSET t_1 x t_2 b t_3 a t_10 ''"),
    *("HSET h_1 f 9 g one", "HSET h_2 f 8 g two", "HSET h_3 f 7", "SET str v", "HSET h f v"),
    ("RPUSH", "nul", b"b\0z", b"a\0y", b"a\0x", b"\0", b""),
    ("RPUSH", "bin", b"\xff", b"\x80", b"a", b"Z"),
]
SEQUENCES: dict[str, list[Line]] = {
    "plain": [
        *("SORT l", "SORT l ASC", "SORT l desc", "SORT l ALPHA", "SORT l ALPHA DESC", "SORT s"),
        *("SORT s DESC", "SORT zn", "SORT zn DESC ASC", "SORT z ALPHA", "SORT sw ALPHA DESC"),
        *("SORT words ALPHA", "SORT words", "SORT one", "SORT missing", "SORT missing ALPHA"),
        *("SORT str", "SORT h", "SORT nul ALPHA", "SORT nul ALPHA DESC", "SORT bin ALPHA", "SORT"),
    ],
    "limit": [
        *(
            f"SORT {key} LIMIT {start} {count} {way}"
            for key in ("l", "s", "zn")
            for start in (0, 1, 3, 9, -2)
            for count in (0, 1, 2, 100, -1, -5)
            for way in ("", "DESC")
        ),
        *(
            "SORT l LIMIT x 1",
            "SORT l LIMIT 1 x",
            "SORT l LIMIT 1",
            "SORT l LIMIT",
            "SORT str LIMIT x 1",
        ),
        *("SORT l LIMIT 0 9223372036854775807", "SORT l LIMIT 9223372036854775807 1"),
        *("SORT l LIMIT 0 1 LIMIT 1 2", "SORT l LIMIT 1 9223372036854775808"),
    ],
    "by": [
        *(
            "SORT l BY w_*",
            "SORT l BY w_* DESC",
            "SORT s BY w_*",
            "SORT zn BY w_*",
            "SORT z BY w_*",
        ),
        *("SORT l BY t_*", "SORT s BY t_* ALPHA", "SORT s BY t_* ALPHA DESC", "SORT s BY h_*->f"),
        *(
            "SORT l BY h_*->f",
            "SORT l BY h_*->g",
            "SORT l BY h_*->",
            "SORT l BY w_*->f",
            "SORT l BY *",
        ),
        *("SORT l BY nosort", "SORT l BY nosort DESC", "SORT z BY nosort", "SORT z BY nosort DESC"),
        *(
            "SORT z BY nosort LIMIT 1 1",
            "SORT z BY nosort DESC LIMIT 0 2",
            "SORT l BY ''",
            "SORT l BY",
        ),
        *("SORT l BY nosort LIMIT 1 2", "SORT l BY nosort DESC LIMIT 1 2", "SORT words BY nosort"),
        *(
            "SORT l BY w_* LIMIT 1 2",
            "SORT l BY missing_*",
            "SORT l BY missing_* DESC",
            "SORT l BY #",
        ),
        *("SORT l BY w_* BY nosort", "SORT l BY nosort BY w_*", "SORT one BY nosort LIMIT 5 5"),
    ],
    "get": [
        *("SORT l GET #", "SORT l GET w_*", "SORT l GET # GET w_* GET h_*->g", "SORT l GET h_*->f"),
        *(
            "SORT l GET nothing",
            "SORT l GET h_*",
            "SORT l GET w_*->f",
            "SORT l GET h_*->",
            "SORT l GET *",
        ),
        *("SORT s BY w_* GET # GET t_* LIMIT 1 2", "SORT z BY nosort GET w_*", "SORT l GET"),
        *("SORT missing GET #", "SORT l GET ''", "SORT l BY w_* GET #x", "SORT one GET l ALPHA"),
    ],
    "store": [
        *(
            "SORT l STORE d",
            "LRANGE d 0 -1",
            "SORT l BY w_* GET # GET w_* STORE d",
            "LRANGE d 0 -1",
        ),
        *(
            "SORT missing STORE d",
            "EXISTS d",
            "SORT missing STORE d",
            "SORT l STORE str",
            "TYPE str",
        ),
        *("SORT s BY nosort STORE d", "LRANGE d 0 -1", "SORT sw BY nosort DESC STORE d"),
        *("LRANGE d 0 -1", "SORT l STORE l", "LRANGE l 0 -1", "SORT l STORE", "SORT words STORE d"),
        *("SORT l LIMIT 0 0 STORE d", "EXISTS d", "SORT nul ALPHA STORE d", "LRANGE d 0 -1"),
        *("SORT l STORE d STORE d2", "EXISTS d", "LRANGE d2 0 -1", "EXPIREAT d2 33000000000"),
        *("SORT l STORE d2", "TTL d2", "SORT h STORE d2", "EXISTS d2", "SORT bin ALPHA STORE d"),
        *("LRANGE d 0 -1", "SORT z BY nosort STORE d", "LRANGE d 0 -1"),
    ],
    "read-only": [
        *("SORT_RO l", "SORT_RO l DESC LIMIT 1 2 GET #", "SORT_RO l STORE d", "SORT_RO str"),
        *("SORT_RO missing", "SORT_RO s BY w_*", "SORT_RO"),
    ],
    "wrong": ["SORT l NOPE", "SORT str NOPE", "SORT l ASC NOPE DESC", "SORT words LIMIT 0 1"],
    "keys": [
        *("COMMAND GETKEYS SORT l", "COMMAND GETKEYS SORT l STORE d", "COMMAND GETKEYS SORT_RO l"),
        *(
            "COMMAND GETKEYS SORT l BY STORE STORE d",
            "COMMAND GETKEYS SORT l STORE d GET store ASC",
        ),
        *("COMMAND GETKEYS SORT l LIMIT store 1 STORE d STORE e", "COMMAND GETKEYS SORT l STORE"),
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence(pair: Pair, name: str) -> None:
    assert_same(pair, START)
    assert_same(pair, SEQUENCES[name])


@pytest.mark.parametrize("command", ["SORT", "SORT_RO"])
@pytest.mark.parametrize("key", ["l", "s", "sw", "z", "big", "missing"])
def test_a_script_sees_a_set_in_order(pair: Pair, command: str, key: str) -> None:
    """Also BY a constant, which leaves lists and sorted sets as they are."""
    assert_same(pair, START)
    pair.same("SADD", "big", *(f"m{number * 7919 % 1000}" for number in range(1000)))
    for options in (
        "",
        "DESC",
        "LIMIT 1 2",
        "DESC LIMIT 0 2",
        "ALPHA",
        "ALPHA DESC",
        "GET # GET w_*",
    ):
        words = ["BY", "constant", *options.split()]
        script = f"return redis.call('{command}', KEYS[1], unpack(ARGV))"
        pair.same("EVAL", script, 1, key, *words)
        pair.same("EVAL", script, 1, key, "BY", "w_*", *words)


@pytest.mark.parametrize("name", ["sort", "sort_ro"])
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    assert_same(pair, [f"COMMAND INFO {name}"], in_any_order=True)


@pytest.mark.parametrize(
    "text",
    [
        "1e3",
        " 5",
        "5 ",
        "0x10",
        "inf",
        "-inf",
        "nan",
        "1e400",
        "1e-400",
        "0e-5",
        "2e-310",
        "0.0",
        "+5",
        ".5",
        "5.",
        "x",
    ],
)
def test_texts_that_sort_takes_for_numbers(pair: Pair, text: str) -> None:
    pair.same("RPUSH", "k", "1", text, "7")
    pair.same("SORT", "k")


def test_long_ones(pair: Pair, rng: random.Random) -> None:
    elements = [rng.randrange(10**6) for _ in range(3000)]
    pair.same("RPUSH", "k", *elements)
    pair.same("MSET", *(part for e in set(elements) for part in (f"w_{e}", rng.randrange(100))))
    assert_same(pair, ["SORT k", "SORT k DESC", "SORT k ALPHA", "SORT k BY w_* LIMIT 100 500"])


@pytest.mark.parametrize("order", ["as they came", "ascending", "descending"])
@pytest.mark.parametrize("numbers", ["many", "few", "floats", "signed", "exponents"])
def test_a_few_of_many(pair: Pair, rng: random.Random, numbers: str, order: str) -> None:
    """Only elements that may be among them are sorted, in the same order as all."""
    draws: dict[str, Callable[[], str]] = {
        "many": lambda: str(rng.randrange(10**9)),
        "few": lambda: str(rng.randrange(5)),
        "floats": lambda: f"{rng.uniform(-5, 5):.3f}",
        "signed": lambda: rng.choice(["-0", "0", "+7", "-.5", "3."]),
        "exponents": lambda: f"{rng.randrange(9)}e{rng.randrange(-9, 9)}",
    }
    elements = [draws[numbers]() for _ in range(2500)]
    if order != "as they came":
        elements.sort(key=float, reverse=order == "descending")
    pair.same("RPUSH", "k", *elements)
    pair.same("SADD", "s", *elements)
    pair.same("MSET", *(part for e in set(elements) for part in (f"w_{e}", rng.randrange(100))))
    assert_same(
        pair,
        [
            f"SORT {key} {options} LIMIT {start} {count} {way}"
            for key in ("k", "s")
            for options in ("", "ALPHA", "BY w_*", "BY w_* GET # GET w_*", "BY nothing_*")
            for start, count in ((0, 10), (0, 0), (100, 50), (2490, 100), (3000, 1), (5, 800))
            for way in ("", "DESC")
        ],
    )
    assert_same(pair, ["SORT k LIMIT 3 20 STORE d", "LRANGE d 0 -1", "SORT k ALPHA LIMIT 3 -1"])


def test_one_of_many_that_is_no_number_is_refused_wherever_it_stands(pair: Pair) -> None:
    pair.same("RPUSH", "k", *range(2000), "x")
    pair.same("RPUSH", "long", *range(2000), "9" * 400)
    pair.same("RPUSH", "empty", *range(2000), "")
    # (The long one comes last: redis-server keeps its errno for the commands that follow.)
    assert_same(pair, [f"SORT {key} LIMIT 0 1" for key in ("k", "empty", "long")])
