"""The times of fields of hashes reach the replicas that know such times."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer
from tests.server.primary.following import follow, is_up, wait_for_replica
from tests.server.primary.test_primary import stat

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

LATER_MS = 4_000_000_000_000
TIMES = b"*2\r\n:%d\r\n:-1\r\n" % LATER_MS


def write(client: RawClient, name: str) -> None:
    client.command("HSET", name, "f", 1, "g", 2)
    client.command("HPEXPIREAT", name, LATER_MS, "FIELDS", 1, "f")


@pytest.mark.parametrize("kind", [HoldfastServer, ValkeyServer])
def test_a_replica_that_becomes_the_primary_has_the_times_of_fields(
    primary: HoldfastServer, tmp_path: Path, kind: type[ServerProcess]
) -> None:
    """Those of the snapshot, and those of the stream."""
    client = primary.client()
    write(client, "early")
    with kind(tmp_path / "heir") as heir:
        copy = follow(primary, heir)
        write(client, "late")
        wait_for_replica(client)
        copy.command("REPLICAOF", "NO", "ONE")
        for name in ("early", "late"):
            assert copy.command("HPEXPIRETIME", name, "FIELDS", 2, "f", "g") == TIMES
        # It lets them expire by itself now.
        copy.command("HPEXPIREAT", "early", 1, "FIELDS", 1, "g")
        assert copy.command("HGETALL", "early") == b"*2\r\n$1\r\nf\r\n$1\r\n1\r\n"


def test_replicas_of_two_kinds_ask_at_the_same_time(
    primary: HoldfastServer, tmp_path: Path
) -> None:
    """Each kind gets a snapshot of its own. A redis-server of version 7.0 reads none with times."""
    client = primary.client()
    write(client, "h")
    client.command("CONFIG", "SET", "rdb-key-save-delay", 100_000)
    with ExitStack() as stack:
        kinds = (RedisServer, HoldfastServer, RedisServer, HoldfastServer)
        servers = [
            stack.enter_context(kind(tmp_path / str(number))) for number, kind in enumerate(kinds)
        ]
        copies = [server.client() for server in servers]
        for copy in copies:
            copy.command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(lambda: all(map(is_up, copies)), "all follow", 40)
        client.command("SET", "end", 1)
        assert client.command("WAIT", 4, 20_000) == b":4\r\n"
        for copy in copies:
            assert copy.command("HGET", "h", "f") == b"$1\r\n1\r\n"
            assert copy.command("GET", "end") == b"$1\r\n1\r\n"
        for copy in copies[1::2]:
            assert copy.command("HPEXPIRETIME", "h", "FIELDS", 2, "f", "g") == TIMES
    assert stat(client, "sync_full") == 4


@pytest.mark.parametrize("kind", [RedisServer, HoldfastServer])
def test_writes_with_times_of_fields_reach_replicas_that_do_not_know_them(
    primary: HoldfastServer, tmp_path: Path, kind: type[ServerProcess]
) -> None:
    client = primary.client()
    client.command("HSET", "h", "f", 1)
    with kind(tmp_path / "copy") as server:
        copy = follow(primary, server)
        client.command("MULTI")
        client.command("INCR", "a")
        client.command("HPEXPIREAT", "h", LATER_MS, "FIELDS", 1, "f")
        client.command("INCR", "a")
        client.command("INCR", "a")
        assert client.command("EXEC").startswith(b"*4")
        script = "redis.call('HPERSIST', 'h', 'FIELDS', 1, 'f'); redis.call('INCR', 'a')"
        client.command("EVAL", script, 0)
        client.command("HPEXPIREAT", "h", LATER_MS, "FIELDS", 1, "f")
        dump = client.command("DUMP", "h").split(b"\r\n", 1)[1][:-2]
        assert client.command("RESTORE", "restored", 0, dump) == b"+OK\r\n"
        wait_for_replica(client)
        assert copy.command("HGET", "restored", "f") == b"$1\r\n1\r\n"
        assert copy.command("GET", "a") == b"$1\r\n4\r\n"
        assert copy.command("HGET", "h", "f") == b"$1\r\n1\r\n"
