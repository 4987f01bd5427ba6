"""Chunks with counts against a plain dict, with tiny chunks so that something always splits."""

import random

import pytest

from holdfast.crdt import sequence
from holdfast.crdt.sequence import PositionSequence


def check(subject: PositionSequence[bytes], model: dict[bytes, bytes]) -> None:
    keys = sorted(model)
    assert len(subject) == len(keys)
    assert list(subject.items()) == [(key, model[key]) for key in keys]
    assert subject.first_key == (keys[0] if keys else b"")
    assert subject.last_key == (keys[-1] if keys else b"")
    assert subject.keys(0, len(keys)) == keys
    for i, key in enumerate(keys):
        assert (subject.key_at(i), subject.value_at(i)) == (key, model[key])
    assert [len(chunk.keys) for chunk in subject._chunks if not chunk.keys] == []
    assert len(subject._chunks) == len(subject._bounds) == len(subject._starts)
    for bound, chunk in zip(subject._bounds[1:], subject._chunks[1:], strict=True):
        assert bound <= chunk.keys[0]
    for bound, chunk in zip(subject._bounds[1:], subject._chunks, strict=False):
        assert chunk.keys[-1] < bound


@pytest.mark.source_only  # compiled, the size of chunks is a constant
@pytest.mark.parametrize("seed", range(20))
def test_a_sequence_equals_a_sorted_dict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "CHUNK", 4)
    rng = random.Random(seed)
    model: dict[bytes, bytes] = {}
    subject: PositionSequence[bytes] = PositionSequence()
    for step in range(300):
        key = b"%03d" % rng.randrange(200)
        roll = rng.random()
        if roll < 0.5:
            assert subject.insert(key, b"%d" % step) == (key not in model)
            model.setdefault(key, b"%d" % step)
        elif roll < 0.53:
            keys = sorted({b"%03d" % rng.randrange(150, 250) for _ in range(rng.randrange(12))})
            fits = bool(keys) and (not model or keys[0] > max(model))
            assert subject.extend(keys, keys) == fits
            model |= {key: key for key in keys if fits}
        elif roll < 0.56:
            count = rng.randrange(20)
            keys = sorted(model)[:count] if roll < 0.545 else sorted(model)[-count:]
            if rng.random() < 0.2:
                keys = keys[1:]
            fits = bool(keys) and len(keys) < len(model)
            fits = fits and (keys[0] == min(model) or keys[-1] == max(model))
            assert subject.remove_run(keys) == ([model[key] for key in keys] if fits else None)
            for key in keys if fits else ():
                del model[key]
        elif roll < 0.6:
            assert subject.replace(key, b"new") == model.get(key)
            if key in model:
                model[key] = b"new"
        elif roll < 0.7:
            assert subject.get(key) == model.get(key)
        else:
            if model and roll < 0.9:
                key = min(model) if roll < 0.8 else max(model)
            assert subject.delete(key) == model.pop(key, None)
        if step % 10 == 0:
            check(subject, model)
            start = rng.randint(0, len(model))
            stop = rng.randint(start, len(model))
            values = [model[key] for key in sorted(model)]
            assert subject.values(start, stop) == values[start:stop]
            first, last = sorted(b"%03d" % rng.randrange(250) for _ in range(2))
            within = [key for key in sorted(model) if first <= key <= last]
            assert subject.between(first, last) == (within, [model[key] for key in within])
            places = [i for i, value in enumerate(values) if value == b"new"]
            assert list(subject.indexes(b"new")) == places
            assert list(subject.indexes_backward(b"new")) == places[::-1]


@pytest.mark.source_only
def test_a_sequence_is_filled_from_items_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "CHUNK", 4)
    model = {b"%03d" % i: b"%d" % i for i in range(0, 30, 2)}
    subject = PositionSequence(model.items())
    check(subject, model)
    model[b"007"] = b"7"
    assert subject.insert(b"007", b"7")
    check(subject, model)
