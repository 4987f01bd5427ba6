"""_packed_keys.c and packed_keys.py are the same table of packed keys."""

import random
from typing import Any

import pytest

from holdfast.store.memory.packed_keys import (
    HASH,
    LONGEST,
    MOST_FIELDS,
    STRING,
    PackedKeysInPython,
)
from holdfast.store.values.packed_form import LONGEST_PACKED

in_c: Any = pytest.importorskip("holdfast.store.memory._packed_keys")

NAMES = [b"", b"\0", b"a", b"\xff" * 200, b"n" * LONGEST]
BODIES = [b"", b"v", b"\0" * 32, b"v" * 127, b"v" * 128, b"v" * LONGEST]
IDS = [0, 1, 127, 128, 1 << 32, (1 << 63) - 1]
EXPIRIES = [None, 0, 1, 1000, -5, (1 << 62)]


def a_name(rng: random.Random, different: int) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(NAMES)
    return b"key:%d" % rng.randrange(different)


@pytest.mark.parametrize("seed", range(20))
def test_both_do_the_same(seed: int) -> None:
    rng = random.Random(seed)
    ours, plain = in_c.PackedKeys(), PackedKeysInPython()
    different = rng.choice([5, 200, 20_000])
    long_bodies = rng.random() < 0.3
    for _ in range(6000):
        name, does = a_name(rng, different), rng.random()
        if does < 0.5 and name not in plain:
            body = rng.choice(BODIES if long_bodies else BODIES[:-1])
            args = (
                name,
                rng.choice(IDS),
                rng.randrange(5),
                rng.randrange(1 << 32),
                rng.choice(EXPIRIES),
                body,
            )
            assert ours.put(*args) == plain.put(*args)
        elif does < 0.8:
            assert ours.take(name) == plain.take(name)
        elif does < 0.9:
            now = rng.randrange(2000), rng.randrange(1 << 32)
            assert ours.string(name, *now) == plain.string(name, *now)
        assert ours.row(name) == plain.row(name)
        assert (name in ours) == (name in plain)
        assert len(ours) == len(plain)
        assert ours.nbytes == plain.nbytes
    assert sorted(ours.names()) == sorted(plain.names())
    for name in plain.names():
        assert ours.take(name) == plain.take(name)
    assert len(ours) == ours.nbytes == 0


def test_many_keys_that_come_and_go_do_not_take_more_and_more() -> None:
    """Chunks with many removed records are emptied; what is in them stays."""
    rng, ours = random.Random(1), in_c.PackedKeys()
    there: dict[bytes, bytes] = {}
    for number in range(60_000):
        name, body = b"key:%d" % number, b"%d" % number * rng.randrange(1, 30)
        ours.put(name, number, 0, 0, None, body)
        there[name] = body
        if len(there) > 3000:
            gone = rng.choice([number - 2999, number])
            found = there.pop(b"key:%d" % gone, None)
            taken = ours.take(b"key:%d" % gone)
            assert (None if taken is None else taken[4]) == found
    assert {name: ours.string(name, 0, 0) for name in ours.names()} == there


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
def test_forgets_those_not_used_for_longest(table: Any) -> None:
    ours = table()
    for number in range(90):
        ours.put(b"%d" % number, number, 0, 1 if number < 10 else 100, None, b"v")
    assert ours.forget(10, 90, 2, 10) == 10
    assert sorted(int(name) for name in ours.names()) == list(range(10, 90))
    assert ours.forget(100, 9, 100, 90) == 0
    assert ours.forget(10, 9, 101, 90) == 10
    assert ours.forget(1000, 9, 1 << 32, 90) == 70
    assert len(ours) == ours.nbytes == 0
    assert ours.forget(1, 9, 1 << 32, 90) == 0


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
def test_forgets_no_key_that_the_file_lacks(table: Any) -> None:
    ours = table()
    for number in range(90):
        ours.put(b"%d" % number, number, 0, number, None, b"v")
    assert sum(ours.forget(10, 9, 1 << 32, 60) for _ in range(100)) == 60
    assert sorted(int(name) for name in ours.names()) == list(range(60, 90))


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
def test_names_the_key_of_a_sample_that_was_not_used_for_longest(table: Any) -> None:
    ours = table()
    assert ours.least(9, False) is None
    for number in range(90):
        ours.put(b"%d" % number, number, 0, 100 + number, number if number % 3 else None, b"v")
    assert ours.least(90, False) == b"0"
    assert ours.least(90, True) == b"1"
    assert ours.least(0, False) is None
    # Each sample has others. (A call looks at few slots, and most of a small table are free.)
    seen = {ours.least(1, False) for _ in range(2000)} - {None}
    assert seen == {b"%d" % number for number in range(90)}
    assert len(ours) == 90
    for number in range(90):
        if number % 3:
            ours.take(b"%d" % number)
    assert ours.least(90, True) is None
    with pytest.raises(TypeError):
        ours.least()


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
def test_dissolves_in_parts(table: Any) -> None:
    ours = table()
    assert ours.dissolve(1) == 0
    for number in range(20_000):
        ours.put(b"%d" % number, number, 0, 0, None, b"v" * 30)
    left = ours.dissolve(1)
    assert left > 0
    while left:
        before, left = left, ours.dissolve(1)
        assert left == before - 1
    assert len(ours) == ours.nbytes == 0
    ours.put(b"a", 1, 0, 0, None, b"v")
    assert ours.string(b"a", 0, 0) == b"v"


