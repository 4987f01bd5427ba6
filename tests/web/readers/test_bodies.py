"""Bodies of strangers become printable text, with bounded work, and nothing of them runs."""

import os
import pickle
import zlib
from pathlib import Path

import pytest

from holdfast.web.readers.bodies import MOST_BYTES, body_of, name_text, parse_json, printable


def test_json_is_shown_in_lines() -> None:
    body = body_of(b'{"a": [1, "\xc3\xa4"]}')
    assert (body.kind, body.size, body.is_cut) == ("json", 16, False)
    assert body.text == '{\n  "a": [\n    1,\n    "ä"\n  ]\n}'


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    target = tmp_path / "made-by-a-pickle"
    for data in (pickle.dumps(Bomb(target)), zlib.compress(pickle.dumps(Bomb(target)))):
        body = body_of(data)
        assert body.kind.endswith("pickle")
        assert "not loaded" in body.text
        assert "mkdir" in body.text  # the texts in it help
    assert not target.exists()
    pickle.loads(pickle.dumps(Bomb(target)))  # the bomb is live
    assert target.exists()


def test_a_body_of_100_mb_is_cut() -> None:
    body = body_of(b"x" * MOST_BYTES, 100_000_000)
    assert (body.kind, len(body.text), body.size) == ("text", MOST_BYTES, 100_000_000)
    assert body.is_cut


def test_a_zip_bomb_is_not_blown_up() -> None:
    packed = zlib.compress(bytes(50_000_000))
    body = body_of(packed)
    assert body.is_cut
    assert body.size == len(packed)
    assert len(body.text) <= 4 * MOST_BYTES + 100


@pytest.mark.parametrize("data", [b"[" * 60_000, b'{"a":' * 10_000, b"[" + b"9" * 9000 + b"]"])
def test_json_that_is_too_deep_or_too_long_for_python_is_text(data: bytes) -> None:
    assert parse_json(data) is None
    assert body_of(data).kind == "text"


def test_bytes_that_are_no_text_are_escaped() -> None:
    body = body_of(b"\xff\x00<script>")
    assert (body.kind, body.text) == ("binary", "\\xff\\x00<script>")


def test_characters_that_turn_text_round_are_escaped() -> None:
    assert printable("safe\u202etxt.exe") == "safe\\u202etxt.exe"
    assert printable("a\x00b\nc") == "a\\x00b\nc"
    assert name_text(b"line\none\xff") == "line\\none\\xff"


def test_a_cut_inside_of_a_character_does_not_make_text_binary() -> None:
    body = body_of("ä".encode() * MOST_BYTES)
    assert body.kind == "text"
