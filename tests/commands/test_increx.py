"""INCREX as Redis 8.8 documents it."""

import pytest

from tests.commands.asking import ask, new_peer
from tests.commands.listening import Listening
from tests.harness.in_process import InProcess

HIGHEST, LOWEST = 9223372036854775807, -9223372036854775808
SYNTAX = b"ERR syntax error"
NOT_INT = b"ERR %b is not an integer or out of range"
NOT_FLOAT = b"ERR %b is not a valid float"
APPLIED = b"ERR applied increment would %b"
CROSSED = b"ERR LBOUND can't be greater than UBOUND"


@pytest.mark.parametrize(
    ("value", "options", "reply", "new"),
    [
        (None, "", [1, 1], b"1"),
        ("10", "", [11, 1], b"11"),
        ("100", "BYINT -10", [90, -10], b"90"),
        ("50", "BYINT 100 UBOUND 80", [50, 0], b"50"),
        ("50", "BYINT 100 UBOUND 80 SATURATE", [80, 30], b"80"),
        ("10", "LBOUND 0 SATURATE BYINT -100", [0, -10], b"0"),
        ("5", "BYINT 5 UBOUND 10", [10, 5], b"10"),
        ("50", "BYINT 5 UBOUND 30", [50, 0], b"50"),
        ("50", "BYINT 5 UBOUND 30 SATURATE", [30, -20], b"30"),
        ("50", "BYINT -25 UBOUND 30", [25, -25], b"25"),
        ("9223372036854775800", "BYINT 100", [9223372036854775800, 0], b"9223372036854775800"),
        ("9223372036854775800", "BYINT 100 SATURATE", [HIGHEST, 7], b"%d" % HIGHEST),
        ("-9223372036854775800", "BYINT -100 SATURATE", [LOWEST, -8], b"%d" % LOWEST),
        (None, "BYINT 15 UBOUND 10", [0, 0], None),
        (None, "LBOUND 5", [0, 0], None),
        (None, "LBOUND 5 SATURATE", [5, 5], b"5"),
        ("1.5", "BYFLOAT 0.25", [b"1.75", b"0.25"], b"1.75"),
        ("10", "BYFLOAT 100 UBOUND 42.5", [b"10", b"0"], b"10"),
        ("10", "BYFLOAT 100 UBOUND 42.5 SATURATE", [b"42.5", b"32.5"], b"42.5"),
        ("0", "BYFLOAT -100 LBOUND -5.5 SATURATE", [b"-5.5", b"-5.5"], b"-5.5"),
        (None, "BYFLOAT -0.5 UBOUND -1.5", [b"0", b"0"], None),
        ("10", "BYFLOAT 1 UBOUND inf LBOUND -inf", [b"11", b"1"], b"11"),
        ("10", "BYFLOAT 1 UBOUND -inf LBOUND -inf", [b"10", b"0"], b"10"),
        # errors
        ("9223372036854775800", f"SATURATE UBOUND {LOWEST}", APPLIED % b"overflow", None),
        ("10", "BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", APPLIED % b"be Infinity", None),
        ("0", "BYFLOAT +inf", b"ERR BYFLOAT increment cannot be Infinity", None),
        ("inf", "BYFLOAT 1", b"ERR value cannot be Infinity", None),
        ("hello", "BYFLOAT 1", b"ERR value is not a valid float", None),
        ("hello", "", b"ERR value is not an integer or out of range", None),
        ("1.5", "BYINT 1", b"ERR value is not an integer or out of range", None),
        ("1", "BYINT 1.5", NOT_INT % b"Increment", None),
        ("1", "BYFLOAT x", NOT_FLOAT % b"Increment", None),
        ("1", "LBOUND x", NOT_INT % b"LBOUND", None),
        ("1", "UBOUND 1.5", NOT_INT % b"UBOUND", None),
        ("1", "BYFLOAT 1 UBOUND x", NOT_FLOAT % b"UBOUND", None),
        ("1", "LBOUND 10 UBOUND 5", CROSSED, None),
        ("1", "BYFLOAT 1 LBOUND 10.5 UBOUND 1.5 SATURATE", CROSSED, None),
        ("1", "BYFLOAT 1 LBOUND inf", CROSSED, None),
        ("1", "ENX", b"ERR ENX flag requires an expiration", None),
        ("1", "EX 0", b"ERR invalid expire time in 'increx' command", None),
        ("1", "EX x", b"ERR value is not an integer or out of range", None),
        *(
            ("1", options, SYNTAX, None)
            for options in (
                *("FOO", "BYINT 1 BYFLOAT 1", "BYINT 1 BYINT 2", "BYINT", "LBOUND 1 LBOUND 2"),
                *("SATURATE SATURATE", "EX 1 PX 1", "EX 1 EX 1", "EX 1 PERSIST", "PERSIST EX 1"),
                *("PERSIST ENX", "ENX PERSIST", "ENX ENX EX 1", "PERSIST PERSIST", "UBOUND"),
            )
        ),
    ],
)  # fmt: skip
def test_replies(value: str | None, options: str, reply: object, new: bytes | None) -> None:
    peer = new_peer(*([] if value is None else [f"SET k {value}"]))
    assert ask(peer, f"INCREX k {options}") == reply
    assert ask(peer, "GET k") == (value.encode() if value and isinstance(reply, bytes) else new)


