"""The hashes are those of the reference library, version 0.8, for texts of each kind of length."""

import pytest

from holdfast import xxh3
from holdfast.xxh3 import SECRET, digest, hex_digest


def text(length: int) -> bytes:
    return bytes(n * 7 & 255 for n in range(length))


@pytest.fixture(params=["in Python", "as compiled"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in Python":
        monkeypatch.setattr(xxh3, "IN_C", None)
    elif xxh3.IN_C is None:
        pytest.skip("_xxh3.c is not compiled")


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "2d06800538d394c2"),
        (3, "c3489259e968ad9e"),
        (8, "b88dee77f6bf6980"),
        (16, "9da23836adf2be1e"),
        (17, "f34c3c9cf5a112d1"),
        (100, "6dbb812cf19d012e"),
        (128, "65f3c2c00fa93185"),
        (129, "28065c6ec25f5b25"),
        (240, "4917a75c0ef8eed7"),
        (241, "541b19226f0052e8"),
        (1024, "dc5acf0b043c445b"),
        (1025, "e1d9cd946277ae26"),
        (5000, "6abe8be5abcb2760"),
    ],
)
def test_known_hashes(length: int, expected: str) -> None:
    assert hex_digest(text(length)) == expected.encode()


def test_zeros_in_front_are_shown() -> None:
    """The text and its hash are those with which Redis tests DIGEST."""
    words = b"v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2"
    assert hex_digest(words + b"kwlj7626sd") == b"00006c38adf31777"


def test_every_length_has_another_hash() -> None:
    hashes = {digest(bytes(length)) for length in range(1200)}
    assert len(hashes) == 1200
    assert len(SECRET) == 192
