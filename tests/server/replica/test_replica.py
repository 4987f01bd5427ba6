"""A replica: what its clients may do, what it has after a crash, and how it takes a bad primary."""

import random
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.server.replica.link import MOST_WAITING_BYTES
from holdfast.server.replica.snapshot_load import MODULE
from holdfast.store.rdb.primitives import string
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.migration.test_importing import names, with_module
from tests.server.primary.following import follow, info, is_up, wait_for_replica
from tests.server.replica.test_pairs import killed_and_started
from tests.store.rdb.rdb_bytes import rdb

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

WRITES = [
    ["SET", "k", "v"],
    ["LPUSH", "k", "v"],
    ["EVAL", "return redis.call('set', 'k', 'v')", "0"],
    ["EVAL", "return redis.pcall('set', 'k', 'v')", "0"],
    ["EVAL", "#!lua flags=no-writes\nreturn redis.call('get', 'k')", "0"],
    ["EVAL", "#!lua\nreturn redis.call('get', 'k')", "0"],
    ["FLUSHALL"],
    ["GETEX", "k", "EX", "5"],
    ["BLPOP", "k", "1"],
    ["MULTI"],
    ["SET", "k", "v"],
    ["EXEC"],
    ["MULTI"],
    ["GET", "k"],
    ["EXEC"],
    ["PUBLISH", "c", "m"],
    ["WAIT", "1", "10"],
    ["SELECT", "3"],
    ["FUNCTION", "FLUSH"],
    ["REPLICAOF", "127.0.0.1", "none"],
]


def test_errors_of_a_replica_are_those_of_redis(
    redis_primary: RedisServer, replica: HoldfastServer, tmp_path: Path
) -> None:
    with RedisServer(tmp_path / "other") as other:
        ours, theirs = follow(redis_primary, replica), follow(redis_primary, other)
        for argv in WRITES:
            assert ours.command(*argv) == theirs.command(*argv), argv
        for client in (ours, theirs):
            client.command("CONFIG", "SET", "replica-serve-stale-data", "no")
        assert ours.command("GET", "k") == theirs.command("GET", "k") == b"$-1\r\n"
        redis_primary.kill()
        for client in (ours, theirs):
            wait_until(lambda: not is_up(client), "the link is down")  # noqa: B023 - used at once
        for argv in [["GET", "k"], ["SET", "k", "v"], ["PING"], ["CONFIG", "GET", "x"]]:
            assert ours.command(*argv) == theirs.command(*argv), argv


