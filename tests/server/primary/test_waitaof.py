"""WAITAOF: the replicas that have all writes on their disks."""

from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer
from tests.server.primary.following import follow, wait_for_replica

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]


def answer(local: int, replicas: int) -> bytes:
    return b"*2\r\n:%d\r\n:%d\r\n" % (local, replicas)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(HoldfastServer, ()), (ValkeyServer, ("--appendonly", "yes"))],
    ids=["holdfast", "valkey"],
)
def test_a_replica_that_syncs_is_counted(
    primary: HoldfastServer, tmp_path: Path, kind: type[ServerProcess], options: tuple[str, ...]
) -> None:
    client = primary.client()
    with kind(tmp_path / "replica", *options) as replica:
        follow(primary, replica)
        for number in range(3):
            client.command("SET", "a", number)
            assert client.command("WAITAOF", 1, 1, 20_000) == answer(1, 1)
        replica.suspend()
        try:
            client.command("SET", "a", "of a replica that sleeps")
            assert client.command("WAITAOF", 1, 1, 50) == answer(1, 0)
        finally:
            replica.resume()
        assert client.command("WAITAOF", 0, 1, 20_000) == answer(1, 1)
        client.command("MULTI")
        client.command("WAITAOF", 1, 2, 0)
        assert client.command("EXEC") == b"*1\r\n" + answer(1, 1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(RedisServer, ()), (ValkeyServer, ()), (HoldfastServer, ("--appendfsync", "no"))],
    ids=["redis", "valkey", "holdfast"],
)
def test_a_replica_that_does_not_sync_is_not_counted(
    primary: HoldfastServer, tmp_path: Path, kind: type[ServerProcess], options: tuple[str, ...]
) -> None:
    client = primary.client()
    with kind(tmp_path / "replica", *options) as replica:
        follow(primary, replica)
        client.command("SET", "a", 1)
        wait_for_replica(client)
        assert client.command("WAITAOF", 1, 1, 50) == answer(1, 0)
        assert client.command("WAITAOF", 1, 0, 0) == answer(1, 0)


def test_a_replica_cannot_be_asked(primary: HoldfastServer, tmp_path: Path) -> None:
    with HoldfastServer(tmp_path / "replica") as replica:
        copy = follow(primary, replica)
        assert copy.command("WAITAOF", 0, 1, 0).startswith(
            b"-ERR WAITAOF cannot be used with replica instances."
        )


def test_a_valkey_counts_a_holdfast(tmp_path: Path) -> None:
    with (
        ValkeyServer(tmp_path / "primary", "--appendonly", "yes") as primary,
        HoldfastServer(tmp_path / "replica") as replica,
    ):
        client = primary.client()
        follow(primary, replica)
        client.command("SET", "a", 1)
        assert client.command("WAITAOF", 1, 1, 20_000) == answer(1, 1)


def test_a_client_that_waits_is_told_when_its_server_becomes_a_replica(
    primary: HoldfastServer, tmp_path: Path
) -> None:
    client, other = primary.client(), primary.client()
    client.send_command("WAITAOF", 0, 1, 0)
    wait_until(lambda: b"blocked_clients:1\r" in other.command("INFO", "clients"), "it waits")
    other.command("REPLICAOF", "127.0.0.1", 1)
    assert client.read_reply().startswith(b"-UNBLOCKED ")
