"""The failures of the server from which the blocking specification comes, which Holdfast does not
have. One section for each failure, in the order in which they were found.

Not here, because other tests cover them: HSET's count of new fields (with hashes), ZSCORE of 1e-7
(with sorted sets), SORT STORE and RESTORE onto an awaited key, Lua, pub/sub, TLS.
"""

import re
import socket
from collections.abc import Callable
from typing import Any

import hiredis
import pytest

from tests.blocking.talk import NIL, block, bulks, leave, still_blocked
from tests.harness import HoldfastServer, RawClient, RedisServer, encode_command, wait_until
from tests.harness.in_process import InProcess


@pytest.fixture
def connect(client: RawClient, server: HoldfastServer) -> Callable[[], RawClient]:
    """Further connections to the server that `client` has emptied."""
    return server.client


def parsed(reply: bytes) -> Any:
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


# -- 1. RPUSH of three elements with three waiters wakes one ----------------------------------


def test_1_a_push_of_three_wakes_three(client: RawClient, connect: Callable[[], RawClient]) -> None:
    waiters = [connect() for _ in range(3)]
    for waiter in waiters:
        block(waiter, "BLPOP", "k", 0)
    assert client.command("RPUSH", "k", "a", "b", "c") == b":3\r\n"
    assert [waiter.read_reply() for waiter in waiters] == [bulks("k", value) for value in "abc"]
    assert client.command("LLEN", "k") == b":0\r\n"


# -- 2. Commands pipelined behind a BLPOP are dropped -----------------------------------------


def test_2_commands_pipelined_behind_a_blpop_are_answered_in_order(
    client: RawClient, connect: Callable[[], RawClient]
) -> None:
    waiter = connect()
    block(waiter, "BLPOP", "k", 0)
    waiter.send(encode_command("SET", "s", "x") + encode_command("GET", "s") + b"PING\r\n")
    assert still_blocked(waiter, client)
    client.command("RPUSH", "k", "a")
    assert waiter.read_replies(4) == [bulks("k", "a"), b"+OK\r\n", b"$1\r\nx\r\n", b"+PONG\r\n"]


def test_2_also_after_a_timeout(client: RawClient) -> None:
    client.send(encode_command("BLPOP", "k", "0.01") + encode_command("PING"))
    assert client.read_replies(2) == [NIL, b"+PONG\r\n"]


# -- 3. BLPOP, more bytes, then the client closes: a later push loses its element -------------


@pytest.mark.parametrize(
    "more", [encode_command("PING"), encode_command("BLPOP", "k", 0), b"*2\r\n$3\r\nGE"]
)
def test_3_a_client_that_sent_more_and_left_loses_no_element(
    client: RawClient, connect: Callable[[], RawClient], more: bytes
) -> None:
    gone = connect()
    block(gone, "BLPOP", "k", 0)
    gone.send(more)
    leave(gone, client)
    assert client.command("RPUSH", "k", "a") == b":1\r\n"
    assert client.command("LRANGE", "k", 0, -1) == bulks("a")


# -- 4. A timeout of 3,000,000 s returns at once; 0.2 is an error -----------------------------


@pytest.mark.parametrize("timeout", ["3000000", "2147484", "4294968", "1e15"])
def test_4_a_long_timeout_does_not_return_at_once(
    client: RawClient, connect: Callable[[], RawClient], timeout: str
) -> None:
    waiter = connect()
    block(waiter, "BLPOP", "k", timeout)
    # The server has set and fired timers since.
    assert client.command("BLPOP", "other", "0.01") == NIL
    assert still_blocked(waiter, client)
    client.command("RPUSH", "k", "a")
    assert waiter.read_reply() == bulks("k", "a")


def test_4_a_timeout_may_have_a_fraction(client: RawClient) -> None:
    assert client.command("BLPOP", "k", "0.2") == NIL


# -- 5. BLPOP nonempty-list string-key answers WRONGTYPE --------------------------------------


def test_5_a_list_in_front_of_a_string_is_popped(client: RawClient) -> None:
    client.command("RPUSH", "nonempty-list", "a")
    client.command("SET", "string-key", "x")
    assert client.command("BLPOP", "nonempty-list", "string-key", 0) == bulks("nonempty-list", "a")
    assert client.command("BLPOP", "nonempty-list", "string-key", 0)[:10] == b"-WRONGTYPE"


