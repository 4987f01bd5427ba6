"""A token is good for one session, one path, one use and half a day."""

from holdfast.web.security import tokens
from holdfast.web.security.tokens import LIFE_S, FormTokens


def test_a_token_is_good_once() -> None:
    mine = FormTokens()
    token = mine.issue("/a", 1000.0)
    assert mine.spend(token, "/a", 1001.0) is None
    assert mine.spend(token, "/a", 1002.0) == "the form was sent already"


def test_a_token_is_of_its_session_and_path() -> None:
    mine, other = FormTokens(), FormTokens()
    token = mine.issue("/a", 1000.0)
    assert other.spend(token, "/a", 1000.0) == "the form does not belong to this session"
    assert mine.spend(token, "/b", 1000.0) == "the form does not belong to this session"
    assert mine.spend(token, "/a", 1000.0) is None


def test_a_token_becomes_too_old() -> None:
    mine = FormTokens()
    assert mine.spend(mine.issue("/a", 0.0), "/a", LIFE_S + 1) == "the form is too old"


def test_text_that_is_no_token_is_refused() -> None:
    for text in ("", ".", "..", "a.b.c", "1.é.c", "1.a.\udcff", "9" * 5000):
        assert FormTokens().spend(text, "/a", 0.0) == "the form does not belong to this session"


def test_used_tokens_stay_used_when_there_are_too_many() -> None:
    mine = FormTokens()
    first = mine.issue("/a", 1000.0)
    assert mine.spend(first, "/a", 1000.0) is None
    for n in range(tokens.MOST_USED + 1):
        assert mine.spend(mine.issue("/a", 2000.0 + n), "/a", 2000.0 + n) is None
    assert mine.spend(first, "/a", 2000.0) == "the form is too old"
