"""Passwords are in no audit entry and no reply."""

from typing import Any

import pytest

from holdfast.server.config.parameters import BY_NAME, SECRET
from holdfast.web.security.redaction import is_secret, safe_reply, safe_words

HASH = b"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"


def test_the_secrets_of_our_own_configuration_are_known() -> None:
    for name, parameter in BY_NAME.items():
        assert is_secret(name) or not parameter.use & SECRET, name


@pytest.mark.parametrize(
    "words",
    [
        ("AUTH", "hunter2"),
        ("auth", "ada", "hunter2"),
        ("HELLO", "3", "AUTH", "ada", "hunter2"),
        ("ACL", "SETUSER", "ada", "on", ">hunter2", "~*"),
        ("acl", "setuser", "ada", "#" + HASH.decode() + "hunter2"),
        ("CONFIG", "SET", "requirepass", "hunter2"),
        ("config", "set", "maxmemory", "1", "MasterAuth", "hunter2"),
        ("MIGRATE", "h", "1", "", "0", "9", "AUTH2", "ada", "hunter2", "KEYS", "a"),
    ],
)
def test_a_password_in_a_command_is_hidden(words: tuple[str, ...]) -> None:
    shown = safe_words([word.encode() for word in words])
    assert not any(b"hunter2" in word for word in shown)
    assert shown[0].decode() == words[0]


def test_other_commands_stay_as_they_are() -> None:
    words = [b"SET", b"requirepass", b">no secret"]
    assert safe_words(words) == words


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ([b"CONFIG", b"GET", b"*"], {b"requirepass": b"hunter2", b"port": b"1"}),
        ([b"config", b"get", b"*"], [b"masterauth", b"hunter2", b"port", b"1"]),
        ([b"ACL", b"LIST"], [b"user ada on #" + HASH + b" ~* +@all"]),
        ([b"ACL", b"GETUSER", b"ada"], {b"passwords": [HASH], b"flags": {b"on"}}),
    ],
)
def test_a_password_in_a_reply_is_hidden(words: list[bytes], reply: Any) -> None:
    text = repr(safe_reply(words, reply))
    assert "hunter2" not in text
    assert HASH.decode() not in text
    assert "(hidden)" in text
