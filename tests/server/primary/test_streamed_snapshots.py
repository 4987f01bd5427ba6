"""A snapshot is sent while it is written, to replicas that know the mark at its end."""

import os
import signal
from pathlib import Path

import pytest

from holdfast.store.rdb.records import Entry
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.server.primary.following import follow, info, is_up, wait_for_replica
from tests.store.rdb.rdb_bytes import records_of

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

KEYS = 12
VALUE = "x" * 70_000  # two of them leave the writer at once
SLOW_US = 100_000  # a key
MARK_BYTES = 40
AFTER = b"$5\r\nafter\r\n$1\r\n1\r\n"


def fill(client: RawClient, delay_us: int = SLOW_US) -> None:
    for number in range(KEYS):
        client.command("SET", f"k{number}", VALUE)
    client.command("CONFIG", "SET", "rdb-key-save-delay", delay_us)


def asking(server: HoldfastServer, *capabilities: str) -> RawClient:
    client = server.client(timeout_s=30)
    for name in capabilities:
        client.command("REPLCONF", "capa", name)
    client.send_command("PSYNC", "?", -1)
    return client


def read_until(client: RawClient, end: bytes, so_far: bytes = b"") -> bytes:
    """All up to these bytes, which may have come already."""
    stream = bytearray(so_far)
    if end not in so_far:
        while not stream.endswith(end):
            stream += client.read_raw(1)
    return bytes(stream)


def is_written(client: RawClient) -> bool:
    return b"rdb_bgsave_in_progress:0" in client.command("INFO", "persistence")


def test_it_is_sent_while_it_is_written_and_the_stream_waits_for_the_replica(
    primary: HoldfastServer,
) -> None:
    client = primary.client()
    fill(client)
    replica = asking(primary, "eof")
    stream = read_until(replica, b"k0")
    assert not is_written(client)
    assert "state=send_bulk" in info(client)["slave0"]
    client.command("SET", "after", 1)
    head, _, rest = stream.partition(b"$EOF:")
    assert head.lstrip(b"\n").startswith(b"+FULLRESYNC ")
    mark, rest = rest[:MARK_BYTES], rest[MARK_BYTES + 2 :]
    rest = read_until(replica, mark, rest)
    assert rest.endswith(mark)  # nothing follows yet
    entries = [each for each in records_of(rest[:-MARK_BYTES]) if isinstance(each, Entry)]
    assert len(entries) == KEYS
    assert client.command("WAIT", 1, 10) == b":0\r\n"
    assert "state=send_bulk" in info(client)["slave0"]
    replica.send_command("REPLCONF", "ACK", 0)
    read_until(replica, AFTER)
    assert "state=online" in info(client)["slave0"]


def test_a_replica_that_does_not_know_the_mark_gets_the_size(primary: HoldfastServer) -> None:
    client = primary.client()
    fill(client, 1000)
    assert b"$EOF:" not in read_until(asking(primary), b"k0")


def test_it_may_be_turned_off(primary: HoldfastServer) -> None:
    client = primary.client()
    fill(client, 1000)
    client.command("CONFIG", "SET", "repl-diskless-sync", "no")
    assert b"$EOF:" not in read_until(asking(primary, "eof"), b"k0")
    assert is_written(client)


def test_replicas_of_both_kinds_share_it_and_the_later_one_gets_the_beginning(
    primary: HoldfastServer,
) -> None:
    client = primary.client()
    fill(client)
    first = asking(primary, "eof")
    begun = read_until(first, b"k0")
    second, third = asking(primary, "eof"), asking(primary)
    client.command("SET", "after", 1)
    for replica, stream in ((first, begun), (second, b"")):
        _, _, rest = read_until(replica, b"k0", stream).partition(b"$EOF:")
        assert b"REDIS" in rest
        read_until(replica, rest[:MARK_BYTES])
        replica.send_command("REPLCONF", "ACK", 0)
        read_until(replica, AFTER)
    assert b"REDIS" in read_until(third, AFTER)
    assert b"sync_full:3" in client.command("INFO", "stats")


def test_a_writer_that_dies_ends_the_links(primary: HoldfastServer, replica: RedisServer) -> None:
    """The replica has half of a snapshot then. It asks again, and keeps nothing of the half."""
    client, copy = primary.client(), replica.client()
    fill(client)
    copy.command("SET", "old", 1)
    other = asking(primary, "eof")
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    wait_until(lambda: info(copy)["master_sync_in_progress"] == "1", "it gets a snapshot")
    read_until(other, b"k0")
    children = Path(f"/proc/{primary.pid}/task/{primary.pid}/children")
    client.command("CONFIG", "SET", "rdb-key-save-delay", 0)  # of the next one
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    other.read_until_closed()
    wait_until(lambda: is_up(copy), "it asked again")
    assert copy.command("DBSIZE") == b":%d\r\n" % KEYS


def test_a_replica_that_leaves_does_not_end_it_for_the_other(primary: HoldfastServer) -> None:
    client = primary.client()
    fill(client)
    with asking(primary, "eof") as first:
        begun = read_until(first, b"k0")
        second = asking(primary, "eof")
        read_until(second, b"$EOF:")
    assert begun
    wait_until(lambda: info(client)["connected_slaves"] == "1", "the first one has left")
    read_until(second, b"k%d" % (KEYS - 1))
    assert "it is dropped" not in primary.stderr


def test_a_replica_that_loads_for_longer_than_the_timeout_is_not_taken_for_silent(
    primary: HoldfastServer,
) -> None:
    """It sends empty lines while it loads."""
    client = primary.client()
    client.command("CONFIG", "SET", "repl-timeout", 2)
    loading, silent = asking(primary, "eof"), asking(primary, "eof")
    for replica in (loading, silent):
        read_until(replica, b"$EOF:")

    def only_one_is_left() -> bool:
        loading.send(b"\n")
        return info(client)["connected_slaves"] == "1"

    wait_until(only_one_is_left, "the silent one is cut off")
    silent.read_until_closed()
    loading.send_command("REPLCONF", "ACK", 0)
    wait_until(lambda: "state=online" in info(client)["slave0"], "the other one goes on")


def test_a_redis_follows_while_its_snapshot_is_written(
    primary: HoldfastServer, replica: RedisServer
) -> None:
    client = primary.client()
    fill(client, 5000)
    copy = follow(primary, replica)
    client.command("SET", "after", 1)
    wait_for_replica(client)
    assert copy.command("DBSIZE") == b":%d\r\n" % (KEYS + 1)
