"""The disk of a replica is full, for a while: it follows again as soon as there is room."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.resp import encode2
from holdfast.store.check import check_file
from tests.faults.test_full_disk import allow
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.server.primary.following import follow, is_up, wait_for_replica

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

Start = Callable[..., HoldfastServer]

PRIMARY = ("--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica 0 0 0")
SMALL, SMALL_WRITES = encode2([b"RPUSH", b"list", b"0123456789"]), 400_000


def fill_up(replica: HoldfastServer, room: int = 200_000) -> None:
    """Leave that many bytes to each of its files."""
    wal = Path(f"{replica.db}-wal")
    allow(replica, max(wal.stat().st_size, Path(replica.db).stat().st_size) + room)


def push_many(client: RawClient, count: int) -> None:
    for _ in range(count // 10_000):
        client.send(SMALL * 10_000)
        client.read_replies(10_000)


def all_there(client: RawClient, copy: RawClient, replica: HoldfastServer) -> None:
    wait_until(lambda: is_up(copy), "it follows again", 60)
    client.command("SET", "end", 1)
    wait_for_replica(client)
    for argv in (("LLEN", "list"), ("DBSIZE",), ("GET", "end")):
        assert copy.command(*argv) == client.command(*argv)
    assert "Traceback" not in replica.stderr


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
def test_it_follows_when_there_is_room(
    start_server: Start, tmp_path: Path, appendfsync: str
) -> None:
    with RedisServer(tmp_path / "primary", *PRIMARY) as primary:
        replica = start_server("--appendfsync", appendfsync)
        client = primary.client()
        copy = follow(primary, replica)
        fill_up(replica)
        for number in range(1000):
            client.command("RPUSH", "list", b"%d" % number * 500)
        wait_until(lambda: not is_up(copy), "its disk is full")
        client.command("RPUSH", "list", "last")
        allow(replica)
        all_there(client, copy, replica)
        assert replica.terminate() == 0
        assert check_file(Path(replica.db)) == []


def test_it_follows_when_it_had_much_to_do(start_server: Start, tmp_path: Path) -> None:
    """More has come from the primary than the replica reads ahead, and none of it can be done."""
    with RedisServer(tmp_path / "primary", *PRIMARY) as primary:
        replica = start_server()
        client = primary.client(timeout_s=60)
        copy = follow(primary, replica)
        fill_up(replica, 6_000_000)
        replica.suspend()
        try:
            push_many(client, SMALL_WRITES)
        finally:
            replica.resume()
        wait_until(lambda: not is_up(copy), "its disk is full", 60)
        allow(replica)
        all_there(client, copy, replica)


def test_there_is_no_room_for_a_snapshot(start_server: Start, tmp_path: Path) -> None:
    """Also where the file of the snapshot has room, and the old file has none for its own WAL."""
    with RedisServer(tmp_path / "primary", *PRIMARY) as primary:
        replica = start_server()
        client, copy = primary.client(), replica.client()
        client.command("SET", "large", "x" * 3_000_000)
        for number in range(100):
            copy.command("SET", f"old:{number}", "x" * 10_000)
        allow(replica, Path(replica.db).stat().st_size + 20_000)
        copy.command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(lambda: "primary 127.0.0.1:" in replica.stderr, "it cannot follow", 60)
        assert copy.command("STRLEN", "old:1") == b":10000\r\n"
        allow(replica)
        all_there(client, copy, replica)
