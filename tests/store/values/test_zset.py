"""Properties that the model does not show: the rows reported, the time of sorting, the work
done."""

import random
from typing import Any

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import ZSET_MEMBERS
from holdfast.store.values import zset as zsets
from holdfast.store.values.zset import ZSet
from tests.store.list_rows import KEY_ID


def filled(count: int) -> ZSet:
    value = ZSet(KEY_ID)
    for number in range(count):
        value.put(b"member:%d" % number, float(number * 7919 % count), ChangeLog())
    return value


def test_a_change_is_one_row() -> None:
    log = ChangeLog()
    value = ZSet(KEY_ID)
    value.put(b"a", 1.0, log)
    value.put(b"b", 2.0, log)
    value.put(b"a", 3.0, log)
    value.pop(1, False, log)
    value.remove(b"nobody", log)
    assert log.ops == [
        (ZSET_MEMBERS, KEY_ID, b"a", 1.0),
        (ZSET_MEMBERS, KEY_ID, b"b", 2.0),
        (ZSET_MEMBERS, KEY_ID, b"a", 3.0),
        (ZSET_MEMBERS, KEY_ID, b"b", None),
    ]


def test_minus_zero_is_zero() -> None:
    value = ZSet(KEY_ID)
    value.put(b"a", -0.0, ChangeLog())
    assert str(value.score(b"a")) == "0.0"


@pytest.mark.source_only
def test_nothing_is_sorted_before_the_order_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("sorted")

    value = filled(1000)
    monkeypatch.setattr(zsets, "Ranking", refuse)
    value.put(b"x", 1.0, ChangeLog())
    value.remove(b"member:5", ChangeLog())
    assert value.score(b"x") == 1.0
    with pytest.raises(AssertionError, match="sorted"):
        value.rank(b"x")


class Counting(bytes):
    """A member that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: bytes) -> bool:
        Counting.comparisons += 1
        return bytes(self) < bytes(other)

    def __gt__(self, other: bytes) -> bool:
        Counting.comparisons += 1
        return bytes(self) > bytes(other)

    def __eq__(self, other: object) -> bool:
        Counting.comparisons += 1
        return bytes(self) == other

    __hash__ = bytes.__hash__


def test_no_operation_looks_at_more_than_a_few_members() -> None:
    """All score the same, so that every comparison is one of members."""
    value = ZSet(KEY_ID)
    count = 200_000
    for number in range(count):
        value.put(Counting(b"%06d" % number), 1.0, ChangeLog())
    value.slice(0, 1)
    rng = random.Random(1)
    operations: list[Any] = [
        value.rank,
        lambda member: value.lex_range((member, True), None),
        lambda member: value.put(member, 2.0, ChangeLog()),
        lambda member: value.put(member, 1.0, ChangeLog()),
        lambda member: value.remove(member, ChangeLog()),
        lambda member: value.pop(1, False, ChangeLog()),
        lambda member: value.pop(1, True, ChangeLog()),
    ]
    for operation in operations:
        for _ in range(20):
            Counting.comparisons = 0
            operation(Counting(b"%06d" % rng.randrange(count)))
            assert Counting.comparisons < 150


def test_a_scan_returns_about_as_many_as_it_was_asked_for() -> None:
    value = filled(1000)
    cursor = calls = 0
    found: list[bytes] = []
    while not calls or cursor:
        cursor, members = value.scan(cursor, 10)
        found += members
        calls += 1
    assert calls == 100
    assert sorted(found) == sorted(value)


@pytest.mark.source_only
def test_members_with_one_hash_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zsets, "_place", len)
    value = filled(1000)
    cursor = 0
    found: list[bytes] = []
    while not found or cursor:
        cursor, members = value.scan(cursor, 10)
        found += members
    assert sorted(found) == sorted(value)


def test_where_scores_differ_a_lexical_range_is_a_run_from_where_one_starts() -> None:
    value = ZSet(KEY_ID)
    for score, member in enumerate([b"b", b"a", b"z", b"c"]):
        value.put(member, float(score), ChangeLog())
    assert value.lex_range((b"b", False), (b"c", True)) == (0, 2)
    assert value.lex_range((b"b", False), (b"c", True), reverse=True) == (2, 4)
    assert value.lex_range((b"d", False), None) == (0, 0)
