"""Any bytes come back from URLs and forms."""

from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.protocol.request import as_bytes
from holdfast.web.names import escaped, from_hidden, in_url, is_plain, read_pairs, typed, unescaped


@given(st.binary())
def test_a_name_survives_a_url(name: bytes) -> None:
    fields = read_pairs(f"a=1&name={in_url(name)}".encode())
    assert as_bytes(fields["name"]) == name


@given(st.binary())
def test_a_name_survives_a_hidden_field(name: bytes) -> None:
    field = in_url(name)
    assert field.isascii()
    body = urlencode({"name": field}).encode()
    assert from_hidden(read_pairs(body)["name"]) == name


@given(st.binary())
def test_an_escaped_value_is_typed_back(value: bytes) -> None:
    assert unescaped(escaped(value)) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_plain_text_is_typed_back_although_browsers_change_line_ends(text: str) -> None:
    value = text.encode()
    if is_plain(value):
        sent = text.replace("\n", "\r\n")
        (_, got), *_ = parse_qsl(urlencode({"v": sent}), keep_blank_values=True)
        assert typed(got, is_escaped=False) == value


@pytest.mark.parametrize("value", [b"\xff", b"a\rb", b"\x00", b"\x1b[31m", "\u202e".encode()])
def test_what_a_text_area_would_change_or_hide_is_not_plain(value: bytes) -> None:
    assert not is_plain(value)


@pytest.mark.parametrize("text", ["\\q", "\\x1", "\\xzz", "\\"])
def test_a_wrong_escape_is_a_mistake(text: str) -> None:
    if text == "\\":
        assert unescaped(text) == b"\\"
        return
    with pytest.raises(ValueError, match="unknown escape"):
        unescaped(text)
