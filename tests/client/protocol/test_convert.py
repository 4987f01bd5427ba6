"""Typed replies: the right values, and errors that name the place."""

from typing import Annotated, Any

import pytest

from holdfast.client.errors import ConversionError, ServerError
from holdfast.client.protocol.convert import convert, optional


@pytest.mark.parametrize(
    ("reply", "into", "value"),
    [
        (b"caf\xc3\xa9", str, "café"),
        (5, str, "5"),
        (b"\xff", bytes, b"\xff"),
        (5, bytes, b"5"),
        (5, int, 5),
        (b"-5", int, -5),
        (True, int, 1),
        (b"12345678901234567890123", int, 12345678901234567890123),
        (b"1.5", float, 1.5),
        (2, float, 2.0),
        (b"inf", float, float("inf")),
        (1, bool, True),
        (False, bool, False),
        (b"OK", bool, True),
        (None, str | None, None),
        (b"a", optional(str), "a"),
        ([b"a", None], list[str | None], ["a", None]),
        ([b"a", 1], tuple[str, int], ("a", 1)),
        ([1, 2, 3], tuple[int, ...], (1, 2, 3)),
        ([1, 1], set[int], {1}),
        ({b"a": b"1"}, dict[str, int], {"a": 1}),
        ([b"a", b"1"], dict[str, int], {"a": 1}),
        ([[b"a", 1]], dict[str, int], {"a": 1}),
        ([], dict[str, int], {}),
        ({b"a": [b"1"]}, dict, {b"a": [b"1"]}),
        ([1, [2]], list, [1, [2]]),
        ([1, [2]], Any, [1, [2]]),
        ([1, [2]], None, None),
        (255, Annotated[int, range(256)], 255),
        (b"x", lambda reply: reply * 2, b"xx"),
    ],
)
def test_values_that_fit_a_type(reply: Any, into: Any, value: Any) -> None:
    result = convert(reply, into)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("reply", "into", "path"),
    [
        (b"\xff", str, "$"),
        (None, str, "$"),
        (b"1a", int, "$"),
        (b" 1", int, "$"),
        (b"1_0", int, "$"),
        (1.0, int, "$"),
        (2, bool, "$"),
        (b"x", float, "$"),
        (256, Annotated[int, range(256)], "$"),
        (b"a", list[str], "$"),
        ([1, b"x"], list[int], "$[1]"),
        ([1], tuple[int, int], "$"),
        ([1, b"x"], tuple[int, int], "$[1]"),
        ({b"a": [b"x"]}, dict[str, list[int]], '$["a"][0]'),
        ({b"a": 1, b"\xff": 1}, dict[str, int], "$[key 1]"),
        ([b"a", 1, b"a", 2], dict[str, int], '$["a"]'),
        ({b"1": 1, 1: 2}, dict[str, int], '$["1"]'),
        ([b"a"], dict[str, int], "$"),
        ([[ServerError("ERR no")]], list[list[int]], "$[0][0]"),
        ([[{b"a": 1}, 1]], dict, "$[key 0]"),
        ([[b"a", 1], [[b"b"], 1]], dict[Any, int], "$[key 1]"),
        ([[b"a"]], set[list[str]], "$"),
        ([{b"a": 1}], frozenset[Any], "$"),
    ],
)
def test_a_conversion_error_names_the_place_in_the_reply(reply: Any, into: Any, path: str) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(reply, into)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.domain == "adapter"


def test_an_error_reply_is_raised_whatever_was_asked_for() -> None:
    with pytest.raises(ServerError, match="ERR no"):
        convert(ServerError("ERR no"), None)


def test_a_type_that_cannot_be_made_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match="cannot be converted"):
        convert(b"x", dict[str, int] | list[int])
