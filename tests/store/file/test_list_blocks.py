"""Elements that share a row: every element that goes in comes out, at any position."""

import json
import random

import pytest

from holdfast.store.change.runs import STEP
from holdfast.store.file import list_blocks
from holdfast.store.file.list_blocks import PLACES, SPAN


@pytest.mark.parametrize("seed", range(50))
def test_a_block_has_what_was_put_into_it(seed: int) -> None:
    rng = random.Random(seed)
    share = rng.choice([0.05, 0.5, 1])
    model: list[bytes | None] = [None] * PLACES
    first, values = 0, list[bytes | None]()
    for _ in range(10):
        changes: list[tuple[int, bytes | None]] = [
            (place, rng.choice([None, rng.randbytes(rng.choice([0, 1, 5, 32]))]))
            for place in range(PLACES)
            if rng.random() < share
        ]
        for place, value in changes:
            model[place] = value
            first = list_blocks.put(first, values, place, value)
        first = list_blocks.trim(first, values)
        rest = [None] * (PLACES - first - len(values)) if values else [None] * (PLACES - first)
        assert [None] * first + values + rest == model
        assert list_blocks.filled(values) == PLACES - model.count(None)
        if values:
            assert None not in (values[0], values[-1])
            check_packed(rng, first, values)


def check_packed(rng: random.Random, first: int, values: list[bytes | None]) -> None:
    sizes, data = list_blocks.pack(values)
    assert list_blocks.unpack(sizes, data) == values
    whole = [value for value in values if value is not None]
    if whole == values:
        assert list_blocks.pack_whole(whole) == (sizes, data)
    assert sum(size or 0 for size in json.loads(sizes)) == len(data)

    block = rng.randrange(-5, 5) * SPAN
    start = block + first * STEP
    there = [(start + n * STEP, value) for n, value in enumerate(values) if value is not None]
    assert list_blocks.count(sizes) == len(there)
    assert list_blocks.last_of(start, sizes) == there[-1][0]
    for _ in range(20):
        from_pos, to_pos = (block + rng.randrange(-STEP, SPAN + STEP) for _ in range(2))
        between = [(pos, value) for pos, value in there if from_pos <= pos <= to_pos]
        assert list_blocks.elements(start, sizes, data, from_pos, to_pos) == between
        assert list_blocks.count_between(start, sizes, from_pos, to_pos) == len(between)


def test_a_block_begins_at_a_multiple_of_its_span() -> None:
    for block in (-2 * SPAN, -SPAN, 0, SPAN):
        assert {list_blocks.block_of(pos) for pos in range(block, block + SPAN, STEP - 1)} == {
            block
        }
    assert list_blocks.block_of(-1) == -SPAN