def test_another_type() -> None:
    peer = new_peer("RPUSH k a")
    assert ask(peer, "INCREX k") == (
        b"WRONGTYPE Operation against a key holding the wrong kind of value"
    )


def test_a_float_is_a_double_in_resp3() -> None:
    peer = InProcess().peer(3)
    assert peer.command("INCREX", "k", "BYFLOAT", "0.5") == b"*2\r\n,0.5\r\n,0.5\r\n"
    assert peer.command("INCREX", "n", "BYINT", 2) == b"*2\r\n:2\r\n:2\r\n"


@pytest.mark.parametrize(
    ("before", "options", "ttl"),
    [
        ("SET k 1", "EX 100", 100),
        ("SET k 1 EX 500", "", 500),
        ("SET k 1 EX 500", "EX 100", 100),
        ("SET k 1 EX 500", "EX 100 ENX", 500),
        ("SET k 1", "EX 100 ENX", 100),
        ("DEL k", "EX 100 ENX", 100),
        ("SET k 1 EX 500", "PERSIST", -1),
        ("SET k 1", "EXAT 1700000100", 100),
        ("SET k 1", "PXAT 1700000100000", 100),
        ("SET k 1 EX 500", "UBOUND 0 EX 100", 500),
        ("SET k 1 EX 500", "UBOUND 0 PERSIST", 500),
        ("SET k 1", "EXAT 1", -2),
        ("DEL k", "EXAT 1", -2),
        ("SET k 1 EX 500", "EXAT 1 ENX", 500),
    ],
)
def test_expiry(before: str, options: str, ttl: int) -> None:
    peer = new_peer(before)
    ask(peer, f"INCREX k {options}")
    assert ask(peer, "TTL k") == ttl


def test_events() -> None:
    events = Listening().announce(
        [
            "INCREX k BYINT 5",
            "INCREX k BYFLOAT 0.5",
            "SET k 1 EX 100",
            "INCREX k PERSIST",
            "INCREX k EX 100",
            "INCREX k EX 200 ENX",
            "INCREX k UBOUND 1",
            "INCREX k EXAT 1",
            "INCREX k EXAT 1",
        ]
    )
    assert [[event for _, event, _ in each] for each in events] == [
        [b"new", b"incrby"],
        [b"incrbyfloat"],
        [b"set", b"expire"],
        [b"incrby", b"persist"],
        [b"incrby", b"expire"],
        [b"incrby"],
        [],
        [b"del"],
        [],
    ]
