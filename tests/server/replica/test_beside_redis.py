"""What two servers say of their roles: the same lines as two of Redis, in the same order."""

import re
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.server.primary.following import follow, is_up, wait_for_replica
from tests.server.primary.test_primary import stat

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

OPTIONS = ("--repl-diskless-sync-delay", "0")
NOBODY = 1  # a port at which no server is
CALLS = (
    *("WAIT 0 0", "WAIT 1 20", "WAIT -1 0", "WAIT a 0", "WAIT 1 -1", "WAIT 1", "FAILOVER"),
    *("FAILOVER ABORT", "FAILOVER TO x", "FAILOVER TO h 1 FORCE", "FAILOVER TIMEOUT 0"),
    *("FAILOVER TIMEOUT -1", "FAILOVER FORCE TO h 1 TIMEOUT 1", "FAILOVER TO h 1 TIMEOUT 1"),
    *("REPLICAOF a", "REPLICAOF NO ONE", "REPLICAOF h 99999", "REPLICAOF h x", "SLAVEOF no one"),
    *("PSYNC a b", "REPLCONF a", "REPLCONF a b", "REPLCONF", "ROLE x", "SHUTDOWN ABORT"),
    *("SHUTDOWN SAVE NOSAVE", "SHUTDOWN X", "SHUTDOWN ABORT NOW", "CLIENT KILL TYPE x"),
    *("CLIENT KILL TYPE replica", "CLIENT KILL TYPE master"),
)
OF_A_REPLICA = (
    *("SET x 1", "WAIT 1 1", "FAILOVER", "FAILOVER ABORT", "MULTI", "SET a 1", "EXEC"),
    *("FLUSHALL", "CONFIG SET replicaof h", "REPLICAOF NO TWO"),
)
WITHOUT_GOOD_REPLICAS = ("SET x 1", "GET k", "MULTI", "SET a 1", "EXEC", "ROLE x")
WITHOUT_PRIMARY = ("GET k", "PING", "SET a 1", "WAIT 1 1", "MULTI", "GET k", "EXEC")


def roles(client: RawClient) -> list[str]:
    """The lines of INFO and the reply of ROLE, without numbers and ids."""
    text = client.command("INFO", "replication") + client.command("ROLE")
    text = re.sub(rb"[0-9a-f]{40}", lambda found: b"0" if found[0] == b"0" * 40 else b"id", text)
    return re.sub(r"[0-9]+|(?<=lag=)-1", "N", text.decode()).split("\r\n")


def replies(client: RawClient, calls: tuple[str, ...]) -> list[bytes]:
    return [client.command(*call.split()) for call in calls]


def said_by(kind: type[ServerProcess], folder: Path) -> list[object]:
    said: list[object] = []
    with kind(folder / "one", *OPTIONS) as one, kind(folder / "two", *OPTIONS) as two:
        client, copy = one.client(), two.client()
        said += [roles(client), replies(client, CALLS)]
        copy.command("REPLICAOF", "127.0.0.1", NOBODY)
        wait_until(lambda: b"$7\r\nconnect\r\n" in copy.command("ROLE"), "it waits")
        down = copy.command("INFO", "replication")
        said += [b"master_link_down_since_seconds:-1\r\n" in down, roles(copy)]
        follow(one, two)
        client.command("SET", "k", 1)
        wait_for_replica(client)
        said += [roles(client), roles(copy), replies(copy, OF_A_REPLICA)]
        for server, direction in ((client, "output"), (copy, "input")):
            assert stat(server, f"total_net_repl_{direction}_bytes") > 100
        client.command("CONFIG", "SET", "min-replicas-to-write", 2)
        said += [replies(client, WITHOUT_GOOD_REPLICAS), roles(client)]
        copy.command("CONFIG", "SET", "replica-serve-stale-data", "no")
        one.kill()
        wait_until(lambda: not is_up(copy), "it notices")
        wait_until(lambda: b"$7\r\nconnect\r\n" in copy.command("ROLE"), "it waits")
        said += [roles(copy), replies(copy, WITHOUT_PRIMARY)]
        copy.command("REPLICAOF", "NO", "ONE")
        said.append(roles(copy))
    return said


def test_they_say_the_same(tmp_path: Path) -> None:
    theirs = said_by(RedisServer, tmp_path / "theirs")
    ours = said_by(HoldfastServer, tmp_path / "ours")
    for their, our in zip(theirs, ours, strict=True):
        assert our == their
