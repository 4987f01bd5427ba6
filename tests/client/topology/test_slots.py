"""The slot of a command, and the slots that nodes announce."""

from typing import Any

import pytest

from holdfast.client.errors import ConnectError, ServerError
from holdfast.client.topology.slots import first_key, owners, redirection, slot_of


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


SLOTS_REPLY = [[0, 99, [b"h1", 1, b"id"], [b"r", 2, b"id"]], [100, 16383, [b"", 3]]]


def test_owners_are_read_from_the_reply() -> None:
    found = owners(SLOTS_REPLY, "home")
    assert found[0] == found[99] == ("h1", 1)
    assert found[100] == found[16383] == ("home", 3)
    assert owners([[5, 5, [b"?", 1]]], "home") == [None] * 16384
    assert owners([], "home") == [None] * 16384


@pytest.mark.parametrize(
    "reply",
    [
        *(None, 1, b"OK", [1], [[]], [[0]], [[0, 1]], [[0, 1, None]], [[0, 1, []]], [[0, 1, b"x"]]),
        *([[5, 4, [b"h", 1]]], [[-1, 4, [b"h", 1]]], [[0, 16384, [b"h", 1]]]),
        *([[b"0", 4, [b"h", 1]]], {b"a": 1}, [{b"a": 1}], [[0, 1, [b"h"]]]),
    ],
    ids=repr,
)
def test_owners_that_no_cluster_would_name_are_refused(reply: Any) -> None:
    with pytest.raises(ConnectError, match="home did not answer as a node of a cluster"):
        owners(reply, "home")


@pytest.mark.parametrize("where", [[b"h", b"x"], [b"h", 99999], [b"\xff", 1], [[], 1], [1, 1]])
def test_an_owner_without_an_address_is_none(where: list[Any]) -> None:
    assert owners([[0, 1, where]], "home")[:3] == [None, None, None]


@pytest.mark.parametrize("slot", ["16384", "00000000099999", "0" * 5000, "9" * 5000, "-1", "x", ""])
def test_a_redirection_of_what_is_no_slot_is_none(slot: str) -> None:
    assert redirection(ServerError(f"MOVED {slot} 127.0.0.1:1"), "home") is None
    assert redirection(ServerError("MOVED 16383 127.0.0.1:1"), "home") is not None
