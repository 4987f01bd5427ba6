"""A small hash or set that waits is one bytes object, and nobody can tell the difference."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.insertion_order import LONGEST_PACKED, MOST_PACKED, Ordered
from holdfast.store.values.set import Set
from tests.store.list_rows import KEY_ID

NAMES = [b"", b"a", b"\xff\0", b"field", b"x" * LONGEST_PACKED]


def is_packed(value: Ordered[Any]) -> bool:
    return value._packed is not None


def a_hash(fields: int = 3, value: bytes = b"v") -> Hash:
    made, log = Hash(KEY_ID), ChangeLog()
    for number in range(fields):
        made.set(b"%d" % number, value, log)
    return made


def filled(seed: int) -> list[Hash | Set]:
    """With gaps between the ordinals, where elements were removed."""
    rng, log = random.Random(seed), ChangeLog()
    made, members = Hash(KEY_ID), Set(KEY_ID)
    for _ in range(rng.randrange(1, 12)):
        name = rng.choice(NAMES)
        if rng.random() < 0.7:
            made.set(name, rng.choice(NAMES), log)
            members.add(name, log)
        else:
            made.remove(name, log)
            members.remove(name, log)
    return [made, members]


def seen_of(value: Hash | Set) -> list[object]:
    """All that a reader can find out, each question to a packed value."""
    questions: list[Callable[[Hash | Set], object]] = [
        len,
        bool,
        list,
        lambda it: [name in it for name in NAMES],
        lambda it: it.scan(0, 2),
        lambda it: it.pick(random.Random(1)) if it else None,
        lambda it: it.rows(NAMES),
        lambda it: list(it.copy(7, ChangeLog())),
        lambda it: it.nbytes,
        lambda it: it.flat if isinstance(it, Hash) else None,
        lambda it: [it.get(name) for name in NAMES] if isinstance(it, Hash) else None,
        lambda it: it.next_expiry_ms if isinstance(it, Hash) else None,
    ]
    return [question(value) for question in questions]


@pytest.mark.parametrize("seed", range(40))
def test_a_packed_value_answers_as_before(seed: int) -> None:
    count = len(seen_of(Set(KEY_ID)))
    for kind in range(2):
        plain = filled(seed)[kind]
        expected = seen_of(plain)
        for number in range(count):
            value = filled(seed)[kind]
            value.pack()
            assert is_packed(value) == (len(plain) > 0)
            assert seen_of(value)[number] == expected[number]


@pytest.mark.parametrize("seed", range(40))
def test_a_packed_value_changes_as_before(seed: int) -> None:
    rng = random.Random(seed)
    for plain, packed in zip(filled(seed), filled(seed), strict=True):
        packed.pack()
        logs = ChangeLog(), ChangeLog()
        name, text, does_remove = rng.choice(NAMES), rng.choice(NAMES), rng.random() < 0.4
        for value, log in zip((plain, packed), logs, strict=True):
            if does_remove:
                value.remove(name, log)
            elif isinstance(value, Hash):
                value.set(name, text, log)
            else:
                value.add(name, log)
        assert logs[0].ops == logs[1].ops
        assert logs[0].used_bytes == logs[1].used_bytes
        assert seen_of(plain) == seen_of(packed)


def test_a_value_that_was_used_is_not_packed_again() -> None:
    value = a_hash()
    value.pack()
    assert value.get(b"1") == b"v"
    value.pack()
    assert not is_packed(value)


def test_a_packed_value_has_nothing_to_be_freed_in_slices() -> None:
    value = a_hash()
    value.pack()
    assert len(value) == 3
    assert not any(value.parts())
    assert is_packed(value)


@pytest.mark.parametrize(
    "value",
    [
        a_hash(MOST_PACKED + 1),
        a_hash(1, b"v" * (LONGEST_PACKED + 1)),
        Hash(KEY_ID),
    ],
    ids=["many", "long", "empty"],
)
def test_only_few_and_short_elements_are_packed(value: Hash) -> None:
    value.pack()
    assert not is_packed(value)


def test_a_hash_whose_fields_expire_is_not_packed() -> None:
    value = a_hash()
    value.set_expiry(b"1", 5000, ChangeLog())
    value.pack()
    assert not is_packed(value)


def test_the_fold_packs_new_values_and_leaves_the_others(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    used, kept = (database.find_or_create_as(name, Hash) for name in (b"used", b"kept"))
    members = database.find_or_create_as(b"members", Set)
    used.set(b"f", b"1", keyspace)
    kept.set(b"f", b"1", keyspace)
    members.add(b"m", keyspace)
    store.commit()
    used_bytes = keyspace.used_bytes
    store.fold()
    assert is_packed(kept)
    assert is_packed(members)
    assert keyspace.used_bytes == used_bytes
    used.set(b"g", b"2", keyspace)
    store.commit()
    store.fold()
    assert not is_packed(used)
    assert is_packed(kept)
    store.close()
    store = FileStore(tmp_path / "a.db")
    for name, fields in ((b"used", {b"f": b"1", b"g": b"2"}), (b"kept", {b"f": b"1"})):
        value = store.keyspace.databases[0].read_as(name, Hash)
        assert value is not None
        assert value.items == fields
    store.close()


def test_a_value_that_changes_while_the_pass_reads_is_not_packed(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    value = database.find_or_create_as(b"h", Hash)
    value.set(b"f", b"1", keyspace)
    store.commit()
    store.fold_step()  # the pass begins
    value.set(b"f", b"2", keyspace)
    store.commit()
    store.fold()
    store.abandon()
    store = FileStore(tmp_path / "a.db")
    found = store.keyspace.databases[0].read_as(b"h", Hash)
    assert found is not None
    assert found.items == {b"f": b"2"}
    store.close()
