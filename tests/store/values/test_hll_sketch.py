"""A HyperLogLog as a string; tests/wire/test_oracle_hyperloglog.py compares it with Redis's."""

import random

import pytest

from holdfast.store.values import hll_sketch
from holdfast.store.values.hll_sketch import EMPTY, REGISTERS, Sketch


@pytest.mark.parametrize("count", [1, 4, 5, 60, 700, 1500, 4000])
def test_many_elements_at_once_give_the_bytes_of_one_by_one(count: int, rng: random.Random) -> None:
    elements = [b"%d" % rng.randrange(10**6) for _ in range(count)]
    at_once, one_by_one = Sketch(EMPTY, 3000), Sketch(EMPTY, 3000)
    changes = sum([one_by_one.add(element) for element in elements])
    assert at_once.add_all(elements) == changes
    assert at_once.data == one_by_one.data


def test_registers_that_hold_the_same_are_joined_alike(rng: random.Random) -> None:
    """Neighbours with the same value, which random elements seldom give."""
    one_by_one = Sketch(EMPTY, 30_000)
    at_once = Sketch(EMPTY, 30_000)
    places = [(rng.randrange(400), rng.randrange(1, 4)) for _ in range(3000)]
    for number, place in enumerate(places):
        one_by_one.raise_to(*place)
        if number % 50 == 0:
            at_once._landmarks = hll_sketch.Landmarks(at_once.data)
        at_once.raise_to(*place)
        assert at_once.data == one_by_one.data


def test_the_larger_value_of_each_register(rng: random.Random) -> None:
    parts = [bytes(rng.randrange(64) for _ in range(REGISTERS)) for _ in range(3)]
    assert hll_sketch.merged(parts) == bytes(map(max, *parts))
    assert hll_sketch.merged([]) == bytes(REGISTERS)


def test_the_dense_form_keeps_every_value(rng: random.Random) -> None:
    held = bytes(rng.randrange(64) for _ in range(REGISTERS))
    sketch = Sketch(EMPTY, 3000)
    sketch.fill(held)
    assert hll_sketch.registers(bytes(sketch.data)) == held


@pytest.mark.parametrize("count", [0, 1, 100, 3000, 40_000])
def test_estimates_are_near(count: int) -> None:
    sketch = Sketch(EMPTY, 3000)
    sketch.add_all([b"%d" % number for number in range(count)])
    estimate = hll_sketch.estimate(hll_sketch.registers(bytes(sketch.data)))
    assert abs(estimate - count) <= 0.03 * count
