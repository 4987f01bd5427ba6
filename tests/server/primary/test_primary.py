"""A server that is followed: snapshots, continuing, acknowledgements, and replicas that fail."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.psync.command_reader import CommandReader
from holdfast.store.rdb.records import Entry, Library
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess, SteadyServer
from tests.server.primary.following import follow, info, is_up, wait_for_replica
from tests.store.rdb.rdb_bytes import records_of

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

LARGE = 3_000_000


def test_a_snapshot_and_the_commands_after_it(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("SET", "before", "1")
    client.command("SET", "large", "x" * LARGE)
    copy = follow(primary, replica)
    client.command("SET", "after", "2", "EX", 100)
    wait_for_replica(client)
    assert copy.command("MGET", "before", "after") == b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    assert copy.command("STRLEN", "large") == b":%d\r\n" % LARGE
    assert info(client)["connected_slaves"] == "1"
    assert info(client)["slave0"].startswith(f"ip=127.0.0.1,port={replica.port},state=online,")
    assert b"127.0.0.1" in client.command("ROLE")
    assert b" flags=S " in client.command("CLIENT", "LIST", "TYPE", "replica")
    assert stat(client, "connected_clients", "clients") == 1


def test_a_replica_that_was_cut_off_continues(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    copy = follow(primary, replica)
    client.command("CLIENT", "KILL", "TYPE", "replica")
    client.command("INCR", "n")
    wait_until(lambda: is_up(copy) and copy.command("GET", "n") == b"$1\r\n1\r\n", "it is back")
    assert (stat(client, "sync_full"), stat(client, "sync_partial_ok")) == (1, 1)


def test_a_replica_that_lacks_more_than_the_backlog_takes_a_snapshot(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "repl-backlog-size", 16_384)
    copy = follow(primary, replica)
    replica.suspend()
    try:
        client.command("CLIENT", "KILL", "TYPE", "replica")
        for number in range(10):
            client.command("SET", f"k{number}", "x" * 65_536)
    finally:
        replica.resume()
    wait_until(lambda: copy.command("DBSIZE") == b":10\r\n", "it has all")
    assert stat(client, "sync_full") == 2


def test_the_backlog_goes_when_no_replica_was_there_for_a_while(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "repl-backlog-ttl", 1)
    copy = follow(primary, replica)
    client.command("SET", "k", "x" * 1000)
    wait_for_replica(client)
    before = info(client)
    copy.command("REPLICAOF", "NO", "ONE")
    wait_until(lambda: info(client)["repl_backlog_active"] == "0", "the backlog goes")
    client.command("SET", "between", 1)
    after = info(client)
    assert int(after["master_repl_offset"]) >= int(before["master_repl_offset"]) > 1000
    assert after["master_replid"] != before["master_replid"]
    copy = follow(primary, replica)
    client.command("SET", "after", 1)
    wait_for_replica(client)
    assert copy.command("DBSIZE") == b":3\r\n"
    assert int(info(copy)["master_repl_offset"]) > int(after["master_repl_offset"])
    assert (stat(client, "sync_full"), stat(client, "sync_partial_ok")) == (2, 0)


def test_a_snapshot_has_what_was_written_before_the_first_replica_came(
    primary: HoldfastServer,
) -> None:
    """Another program writes to the file for a moment, so a write is not committed yet when the
    replica asks. It is no part of the stream: there was no stream when it came."""
    client, replica = primary.client(), primary.client(timeout_s=30)
    with closing(apsw.Connection(primary.db)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        client.send_command("SET", "open", "the value")
        replica.send_command("PSYNC", "?", -1)
        # A snapshot without that write is no use. (An empty line comes each second.)
        stream = b""
        while b"FULLRESYNC" not in stream and "snapshot was too early" not in primary.stderr:
            stream += replica.read_raw(1)
        foreign.execute("COMMIT")
    if client.read_reply() == b"+OK\r\n":  # else it took too long
        while b"the value" not in stream:
            stream += replica.read_raw(1)


def test_a_snapshot_need_not_have_a_write_that_failed(primary: HoldfastServer) -> None:
    """Another program writes to the file for so long that the first write fails. No other write
    comes, and the replica gets its snapshot all the same."""
    client, replica = primary.client(), primary.client(timeout_s=30)
    with closing(apsw.Connection(primary.db)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        client.send_command("SET", "open", "the value")
        replica.send_command("PSYNC", "?", -1)
        assert client.read_reply().startswith(b"-MISCONF")
        foreign.execute("COMMIT")
    stream = b""
    while b"FULLRESYNC" not in stream:
        stream += replica.read_raw(1)


def stat(client: RawClient, name: str, section: str = "stats") -> int:
    text = client.command("INFO", section).decode()
    return int(text.partition(f"\r\n{name}:")[2].partition("\r\n")[0])


def test_wait_ends_with_the_time_when_a_replica_is_silent(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    assert client.command("WAIT", 0, 0) == b":0\r\n"
    assert client.command("WAIT", 1, 10) == b":0\r\n"
    follow(primary, replica)
    wait_for_replica(client)
    replica.suspend()
    try:
        client.command("SET", "a", 1)
        assert client.command("WAIT", 1, 50) == b":0\r\n"
    finally:
        replica.resume()
    wait_for_replica(client)
    assert client.command("WAIT", 2, 50) == b":1\r\n"
    client.command("MULTI")
    client.command("WAIT", 2, 0)
    assert client.command("EXEC") == b"*1\r\n:1\r\n"


def test_writes_are_refused_while_replicas_are_too_few(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "min-replicas-to-write", 1)
    refusal = b"-NOREPLICAS Not enough good replicas to write.\r\n"
    assert client.command("SET", "a", 1) == refusal
    assert client.command("GET", "a") == b"$-1\r\n"
    copy = follow(primary, replica)
    wait_until(lambda: client.command("SET", "a", 1) == b"+OK\r\n", "writes are taken")
    copy.command("REPLICAOF", "NO", "ONE")
    wait_until(lambda: client.command("SET", "a", 1) == refusal, "writes are refused")


@pytest.mark.parametrize("limit", ["4mb 0 0", "0 1mb 1"], ids=["hard", "soft"])
@pytest.mark.parametrize("kind", [RedisServer, HoldfastServer])
def test_a_replica_that_takes_in_nothing_is_cut_off(
    primary: HoldfastServer, tmp_path: Path, kind: type[ServerProcess], limit: str
) -> None:
    """The primary goes on, and keeps no more for the replica. When that is awake again it needs a
    snapshot, because the backlog is small."""
    client = primary.client()
    client.command("CONFIG", "SET", "client-output-buffer-limit", f"replica {limit}")
    with kind(tmp_path / "sleeper") as replica:
        copy = follow(primary, replica)
        replica.suspend()
        try:
            for _ in range(20):
                client.command("SET", "large", "x" * 1_000_000)
            wait_until(lambda: info(client)["connected_slaves"] == "0", "it is cut off")
            assert stat(client, "mem_clients_slaves", "memory") == 0
            client.command("SET", "large", "y" * 1_000_000)
        finally:
            replica.resume()
        wait_until(lambda: stat(client, "sync_full") == 2, "it asks for a snapshot")
        wait_until(lambda: is_up(copy), "it follows again")
        wait_for_replica(client)
        assert copy.command("GETRANGE", "large", 0, 3) == b"$4\r\nyyyy\r\n"


def test_a_replica_may_have_as_much_to_take_in_as_the_backlog_has(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "repl-backlog-size", 100 << 20)
    client.command("CONFIG", "SET", "client-output-buffer-limit", "replica 512kb 0 0")
    copy = follow(primary, replica)
    replica.suspend()
    try:
        for _ in range(10):
            client.command("SET", "k", "x" * LARGE)
    finally:
        replica.resume()
    wait_for_replica(client)
    assert is_up(copy)
    assert (stat(client, "sync_full"), stat(client, "sync_partial_ok")) == (1, 0)


def test_the_first_ping_comes_after_a_period(primary: HoldfastServer, replica: RedisServer) -> None:
    """Without pings, a program that reads the stream sees the commands of clients only."""
    client = primary.client()
    client.command("CONFIG", "SET", "repl-ping-replica-period", 3600)
    offset = info(client)["master_repl_offset"]
    follow(primary, replica)
    wait_until(
        lambda: (
            int(client.command("INFO", "commandstats").partition(b"_replconf:calls=")[2][:1]) > 5
        ),
        "the replica has answered for some seconds",
    )
    assert info(client)["master_repl_offset"] == offset


def test_redis_cli_writes_a_file(primary: HoldfastServer, tmp_path: Path) -> None:
    client = primary.client()
    client.command("SET", "a", "1")
    client.command("RPUSH", "l", *range(1000))
    dump = tmp_path / "dump.rdb"
    argv = ["redis-cli", "-p", str(primary.port), "--rdb", str(dump)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    checked = subprocess.run(["redis-check-rdb", dump], check=False, capture_output=True)
    assert checked.returncode == 0, checked.stdout


def test_redis_cli_writes_a_file_of_functions(primary: HoldfastServer, tmp_path: Path) -> None:
    code = b"#!lua name=lib\nredis.register_function('f', function() return 1 end)"
    client = primary.client()
    client.command("SET", "a", "1")
    client.command("FUNCTION", "LOAD", code)
    dump = tmp_path / "functions.rdb"
    argv = ["redis-cli", "-p", str(primary.port), "--functions-rdb", str(dump)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    records = records_of(dump.read_bytes())
    assert [record for record in records if isinstance(record, Entry | Library)] == [Library(code)]
    refused = client.command("REPLCONF", "rdb-filter-only", "functions keys")
    assert refused == b"-ERR Unsupported rdb-filter-only option: keys\r\n"


def test_redis_cli_shows_the_commands(primary: HoldfastServer, tmp_path: Path) -> None:
    client = primary.client()
    client.command("SET", "before", "1")
    argv = ["redis-cli", "-p", str(primary.port), "--replica"]
    with (tmp_path / "shown").open("w") as file:
        process = subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: "state=online" in info(client).get("slave0", ""), "it follows")
            client.command("SET", "a", "1")
            client.command("RPUSH", "l", "x")
            shown = '"SET","a","1"\n"RPUSH","l","x"\n'
            wait_until(lambda: shown in (tmp_path / "shown").read_text(), "the commands are shown")
        finally:
            process.kill()
            process.wait()


def test_a_snapshot_process_that_is_killed_leaves_nothing(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("SET", "large", "x" * LARGE)
    copy = replica.client()
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    children = Path(f"/proc/{primary.pid}/task/{primary.pid}/children")
    wait_until(lambda: children.read_text() != "", "the process is there")
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: is_up(copy), "the replica asked again")
    assert copy.command("STRLEN", "large") == b":%d\r\n" % LARGE
    left = [path.name for path in Path(primary.db).parent.iterdir()]
    assert [name for name in left if name.endswith(".rdb")] == []


def test_a_database_in_memory_has_no_snapshot(
    start_server: Callable[..., HoldfastServer],
) -> None:
    client = start_server(db=":memory:").client()
    assert client.command("PSYNC", "?", -1).startswith(b"-ERR a database that is only in memory")


def test_a_stop_does_not_wait_for_a_snapshot(primary: HoldfastServer, replica: RedisServer) -> None:
    copy = replica.client()
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    children = Path(f"/proc/{primary.pid}/task/{primary.pid}/children")
    wait_until(lambda: children.read_text() != "", "the process is there")
    child = int(children.read_text().split()[0])
    assert primary.terminate() == 0
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "the process is gone")


def test_a_snapshot_process_ends_with_its_server(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("SET", "one", "1")
    client.command("CONFIG", "SET", "rdb-key-save-delay", 600_000_000)
    replica.client().command("REPLICAOF", "127.0.0.1", primary.port)
    children = Path(f"/proc/{primary.pid}/task/{primary.pid}/children")
    wait_until(lambda: children.read_text() != "", "the process is there")
    child = int(children.read_text().split()[0])
    primary.kill()
    wait_until(lambda: not is_alive(child), "the process is gone")


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody waits for counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["SHUTDOWN", "SIGTERM", "both"])
@pytest.mark.parametrize("kind", [HoldfastServer, RedisServer])
def test_a_server_that_stops_waits_until_its_replica_has_all(
    primary: HoldfastServer, kind: type[ServerProcess], how: str, tmp_path: Path
) -> None:
    """The replica stands still, and much of the stream is still here when the server stops."""
    with kind(tmp_path / "replica") as replica:
        client, copy = primary.client(), follow(primary, replica)
        replica.suspend()
        try:
            for _ in range(300):
                client.send_command("SET", "large", "x" * 65_536)
                client.send_command("INCR", "n")
            client.read_replies(600)
            assert stat(client, "mem_total_replication_buffers", "memory") > 1 << 20
            asking, reader, writer = (primary.client() for _ in range(3))
            if how != "SIGTERM":
                asking.send_command("SHUTDOWN")
            if how != "SHUTDOWN":
                primary.process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_shutting_down(reader), "it waits")
            writer.send_command("INCR", "n")
            assert reader.command("GET", "n") == b"$3\r\n300\r\n"
            wait_until(
                lambda: stat(reader, "blocked_clients", "clients") == 1 + (how != "SIGTERM"),
                "the write waits",
            )
        finally:
            replica.resume()
        for each in (asking, reader, writer):
            assert each.read_until_closed() == b""
        assert primary.process.wait(30) == 0
        wait_until(lambda: not is_up(copy), "it notices")
        assert copy.command("GET", "n") == b"$3\r\n300\r\n"
        assert "1 of 1 replicas have all writes" in primary.stderr


def is_shutting_down(client: RawClient) -> bool:
    return b"\r\nshutdown_in_milliseconds:" in client.command("INFO", "server")


SLOW = """
local from = redis.call('TIME')
repeat
  local now = redis.call('TIME')