NO_SMALL_HASHES = {
    "a field twice": [b"f", b"1", b"g", b"2", b"f", b"3"],
    "a long field": [b"f" * (LONGEST_PACKED + 1), b"v"],
    "a long value": [b"f", b"v" * (LONGEST_PACKED + 1)],
    "many fields": [word for at in range(MOST_FIELDS + 1) for word in (b"%d" % at, b"v")],
}


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
@pytest.mark.parametrize("words", NO_SMALL_HASHES.values(), ids=NO_SMALL_HASHES)
def test_hashes_that_are_not_small_are_not_packed_at_once(table: Any, words: list[bytes]) -> None:
    ours = table()
    assert ours.put_hash([b"HSET", b"h", *words], 1, 0) == 0
    assert ours.put_hash([b"HSET", b"n" * (LONGEST + 1), b"f", b"v"], 1, 0) == 0
    assert (len(ours), ours.nbytes) == (0, 0)


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
def test_a_name_that_is_there_gets_no_other_key(table: Any) -> None:
    ours = table()
    assert ours.put_hash([b"HSET", b"h", b"f", b"v"], 1, 0) == ours.nbytes
    with pytest.raises(ValueError, match="there"):
        ours.put_hash([b"HSET", b"h", b"f", b"w"], 2, 0)
    assert ours.row(b"h") == (1, HASH, None)


@pytest.mark.parametrize("seed", range(20))
def test_new_keys_are_read_in_slices_as_they_were_made(seed: int) -> None:
    """Some are gone meanwhile, and a key of another id may have their name."""
    rng = random.Random(seed)
    ours, plain = in_c.PackedKeys(), PackedKeysInPython()
    first_id = rng.choice([1024, 1 << 40])
    names: list[bytes] = []
    while len(names) < 300:
        name, key_id = b"%d" % rng.randrange(1 << 40), first_id + len(names)
        if rng.random() < 0.5:
            value = rng.randbytes(rng.randrange(100))
            assert ours.put(name, key_id, STRING, 7, None, value) == plain.put(
                name, key_id, STRING, 7, None, value
            )
        else:
            argv = [b"HSET", name]
            for field in range(rng.choice([1, 2, MOST_FIELDS])):
                argv += [b"%d" % field, rng.randbytes(rng.randrange(LONGEST_PACKED + 1))]
            size = ours.put_hash(argv, key_id, 7)
            assert size == plain.put_hash(argv, key_id, 7) > 0
        names.append(name)
    for name in rng.sample(names, 60):
        assert ours.take(name) == plain.take(name)
        if rng.random() < 0.5:
            ours.put(name, 5, STRING, 0, None, b"another")
            plain.put(name, 5, STRING, 0, None, b"another")
    at = 0
    missing: list[int] = []
    while at < len(names):
        most = rng.randrange(1, 300), rng.randrange(1, 10_000)
        rows = plain.read_new(names, first_id, at, *most)
        assert ours.read_new(names, first_id, at, *most) == rows
        at = rows.next
        missing += rows.missing
    assert len(missing) == 60
    assert in_c.PackedKeys().read_new(names, first_id, 298, 9, 9)[-1] == [
        first_id + 298,
        first_id + 299,
    ]


