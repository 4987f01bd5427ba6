"""HGETEX, HSETEX and HGETDEL: errors and events as Redis 8 documents them. Their replies are
compared with valkey-server in tests/wire/test_valkey.py."""

import pytest

from tests.commands.asking import ask, new_peer
from tests.commands.listening import Listening

ONLY_ONE = b"ERR Only one of EX, PX, EXAT, PXAT or %b arguments can be specified"
NUMFIELDS = b"ERR invalid number of fields"
ARITY = b"ERR wrong number of arguments for '%b' command"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
NEGATIVE = b"ERR invalid expire time, must be >= 0"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
TOO_LATE = b"ERR invalid expire time in '%b' command"
MISMATCH = b"ERR The `numfields` parameter must match the number of arguments"
TWICE = b"ERR FIELDS keyword specified multiple times"


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        # any order, and words that look like options
        ("HSETEX h FIELDS 1 a 2 FXX KEEPTTL", 1),
        ("HSETEX h FIELDS 2 EX 60 FIELDS value", 1),
        ("hsetex h fIeLdS 1 a 3 kEePtTl", 1),
        ("HGETEX h FIELDS 2 a b PERSIST", [b"1", b"2"]),
        ("HGETEX h FIELDS 1 a EX 100", [b"1"]),
        ("HGETEX h FIELDS 2 EX FIELDS", [None, None]),
        # errors
        ("HSETEX h FIELDS 1 a x FIELDS 1 b y", TWICE),
        ("HGETEX h FIELDS 1 a FIELDS 1 b", TWICE),
        ("HSETEX h FIELDS 1 a x FIELDS", TWICE),
        ("HSETEX h FIELDS 0 a x", NUMFIELDS),
        ("HGETEX h FIELDS -1 a", NUMFIELDS),
        ("HSETEX h FIELDS x a x", NUMFIELDS),
        ("HGETEX h FIELDS 9223372036854775808 a", NUMFIELDS),
        ("HGETEX h FIELDS 2147483648 a", NUMFIELDS),
        ("HSETEX h FIELDS 2 a x", ARITY % b"hsetex"),
        ("HGETEX h FIELDS 2 a", ARITY % b"hgetex"),
        ("HGETEX h FIELDS 2147483647 a", ARITY % b"hgetex"),
        ("HSETEX h FNX EX 10 FIELDS", ARITY % b"hsetex"),
        ("HSETEX h FIELDS 1 a x unknown", b"ERR unknown argument: unknown"),
        ("HGETEX h EX 10 UNKNOWN", b"ERR unknown argument: UNKNOWN"),
        ("HSETEX h PERSIST FIELDS 1 a x", b"ERR unknown argument: PERSIST"),
        ("HGETEX h KEEPTTL FIELDS 1 a", b"ERR unknown argument: KEEPTTL"),
        ("HGETEX h FNX FIELDS 1 a", b"ERR unknown argument: FNX"),
        (
            "HSETEX h FXX FNX FIELDS 1 a x",
            b"ERR Only one of FXX or FNX arguments can be specified",
        ),
        (
            "HSETEX h FXX FXX FIELDS 1 a x",
            b"ERR Only one of FXX or FNX arguments can be specified",
        ),
        ("HSETEX h EX 10 KEEPTTL FIELDS 1 a x", ONLY_ONE % b"KEEPTTL"),
        ("HSETEX h EX 10 EX 20 FIELDS 1 a x", ONLY_ONE % b"KEEPTTL"),
        ("HGETEX h PERSIST PX 10 FIELDS 1 a", ONLY_ONE % b"PERSIST"),
        ("HGETEX h PERSIST PERSIST FIELDS 1 a", ONLY_ONE % b"PERSIST"),
        ("HSETEX h FIELDS 1 a x EX", b"ERR missing expire time"),
        ("HGETEX h PERSIST FIELDS 1 a PX", ONLY_ONE % b"PERSIST"),
        ("HSETEX h EX FIELDS 1 a x", NOT_AN_INTEGER),
        ("HGETEX h EX -1 FIELDS 1 a", NEGATIVE),
        ("HSETEX h PXAT 9223372036854775808 FIELDS 1 a x", NOT_AN_INTEGER),
        ("HSETEX h PXAT 70368744177664 FIELDS 1 a x", TOO_LATE % b"hsetex"),
        ("HGETEX h PXAT 70368744177664 FIELDS 1 a", TOO_LATE % b"hgetex"),
        ("HSETEX s FIELDS 0 a x", NUMFIELDS),
        ("HGETEX s FIELDS 0 a", NUMFIELDS),
        ("HGETDEL s FIELDS 0 a", WRONG_TYPE),
        ("HGETDEL h FIELDS 0 a", b"ERR Number of fields must be a positive integer"),
        ("HGETDEL h FIELDS 2 a", MISMATCH),
        (
            "HGETDEL h NOPE 1 a",
            b"ERR Mandatory argument FIELDS is missing or not at the right position",
        ),
    ],
)  # fmt: skip
def test_replies(command: str, reply: object) -> None:
    peer = new_peer("HSET h a 1 b 2", "SET s string")
    assert ask(peer, command) == reply
    if isinstance(reply, bytes):
        assert ask(peer, "HGETALL h") == [b"a", b"1", b"b", b"2"]