until (now[1] - from[1]) * 1e6 + now[2] - from[2] > 20000
return redis.status_reply('done')
"""


def test_a_server_that_waits_for_its_replica_may_stay(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client, others = primary.client(), [primary.client() for _ in range(2)]
    copy = follow(primary, replica)
    refused = b"-ERR No shutdown in progress.\r\n"
    assert client.command("SHUTDOWN", "ABORT") == refused
    replica.suspend()
    try:
        client.command("INCR", "n")
        for other in others:
            other.send_command("SHUTDOWN")
        wait_until(lambda: stat(client, "blocked_clients", "clients") == 2, "both wait")
        writer = primary.client()
        writer.send_command("INCR", "n")
        assert client.command("SHUTDOWN", "ABORT") == b"+OK\r\n"
        for other in others:
            assert other.read_reply() == b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"
        assert writer.read_reply() == b":2\r\n"
        assert not is_shutting_down(client)
        # A signal that is aborted does not make the next one end the process without care.
        primary.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_shutting_down(client), "it waits")
        assert client.command("CLIENT", "UNPAUSE") == b"+OK\r\n"
        writer.send_command("INCR", "n")
        wait_until(lambda: stat(client, "blocked_clients", "clients") == 1, "the write waits")
        assert client.command("SHUTDOWN", "ABORT") == b"+OK\r\n"
        assert writer.read_reply() == b":3\r\n"
        client.command("CONFIG", "SET", "busy-reply-threshold", 1)
        assert client.command("EVAL", SLOW, 0) == b"+done\r\n"
    finally:
        replica.resume()
    wait_for_replica(client)
    assert client.command("SHUTDOWN", "ABORT") == refused
    client.command("INCR", "n")
    assert primary.terminate() == 0
    assert copy.command("GET", "n") == b"$1\r\n4\r\n"


def test_a_server_waits_for_its_replica_up_to_a_limit(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "shutdown-timeout", 1)
    follow(primary, replica)
    replica.suspend()
    try:
        client.command("INCR", "n")
        client.send_command("SHUTDOWN")
        assert client.read_until_closed() == b""
        assert primary.process.wait(30) == 0
    finally:
        replica.resume()
    assert "0 of 1 replicas have all writes" in primary.stderr


def test_a_server_that_stops_now_does_not_wait(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    client.command("CONFIG", "SET", "shutdown-timeout", 600)
    follow(primary, replica)
    replica.suspend()
    try:
        client.command("INCR", "n")
        client.send_command("SHUTDOWN", "NOW")
        assert primary.process.wait(30) == 0
    finally:
        replica.resume()
    assert "0 of 1 replicas have all writes" in primary.stderr


@pytest.mark.parametrize("kind", [HoldfastServer, RedisServer])
def test_a_replica_goes_on_after_a_restart_of_its_primary(
    tmp_path: Path, kind: type[ServerProcess]
) -> None:
    with SteadyServer(tmp_path / "primary") as primary, kind(tmp_path / "replica") as replica:
        client, copy = primary.client(), follow(primary, replica)
        for round_ in range(1, 4):
            client.command("SELECT", 7)
            client.command("INCR", "n")
            client.command("SELECT", 0)
            client.command("INCR", "n")
            primary.terminate()
            wait_until(lambda: not is_up(copy), "it notices")
            primary.start()
            client = primary.client()
            wait_until(lambda: is_up(copy), "it is back")
            assert (stat(client, "sync_full"), stat(client, "sync_partial_ok")) == (0, 1)
            assert copy.command("GET", "n") == b"$1\r\n%d\r\n" % round_
        assert client.command("INCR", "n") == b":4\r\n"
        wait_for_replica(client)
        assert copy.command("GET", "n") == b"$1\r\n4\r\n"


async def increment(path: str) -> None:
    async with holdfast.open(path) as database:
        await database.execute("INCR", "n")


@pytest.mark.parametrize("what", ["killed", "changed meanwhile"])
def test_a_replica_takes_a_snapshot_after_another_end_of_its_primary(
    tmp_path: Path, what: str
) -> None:
    with SteadyServer(tmp_path / "primary") as primary, RedisServer(tmp_path / "copy") as replica:
        client, copy = primary.client(), follow(primary, replica)
        client.command("INCR", "n")
        wait_for_replica(client)
        if what == "killed":
            primary.kill()
        else:
            primary.terminate()
            asyncio.run(increment(primary.db))
        wait_until(lambda: not is_up(copy), "it notices")
        primary.start()
        client = primary.client()
        wait_until(lambda: is_up(copy), "it is back")
        assert (stat(client, "sync_full"), stat(client, "sync_partial_ok")) == (1, 0)
        assert copy.command("GET", "n") == client.command("GET", "n")


@pytest.mark.parametrize(
    "argv",
    [
        ("PSYNC", "?", "x"),
        ("REPLCONF", "listening-port"),
        ("REPLCONF", "nonsense", "1"),
        ("REPLCONF", "listening-port", "x"),
    ],
)
def test_nonsense_is_refused(primary: HoldfastServer, argv: tuple[str, ...]) -> None:
    assert primary.client().command(*argv).startswith(b"-ERR ")


def test_a_replica_that_sends_commands_gets_no_replies(primary: HoldfastServer) -> None:
    """A reply inside of the stream would shift all that follows it. Nor may it write."""
    client, replica = primary.client(), primary.client()
    replica.send_command("PSYNC", "?", -1)
    wait_until(lambda: "state=online" in info(client).get("slave0", ""), "it follows")
    for argv in (
        ("PING",),
        ("GET", "a"),
        ("SET", "a", 1),
        ("SLOWLOG", "GET"),
        ("CLIENT", "REPLY", "ON"),
    ):
        replica.send_command(*argv)
    replica.send_command("REPLCONF", "ACK", 7)
    wait_until(lambda: "offset=7" in info(client)["slave0"], "all have run")
    client.command("SET", "last", 1)
    stream = b""
    while b"$4\r\nlast\r\n$1\r\n1\r\n" not in stream:
        stream += replica.read_raw(1)
    head, _, rest = stream.partition(b"+FULLRESYNC ")
    assert head.strip(b"\n") == b""
    length = int(rest.partition(b"\r\n$")[2].partition(b"\r\n")[0])
    commands = rest.partition(b"\r\n$")[2].partition(b"\r\n")[2][length:]
    names = {each.argv[0] for each in CommandReader(0).feed(commands)}
    assert names <= {b"SELECT", b"SET", b"PING"}
    assert client.command("EXISTS", "a") == b":0\r\n"


def test_a_snapshot_that_no_replica_waits_for_is_dropped(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client, copy = primary.client(), replica.client()
    client.command("DEBUG", "POPULATE", 100)
    client.command("CONFIG", "SET", "rdb-key-save-delay", 10_000_000)
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    wait_until(lambda: info(copy)["master_sync_in_progress"] == "1", "it is promised a snapshot")
    copy.command("REPLICAOF", "NO", "ONE")
    wait_until(lambda: stat(client, "rdb_bgsave_in_progress", "persistence") == 0, "it is dropped")
    client.command("CONFIG", "SET", "rdb-key-save-delay", 0)
    follow(primary, replica)
    assert copy.command("DBSIZE") == b":100\r\n"
    assert "no snapshot for replicas" not in primary.stderr


def test_a_snapshot_is_dropped_before_its_process_runs(primary: HoldfastServer) -> None:
    client = primary.client()
    client.command("DEBUG", "POPULATE", 100)
    client.command("CONFIG", "SET", "rdb-key-save-delay", 10_000_000)
    with primary.client() as replica:
        replica.send_command("PSYNC", "?", -1)
    wait_until(lambda: "it is dropped" in primary.stderr, "the replica has left")
    wait_until(lambda: stat(client, "rdb_bgsave_in_progress", "persistence") == 0, "it is dropped")


def test_a_replica_that_comes_while_a_snapshot_is_dropped_gets_another_one(
    primary: HoldfastServer,
) -> None:
    client, replica = primary.client(), primary.client(timeout_s=30)
    client.command("DEBUG", "POPULATE", 100)
    client.command("CONFIG", "SET", "rdb-key-save-delay", 10_000_000)
    stream = b""
    with primary.client() as first:
        first.send_command("PSYNC", "?", -1)
        while b"FULLRESYNC" not in stream:
            stream += first.read_raw(1)
        client.command("CONFIG", "SET", "rdb-key-save-delay", 0)  # of the next one
    replica.send_command("PSYNC", "?", -1)
    stream = b""
    while b"key:99" not in stream:
        stream += replica.read_raw(1)
    assert "no snapshot for replicas" not in primary.stderr


def test_replicas_that_come_while_a_snapshot_is_written_share_it(
    primary: HoldfastServer, replica: RedisServer, tmp_path: Path
) -> None:
    client = primary.client()
    client.command("DEBUG", "POPULATE", 100)
    client.command("CONFIG", "SET", "rdb-key-save-delay", 20_000)
    with RedisServer(tmp_path / "second") as second:
        copies = [replica.client(), second.client()]
        copies[0].command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(lambda: info(client)["connected_slaves"] == "1", "it waits")
        client.command("SELECT", 3)
        client.command("SET", "between", 1)
        copies[1].command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(lambda: info(client)["connected_slaves"] == "2", "both wait")
        assert b"rdb_bgsave_in_progress:1" in client.command("INFO", "persistence")
        client.command("CONFIG", "SET", "rdb-key-save-delay", 10_000_000)  # of a second snapshot
        client.command("SET", "last", 1)
        for copy in copies:
            wait_until(lambda copy=copy: is_up(copy), "it follows")  # type: ignore[misc]
        assert client.command("WAIT", 2, 20_000) == b":2\r\n"
        for copy in copies:
            assert copy.command("DBSIZE") == b":100\r\n"
            copy.command("SELECT", 3)
            assert copy.command("MGET", "between", "last") == b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
