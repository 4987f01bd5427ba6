"""Members in order: chunks that split, shrink and join, and the counts before each."""

import random
from array import array
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from holdfast.store.values import score_index
from holdfast.store.values.score_index import Entry, Ranking


def numbers(scores: Iterable[float]) -> "array[float]":
    return array("d", scores)


@pytest.mark.parametrize("kind", [list, numbers])
@pytest.mark.parametrize("seed", range(60))
def test_a_score_index_equals_a_sorted_list(
    seed: int, kind: Callable[[Iterable[float]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    chunk = rng.choice([4, 8, 16])
    monkeypatch.setattr(score_index, "CHUNK", chunk)
    monkeypatch.setattr(score_index, "FEW", chunk // 4)
    monkeypatch.setattr(score_index, "FRONT", rng.choice([1, 2, chunk]))
    scores = rng.choice([1, 3, 1000])  # how many different ones

    def any_entry() -> Entry:
        return float(rng.randrange(scores)), b"%d" % rng.randrange(200)

    model = sorted({any_entry() for _ in range(rng.choice([0, 1, 100]))})
    order = Ranking(kind(score for score, _ in model), [member for _, member in model])
    growth = 0.7
    for _ in range(400):
        if rng.random() < 0.02:
            growth = rng.choice([0.2, 0.7])
        entry = any_entry()
        if rng.random() < growth:
            if entry not in model:
                order.add(*entry)
                model = sorted([*model, entry])
        elif model:
            what = rng.randrange(4)
            if what == 0:
                highest = rng.random() < 0.5
                assert order.pop(highest) == model.pop(-1 if highest else 0)
            elif what == 1 and rng.random() < 0.1:
                start, stop = sorted(rng.choices(range(len(model) + 1), k=2))
                order.remove_slice(start, stop)
                del model[start:stop]
            else:
                order.remove(*model.pop(rng.randrange(len(model))))
        order.check()
        if rng.random() < 0.5:
            compare(order, model, entry, rng)
    assert list(order) == model


def compare(order: Ranking, model: list[Entry], entry: Entry, rng: random.Random) -> None:
    assert len(order) == len(model)
    score = entry[0]
    assert order.count_before(*entry) == len([other for other in model if other < entry])
    assert order.count_below(score) == len([other for other in model if other[0] < score])
    assert order.count_up_to(score) == len([other for other in model if other[0] <= score])
    start, stop = rng.randrange(len(model) + 2), rng.randrange(len(model) + 2)
    assert order.entries(start, stop) == model[start:stop]
    assert order.members(start, stop) == [member for _, member in model[start:stop]]


def test_chunks_that_have_become_small_are_joined() -> None:
    count = 20 * score_index.CHUNK
    order = Ranking([float(number) for number in range(count)], [b"x"] * count)
    for number in range(count):
        if number % 16:
            order.remove(float(number), b"x")
    order.check()
    assert len(order._scores) <= 2 * len(order) // score_index.FEW


@pytest.mark.parametrize("kind", [list, numbers])
def test_popping_the_first_moves_few_others(kind: Callable[[Iterable[float]], Any]) -> None:
    count = 3 * score_index.CHUNK
    order = Ranking(kind(map(float, range(count))), [b"%d" % number for number in range(count)])
    moved = 0
    for number in range(count):
        assert order.pop(highest=False) == (float(number), b"%d" % number)
        moved += len(order._scores[0]) if len(order) else 0
        if number % 100 == 0:
            order.check()
            assert order.count_below(number + 10.0) == min(9, len(order))
    assert len(order) == 0
    assert moved < count * score_index.CHUNK / 8
