"""String commands, by hand: every option and every error, as redis-server answers them."""

import random
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer, open_pair
from tests.wire.same import Line, assert_same

FAR_S, FAR_MS = 33_000_000_000, 33_000_000_000_000  # in the year 3015
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
NOT_INTEGERS = ("", "x", "1.5", "1e3", " 1", "1 ", "+1", "-0", "01", "9223372036854775808")
MANY_KINDS = ["SET s str", "SET n 10", "RPUSH l a", "SET big " + "x" * 45]

# Each starts with the keys of MANY_KINDS.
SEQUENCES: dict[str, list[Line]] = {
    "get": ["GET s", "GET n", "GET missing", "GET l", "GET", "GET a b", ("GET", b""), "get s"],
    "set replaces anything": [
        *("SET s v", "SET l v", "GET l", "TYPE l", "SET s ''", "GET s", "STRLEN s"),
        ("SET", b"\x00\r\n\xff", b"\xff\x00\r\n"),
        ("GET", b"\x00\r\n\xff"),
    ],
    "set clears the expiry": [
        *(f"SET s v PXAT {FAR_MS}", "SET s w", "PEXPIRETIME s"),
        *(f"SET s v EXAT {FAR_S}", "SET s w KEEPTTL", "EXPIRETIME s", "GET s"),
        *(f"SET l v EXAT {FAR_S}", "RPUSH m a", f"EXPIREAT m {FAR_S}", "SET m v KEEPTTL"),
        *("EXPIRETIME m", "SET new v KEEPTTL", "TTL new"),
    ],
    "set nx and xx": [
        *("SET s v NX", "SET s v XX", "SET new v XX", "SET new v NX", "GET new", "SET l v NX"),
        *("SET l v XX", "TYPE l", "SET a v nx", "SET a w xX", "SET a v NX NX", "SET a v XX XX"),
        *("SET a v NX XX", "SET a v XX NX"),
    ],
    "set get": [
        *("SET s v GET", "SET new v GET", "SET new w get", "SET l v GET", "TYPE l"),
        *("SET s x NX GET", "GET s", "SET n2 x NX GET", "GET n2", "SET n3 x XX GET", "EXISTS n3"),
        *(
            "SET s y XX GET",
            "GET s",
            "SET s z GET GET",
            f"SET s z GET EXAT {FAR_S}",
            "EXPIRETIME s",
        ),
        *("SET s z GET KEEPTTL", "EXPIRETIME s", "SET l v GET EX 0", "SET l v NX GET"),
    ],
    "set with a time": [
        *("SET a v EX 100", "TTL a", "SET a v PX 100000", "TTL a", f"SET a v EXAT {FAR_S}"),
        *("EXPIRETIME a", f"SET a v PXAT {FAR_MS}", "PEXPIRETIME a", "SET a v ex 50", "TTL a"),
        *("SET a v EX 10 EX 100", "TTL a", "SET a v PXAT 1 PXAT 0", "SET a v EX 100 NX"),
        *("SET b v NX EX 100", "TTL b", "SET b v XX PX 100000 GET", "TTL b"),
        *("SET a v EXAT 1", "GET a", "EXISTS a", "SET a v PXAT 1000", "TTL a", "TYPE a"),
    ],
    "set with times that contradict": [
        f"SET a v {one} {other}"
        for one in ("EX 10", "PX 10", f"EXAT {FAR_S}", f"PXAT {FAR_MS}", "KEEPTTL", "PERSIST")
        for other in ("EX 10", "PX 10", f"EXAT {FAR_S}", f"PXAT {FAR_MS}", "KEEPTTL", "PERSIST")
    ],
    "set with wrong times": [
        f"SET a v {option} '{time}'"
        for option in ("EX", "PX", "EXAT", "PXAT")
        for time in (
            *("0", "-1", *NOT_INTEGERS, str(INT64_MAX), str(INT64_MIN)),
            *("9223372036854775", "9223372036854776", "9223370000000000000"),
        )
    ],
    "set with wrong words": [
        *(
            "SET",
            "SET a",
            "SET a v NOPE",
            "SET a v EX",
            "SET a v PX",
            "SET a v NX EX",
            "SET a v ''",
        ),
        *("SET a v EX 10 nope", "SET a v EX x nope", "SET a v 10", "GET a"),
    ],
    "setnx": [
        "SETNX s v",
        "SETNX l v",
        "SETNX new v",
        "GET new",
        "TTL new",
        "SETNX a",
        "SETNX a b c",
    ],
    "setex and psetex": [
        *("SETEX s 100 v", "TTL s", "GET s", "PSETEX l 100000 v", "TTL l", "TYPE l", "SETEX a 0 v"),
        *("SETEX a -1 v", "PSETEX a 0 v", "PSETEX a -5 v", f"SETEX a {INT64_MAX} v"),
        *(f"PSETEX a {INT64_MAX} v", "SETEX a 9223372036854775 v", "SETEX a 9223372036854776 v"),
        *("SETEX a x v", "PSETEX a 1.5 v", "SETEX a 10", "PSETEX a 10 v w", "EXISTS a"),
    ],
    "getset": [
        *("GETSET s v", "GET s", "GETSET new v", "GETSET l v", "TYPE l", "GETSET s"),
        *(f"SET s v EXAT {FAR_S}", "GETSET s w", "TTL s"),
    ],
    "getdel": ["GETDEL s", "GETDEL s", "EXISTS s", "GETDEL l", "TYPE l", "GETDEL", "GETDEL a b"],
    "getex": [
        *("GETEX s", "TTL s", "GETEX s EX 100", "TTL s", "GETEX s PX 50000", "TTL s", "GETEX s"),
        *("TTL s", f"GETEX s EXAT {FAR_S}", "EXPIRETIME s", f"GETEX s PXAT {FAR_MS}"),
        *(
            "PEXPIRETIME s",
            "GETEX s PERSIST",
            "TTL s",
            "GETEX s PERSIST",
            "GETEX s persist PERSIST",
        ),
        *("GETEX s EXAT 1", "EXISTS s", "GETEX n PXAT 1", "EXISTS n", "GETEX l", "GETEX l EX 0"),
        *("GETEX missing", "GETEX missing EX 10", "GETEX missing EX 0", "GETEX missing NOPE"),
        *("GETEX big NX", "GETEX big GET", "GETEX big KEEPTTL", "GETEX big EX", "GETEX big EX 0"),
        *(
            "GETEX big PX -1",
            "GETEX big EX x",
            f"GETEX big EX {INT64_MAX}",
            "GETEX big EX 1 EX 100",
        ),
        *("TTL big", "GETEX big EX 10 PERSIST", "GETEX big PERSIST EX 10", "GETEX big EX 1 PX 1"),
        *("GETEX big EXAT 0", "GETEX big PXAT -1", "GETEX", "TTL big"),
    ],
    "mget": ["MGET s n missing l s", "MGET missing", "MGET", "MGET s", "MGET s n big"],
    "mset": [
        *("MSET a 1 b 2 a 3", "MGET a b", "MSET l v", "TYPE l", "MSET a", "MSET a 1 b", "MSET"),
        *(f"SET s v EXAT {FAR_S}", "MSET s w", "TTL s", "mset a 1 b"),
    ],
    "msetnx": [
        *("MSETNX a 1 b 2", "MGET a b", "MSETNX c 1 a 2", "EXISTS c", "MSETNX d 1 d 2", "GET d"),
        *("MSETNX x 1 l 2", "MSETNX a", "MSETNX a 1 b", "EXISTS x"),
    ],
    "append": [
        *("APPEND s more", "GET s", "APPEND new v", "GET new", "APPEND n 5", "GET n", "INCR n"),
        *("APPEND l x", "APPEND s ''", "APPEND empty ''", "EXISTS empty", "GET empty", "APPEND s"),
        *("STRLEN empty", f"SET t v EXAT {FAR_S}", "APPEND t w", "EXPIRETIME t"),
    ],
    "strlen": ["STRLEN s", "STRLEN n", "STRLEN missing", "STRLEN l", "STRLEN", "STRLEN a b"],
    "setrange": [
        *("SETRANGE s 1 XY", "GET s", "SETRANGE s 5 end", "GET s", "SETRANGE new 3 v", "GET new"),
        *(
            "SETRANGE n 1 9",
            "GET n",
            "INCR n",
            "SETRANGE l 0 x",
            "SETRANGE s 0 ''",
            "SETRANGE l 0 ''",
        ),
        *("SETRANGE missing 5 ''", "EXISTS missing", "SETRANGE s -1 x", "SETRANGE s x y"),
        *("SETRANGE s 536870912 x", "SETRANGE s 536870911 xy", "SETRANGE new2 536870912 x"),
        *("SETRANGE new2 536870912 ''", f"SETRANGE s {INT64_MAX} xx", f"SETRANGE l {INT64_MAX} x"),
        *("SETRANGE s 1", "SETRANGE l -1 x", f"SET t abc EXAT {FAR_S}", "SETRANGE t 0 X", "GET t"),
        *("EXPIRETIME t", "SETRANGE s 1.5 x", "SETRANGE s 2 ''"),
    ],
    "getrange": [
        *(
            f"{command} {key} {start} {end}"
            for command in ("GETRANGE", "SUBSTR")
            for key in ("s", "missing", "n", "empty")
            for start in (0, 1, 2, 3, 100, -1, -3, -100, INT64_MAX, INT64_MIN)
            for end in (0, 1, 2, 3, 100, -1, -3, -100, INT64_MAX, INT64_MIN)
        ),
        *("GETRANGE l 0 1", "GETRANGE s x 1", "GETRANGE s 1 x", "GETRANGE l x 1", "GETRANGE s 0"),
        *("SUBSTR s 0", "SUBSTR l 0 1", "SUBSTR s a b"),
    ],
    "incr and decr": [
        *(
            "INCR n",
            "DECR n",
            "INCR new",
            "DECR new2",
            "INCR s",
            "DECR s",
            "INCR l",
            "DECR l",
            "GET n",
        ),
        *("INCRBY n 5", "DECRBY n 7", "INCRBY n -3", "DECRBY n -3", "INCRBY n x", "DECRBY n 1.5"),
        *(
            "INCRBY l x",
            "INCRBY l 1",
            "DECRBY l 1",
            "INCRBY s 1",
            "INCR",
            "INCRBY n",
            "DECRBY n 1 2",
        ),
        *(f"SET t 5 EXAT {FAR_S}", "INCR t", "EXPIRETIME t", "SET spaces ' 5'", "INCR spaces"),
        *("SET z 05", "INCR z", "SET z -0", "INCR z", "SET z ''", "INCR z", "SET z +1", "INCR z"),
        *("SET z 12abc", "INCR z", "SET z 0", "DECR z", "DECR z", "INCR z", "SET z 1.0", "INCR z"),
        *("SET z 9007199254740993", "INCR z", "GET z"),
    ],
    "incr at the limits": [
        *(f"SET a {INT64_MAX}", "INCR a", "INCRBY a 1", "DECR a", "INCR a", "GET a", "DECRBY a -1"),
        *(f"SET a {INT64_MIN}", "DECR a", "DECRBY a 1", "INCR a", "DECR a", "GET a", "INCRBY a -1"),
        *(f"INCRBY z {INT64_MAX}", f"INCRBY z {INT64_MAX}", f"INCRBY y {INT64_MIN}"),
        *(f"DECRBY z {INT64_MIN}", f"DECRBY z {INT64_MAX}", "INCRBY z 9223372036854775808"),
        *(f"INCRBY y {INT64_MIN}", "SET a 9223372036854775808", "INCR a", "DECR a"),
        *(f"INCRBY y {INT64_MAX}", "GET y"),
    ],
    "incrbyfloat": [
        *(
            "INCRBYFLOAT n 0.1",
            "GET n",
            "INCRBYFLOAT n -0.1",
            "GET n",
            "INCR n",
            "INCRBYFLOAT new 3.0e3",
        ),
        *(
            "INCRBYFLOAT s 1",
            "INCRBYFLOAT l 1",
            "INCRBYFLOAT l x",
            "INCRBYFLOAT n x",
            "INCRBYFLOAT n ''",
        ),
        *("INCRBYFLOAT n inf", "INCRBYFLOAT n -inf", "INCRBYFLOAT n nan", "INCRBYFLOAT n ' 1'"),
        *(
            "INCRBYFLOAT n '1 '",
            "INCRBYFLOAT n 0x10",
            "INCRBYFLOAT n 1e400",
            "INCRBYFLOAT n 1e5000",
        ),
        *("SET i inf", "INCRBYFLOAT i 1", "INCRBYFLOAT i x", "SET i -inf", "INCRBYFLOAT i inf"),
        *("SET i 1e4932", "INCRBYFLOAT i 1e4932", "SET i nan", "INCRBYFLOAT i 1", "INCRBYFLOAT i"),
        *(
            f"SET t 1.5 EXAT {FAR_S}",
            "INCRBYFLOAT t 1.5",
            "EXPIRETIME t",
            "SET z -0",
            "INCRBYFLOAT z -0",
        ),
        *(
            "INCRBYFLOAT tiny 1e-18",
            "GET tiny",
            "INCRBYFLOAT tiny 1e-17",
            "INCRBYFLOAT tiny -1e-17",
        ),
        *(
            f"SET z {INT64_MAX}",
            "INCRBYFLOAT z 1",
            "INCRBYFLOAT z 0.5",
            "SET z ''",
            "INCRBYFLOAT z 1",
        ),
    ],
    "lcs": [
        *("MSET a ohmytext b mynewtext", "LCS a b", "LCS a b LEN", "LCS a b IDX", "LCS b a IDX"),
        *(
            "LCS a b IDX MINMATCHLEN 4",
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "LCS a b WITHMATCHLEN",
        ),
        *(
            "LCS a b IDX WITHMATCHLEN",
            "LCS a b idx minmatchlen 0 withmatchlen",
            "LCS a b LEN WITHMATCHLEN",
        ),
        *("LCS a b IDX MINMATCHLEN -5", "LCS a b MINMATCHLEN 100", "LCS a b LEN MINMATCHLEN 100"),
        *("LCS a b IDX MINMATCHLEN 100", "LCS a missing", "LCS missing a LEN", "LCS missing a IDX"),
        *(
            "LCS missing missing2",
            "LCS missing missing2 LEN",
            "LCS missing missing2 IDX",
            "LCS a a IDX",
        ),
        *("LCS a l", "LCS l a", "LCS l l", "LCS a l NOPE", "LCS a b NOPE", "LCS a b LEN IDX"),
        *(
            "LCS a b IDX MINMATCHLEN",
            "LCS a b MINMATCHLEN x",
            "LCS a b LEN LEN",
            "LCS a",
            "LCS a b IDX LEN NOPE",
        ),
        *("SET n2 101", "LCS n n2", "LCS n n2 IDX", "SET e ''", "LCS e a", "LCS e e IDX"),
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_answers_are_redis_servers(pair: Pair, name: str) -> None:
    assert_same(pair, [*MANY_KINDS, *SEQUENCES[name]])


@pytest.mark.parametrize("text", NOT_INTEGERS)
def test_texts_that_are_no_integers(pair: Pair, text: str) -> None:
    assert_same(
        pair,
        [
            *(("SET", "k", text), ("INCR", "k"), ("DECRBY", "k", 1), ("GET", "k"), ("SET", "k", 1)),
            *(("INCRBY", "k", text), ("DECRBY", "k", text), ("SETRANGE", "k", text, "x")),
            *(("SETEX", "k", text, "v"), ("PSETEX", "k", text, "v"), ("GETRANGE", "k", text, 1)),
            *(("GETEX", "k", "EX", text), ("LCS", "k", "k", "IDX", "MINMATCHLEN", text)),
        ],
    )


@pytest.mark.oracle
def test_strings_at_the_size_limit(tmp_path: Path) -> None:
    limit = ("--proto-max-bulk-len", "1mb")
    last = 2**20 - 1
    with (
        HoldfastServer(tmp_path / "ours", *limit) as server,
        RedisServer(tmp_path / "oracle", *limit) as oracle,
        open_pair(server, oracle, 2) as pair,
    ):
        replies = assert_same(
            pair,
            [
                *(f"SETRANGE k {last} x", "STRLEN k", "APPEND k y", f"SETRANGE k {last} yz"),
                *(f"SETRANGE k {last + 1} z", "STRLEN k", "GETRANGE k -2 -1", "APPEND k ''"),
                *(f"SETRANGE k {last + 1} ''", "LCS k k", "LCS k x LEN", "SET x y", "LCS k x LEN"),
            ],
        )
    assert replies[2] == b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"


def test_the_largest_tables_of_lcs(pair: Pair) -> None:
    """Redis's limit is on the table's bytes, 4 for each pair of (length + 1)."""
    assert_same(
        pair,
        [
            *(("SET", "a", "ab" * 5792), ("SET", "b", "abc" * 3861), ("SET", "c", "x" * 11585)),
            *("LCS b a IDX", "LCS a c LEN", "LCS c c LEN", "LCS a l", "LCS a c NOPE"),
            *(("SET", "a", "x" * 1_000_000), ("SET", "b", "x" * 134)),
            *("LCS a b LEN", "LCS b a IDX", "SETRANGE b 133 y", "SET c ''", "LCS a c"),
        ],
    )


def test_lcs_of_random_strings(pair: Pair, rng: random.Random) -> None:
    for _ in range(150):
        alphabet = rng.choice(["a", "ab", "abc", "abcdefgh"])
        a, b = ("".join(rng.choices(alphabet, k=rng.choice([1, 9, 70]))) for _ in range(2))
        assert_same(
            pair, [f"MSET a {a} b {b}", "LCS a b", "LCS a b LEN", "LCS a b IDX WITHMATCHLEN"]
        )


def random_number(rng: random.Random) -> str:
    """A number as people and programs write them, or nearly one."""

    def digits(most: int) -> str:
        return "".join(rng.choices("0123456789", k=rng.randint(1, most)))

    sign = rng.choice(["", "", "-", "+"])
    return sign + rng.choice(
        [
            digits(20),
            f"{digits(6)}.{digits(25)}",
            f"{digits(3)}.{digits(3)}e{rng.randint(-30, 30)}",
            f"{digits(30)}e{rng.randint(-5000, 5000)}",
            f"0x{rng.getrandbits(70):x}.{rng.getrandbits(8):x}p{rng.randint(-100, 100)}",
            f"0x{rng.getrandbits(70):x}p{rng.choice([16313, 16314, -16445, -16515, -16516])}",
            f"{2**63 + rng.getrandbits(10)}.{rng.choice(['5', '25', '75', '4999999999999999999'])}",
            str(2 ** rng.randint(60, 70) + rng.randint(-2, 2)),
            f"0.{'0' * rng.randint(0, 20)}{digits(20)}",
            str(rng.random()),
            digits(5119),
            rng.choice(
                ["inf", "nan", ".", "1.", ".5", "1e", "0x", "0x.p1", "1_0", "0", "0e9", "1e99999"]
            ),
        ]
    )


def test_incrbyfloat_computes_in_long_double(pair: Pair, rng: random.Random) -> None:
    for _ in range(10):
        numbers = [(random_number(rng), random_number(rng)) for _ in range(100)]
        lines: list[Line] = []
        for old, change in numbers:
            lines += [("SET", "k", old), ("INCRBYFLOAT", "k", change), ("INCRBYFLOAT", "k", "0.1")]
        assert_same(pair, lines)


ENCODINGS: list[Line] = [
    *("SET k 1234", "SETRANGE k 0 2", "OBJECT ENCODING k", "OBJECT REFCOUNT k", "SET k 1234"),
    *("SETRANGE k 0 ''", "OBJECT ENCODING k", "APPEND k 5", "OBJECT ENCODING k", "SET k 12345"),
    *("OBJECT ENCODING k", "APPEND new 12", "OBJECT ENCODING new", "APPEND new ''"),
    *("OBJECT ENCODING new", "SETRANGE s 1 x", "OBJECT ENCODING s", "RENAME s t"),
    *("OBJECT ENCODING t", "SETBIT b 3 1", "OBJECT ENCODING b", "SETBIT b 3 1", "SET b 1"),
    *("BITFIELD f SET u8 0 49", "OBJECT ENCODING f", "BITOP OR o k new", "OBJECT ENCODING o"),
    *("DEL k", "SET k 12345", "OBJECT ENCODING k", "INCR k", "OBJECT ENCODING k"),
]


def test_a_string_that_was_edited_is_raw(pair: Pair) -> None:
    assert_same(pair, ENCODINGS)