# -- 6. RENAME and others onto an awaited key do not wake -------------------------------------


@pytest.mark.parametrize(
    "commands",
    [
        "RENAME full k",
        "RENAMENX full k",
        "COPY full k",
        "LMOVE full k LEFT LEFT",
        "RPOPLPUSH full k",
        "BLMOVE full k LEFT RIGHT 0",
        "MULTI;RPUSH k a;EXEC",
        "MULTI;RENAME full k;EXEC",
        "SELECT 1;RPUSH k a;MOVE k 0",
        "SELECT 1;RPUSH k a;SWAPDB 0 1",
    ],
)
def test_6_whatever_fills_an_awaited_key_wakes(
    client: RawClient, connect: Callable[[], RawClient], commands: str
) -> None:
    client.command("RPUSH", "full", "a")
    waiter = connect()
    block(waiter, "BLPOP", "k", 0)
    for command in commands.split(";"):
        assert client.command(*command.split())[:1] != b"-"
    assert waiter.read_reply() == bulks("k", "a")


# -- 7. Removing a waiter is O(n); the satisfied waiter's timer stays -------------------------
# To remove one waiter visits no other waiter: tests/server/core/test_blocking.py.


def test_7_nothing_is_left_of_a_satisfied_waiter() -> None:
    setting = InProcess()
    waiters = [setting.blocked("BLPOP", "k", "other", 1000) for _ in range(100)]
    assert setting.clock.pending_timers == 100
    setting.peer().command("RPUSH", "k", *range(100))
    assert all(waiter.replies() for waiter in waiters)
    setting.assert_nothing_left()


# -- 8. Many commands do something else than in Redis -----------------------------------------


def test_8_incr_keeps_the_ttl(client: RawClient) -> None:
    client.command("SET", "n", "1", "EX", 1000)
    assert client.command("INCR", "n") == b":2\r\n"
    assert 0 < int(client.command("TTL", "n")[1:]) <= 1000


def test_8_incr_refuses_what_is_no_number(client: RawClient) -> None:
    client.command("SET", "n", "12abc")
    assert client.command("INCR", "n") == b"-ERR value is not an integer or out of range\r\n"
    assert client.command("GET", "n") == b"$5\r\n12abc\r\n"


def test_8_incr_is_exact_past_2_to_the_53(client: RawClient) -> None:
    client.command("SET", "n", 2**53)
    assert client.command("INCR", "n") == b":%d\r\n" % (2**53 + 1)
    client.command("SET", "n", 2**63 - 2)
    assert client.command("INCR", "n") == b":%d\r\n" % (2**63 - 1)
    assert client.command("INCR", "n") == b"-ERR increment or decrement would overflow\r\n"


def test_8_set_replaces_a_list(client: RawClient) -> None:
    client.command("RPUSH", "k", "a")
    assert client.command("SET", "k", "x") == b"+OK\r\n"
    assert client.command("GET", "k") == b"$1\r\nx\r\n"


def test_8_lrange_beyond_the_end_is_empty(client: RawClient) -> None:
    client.command("RPUSH", "k", "a", "b", "c")
    assert client.command("LRANGE", "k", 5, 10) == b"*0\r\n"


def test_8_lpop_of_nothing_pops_nothing(client: RawClient) -> None:
    client.command("RPUSH", "k", "a")
    assert client.command("LPOP", "k", 0) == b"*0\r\n"
    assert client.command("LLEN", "k") == b":1\r\n"


def test_8_scan_sees_every_key_though_others_are_deleted_meanwhile(client: RawClient) -> None:
    kept = {b"kept-%d" % n for n in range(200)}
    for n in range(200):
        client.command("SET", f"kept-{n}", "x")
        client.command("SET", f"gone-{n}", "x")
    seen: set[bytes] = set()
    cursor, calls = b"0", 0
    while not calls or cursor != b"0":
        cursor, names = parsed(client.command("SCAN", cursor, "COUNT", 10))
        seen.update(names)
        client.command("DEL", *(f"gone-{n}" for n in range(calls * 5, calls * 5 + 5)))
        calls += 1
    assert seen >= kept