def test_a_client_that_could_be_redirected_stays(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    """docs/compatibility.md says so; Valkey answers REDIRECT."""
    client = follow(redis_primary, replica)
    assert client.command("CLIENT", "CAPA", "redirect") == b"+OK\r\n"
    assert client.command("GET", "k") == b"$-1\r\n"
    assert client.command("SET", "k", "v").startswith(b"-READONLY ")


def test_keys_expire_when_the_primary_says_so(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    client = redis_primary.client()
    client.command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    copy = follow(redis_primary, replica)
    client.command("SET", "k", "1", "PX", "1")
    client.command("RPUSH", "l", "1")
    client.command("PEXPIRE", "l", "1")
    wait_for_replica(client)
    wait_until(lambda: copy.command("GET", "k") == b"$-1\r\n", "it has expired for clients")
    wait_until(lambda: copy.command("LLEN", "l") == b":0\r\n", "it has expired for clients")
    assert copy.command("DBSIZE") == b":2\r\n"
    assert copy.command("KEYS", "*") == b"*0\r\n"
    # Now they expire there: a millisecond later than on the replica, because a key of redis-server
    # lives until its time has passed, not until it has come.
    wait_until(lambda: client.command("EXISTS", "k", "l") == b":0\r\n", "the primary expires them")
    wait_for_replica(client)
    assert copy.command("DBSIZE") == b":0\r\n"


def test_a_promoted_replica_expires_keys_itself(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    client = redis_primary.client()
    client.command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    copy = follow(redis_primary, replica)
    client.command("SET", "k", "1", "PX", "1")
    wait_for_replica(client)
    assert copy.command("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
    wait_until(lambda: copy.command("DBSIZE") == b":0\r\n", "it has expired")
    assert copy.command("SET", "k", "2") == b"+OK\r\n"


def test_a_transaction_that_is_larger_than_what_is_read_ahead(
    any_primary: ServerProcess, replica: HoldfastServer
) -> None:
    client = any_primary.client(timeout_s=60)
    copy = follow(any_primary, replica)
    value = b"x" * (MOST_WAITING_BYTES // 2)
    client.command("MULTI")
    for number in range(4):
        client.command("SET", f"k{number}", value)
    client.command("EXEC")
    wait_for_replica(client)
    assert copy.command("DBSIZE") == b":4\r\n"


def test_a_killed_replica_goes_on_where_its_data_ends(
    redis_primary: RedisServer, replica: HoldfastServer, rng: random.Random
) -> None:
    """Relative commands show each one that is lost or done twice. All of it without a snapshot."""
    client = redis_primary.client(timeout_s=60)
    client.command("CONFIG", "SET", "repl-backlog-size", "64mb")
    copy = follow(redis_primary, replica)
    with load(redis_primary) as count:
        for _ in range(3):
            target = count() + rng.randrange(500, 3000)
            wait_until(lambda: count() > target, "commands were sent")  # noqa: B023 - used at once
            copy = killed_and_started(replica, redis_primary)
            wait_until(lambda: is_up(copy), "it follows")  # noqa: B023 - used at once
    client.command("SET", "end", 1)
    assert client.command("WAIT", 1, 50_000) == b":1\r\n"
    for argv in (["GET", "n"], ["LLEN", "l"], ["HGETALL", "h"]):
        assert copy.command(*argv) == client.command(*argv)
    copy.command("SELECT", "5")
    client.command("SELECT", "5")
    assert copy.command("GET", "n") == client.command("GET", "n")
    stats = client.command("INFO", "stats").decode()
    assert "sync_full:1\r\n" in stats
    assert "sync_partial_err:0\r\n" in stats


@contextmanager
def load(server: RedisServer) -> Iterator[Callable[[], int]]:
    """Writes as fast as it goes: alone, in transactions, in two databases."""
    sent, is_over = 0, False

    def run() -> None:
        nonlocal sent
        client = server.client()
        while not is_over:
            client.command("INCR", "n")
            client.command("MULTI")
            client.command("RPUSH", "l", sent)
            client.command("HINCRBY", "h", "f", 1)
            client.command("EXEC")
            client.command("SELECT", 5 if sent % 2 else 0)
            sent += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: sent
    finally:
        is_over = True
        thread.join()


def test_the_old_data_is_served_until_the_new_is_complete(
    redis_primary: RedisServer,
    start_server: Callable[..., HoldfastServer],
    rng: random.Random,
) -> None:
    """The link is cut inside of the snapshot, and the replica is killed there, too."""
    client = redis_primary.client()
    for number in range(20):
        client.command("SET", f"k{number}", rng.randbytes(100_000))
    replica = start_server()
    with closing(Proxy(redis_primary.port, cut_after=1_000_000)) as proxy:
        copy = replica.client()
        copy.command("SET", "old", "data")
        copy.command("REPLICAOF", "127.0.0.1", proxy.port)
        wait_until(lambda: proxy.cuts >= 2, "snapshots were cut off")
        assert copy.command("GET", "old") == b"$4\r\ndata\r\n"
        assert copy.command("DBSIZE") == b":1\r\n"
        replica.kill()
        replica.start()
        copy = replica.client()
        assert copy.command("GET", "old") == b"$4\r\ndata\r\n"
        proxy.cut_after = 1 << 40
        copy.command("REPLICAOF", "127.0.0.1", proxy.port)
        wait_until(lambda: is_up(copy), "it follows")
        assert copy.command("DBSIZE") == b":20\r\n"
        assert copy.command("EXISTS", "old") == b":0\r\n"
        assert [path.name for path in Path(replica.db).parent.glob(".*")] == []


class Proxy:
    """Passes bytes on, and cuts each connection when so many have come from the server."""

    def __init__(self, target: int, cut_after: int) -> None:
        self.cut_after = cut_after
        self.cuts = 0
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        address = ("127.0.0.1", self._target)
        with near, suppress(OSError), socket.create_connection(address) as far:
            back = threading.Thread(target=self._pass_back, args=(far, near), daemon=True)
            back.start()
            with suppress(OSError):
                while data := near.recv(1 << 16):
                    far.sendall(data)
            cut(far)
            back.join()

    def _pass_back(self, source: socket.socket, target: socket.socket) -> None:
        count = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
                count += len(data)
                if count > self.cut_after:
                    self.cuts += 1
                    break
        cut(target)


def cut(connection: socket.socket) -> None:
    """Wakes the thread that reads from it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def test_a_primary_that_is_stopped_is_noticed(
    redis_primary: RedisServer, start_server: Callable[..., HoldfastServer]
) -> None:
    """SIGSTOP: its connections stay open, and nothing comes. Reads go on meanwhile."""
    replica = start_server("--repl-timeout", "2")
    client = redis_primary.client()
    client.command("SET", "k", "v")
    copy = follow(redis_primary, replica)
    redis_primary.suspend()
    try:
        wait_until(lambda: not is_up(copy), "the link is down")
        assert copy.command("GET", "k") == b"$1\r\nv\r\n"
    finally:
        redis_primary.resume()
    wait_until(lambda: is_up(copy), "it follows again")


GARBAGE = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"+OK\r\n" * 9,
    b"-ERR go away\r\n",
    b"+FULLRESYNC %b 1\r\n$1000\r\nREDIS0011" % (b"a" * 40),
    b"\0" * 10_000,
]


@pytest.mark.parametrize("answer", GARBAGE)
def test_garbage_in_place_of_a_primary_changes_nothing(
    start_server: Callable[..., HoldfastServer], answer: bytes
) -> None:
    """The peer sends these bytes to all that connect, and closes."""
    replica = start_server()
    count = 0

    def serve() -> None:
        nonlocal count
        for _ in range(2):
            peer, _ = server.accept()
            with peer, suppress(OSError):
                if answer.startswith(b"+FULL"):
                    for _ in range(4):  # PING, listening-port, capa, version
                        peer.recv(1000)
                        peer.sendall(b"+OK\r\n")
                    peer.recv(1000)
                peer.sendall(answer)
                count += 1

    copy = replica.client()
    copy.command("SET", "k", "v")
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        copy.command("REPLICAOF", "127.0.0.1", server.getsockname()[1])
        thread.join()
    assert count == 2
    assert copy.command("GET", "k") == b"$1\r\nv\r\n"
    assert not is_up(copy)
    assert "Traceback" not in replica.stderr
    copy.command("REPLICAOF", "NO", "ONE")
    assert copy.command("SET", "k", "w") == b"+OK\r\n"


def test_a_password_and_a_user_of_the_primary(
    redis_primary: RedisServer, start_server: Callable[..., HoldfastServer]
) -> None:
    client = redis_primary.client()
    client.command("ACL", "SETUSER", "joe", "on", ">secret", "+psync", "+replconf", "+ping")
    client.command("CONFIG", "SET", "requirepass", "other")
    replica = start_server("--masteruser", "joe", "--masterauth", "wrong", "--requirepass", "own")
    copy = replica.client()
    copy.command("AUTH", "own")
    copy.command("REPLICAOF", "127.0.0.1", redis_primary.port)
    wait_until(lambda: "refuses AUTH: WRONGPASS" in replica.stderr, "it says so")
    copy.command("CONFIG", "SET", "masterauth", "secret")
    wait_until(lambda: is_up(copy), "it follows")
    client.command("SET", "k", "v")
    wait_for_replica(client)
    assert copy.command("GET", "k") == b"$1\r\nv\r\n"


def test_a_primary_that_swallows_everything_is_given_up(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    """It takes connections and bytes, and never answers."""
    client = replica.client()
    client.command("SET", "own", 1)
    client.command("CONFIG", "SET", "repl-timeout", 1)
    with socket.create_server(("127.0.0.1", 0)) as black_hole:
        port = black_hole.getsockname()[1]
        client.command("REPLICAOF", "127.0.0.1", port)
        wait_until(lambda: b"handshake" in client.command("ROLE"), "it says hello")
        wait_until(lambda: b"handshake" not in client.command("ROLE"), "it is given up")
        wait_until(lambda: b"handshake" in client.command("ROLE"), "it is tried again")
        assert client.command("GET", "own") == b"$1\r\n1\r\n"
        assert client.command("REPLICAOF", "127.0.0.1", redis_primary.port) == b"+OK\r\n"
        wait_until(lambda: is_up(client), "another primary is followed at once")


@pytest.mark.parametrize("skips", [False, True])
def test_a_snapshot_with_a_type_that_is_unknown(tmp_path: Path, skips: bool) -> None:
    """The process that loads snapshots stops, or leaves the key out: `replica-skip-unknown`."""
    path = tmp_path / ".app.db.following"
    argv = [sys.executable, "-P", "-m", MODULE, str(path), "16", str(int(skips))]
    head = b"0 %b 123\n" % (b"a" * 40)
    data = with_module(b"\x00" + string(b"b") + string(b"2"))
    done = subprocess.run(argv, input=head + data, capture_output=True)
    if skips:
        assert done.returncode == 0, done.stderr
        assert names(path) == [(0, b"a"), (0, b"b")]
    else:
        assert done.returncode == 1
        said = done.stderr.decode()
        assert "key 'vectors' of database 0 is of the type vectorset of a module" in said
        assert said.endswith("replica-skip-unknown yes follows without such keys\n")
        assert "Traceback" not in said


@pytest.mark.parametrize("skips", [False, True])
def test_a_snapshot_with_keys_of_a_database_that_is_not_here(tmp_path: Path, skips: bool) -> None:
    """Strings that stand together in the snapshot are looked at one by one then."""
    path = tmp_path / ".app.db.following"
    argv = [sys.executable, "-P", "-m", MODULE, str(path), "2", str(int(skips))]
    head = b"0 %b 123\n" % (b"a" * 40)
    strings = [b"\x00" + string(name) + string(b"v") for name in (b"a", b"b", b"c")]
    data = rdb(*strings[:2], b"\xfe\x09", *strings, b"\xfe\x01", strings[2])
    done = subprocess.run(argv, input=head + data, capture_output=True)
    if skips:
        assert done.returncode == 0, done.stderr
        assert names(path) == [(0, b"a"), (0, b"b"), (1, b"c")]
    else:
        assert done.returncode == 1
        said = done.stderr.decode()
        assert "key 'a' belongs to database 9, and the file has 2" in said
        assert said.count("replica-skip-unknown") == 1


def test_an_active_active_server_cannot_be_a_replica(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--active-active", "yes", "--node-id", "1")
    answer = server.client().command("REPLICAOF", "127.0.0.1", 1)
    assert answer == b"-ERR a server of an active-active database cannot be a replica\r\n"


def test_messages_and_functions_reach_the_clients_of_a_replica(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    client = redis_primary.client()
    code = "#!lua name=%s\nredis.register_function{function_name='%s',callback=function() return 7"
    code += " end,flags={'no-writes'}}"
    client.command("FUNCTION", "LOAD", code % ("one", "f"))
    copy = follow(redis_primary, replica)
    client.command("FUNCTION", "LOAD", code % ("two", "g"))
    wait_for_replica(client)
    assert copy.command("FCALL", "f", 0) == copy.command("FCALL", "g", 0) == b":7\r\n"
    listener = replica.client()
    listener.command("SUBSCRIBE", "news")
    client.command("PUBLISH", "news", "hello")
    assert listener.read_reply() == b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n"


@pytest.mark.timeout(180)
def test_a_value_of_300_mb(redis_primary: RedisServer, replica: HoldfastServer) -> None:
    """In the snapshot, and in the stream."""
    client = redis_primary.client(timeout_s=60)
    client.command("CONFIG", "SET", "proto-max-bulk-len", "512mb")
    client.command("SETRANGE", "big", 300_000_000, "x")
    copy = replica.client(timeout_s=60)
    copy.command("REPLICAOF", "127.0.0.1", redis_primary.port)
    wait_until(lambda: is_up(copy), "it follows", 60)
    client.command("SETRANGE", "big", 300_000_001, "y")
    client.command("SET", "after", "it")
    assert client.command("WAIT", 1, 50_000) == b":1\r\n"
    assert copy.command("STRLEN", "big") == b":300000002\r\n"


COPIES = "for n = 1, ARGV[1] do redis.call('SET', n, ARGV[2]) end"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_transaction_of_a_million_keys_is_seen_whole_or_not_at_all(
    any_primary: ServerProcess, replica: HoldfastServer
) -> None:
    see_whole(any_primary, replica, 1_000_000, 10)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("count", "snapshots"), [(3, 1), (4, 2)])
def test_a_transaction_of_large_values_is_seen_whole_or_not_at_all(
    redis_primary: RedisServer, replica: HoldfastServer, count: int, snapshots: int
) -> None:
    """What is more than a gigabyte comes as a snapshot."""
    see_whole(redis_primary, replica, count, 300_000_000)
    stats = redis_primary.client().command("INFO", "stats").decode()
    assert f"sync_full:{snapshots}\r\n" in stats


def see_whole(primary: ServerProcess, replica: HoldfastServer, count: int, nbytes: int) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0")
    client.command("CONFIG", "SET", "repl-timeout", 600)
    follow(primary, replica)
    copy = replica.client(timeout_s=300)

    def is_whole() -> bool:
        found = int(copy.command("DBSIZE")[1:])
        assert found in (0, count)
        return found == count

    with primary.client(timeout_s=300) as writer:
        writer.send_command("EVAL", COPIES, 0, count, "x" * nbytes)
        wait_until(is_whole, "the transaction is there", 300)
        assert writer.read_reply() == b"$-1\r\n"
    assert copy.command("STRLEN", count) == b":%d\r\n" % nbytes


def facts(client: RawClient) -> tuple[str, str]:
    found = info(client)
    return found["master_replid"], found["master_repl_offset"]


def test_a_primary_with_another_id_sends_a_snapshot(
    tmp_path: Path, replica: HoldfastServer
) -> None:
    """A Redis without files that comes back is empty, and so is its replica then."""
    with RedisServer(tmp_path / "one", "--repl-diskless-sync-delay", "0") as one:
        client = one.client()
        client.command("SET", "k", "v")
        copy = follow(one, replica)
        before = facts(copy)
        one.kill()
        one.start()
        copy.command("REPLICAOF", "127.0.0.1", one.port)
        wait_until(lambda: is_up(copy) and facts(copy)[0] != before[0], "it follows")
        assert copy.command("DBSIZE") == b":0\r\n"


def test_the_log_says_which_side_has_ended_the_link(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    client = follow(redis_primary, replica)
    assert client.command("CLIENT", "KILL", "TYPE", "master") == b":1\r\n"
    wait_until(lambda: "has closed the link" in replica.stderr, "it says so")
    wait_until(lambda: is_up(client), "the replica follows again")
    assert "the primary has closed" not in replica.stderr
    redis_primary.kill()
    wait_until(lambda: replica.stderr.count("is lost") > 1, "it says that, too")


def test_a_snapshot_that_waits_for_a_reader_of_the_file_is_logged(
    redis_primary: RedisServer, replica: HoldfastServer
) -> None:
    client = replica.client()
    client.command("SET", "before", "1")
    with closing(sqlite3.connect(replica.db)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM journal").fetchall()
        client.command("REPLICAOF", "127.0.0.1", redis_primary.port)
        wait_until(lambda: "waits for the file" in replica.stderr, "it says so")
        assert replica.stderr.count("waits for the file") == 1
    wait_until(lambda: is_up(client), "the replica follows")
