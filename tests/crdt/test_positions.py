"""Positions: always between, always unique, and short where lists are mostly changed."""

import random

import pytest

from holdfast.crdt import positions
from holdfast.crdt.dots import Author, dot_of
from holdfast.crdt.positions import SEGMENT, after, before, between


class Writers:
    """Authors of one list; each sees every insertion at once."""

    def __init__(self, count: int) -> None:
        self.hlc = 0
        self.authors = [Author(replica, 0, {}) for replica in range(1, count + 1)]

    def write(self, i: int) -> Author:
        self.hlc += 1
        self.authors[i].hlc = self.hlc
        return self.authors[i]


def test_a_position_ends_with_the_elements_id() -> None:
    author = Author(7, 1 << 60, {7: 41})
    assert positions.dot_of(after(b"", author)) == dot_of(7, 42)
    assert positions.dot_of(before(b"", author)) == dot_of(7, 43)


def test_pushes_at_either_end_keep_their_size() -> None:
    """With any number of pushes, and any order of authors."""
    writers = Writers(3)
    first = last = after(b"", writers.write(0))
    rng = random.Random(1)
    for _ in range(2000):
        new_last, new_first = (
            after(last, writers.write(rng.randrange(3))),
            before(first, writers.write(rng.randrange(3))),
        )
        assert new_first < first <= last < new_last
        assert len(new_first) == len(new_last) == SEGMENT
        first, last = new_first, new_last


@pytest.mark.parametrize("seed", range(20))
def test_between_is_between(seed: int) -> None:
    rng = random.Random(seed)
    writers = Writers(4)
    order = [after(b"", writers.write(0))]
    seen = set(order)
    for _ in range(500):
        i = rng.randint(0, len(order))
        left = order[i - 1] if i else b""
        right = order[i] if i < len(order) else b""
        new = between(left, right, writers.write(rng.randrange(4)))
        assert left < new
        assert not right or new < right
        assert new not in seen
        seen.add(new)
        order.insert(i, new)
        if rng.random() < 0.2:
            del order[rng.randrange(len(order))]
            order = order or [after(b"", writers.write(0))]


@pytest.mark.parametrize("side", [0, 1])
def test_insertions_in_turn_at_one_place_do_not_get_deeper_for_ever(side: int) -> None:
    """Each replica inserts right behind, or right before, the element that the replica before it
    inserted."""
    writers = Writers(21)
    left = after(b"", writers.write(20))
    right = after(left, writers.write(20))
    deepest = 0
    for i in range(200):
        new = between(left, right, writers.write(i % 20))
        assert left < new < right
        deepest = max(deepest, len(new) // SEGMENT)
        left, right = (left, new) if side else (new, right)
    assert deepest <= 8, "as designed"


def test_a_run_of_insertions_by_one_replica_stays_flat() -> None:
    writers = Writers(2)
    left = after(b"", writers.write(0))
    right = after(left, writers.write(0))
    for _ in range(100):
        left = between(left, right, writers.write(1))
        assert len(left) == 2 * SEGMENT


def test_where_ranks_end_stamps_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "MAX_RANK", 3)
    writers = Writers(2)
    first = after(b"", writers.write(0))
    last = after(first, writers.write(0))
    for i in range(20):
        new = before(first, writers.write(i % 2))
        assert new < first
        first = new
    anchor, right = first, last
    for i in range(20):
        new = between(anchor, right, writers.write(i % 2))
        assert anchor < new < right
        right = new


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("seq", [1, 250, 255, 256, 257, 65_535, 1 << 40])
def test_a_run_goes_on_byte_by_byte(seq: int, step: int) -> None:
    """The longest possible run: positions of the same run with consecutive indexes."""
    author = Author(7, 1000, {7: seq})
    first = positions.after(b"", author) if step > 0 else positions.before(b"", author)
    keys = positions.run_of(first, 600, step)
    assert keys[0] == first
    assert len(keys) == 600
    indexes = [int.from_bytes(key[-8:], "big") for key in keys]
    assert indexes == [indexes[0] + step * i for i in range(600)]
    assert {key[:-8] for key in keys} == {first[:-8]}
    assert sorted(keys) == keys[::step]
