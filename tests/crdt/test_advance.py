"""The short way of a string's usual change, and where it must not be taken."""

from holdfast.crdt.dots import Author, Vector
from holdfast.crdt.effects import Effect
from holdfast.crdt.keys import Key

STRING = "string"


def key_with(*effects: Effect) -> Key:
    key = Key()
    for effect in effects:
        key.integrate(STRING, effect)
    return key


def write(key: Key, value: bytes, replica: int, seen: Vector | None = None) -> Effect:
    effect: Effect = key.part(STRING).write(None, value, Author(replica, 10 * replica, seen or {}))
    return effect


def add(key: Key, amount: int, replica: int, seen: Vector | None = None) -> Effect:
    effect: Effect = key.part(STRING).add(None, amount, Author(replica, 10, seen or {}))
    return effect


def test_a_write_that_saw_the_only_one() -> None:
    first = write(Key(), b"a", 1)
    key = key_with(first)
    second = write(key, b"b", 2)
    assert key.advance(STRING, second)
    assert key.view() == b"b"
    assert list(key.rows()) == list(key_with(first, second).rows())
    assert not key.advance(STRING, second), "a second time"


def test_the_next_addition() -> None:
    first = add(Key(), 5, 1)
    key = key_with(first)
    second = add(key, 2, 1, {1: 1})
    assert key.advance(STRING, second)
    assert key.view() == b"7"
    assert list(key.rows()) == list(key_with(first, second).rows())
    assert not key.advance(STRING, second), "a second time"


def test_a_write_that_saw_one_of_two() -> None:
    one, two = write(Key(), b"a", 1), write(Key(), b"b", 2)
    key = key_with(one, two)
    assert key.view() == b"b"
    assert not key.advance(STRING, write(key_with(two), b"c", 3))


def test_a_write_that_saw_another_one() -> None:
    one, two = write(Key(), b"a", 1), write(Key(), b"b", 2)
    assert not key_with(one).advance(STRING, write(key_with(two), b"c", 3))
    assert not key_with(one).advance(STRING, two)


def test_a_write_to_a_counter() -> None:
    key = key_with(add(Key(), 5, 1))
    assert not key.advance(STRING, write(key, b"b", 2))
    written = key_with(write(Key(), b"1", 1))
    counted = key_with(write(Key(), b"1", 1), add(written, 5, 1, {1: 1}))
    assert not counted.advance(STRING, write(counted, b"b", 2))


def test_an_addition_to_what_was_removed_meanwhile() -> None:
    """The key is not seen before it, and is after it."""
    first = add(Key(), 5, 1)
    key = key_with(first)
    for kind, effect in key.delete(Author(2, 20, {1: 1})):
        key.integrate(kind, effect)
    assert key.type is None
    second = add(key_with(first), 2, 1, {1: 1})
    assert not key.advance(STRING, second)
    key.integrate(STRING, second)
    assert key.view() == b"2"


def test_an_addition_of_somebody_else() -> None:
    key = key_with(add(Key(), 5, 1))
    assert not key.advance(STRING, add(Key(), 2, 2))
    assert not key.advance(STRING, add(key_with(add(Key(), 3, 2)), 2, 2, {2: 1}))


def test_an_addition_that_begins_anew() -> None:
    assert not key_with(add(Key(), 5, 1)).advance(STRING, add(Key(), 2, 1, {1: 7}))


def test_a_key_that_also_holds_something_else() -> None:
    key = key_with(write(Key(), b"a", 1))
    key.part("set")
    assert not key.advance(STRING, write(key, b"b", 1, {1: 1}))
