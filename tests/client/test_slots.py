"""Which slot a command belongs to."""

import pytest

from holdfast.client.slots import first_key, slot_of


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        ("foo", 12182),
        ("123456789", 12739),
        ("{foo}bar", 12182),
        ("{}foo", 9500),
        ("a{foo}{b}", 12182),
    ],
)
def test_slots_are_those_of_the_specification(key: str, slot: int) -> None:
    assert slot_of(key) == slot_of(key.encode()) == slot


@pytest.mark.parametrize(
    ("args", "key"),
    [
        (("GET", "k"), "k"),
        (("EVALSHA", "sha", 2, "a", "b", "x"), "a"),
        (("EVAL", "src", "0"), None),
        (("EVAL", "src", b"1", "a"), "a"),
        (("BLMPOP", 0, 1, "k", "LEFT"), "k"),
        (("LMPOP", 1, "k", "LEFT"), "k"),
        (("XREAD", "COUNT", 1, "block", 0, "streams", "s", "$"), "s"),
        (("XGROUP", "CREATE", "s", "g", "$"), "s"),
        (("PING",), None),
        (("CONFIG", "GET", "x"), None),
    ],
)
def test_the_first_key_decides(args: tuple[str | int | bytes, ...], key: str | None) -> None:
    assert first_key(args) == key