def test_events() -> None:
    events = Listening().announce(
        [
            "HSETEX h FIELDS 2 a 1 b 2",
            "HSETEX h EX 100 FIELDS 1 a 1",
            "HSETEX h FNX FIELDS 1 a 1",
            "HGETEX h FIELDS 1 a",
            "HGETEX h PERSIST FIELDS 2 a b",
            "HGETEX h PERSIST FIELDS 1 a",
            "HGETEX h EX 10 FIELDS 2 a nope",
            "HGETEX h PXAT 1 FIELDS 1 a",
            "HGETDEL h FIELDS 1 nope",
            "HGETDEL h FIELDS 1 b",
            "HSETEX h PXAT 1 FIELDS 1 a 1",
        ]
    )
    assert [[event for _, event, _ in each] for each in events] == [
        [b"new", b"hset"],
        [b"hset", b"hexpire"],
        [],
        [],
        [b"hpersist"],
        [],
        [b"hexpire"],
        [b"hdel"],
        [],
        [b"hdel", b"del"],
        [b"new", b"hset", b"hdel", b"del"],
    ]


def test_a_field_goes_when_its_time_has_come() -> None:
    setting = Listening()
    peer = setting.peer()
    ask(peer, "HSETEX h PX 100 FIELDS 1 a 1")
    ask(peer, "HSET h b 2")
    ask(peer, "HGETEX h PX 200 FIELDS 1 b")
    setting.clock.advance(0.101)
    assert ask(peer, "HGETALL h") == [b"b", b"2"]
    setting.clock.advance(0.1)
    assert ask(peer, "EXISTS h") == 0


def test_the_fields_that_change_are_told() -> None:
    """Redis 8.8: four kinds of channels with the names of fields."""
    setting = Listening()
    listener, peer = setting.peer(), setting.peer()
    ask(peer, "CONFIG SET notify-keyspace-events hSTIV")
    assert ask(peer, "CONFIG GET notify-keyspace-events") == [b"notify-keyspace-events", b"hSTIV"]
    listener.command("PSUBSCRIBE", "__subkey*")

    def told(line: str) -> list[tuple[bytes, bytes]]:
        ask(peer, line)
        words = [message.split(b"\r\n") for message in listener.replies()]
        return [(message[6], message[8]) for message in words]

    assert told("HSET h a 1 bb 2") == [
        (b"__subkeyspace@0__:h", b"hset|1:a,2:bb"),
        (b"__subkeyevent@0__:hset", b"1:h|1:a,2:bb"),
        (b"__subkeyspaceitem@0__:h\na", b"hset"),
        (b"__subkeyspaceitem@0__:h\nbb", b"hset"),
        (b"__subkeyspaceevent@0__:hset|h", b"1:a,2:bb"),
    ]
    ask(peer, "CONFIG SET notify-keyspace-events hS")
    channel = b"__subkeyspace@0__:h"
    for line, message in (
        ("HSETNX h c 1", b"hset|1:c"),
        ("HINCRBY h n 1", b"hincrby|1:n"),
        ("HINCRBYFLOAT h n 1", b"hincrbyfloat|1:n"),
        ("HDEL h a nope", b"hdel|1:a"),
        ("HEXPIRE h 10 FIELDS 2 n nope", b"hexpire|1:n"),
        ("HPERSIST h FIELDS 2 n c", b"hpersist|1:n"),
        ("HEXPIRE h 0 FIELDS 1 n", b"hdel|1:n"),
        ("HGETDEL h FIELDS 2 nope c", b"hdel|1:c"),
        ("HGETEX h EX 10 FIELDS 1 bb", b"hexpire|2:bb"),
        ("EVAL \"return redis.call('HSET', 'h', 'l', 'v')\" 0", b"hset|1:l"),
    ):
        assert told(line) == [(channel, message)], line
    assert told("HSETEX h PX 5 FIELDS 1 x 1") == [(channel, b"hset|1:x"), (channel, b"hexpire|1:x")]
    setting.clock.advance(0.006)
    assert told("HGET h x") == [(channel, b"hexpired|1:x")]
    assert told("DEL h") == []
    ask(peer, "CONFIG SET notify-keyspace-events $S")
    assert told("HSET h a 1") == [], "the class of hashes is not asked for"
    ask(peer, "CONFIG SET notify-keyspace-events hI")
    assert told("HSET 'a\nb' a 1") == [], "the channel would be ambiguous"
