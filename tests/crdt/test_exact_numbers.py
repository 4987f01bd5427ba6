"""Sums: exact where Redis is, and the same in every order."""

from itertools import permutations

import pytest

from holdfast.crdt.exact_numbers import Number, negative, parse, text_of, total
from tests.crdt.network import Replica, cluster, sync


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([1, 2, -5], b"-2"),
        ([2**62, 2**62, -1], b"9223372036854775807"),
        (["0.1", "0.2"], b"0.3"),
        (["1.50", 2, "-3.5"], b"0"),
        (["100", "0.0"], b"100"),
        (["1e3", 1], b"1001"),
        ([1 << 63, 1 << 63, 1], b"18446744073709551617"),
    ],
)
def test_decimals_and_integers(terms: list[Number], expected: bytes) -> None:
    for order in permutations(terms):
        assert text_of(total(order)) == expected


def test_scores_add_up_the_same_in_every_order() -> None:
    terms: list[Number] = [1e16, 1.0, -1e16, 0.1]
    assert {total(order) for order in permutations(terms)} == {1.1}
    huge: list[Number] = [1e308, 1e308, -1e308]
    assert len({total(order) for order in permutations(huge)}) == 1


@pytest.mark.parametrize("text", [b"", b"abc", b"1 ", b"--1", b"0x10", b"inf", b"."])
def test_texts_that_are_no_numbers(text: bytes) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(("text", "number"), [(b"-7", -7), (b"007", "007"), (b"1e5", "1e5")])
def test_texts_that_are_numbers(text: bytes, number: Number) -> None:
    assert parse(text) == number


def test_negative() -> None:
    assert [negative(number) for number in (3, -0.5, "1.5", "-2", "+1")] == [
        -3,
        0.5,
        "-1.5",
        "2",
        "-1",
    ]


def test_one_replica_adds_scores_as_a_plain_sorted_set_does() -> None:
    """Rounded at every step, so the result equals that of a plain sorted set."""
    replica = Replica(1)
    replica.write("zset", b"z", b"m", 1.1)
    score = 1.1
    for amount in (0.1, 0.1, 0.7, -3.3, 1e10, 0.3):
        replica.zincrby(b"z", b"m", amount)
        score += amount
        assert replica.view(b"z") == [(score, b"m")]


def test_infinite_scores() -> None:
    replica = Replica(1)
    replica.zincrby(b"z", b"m", float("inf"))
    replica.zincrby(b"z", b"m", 5.0)
    assert replica.view(b"z") == [(float("inf"), b"m")]
    replica.write("zset", b"z", b"m", 2.0)
    replica.zincrby(b"z", b"m", 1.0)
    assert replica.view(b"z") == [(3.0, b"m")]


def test_the_reply_to_an_increment_is_the_value_that_is_shown() -> None:
    replica = Replica(1)
    replica.increment(b"n", b"0.1", b"0.1")
    replica.increment(b"n", b"0.2", b"0.3")
    assert replica.view(b"n") == b"0.3"
    assert len(list(replica.key(b"n").rows())) == 1  # a total
    replica.increment(b"n", b"1", b"1.29999999999999999")  # as rounded elsewhere
    assert replica.view(b"n") == b"1.29999999999999999"
    replica.increment(b"n", b"0x10", b"17.3")
    assert replica.view(b"n") == b"17.3"


def test_totals_too_large_for_an_integer_still_travel() -> None:
    one, two = cluster(2)
    for _ in range(2):
        one.incrby(b"n", 2**62)
        two.pull(one)
        two.incrby(b"n", -(2**62))
        one.pull(two)
    one.incrby(b"n", 2**62)
    one.incrby(b"n", 2**62)
    sync(one, two)
    assert one.view(b"n") == two.view(b"n") == b"%d" % 2**63
