"""Secrets never reach a page, the audit trail or the log. No I/O."""

import re
from collections.abc import Sequence
from typing import Any

HIDDEN = "(hidden)"
# Parameters whose values are secrets: passwords, and URLs of peers, which contain passwords.
_SECRET_NAME = re.compile(
    r"pass(word|wd)?$|passphrase|auth$|secret|file-pass|^peer$|user$", re.IGNORECASE
)
_NOT_SECRET = frozenset({"aclfile", "tls-auth-clients"})
_HASH = re.compile(rb"#[0-9a-fA-F]{64}|\b[0-9a-f]{64}\b")
_WITH_SECRETS = frozenset({b"AUTH", b"HELLO", b"ACL", b"CONFIG", b"MIGRATE"})
_ACL_PASSWORD = re.compile(rb"^[<>#!]")


def is_secret(name: str) -> bool:
    """Whether a parameter of the configuration is a secret."""
    return name.lower() not in _NOT_SECRET and _SECRET_NAME.search(name) is not None


def safe_words(words: Sequence[bytes]) -> list[bytes]:
    """A command for the audit trail and for messages, with passwords replaced."""
    name = words[0].upper() if words else b""
    hidden = HIDDEN.encode()
    sub = words[1].upper() if len(words) > 1 else b""
    if name == b"AUTH" or name == b"HELLO":
        return [words[0], *[hidden for _ in words[1:]]]
    if name == b"ACL" and sub == b"SETUSER":
        head, rules = words[:3], words[3:]
        return [*head, *(hidden if _ACL_PASSWORD.match(rule) else rule for rule in rules)]
    if name == b"CONFIG" and sub == b"SET":
        shown = list(words)
        for at in range(2, len(words) - 1, 2):
            if is_secret(words[at].decode("utf-8", "replace")):
                shown[at + 1] = hidden
        return shown
    if name == b"MIGRATE":
        shown = list(words)
        for at, word in enumerate(words):
            if word.upper() in (b"AUTH", b"AUTH2"):
                shown[at + 1 : at + 3] = [hidden] * len(shown[at + 1 : at + 3])
        return shown
    return list(words)


def unread_words(line: bytes) -> list[bytes]:
    """A line that cannot be split into words, because a quotation mark is missing. Passwords in it
    cannot be found, so commands that may contain one are not shown at all."""
    words = line.split()
    return [words[0], HIDDEN.encode()] if words and words[0].upper() in _WITH_SECRETS else [line]


def safe_reply(words: Sequence[bytes], reply: Any) -> Any:
    """A reply for the page of the console, without passwords and hashes of passwords."""
    name = words[0].upper() if words else b""
    sub = words[1].upper() if len(words) > 1 else b""
    if name == b"CONFIG" and sub == b"GET":
        return _without_values(reply)
    if name == b"ACL":
        return _without_hashes(reply)
    return reply


def _without_values(reply: Any) -> Any:
    def value_of(name: Any, value: Any) -> Any:
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        return HIDDEN.encode() if value and is_secret(text) else value

    if isinstance(reply, dict):
        return {name: value_of(name, value) for name, value in reply.items()}
    if isinstance(reply, list):
        pairs = zip(reply[::2], reply[1::2], strict=False)
        return [part for name, value in pairs for part in (name, value_of(name, value))]
    return reply


def _without_hashes(reply: Any) -> Any:
    if isinstance(reply, bytes):
        return _HASH.sub(HIDDEN.encode(), reply)
    if isinstance(reply, str):
        return _HASH.sub(HIDDEN.encode(), reply.encode()).decode()
    if isinstance(reply, dict):
        return {_without_hashes(name): _without_hashes(value) for name, value in reply.items()}
    if isinstance(reply, list | tuple | set | frozenset):
        return [_without_hashes(each) for each in reply]
    return reply
