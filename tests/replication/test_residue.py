"""Elements that were pushed and popped leave nothing behind, in tables, in memory and on disk, once
all members have confirmed it."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from holdfast.store.file.opening import KEPT_WAL_BYTES
from holdfast.store.replicated.replica_keys import Address, ReplicaKeys
from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.replication.crew import ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

FACTS = ("crdt_facts", "holdfast_meta", "redis_databases", "redis_space_sizes")  # of fixed size


def rows_of(path: Path) -> dict[str, int]:
    """How many there are in each table that has any."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ]
    counts = {
        name: next(connection.execute(f"SELECT count(*) FROM {name}"))[0]
        for name in tables
        if name not in FACTS and not name.startswith("sqlite_")
    }
    connection.close()
    return {name: count for name, count in counts.items() if count}


@pytest.mark.source_only
def test_a_queue_that_is_popped_from_is_no_reason_to_look_at_strings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them would be looked at whenever it is written, until the pop is confirmed."""
    one, two = Node(1), Node(2)
    sync(one, two)
    for name in ("a", "b"):
        one("INCR", name)
    one("RPUSH", "queue", "x", "y")
    sync(one, two)
    two("LPOP", "queue")
    one.pull(two)
    for node in (one, two):
        assert node.stage._residue._addresses
    looked_at: list[Address] = []
    drop_empty = ReplicaKeys.drop_empty

    def watched(replica_keys: ReplicaKeys, addresses: Iterable[Address]) -> None:
        looked_at.extend(addresses)
        drop_empty(replica_keys, addresses)

    monkeypatch.setattr(ReplicaKeys, "drop_empty", watched)
    for name in ("a", "b"):
        one("INCR", name)
    one("RPUSH", "other", "x")
    two.pull(one)
    assert set(looked_at) == {(0, b"other")}
    assert two("GET", "a") == b"$1\r\n2\r\n"


@pytest.mark.parametrize(
    ("write", "remove"),
    [
        (("RPUSH", "k"), ("LPOP", "k")),
        (("LPUSH", "k"), ("RPOP", "k")),
        (("SADD", "k"), ("SPOP", "k")),
        (("ZINCRBY", "k", 1), ("ZPOPMIN", "k")),
        (("HINCRBY", "k", "f", 1), ("HDEL", "k", "f")),
        (("INCRBY", "k"), ("DEL", "k")),
        (("XADD", "k", "*", "f"), ("DEL", "k")),
        (("SETEX", "k", 100), ("DEL", "k")),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_nothing_is_left_in_the_tables(
    tmp_path: Path, write: tuple[str, ...], remove: tuple[str, ...]
) -> None:
    nodes = [Node(number, tmp_path / f"{number}.db") for number in (1, 2)]
    one, two = nodes
    for _ in range(2):
        for number in range(20):
            more = () if write[0] == "HINCRBY" else (number,)
            assert not one(*write, *more).startswith(b"-")
        sync(one, two)
        while b"0" not in two("EXISTS", "k"):
            two(*remove)
        sync(one, two)
        for node in nodes:
            node.tidy()
        sync(one, two)
        for node in nodes:
            stage = node.stage
            assert (len(stage.log), stage.unconfirmed_removals) == (0, 0)
            assert (stage.replica_keys.addresses, stage.addresses) == ([], {})
            node.restart(fold=True)
    for node, path in zip(nodes, ("1.db", "2.db"), strict=True):
        node.restart(fold=True)
        node.close()
        assert rows_of(tmp_path / path) == {}


@pytest.mark.parametrize(
    ("write", "remove", "prolong"),
    [
        (("SET", "k", "v"), ("DEL", "k"), ("EXPIRE", "k", 100)),
        (("HSET", "k", "f", "v"), ("DEL", "k"), ("HPEXPIRE", "k", 100_000, "FIELDS", 1, "f")),
        (("INCR", "k"), ("FLUSHALL",), ("PERSIST", "k")),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_an_expiry_of_a_key_that_was_deleted_meanwhile_leaves_nothing(
    tmp_path: Path, write: list[str], remove: list[str], prolong: list[str]
) -> None:
    nodes = [Node(number, tmp_path / f"{number}.db") for number in (1, 2)]
    one, two = nodes
    one(*write)
    one("EXPIRE", "k", 1000)
    sync(one, two)
    one(*remove)
    two(*prolong)
    sync(one, two)
    for _ in range(2):
        for node in nodes:
            node.tidy()
        sync(one, two)
    for node in nodes:
        assert node.stage.replica_keys.addresses == []
        node.restart(fold=True)
        node.close()
        assert rows_of(tmp_path / f"{node.number}.db") == {}


def test_a_field_that_is_deleted_while_it_is_to_expire_leaves_nothing(tmp_path: Path) -> None:
    one, two = Node(1), Node(2)
    one("HSET", "h", "f", "v", "other", "v")
    sync(one, two)
    one("HDEL", "h", "f")
    two("HPEXPIRE", "h", 100_000, "FIELDS", 1, "f")
    sync(one, two)
    for _ in range(2):
        for node in (one, two):
            node.tidy()
        sync(one, two)
    for node in (one, two):
        assert [kind for kind, _, _ in node.stage.replica_keys.at((0, b"h")).rows()] == ["hash"]


def test_an_expiry_is_kept_as_long_as_a_peer_may_write_to_its_value() -> None:
    """The third one has not heard of the deletion yet, and goes on with the expiry."""
    one, two, three = nodes = [Node(number) for number in (1, 2, 3)]
    one("RPUSH", "k", "a")
    sync(*nodes)
    two("EXPIRE", "k", 100)
    one("DEL", "k")
    three.pull(two)
    for _ in range(2):
        one.pull(two)
        two.pull(one)
        for node in (one, two):
            node.tidy()
    three("RPUSH", "k", "b")
    sync(*nodes)
    for node in nodes:
        node.tidy()
        assert node("TTL", "k") == b":100\r\n"
    sync(*nodes)


class Size(NamedTuple):
    """Of a server, when all is confirmed and folded."""

    resident_bytes: int
    file_bytes: int
    wal_bytes: int


def size_of(server: HoldfastServer) -> Size:
    with RawClient.connect(server.port, 60) as client:
        lines = client.command("INFO", "everything").decode().split("\r\n")
        info = dict(line.split(":", 1) for line in lines if ":" in line)
    names = ("used_memory_rss", "holdfast_file_bytes", "holdfast_wal_bytes")
    return Size(*(int(info[name]) for name in names))


def is_settled(server: HoldfastServer) -> bool:
    """All members have confirmed all records, and the tables have them."""
    with RawClient.connect(server.port, 60) as client:
        info = client.command("INFO", "everything")
        return (
            b"active_active_log_records:0\r\n" in info
            and b"active_active_unconfirmed_removals:0\r\n" in info
            and b"holdfast_unfolded_ops:0\r\n" in info
        )


def send_all(server: HoldfastServer, commands: list[bytes]) -> None:
    with RawClient.connect(server.port, 300) as client:
        for start in range(0, len(commands), 100):
            some = commands[start : start + 100]
            client.send(b"".join(some))
            for reply in client.read_replies(len(some)):
                assert not reply.startswith(b"-"), reply


@pytest.mark.source_only
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_elements_pushed_and_popped(tmp_path: Path) -> None:
    """In four rounds. The file and the memory of a round serve the next one: once there is room for
    a quarter of the elements, nothing may grow. That is after the second round, because the first
    may fit into the WAL, and the file grows only when the WAL is emptied."""
    count = int(os.environ.get("HOLDFAST_QUEUE", "1000000"))
    per_round, at_once = count // 4, 10
    pops = [encode_command("LPOP", "queue", at_once)] * (per_round // at_once)
    sizes: list[list[Size]] = []
    with cluster(tmp_path, 2) as servers:
        await_the_same(servers)
        sizes.append([size_of(server) for server in servers])
        for number in range(4):
            start = number * per_round
            pushes = [
                encode_command("RPUSH", "queue", *(f"{n:016}" for n in range(at, at + at_once)))
                for at in range(start, start + per_round, at_once)
            ]
            send_all(servers[number % 2], pushes)
            await_the_same(servers, 600)
            send_all(servers[(number + 1) % 2], pops)
            await_the_same(servers, 600)
            assert ask(servers[0], "EXISTS", "queue") == b":0\r\n"
            for server in servers:
                wait_until(lambda s=server: is_settled(s), "all is confirmed and folded", 600)  # type: ignore[misc]
            sizes.append([size_of(server) for server in servers])
            sys.stdout.write(json.dumps([size._asdict() for size in sizes[-1]]) + "\n")
    second, last = sizes[2], sizes[-1]
    for one, other in zip(second, last, strict=True):
        assert other.file_bytes < one.file_bytes * 1.25 + (1 << 20)
        # Written from the start again and again, about as soon as it has the size that is kept.
        assert other.wal_bytes < 1.5 * KEPT_WAL_BYTES
        assert other.resident_bytes < one.resident_bytes * 1.25 + (16 << 20)