def test_8_scan_keeps_to_match(client: RawClient) -> None:
    client.command("MSET", "apple", 1, "pear", 2, "apricot", 3)
    seen: list[bytes] = []
    cursor = None
    while cursor != b"0":
        cursor, names = parsed(client.command("SCAN", cursor or 0, "MATCH", "ap*"))
        seen += names
    assert sorted(seen) == [b"apple", b"apricot"]


def test_8_del_does_not_count_expired_keys() -> None:
    setting = InProcess()
    peer = setting.peer()
    peer.command("SET", "k", "x", "PX", 1)
    setting.clock.advance(0.001)
    assert peer.command("DEL", "k") == b":0\r\n"


def test_8_an_inline_command_is_answered(client: RawClient) -> None:
    client.send(b"SET k 'a b'\r\nGET k\r\n")
    assert client.read_replies(2) == [b"+OK\r\n", b"$3\r\na b\r\n"]


@pytest.mark.parametrize("garbage", [b"*x\r\n", b"*1\r\n:1\r\n", b"*1\r\n$-5\r\n", b'"open\r\n'])
def test_8_garbage_gets_an_error_and_a_close(client: RawClient, garbage: bytes) -> None:
    client.send(garbage)
    assert re.fullmatch(rb"-ERR Protocol error: .*\r\n", client.read_until_closed())


# -- 9. What is missing, open, dead, or guessed -----------------------------------------------


def test_9_there_are_transactions(client: RawClient) -> None:
    assert client.command("MULTI") == b"+OK\r\n"
    assert client.command("INCR", "n") == b"+QUEUED\r\n"
    assert client.command("EXEC") == b"*1\r\n:1\r\n"


def test_9_there_is_resp3(client: RawClient) -> None:
    assert client.command("HELLO", 3)[:1] == b"%"
    assert client.command("GET", "missing") == b"_\r\n"


def test_9_there_are_databases(client: RawClient) -> None:
    client.command("SET", "k", "in 0")
    assert client.command("SELECT", 1) == b"+OK\r\n"
    assert client.command("GET", "k") == NIL


def test_9_there_is_info(client: RawClient) -> None:
    assert b"# Server\r\n" in client.command("INFO")


def test_9_there_are_passwords(start_server: Callable[..., HoldfastServer]) -> None:
    client = start_server("--requirepass", "secret").client()
    assert client.command("GET", "k") == b"-NOAUTH Authentication required.\r\n"
    assert client.command("AUTH", "wrong")[:10] == b"-WRONGPASS"
    assert client.command("AUTH", "secret") == b"+OK\r\n"
    assert client.command("GET", "k") == NIL


def test_9_only_loopback_is_bound_by_default(server: HoldfastServer) -> None:
    # Another address of this machine; bound to all interfaces, it would answer there too.
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", server.port))


def test_9_the_cache_is_used(start_server: Callable[..., HoldfastServer]) -> None:
    """Five megabytes of data do well with one of memory."""
    server = start_server("--maxmemory", "1mb")
    client = server.client()
    for n in range(100):
        client.command("SET", f"k{n}", "x" * 50_000)
    client.command("SAVE")

    def used_bytes() -> int:
        found = re.search(rb"\r\nused_memory:(\d+)\r\n", client.command("INFO", "memory"))
        assert found is not None
        return int(found[1])

    wait_until(lambda: used_bytes() <= 1 << 20, "what is in the file leaves memory")
    for n in range(100):
        assert len(client.command("GET", f"k{n}")) > 50_000


def test_9_arities_and_flags_are_those_of_redis(client: RawClient, oracle: RedisServer) -> None:
    def table(connection: RawClient) -> dict[bytes, tuple[int, frozenset[bytes]]]:
        entries = parsed(connection.command("COMMAND"))
        return {entry[0]: (entry[1], frozenset(entry[2])) for entry in entries}

    ours, theirs = table(client), table(oracle.client())
    # WITHSCORE came with 7.2 (docs/compatibility.md, version).
    shared = (ours.keys() & theirs.keys()) - {b"zrank", b"zrevrank"}
    assert len(shared) > 75
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
    assert ours[b"blpop"] == (-3, frozenset({b"write", b"noscript", b"blocking"}))
