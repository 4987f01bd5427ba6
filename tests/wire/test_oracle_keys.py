"""Commands on keys of any type, by hand: every option and every error, as redis-server has them.
Those about expiry are in test_oracle_expiry.py."""

from pathlib import Path

import pytest

from tests.blocking.talk import block
from tests.harness import HoldfastServer, Pair, RedisServer, encode_command, open_pair
from tests.wire.same import Line, assert_same

FAR_S, FAR_MS = 33_000_000_000, 33_000_000_000_000  # in the year 3015
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
MANY_KINDS = ["SET s str", "SET n 10", "RPUSH l a b c", f"SET t v PXAT {FAR_MS}"]

# Each starts with the keys of MANY_KINDS in database 0.
SEQUENCES: dict[str, list[Line]] = {
    "del, unlink, exists, touch": [
        *("EXISTS s n l missing s", "TOUCH s l missing s", "DEL s missing s l", "EXISTS s l"),
        *("UNLINK n n t", "DBSIZE", "DEL", "UNLINK", "EXISTS", "TOUCH", "DEL missing", "UNLINK x"),
        *("SET e v PXAT 1", "EXISTS e", "DEL e", "SET e v PXAT 1", "TOUCH e", "UNLINK e"),
    ],
    "type": ["TYPE s", "TYPE l", "TYPE missing", "TYPE", "TYPE a b", "SET e v PXAT 1", "TYPE e"],
    "dbsize": ["DBSIZE", "DBSIZE x", "DEL s", "DBSIZE", "SELECT 1", "DBSIZE"],
    "randomkey": ["DEL s n l", "RANDOMKEY", "DEL t", "RANDOMKEY", "RANDOMKEY x"],
    "rename": [
        *("RENAME s s2", "GET s2", "EXISTS s", "RENAME l s2", "LRANGE s2 0 -1", "RENAME s2 s2"),
        *("RENAME missing x", "RENAME missing missing", "RENAME t n", "GET n", "PEXPIRETIME n"),
        *("SET a v", "RENAME a n", "TTL n", "DBSIZE", "RENAME a", "RENAME a b c"),
        *("SET e v PXAT 1", "RENAME e n", "GET n", "SET e v PXAT 1", "RENAME n e", "GET e"),
    ],
    "renamenx": [
        *("RENAMENX s n", "RENAMENX s s2", "GET s2", "RENAMENX l l", "RENAMENX missing x"),
        *("RENAMENX missing missing", "RENAMENX missing n", "RENAMENX t t2", "PEXPIRETIME t2"),
        *("SET e v PXAT 1", "RENAMENX n e", "GET e", "RENAMENX a"),
    ],
    "copy": [
        *("COPY s s2", "MGET s s2", "COPY s n", "GET n", "COPY s n REPLACE", "GET n", "COPY l l2"),
        *("RPUSH l2 d", "LRANGE l 0 -1", "LRANGE l2 0 -1", "COPY l s REPLACE", "TYPE s"),
        *(
            "COPY t t2",
            "PEXPIRETIME t2",
            "COPY n t2 replace",
            "TTL t2",
            "COPY s s",
            "COPY s s REPLACE",
        ),
        *("COPY missing x", "COPY missing n REPLACE", "EXISTS n", "COPY missing missing"),
        *(
            "COPY s s DB 1",
            "COPY s s DB 1",
            "COPY l s DB 1 REPLACE",
            "COPY l s REPLACE db 1",
            "SELECT 1",
        ),
        *("TYPE s", "DBSIZE", "SELECT 0", "COPY s x DB 16", "COPY s x DB -1", "COPY s x DB y"),
        *(
            "COPY s x DB 2147483648",
            "COPY s x DB -2147483649",
            "COPY s x DB",
            "COPY s x NOPE",
            "COPY s",
        ),
        *("COPY s s DB 0", "COPY s x DB 99 NOPE", "COPY s x REPLACE REPLACE DB 1 DB 0", "EXISTS x"),
        *(
            "COPY missing x DB 99",
            "COPY missing x NOPE",
            "COPY s s NOPE",
            f"COPY s x DB {INT64_MAX}",
        ),
        *("SET e v PXAT 1", "COPY e x", "COPY n e", "GET e"),
    ],
    "move": [
        *("MOVE s 1", "EXISTS s", "MOVE s 1", "SET s other", "MOVE s 1", "GET s", "MOVE l 15"),
        *("MOVE t 1", "SELECT 1", "GET s", "PEXPIRETIME t", "MOVE s 1", "MOVE s 0", "SELECT 15"),
        *(
            "LRANGE l 0 -1",
            "MOVE l 16",
            "MOVE l -1",
            "MOVE l x",
            "MOVE missing 15",
            "MOVE missing 1",
        ),
        *("MOVE l 2147483648", f"MOVE l {INT64_MAX}", "MOVE l", "MOVE missing 99", "MOVE l 1.5"),
        *("SET e v PXAT 1", "MOVE e 3"),
    ],
    "flushdb": [
        *(
            "SELECT 1",
            "SET a v",
            "FLUSHDB",
            "DBSIZE",
            "SELECT 0",
            "DBSIZE",
            "FLUSHDB ASYNC",
            "DBSIZE",
        ),
        *("SET a v", "FLUSHDB sync", "EXISTS a", "FLUSHDB nope", "FLUSHDB SYNC ASYNC", "FLUSHDB"),
    ],
    "flushall": [
        *("SELECT 1", "SET a v", "SELECT 9", "SET a v", "FLUSHALL", "DBSIZE", "SELECT 0", "DBSIZE"),
        *(
            "SELECT 1",
            "EXISTS a",
            "FLUSHALL async",
            "FLUSHALL SYNC",
            "FLUSHALL x",
            "FLUSHALL SYNC x",
        ),
    ],
    "swapdb": [
        *(
            "SELECT 1",
            "SET other v",
            "SWAPDB 0 1",
            "GET s",
            "DBSIZE",
            "SET s new",
            "SELECT 0",
            "GET other",
        ),
        *(
            "EXISTS s",
            "SWAPDB 1 0",
            "GET s",
            "LRANGE l 0 -1",
            "PEXPIRETIME t",
            "SWAPDB 0 0",
            "GET s",
        ),
        *(
            "SWAPDB 0 16",
            "SWAPDB 16 0",
            "SWAPDB -1 0",
            "SWAPDB x 0",
            "SWAPDB 0 x",
            "SWAPDB x y",
            "SWAPDB 0",
        ),
        *(
            "SWAPDB 2147483648 0",
            "SWAPDB 0 2147483648",
            "SWAPDB 16 x",
            "SWAPDB 0 15",
            "DBSIZE",
            "SELECT 15",
        ),
        *("DBSIZE", "FLUSHDB", "DBSIZE"),
    ],
    "object": [
        *("OBJECT", "OBJECT HELP x", "OBJECT NOPE s", "OBJECT NOPE"),
        *(
            "OBJECT ENCODING",
            "OBJECT ENCODING s x",
            "OBJECT FREQ",
            "OBJECT IDLETIME",
            "OBJECT REFCOUNT",
        ),
        *(
            "OBJECT ENCODING x",
            "OBJECT FREQ x",
            "OBJECT IDLETIME x",
            "OBJECT REFCOUNT x",
            "OBJECT FREQ s",
        ),
        *(
            "OBJECT FREQ l",
            "OBJECT IDLETIME s",
            "OBJECT IDLETIME l",
            "OBJECT REFCOUNT s",
            "OBJECT REFCOUNT l",
        ),
        *(
            "OBJECT REFCOUNT n",
            "SET n 9999",
            "OBJECT REFCOUNT n",
            "SET n 10000",
            "OBJECT REFCOUNT n",
        ),
        *("SET n 0", "OBJECT REFCOUNT n", "SET n -1", "OBJECT REFCOUNT n", "object encoding n"),
        *("SET e v PXAT 1", "OBJECT ENCODING e"),
    ],
    "object encoding of strings": [
        line
        for text in (
            *("0", "-1", "01", "-0", "1.5", "abc", " 1", str(INT64_MAX), str(INT64_MIN)),
            *("9223372036854775808", "1" * 19, "1" * 20, "1" * 21, "x" * 44, "x" * 45),
        )
        for line in (("SET", "k", text), ("OBJECT", "ENCODING", "k"))
    ],
    "object encoding of other things": [
        *(
            "OBJECT ENCODING l",
            "COPY l l2",
            "OBJECT ENCODING l2",
            "INCR new",
            "OBJECT ENCODING new",
        ),
        *(
            "SETNX a 5",
            "OBJECT ENCODING a",
            "GETSET a six",
            "OBJECT ENCODING a",
            "MSET a 7 b 8",
            "OBJECT ENCODING b",
        ),
        *(
            "INCRBYFLOAT f 1.5",
            "OBJECT ENCODING f",
            "RENAME a c",
            "OBJECT ENCODING c",
            "SETEX q 100 12",
        ),
        *("OBJECT ENCODING q", "APPEND fresh 12", "OBJECT ENCODING fresh"),
    ],
    "scan's mistakes": [
        *(
            "SCAN",
            "SCAN x",
            "SCAN ' 0'",
            "SCAN '0 '",
            "SCAN 0x",
            "SCAN 1.5",
            "SCAN 0 COUNT",
            "SCAN 0 COUNT 0",
        ),
        *(
            "SCAN 0 COUNT -1",
            "SCAN 0 COUNT x",
            "SCAN 0 MATCH",
            "SCAN 0 TYPE",
            "SCAN 0 NOPE",
            "SCAN 0 5",
        ),
        *(
            "SCAN 18446744073709551616",
            "SCAN -18446744073709551616",
            "SCAN +",
            "SCAN -",
            "SCAN x NOPE",
        ),
        *(
            ("SCAN", cursor, "COUNT", 1000, "MATCH", "nobody")
            for cursor in ("\0", "0\0x", "\x001", "-0\0", " \0", "x\0", "")
        ),
        *(
            "SCAN 99999999999999999999999999",
            "SCAN 0 COUNT 9223372036854775808",
            "SCAN 0 COUNT 1 COUNT 0",
        ),
        ("SCAN", "9" * 5000),
    ],
    "keys' mistakes": ["KEYS", "KEYS a b"],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_answers_are_redis_servers(pair: Pair, name: str) -> None:
    assert_same(pair, [*MANY_KINDS, *SEQUENCES[name]])


PATTERNS = [
    *(
        "*",
        "?",
        "",
        "s*",
        "*s",
        "[a-n]",
        "[^s]",
        "\\*",
        "**",
        "[",
        "s\\",
        "l*t",
        "n?",
        "user:*:[12]",
    ),
    *("USER*", "*:*", "[s", "[]", "[^]", "*\\?*", "\\[*", "user:1*0:1"),
]


def test_keys_and_scan_find_the_same_names(pair: Pair) -> None:
    names = ["", "s", "l*t", "*", "?", "[", "nn", "user:10:1", "user:100:2", "a\nb", "\\", "SS"]
    assert_same(pair, [("SET", name, "v") for name in names])
    assert_same(pair, [("RPUSH", "list:" + name, "v") for name in names])
    kinds = ("string", "list", "hash", "nonsense", "String", "")
    searches: list[Line] = [
        *(("KEYS", pattern) for pattern in PATTERNS),
        *(("SCAN", 0, "COUNT", 1000, "MATCH", pattern) for pattern in PATTERNS),
        *(("SCAN", 0, "match", pat, "type", "LIST", "count", 1000) for pat in PATTERNS),
        *(("SCAN", 0, "COUNT", 1000, "TYPE", kind) for kind in kinds),
        *("SCAN '' COUNT 1000", "SCAN +0 COUNT 1000", "SCAN -0 COUNT 1000", "SCAN 000 COUNT 99"),
        *("SCAN 0 COUNT 1 COUNT 1000", "SCAN 0 COUNT 9223372036854775807"),
    ]
    assert_same(pair, searches, in_any_order=True)


def test_transactions_see_what_other_databases_do(pair: Pair) -> None:
    assert_same(
        pair,
        [
            *("SET k v", "WATCH k", "SWAPDB 0 1", "MULTI", "GET k", "EXEC"),
            *("WATCH k", "SELECT 1", "COPY k k DB 0", "SELECT 0", "MULTI", "GET k", "EXEC"),
            *("WATCH k", "RENAME k k2", "MULTI", "PING", "EXEC", "WATCH k", "RENAME k2 k", "MULTI"),
            *("PING", "EXEC", "WATCH k", "TOUCH k", "EXPIRE k 100", "MULTI", "PING", "EXEC"),
            *("WATCH k", "TTL k", "OBJECT ENCODING k", "GETEX k", "MULTI", "PING", "EXEC"),
            *(
                "WATCH k",
                "GETEX k PERSIST",
                "MULTI",
                "PING",
                "EXEC",
                "WATCH k",
                "PERSIST k",
                "MULTI",
            ),
            *("PING", "EXEC", "WATCH k", "FLUSHDB", "MULTI", "PING", "EXEC", "WATCH k", "FLUSHALL"),
            *("MULTI", "PING", "EXEC", "SET k v", "WATCH k", "MOVE k 3", "MULTI", "PING", "EXEC"),
            *(
                "SET k v",
                "WATCH k",
                "APPEND k ''",
                "MULTI",
                "PING",
                "EXEC",
                "WATCH k",
                "SETRANGE k 0 ''",
            ),
            *("MULTI", "PING", "EXEC", "WATCH k", "SET k v NX", "MULTI", "PING", "EXEC"),
        ],
    )


@pytest.mark.parametrize(
    "fill",
    [
        ["RENAME src k"],
        ["RENAMENX src k"],
        ["COPY src k"],
        ["SELECT 1", "COPY x k DB 0"],
        ["SELECT 1", "RENAME x k", "MOVE k 0"],
        ["SELECT 1", "RENAME x k", "SWAPDB 0 1"],
        ["SELECT 1", "RENAME x k", "SWAPDB 1 0"],
        ["SET k v", "DEL k", "RENAME src k"],
        ["MULTI", "SET k v", "RENAME src k", "EXEC"],
        ["RENAME string k", "RENAME src k"],
    ],
)
def test_a_list_that_comes_under_an_awaited_name_wakes(
    server: HoldfastServer, oracle: RedisServer, protocol: int, fill: list[Line]
) -> None:
    with (
        open_pair(server, oracle, protocol) as waiting,
        open_pair(server, oracle, protocol) as pair,
    ):
        assert_same(pair, ["RPUSH src a b", "SET string v", "SELECT 1", "RPUSH x a b", "SELECT 0"])
        for client in (waiting.ours, waiting.oracle):
            block(client, "BLPOP", "other", "k", 0)
        assert_same(pair, fill)
        assert waiting.same_reply(fill) == encode_command("k", "a")
        assert_same(pair, ["SELECT 0", "LRANGE k 0 -1", "DBSIZE"])


@pytest.mark.oracle
def test_lfu_policies_decide_what_object_tells(tmp_path: Path) -> None:
    policy = ("--maxmemory-policy", "allkeys-lfu")
    with (
        HoldfastServer(tmp_path / "ours", *policy) as server,
        RedisServer(tmp_path / "oracle", *policy) as oracle,
        open_pair(server, oracle, 2) as pair,
    ):
        assert_same(pair, ["SET k v", "OBJECT FREQ k", "OBJECT IDLETIME k", "OBJECT FREQ missing"])


COMMANDS = (
    *("set", "setnx", "setex", "psetex", "getset", "get", "getex", "getdel", "mget", "mset"),
    *("msetnx", "append", "strlen", "setrange", "getrange", "substr", "incr", "decr", "incrby"),
    *("decrby", "incrbyfloat", "lcs", "del", "unlink", "exists", "type", "keys", "scan"),
    *("randomkey", "rename", "renamenx", "copy", "move", "touch", "expire", "pexpire"),
    *("expireat", "pexpireat", "ttl", "pttl", "expiretime", "pexpiretime", "persist", "dbsize"),
    *("flushdb", "flushall", "swapdb", "object|encoding", "object|freq", "object|idletime"),
    *("object|refcount", "object|help"),
)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)