@pytest.mark.parametrize(
    "body", [b"", b"\x93\0\xc4\1a\xc4", b"\x92\0\xc4\1a", b"\x93\1\xc4\1a\xc4\1b"]
)
def test_a_record_that_is_no_new_hash_is_refused(body: bytes) -> None:
    ours = in_c.PackedKeys()
    ours.put(b"h", 1, HASH, 0, None, body)
    with pytest.raises(ValueError, match="no new hash"):
        ours.read_new([b"h"], 1, 0, 10, 10)
    ours.put(b"l", 2, 1, 0, None, b"")
    with pytest.raises(ValueError, match="kind"):
        ours.read_new([b"l"], 2, 0, 10, 10)


def test_invalid_arguments_are_refused_and_change_nothing() -> None:
    ours = in_c.PackedKeys()
    ours.put(b"a", 1, 0, 0, None, b"v")
    right: tuple[Any, ...] = (b"b", 1, 0, 0, None, b"v")
    for at, wrong in [
        (0, "b"),
        (0, None),
        (0, b"a"),
        (0, b"b" * (LONGEST + 1)),
        (1, -1),
        (1, 1 << 64),
        (1, "1"),
        (2, 16),
        (2, -1),
        (3, -1),
        (3, 1 << 32),
        (4, 1 << 63),
        (4, "soon"),
        (5, "v"),
        (5, bytearray(b"v")),
        (5, b"v" * (LONGEST + 1)),
    ]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            ours.put(*right[:at], wrong, *right[at + 1 :])
    for call in (
        lambda: ours.put(*right[:5]),
        lambda: ours.take("a"),
        lambda: ours.row(None),
        lambda: "a" in ours,
        lambda: ours.string(b"a", 0),
        lambda: ours.string(b"a", 0, "0"),
        lambda: ours.forget("1", 2, 3, 4),
        lambda: ours.forget(1, 2, "3", 4),
        lambda: ours.forget(1, 2, 3, "4"),
        lambda: ours.forget(1, 2, 3),
        lambda: ours.put_hash([b"HSET", "b", b"f", b"v"], 1, 0),
        lambda: ours.put_hash([b"HSET", b"b", b"f", "v"], 1, 0),
        lambda: ours.put_hash([b"HSET", b"b", b"f", b"v"], "1", 0),
        lambda: ours.read_new((b"a",), 1, 0, 1, 1),
        lambda: ours.read_new(["a"], 1, 0, 1, 1),
        lambda: ours.read_new([b"a"], 1, -1, 1, 1),
        lambda: ours.read_new([b"a"], 1, 0, 1, None),
        lambda: ours.dissolve(None),
        lambda: in_c.PackedKeys(1),
    ):
        with pytest.raises(TypeError):
            call()
    assert (len(ours), ours.names(), ours.string(b"a", 0, 0)) == (1, [b"a"], b"v")


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
@pytest.mark.parametrize("count", [1, 3000, 30_000])
def test_a_table_that_was_emptied_takes_keys_again(table: Any, count: int) -> None:
    """A small one keeps its memory."""
    ours = table()
    for is_forgotten in (False, True, False):
        for number in range(count):
            ours.put(b"%d" % number, number, 0, 0, None, b"v" * 30)
        assert len(ours) == len(ours.names()) == count
        while is_forgotten and len(ours):
            ours.forget(100, 9, 1 << 32, 1 << 32)
        for number in range(count):
            assert (ours.take(b"%d" % number) is None) == is_forgotten
        assert len(ours) == ours.nbytes == len(ours.names()) == 0
        assert ours.row(b"0") is None


@pytest.mark.parametrize("table", [in_c.PackedKeys, PackedKeysInPython])
def test_few_keys_are_found_again_in_a_table_that_was_large(table: Any) -> None:
    """A call looks at some slots, not at all of them: the next one goes on behind these."""
    ours = table()
    for number in range(50_000):
        ours.put(b"%d" % number, number, 0, 1, None, b"v")
    for number in range(3, 50_000):
        ours.take(b"%d" % number)
    calls = 0
    while len(ours):
        calls += 1
        assert calls < 10_000
        ours.forget(1, 5, 100, 3)
    if table is in_c.PackedKeys:
        assert calls > 30


def test_a_table_that_has_dissolved_in_part_has_no_names() -> None:
    ours = in_c.PackedKeys()
    for number in range(20_000):
        ours.put(b"%d" % number, number, 0, 0, None, b"v" * 30)
    assert ours.dissolve(1) > 0
    assert ours.names() == []
