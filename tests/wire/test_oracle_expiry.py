"""Commands on expiry, by hand: every option and every error, as redis-server has them. Times are
so far away or so round that both servers tell the same."""

import pytest

from tests.harness import Pair
from tests.wire.same import Line, assert_same

FAR_S, FAR_MS = 33_000_000_000, 33_000_000_000_000  # in the year 3015
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
MANY_KINDS = ["SET s str", "SET n 10", "RPUSH l a b c", f"SET t v PXAT {FAR_MS}"]

# Each starts with the keys of MANY_KINDS.
SEQUENCES: dict[str, list[Line]] = {
    "expire": [
        *(
            "EXPIRE s 100",
            "TTL s",
            "PEXPIRE s 50000",
            "TTL s",
            f"EXPIREAT s {FAR_S}",
            "EXPIRETIME s",
        ),
        *(
            f"PEXPIREAT s {FAR_MS}",
            "PEXPIRETIME s",
            "EXPIRETIME s",
            "EXPIRE l 100",
            "TTL l",
            "EXPIRE x 1",
        ),
        *("PEXPIRE x 1", "EXPIREAT x 1", "PEXPIREAT x 1", "EXPIRE s", "EXPIRE", "GET s"),
        *(
            f"PEXPIREAT s {FAR_MS + 499}",
            "EXPIRETIME s",
            f"PEXPIREAT s {FAR_MS + 500}",
            "EXPIRETIME s",
        ),
    ],
    "times in the past remove": [
        *(
            "EXPIRE s 0",
            "EXISTS s",
            "PEXPIRE n -1",
            "EXISTS n",
            "EXPIREAT l 1",
            "TYPE l",
            "PEXPIREAT t 0",
        ),
        *("EXISTS t", "DBSIZE", "SET s v", f"EXPIREAT s -{FAR_S}", "EXISTS s", "SET s v"),
        *(f"PEXPIREAT s {INT64_MIN}", "EXISTS s", "SET s v", f"PEXPIRE s {INT64_MIN}", "EXISTS s"),
    ],
    "expire nx": [
        *("EXPIRE s 100 NX", "EXPIRE s 200 NX", "TTL s", "EXPIRE t 5 NX", "PEXPIRETIME t"),
        *("PEXPIRE n 50000 nx", "EXPIREAT l 1 NX", "EXISTS l", "EXPIREAT t 1 NX", "EXISTS t"),
    ],
    "expire xx": [
        *("EXPIRE s 100 XX", "TTL s", "EXPIRE t 100 XX", "TTL t", "PEXPIREAT t 1 XX", "EXISTS t"),
    ],
    "expire gt": [
        *(
            "EXPIRE s 100 GT",
            "TTL s",
            "EXPIRE t 100 GT",
            "PEXPIRETIME t",
            f"PEXPIREAT t {FAR_MS} GT",
        ),
        *(
            f"PEXPIREAT t {FAR_MS + 1} GT",
            "PEXPIRETIME t",
            f"PEXPIREAT t {FAR_MS} gt",
            "PEXPIREAT s 1 GT",
        ),
        *(
            "PEXPIREAT t 1 GT",
            f"EXPIREAT t {FAR_S + 9} XX GT",
            "EXPIRETIME t",
            "EXPIRE s 100 XX GT",
        ),
    ],
    "expire lt": [
        *("EXPIRE s 100 LT", "TTL s", "EXPIRE s 200 LT", "TTL s", "EXPIRE s 50 LT", "TTL s"),
        *(f"PEXPIREAT t {FAR_MS} LT", f"PEXPIREAT t {FAR_MS - 1} LT", "PEXPIRETIME t"),
        *(
            "EXPIRE n 100 XX LT",
            "TTL n",
            "PEXPIREAT t 1 LT",
            "EXISTS t",
            "EXPIRE n 9 LT LT",
            "TTL n",
        ),
    ],
    "expire with conditions that contradict": [
        f"EXPIREAT {key} {time} {one} {other}"  # else a millisecond more or less would show
        for key, time in (("s", 4102444800), ("missing", "x"))
        for one in ("NX", "XX", "GT", "LT", "nope")
        for other in ("NX", "XX", "GT", "LT", "nope")
    ],
    "expire with three conditions": [
        *(
            "EXPIRE s 1 XX GT LT",
            "EXPIRE s 1 NX GT LT",
            "EXPIRE s 1 GT LT NX",
            "EXPIRE s 1 XX XX XX",
        ),
        *("EXPIRE s x NX XX", "EXPIRE s 1 ''", ("EXPIRE", "s", 1, b"no\x00pe"), "TTL s"),
        *(("EXPIRE", "s", 1, option) for option in ("no\n", "no\r\npe\n\r", "\n", "\n ")),
    ],
    "expire out of range": [
        f"{command} {key} {time}"
        for command in ("EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT")
        for key in ("t", "missing")
        for time in (
            *(INT64_MAX, INT64_MAX // 1000, INT64_MAX // 1000 + 1, 9223370000000000000),
            *(INT64_MIN // 1000 - 1, "9223372036854775808", "x", "1.5", "''", "+5", "-0", "' 1'"),
        )
    ],
    "ttl": [
        *("TTL s", "PTTL s", "EXPIRETIME s", "PEXPIRETIME s", "TTL x", "PTTL x", "EXPIRETIME x"),
        *(
            "PEXPIRETIME x",
            "TTL",
            "PTTL a b",
            "EXPIRETIME",
            "PEXPIRETIME",
            "PEXPIRETIME t",
            "EXPIRETIME t",
        ),
        *("SET e v PXAT 1", "TTL e", "PEXPIRE s 100400", "TTL s"),
    ],
    "persist": [
        *(
            "PERSIST t",
            "TTL t",
            "PERSIST t",
            "PERSIST s",
            "PERSIST missing",
            "PERSIST",
            "PERSIST a b",
        ),
        *("EXPIRE l 100", "PERSIST l", "TTL l", "SET e v PXAT 1", "PERSIST e"),
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_answers_are_redis_servers(pair: Pair, name: str) -> None:
    assert_same(pair, [*MANY_KINDS, *SEQUENCES[name]])


def test_expired_keys_are_not_found(pair: Pair) -> None:
    assert_same(
        pair,
        [
            *(
                "SET a v PXAT 1",
                "KEYS *",
                "SET b v PXAT 1",
                "SCAN 0",
                "SET c v PXAT 1",
                "RANDOMKEY",
            ),
            *("SET a v PXAT 1", "SET a w XX", "SET a w NX", "GET a", "SET a 5 PXAT 1", "INCR a"),
            *(
                "SET a v PXAT 1",
                "APPEND a w",
                "GET a",
                "TTL a",
                "SET a v PXAT 1",
                "RPUSH a x",
                "TYPE a",
            ),
            *("SET b v PXAT 1", "RENAMENX a b", "TYPE b", "SET a v PXAT 1", "COPY b a", "TYPE a"),
            *(
                "SET a v PXAT 1",
                "SETRANGE a 2 x",
                "GET a",
                "SET a v PXAT 1",
                "MSETNX a 1 c 2",
                "GET a",
            ),
        ],
    )
