"""Conditions on the value of a string: SET, DELEX and DIGEST as Redis 8.4 documents them."""

import pytest

from tests.commands.asking import ask, new_peer
from tests.commands.listening import Listening

HELLO = "9555e8555c62dcfd"  # the digest of "hello"
OTHER = "0" * 16
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_A_STRING = b"ERR Key should be of string type if conditions are specified"
BAD_DIGEST = b"ERR must be exactly 16 hexadecimal characters"
BAD_CONDITION = b"ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
ARITY = b"ERR wrong number of arguments for '%b' command"
SYNTAX = b"ERR syntax error"


@pytest.mark.parametrize(
    ("command", "reply", "value"),
    [
        ("SET k new IFEQ hello", b"OK", b"new"),
        ("SET k new IFEQ other", None, b"hello"),
        ("SET k new IFNE other", b"OK", b"new"),
        ("SET k new IFNE hello", None, b"hello"),
        (f"SET k new IFDEQ {HELLO}", b"OK", b"new"),
        (f"SET k new ifdeq {HELLO.upper()}", b"OK", b"new"),
        (f"SET k new IFDEQ {OTHER}", None, b"hello"),
        (f"SET k new IFDNE {OTHER}", b"OK", b"new"),
        (f"SET k new IFDNE {HELLO}", None, b"hello"),
        ("SET k new IFDNE zzzzzzzzzzzzzzzz", b"OK", b"new"),
        ("SET k new IFNE other GET", b"hello", b"new"),
        ("SET k new IFNE hello GET", b"hello", b"hello"),
        ("SET k new GET IFEQ hello EX 10", b"hello", b"new"),
        ("SET k new IFEQ x IFEQ hello", b"OK", b"new"),
        ("SET k new IFDEQ 123", BAD_DIGEST, b"hello"),
        ("SET k new IFDNE ''", BAD_DIGEST, b"hello"),
        ("SET k new IFEQ hello IFNE x", SYNTAX, b"hello"),
        ("SET k new IFEQ hello XX", SYNTAX, b"hello"),
        ("SET k new NX IFNE x", SYNTAX, b"hello"),
        ("SET k new IFEQ", SYNTAX, b"hello"),
        ("SET k new IFEQ hello NOPE", SYNTAX, b"hello"),
        ("GETEX k IFEQ hello", SYNTAX, b"hello"),
        ("DELEX k", 1, None),
        ("DELEX k IFEQ hello", 1, None),
        ("DELEX k IFEQ other", 0, b"hello"),
        ("DELEX k ifne other", 1, None),
        ("DELEX k IFNE hello", 0, b"hello"),
        (f"DELEX k IFDEQ {HELLO}", 1, None),
        (f"DELEX k IFDEQ {OTHER}", 0, b"hello"),
        (f"DELEX k IFDNE {OTHER}", 1, None),
        (f"DELEX k IFDNE {HELLO}", 0, b"hello"),
        ("DELEX k IFDEQ 123", BAD_DIGEST, b"hello"),
        ("DELEX k EQ hello", BAD_CONDITION, b"hello"),
        ("DELEX k IFEQ", ARITY % b"delex", b"hello"),
        ("DELEX k IFEQ hello x", ARITY % b"delex", b"hello"),
        ("DIGEST k", HELLO.encode(), b"hello"),
        ("DIGEST k k", ARITY % b"digest", b"hello"),
    ],
)
def test_a_string(command: str, reply: object, value: bytes | None) -> None:
    peer = new_peer("SET k hello")
    assert ask(peer, command) == reply
    assert ask(peer, "GET k") == value


@pytest.mark.parametrize(
    ("command", "reply", "value"),
    [
        ("SET k new IFEQ x", None, None),
        ("SET k new IFDEQ 123", None, None),
        ("SET k new IFNE x", b"OK", b"new"),
        ("SET k new IFDNE 123", b"OK", b"new"),
        ("SET k new IFNE x GET", None, b"new"),
        ("SET k new IFEQ x GET", None, None),
        ("DELEX k", 0, None),
        ("DELEX k IFNE x", 0, None),
        ("DELEX k NOPE x", 0, None),
        ("DELEX k IFEQ", ARITY % b"delex", None),
        ("DIGEST k", None, None),
    ],
)
def test_a_missing_key(command: str, reply: object, value: bytes | None) -> None:
    peer = new_peer()
    assert ask(peer, command) == reply
    assert ask(peer, "GET k") == value


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("SET k new IFEQ a", WRONG_TYPE),
        ("SET k new IFNE a", WRONG_TYPE),
        ("SET k new IFDNE 123", WRONG_TYPE),
        ("DELEX k IFNE a", NOT_A_STRING),
        ("DELEX k NOPE a", NOT_A_STRING),
        ("DIGEST k", WRONG_TYPE),
    ],
)
def test_another_type(command: str, reply: bytes) -> None:
    peer = new_peer("RPUSH k a")
    assert ask(peer, command) == reply
    assert ask(peer, "DELEX k") == 1
    assert ask(peer, "EXISTS k") == 0


def test_events() -> None:
    events = Listening().announce(
        [
            "SET k v IFNE x",
            "SET k w IFEQ x",
            "SET k w IFEQ v EX 10",
            "DELEX k IFEQ x",
            "DELEX k IFEQ w",
            "DELEX k",
            "MSETEX 2 a 1 b 2 EX 10",
            "MSETEX 2 a 1 c 2 NX",
            "MSETEX 1 a 1 PXAT 1",
            "DELIFEQ b 2",
        ]
    )
    assert [[(event, name) for _, event, name in each] for each in events] == [
        [(b"new", b"k"), (b"set", b"k")],
        [],
        [(b"set", b"k"), (b"expire", b"k")],
        [],
        [(b"del", b"k")],
        [],
        [
            *((b"new", b"a"), (b"set", b"a"), (b"expire", b"a")),
            *((b"new", b"b"), (b"set", b"b"), (b"expire", b"b")),
        ],
        [],
        [(b"del", b"a")],
        [(b"del", b"b")],
    ]


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("MSETEX 0 a 1", b"ERR invalid numkeys value"),
        ("MSETEX -1 a 1", b"ERR invalid numkeys value"),
        ("MSETEX x a 1", b"ERR invalid numkeys value"),
        ("MSETEX 2147483648 a 1", b"ERR invalid numkeys value"),
        ("MSETEX 2147483647 a 1", b"ERR wrong number of key-value pairs"),
        ("MSETEX 2 a 1 b", b"ERR wrong number of key-value pairs"),
        ("MSETEX 2 a 1 b 2 NX XX", SYNTAX),
        ("MSETEX 1 a 1 EX 0", b"ERR invalid expire time in 'msetex' command"),
    ],
)
def test_errors_of_msetex(command: str, reply: bytes) -> None:
    peer = new_peer()
    assert ask(peer, command) == reply
    assert ask(peer, "DBSIZE") == 0


def test_comparing_needs_the_permission_to_read() -> None:
    """The reply tells the caller about the value."""
    peer = new_peer("ACL SETUSER u on nopass +@all %W~*")
    for line, is_allowed in (
        ("set k v", True),
        ("set k v ifeq x", False),
        ("set k v get", False),
        ("delex k", True),
        ("delex k ifne x", False),
        ("digest k", False),
    ):
        assert (ask(peer, f"ACL DRYRUN u {line}") == b"OK") == is_allowed, line
