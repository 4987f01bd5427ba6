"""Clients see exactly the replicated value of a key: in memory, in the file, and after a restart.
Where they do not, DIGEST and `holdfast check` report it."""

import re
from pathlib import Path

import pytest

from holdfast.replication import surveying
from holdfast.replication.replicator import Replicator
from holdfast.store.change.change_log import ChangeLog
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from holdfast.store.values.list import List
from tests.harness.in_process import InProcess, Peer
from tests.replication.nodes import Node, sync


def activated(node: Node) -> Node:
    """With ACTIVE's commands."""
    node.replicator = Replicator(node.engine, "test", [])
    return node


@pytest.mark.parametrize("fold", [False, True], ids=["killed", "closed"])
def test_entries_that_went_with_their_consumer_do_not_return_after_a_restart(
    tmp_path: Path, fold: bool
) -> None:
    """Both create the group, and an entry is given to a consumer of the first one's. That group is
    destroyed by a server that knows of neither: the other's stays, without consumer and entry."""
    one, two = Node(1), Node(2, tmp_path / "2.db")
    one("XADD", "s", "*", "f", "v")
    sync(one, two)
    two("MSET", "a", 1, "b", 2, "c", 3)  # so that the other's group is the first
    for node in (one, two):
        node("XGROUP", "CREATE", "s", "g", "0")
    two.pull(one)
    two("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    assert two("XPENDING", "s", "g").startswith(b"*4\r\n:1\r\n")
    two.restart(fold=fold)
    one("XGROUP", "DESTROY", "s", "g")
    two.pull(one)
    assert check_file(tmp_path / "2.db") == []
    two("XGROUP", "CREATECONSUMER", "s", "g", "c")
    for _ in range(2):
        assert two("XPENDING", "s", "g").startswith(b"*4\r\n:0\r\n")
        two.check()
        two.restart(fold=fold)
    two.close()


def test_a_consumer_that_was_deleted_elsewhere_outlives_the_entry_it_had(tmp_path: Path) -> None:
    """One node deletes the consumer while the other gives it an entry: the consumer exists as long
    as it has an entry. After that entry is acknowledged the consumer stays, as in Redis, so it
    stays on all nodes."""
    one, two = Node(1), Node(2)
    one("XADD", "s", "*", "f", "v")
    one("XGROUP", "CREATE", "s", "g", "0")
    one("XGROUP", "CREATECONSUMER", "s", "g", "c")
    sync(one, two)
    one("XGROUP", "DELCONSUMER", "s", "g", "c")
    (entry,) = re.findall(rb"\d+-\d+", two("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"))
    sync(one, two)
    one("XCLAIM", "s", "g", "d", 0, entry)
    sync(one, two)
    one("XACK", "s", "g", entry)
    sync(one, two)
    for node in (one, two):
        assert node("XINFO", "CONSUMERS", "s", "g").startswith(b"*2\r\n")


def test_a_stream_of_which_a_group_survived_outlives_the_group() -> None:
    one, two = Node(1), Node(2)
    one("XADD", "s", "*", "f", "v")
    sync(one, two)
    one("DEL", "s")
    two("XGROUP", "CREATE", "s", "g", "0")
    sync(one, two)
    one("XGROUP", "DESTROY", "s", "g")
    sync(one, two)
    for node in (one, two):
        assert node("EXISTS", "s") == b":1\r\n"


def test_a_field_that_comes_back_has_the_expiry_that_was_set_meanwhile() -> None:
    one, two = Node(1), Node(2)
    one("HSET", "h", "f", "v", "g", "w")
    sync(one, two)
    one("HDEL", "h", "f")
    one("HSET", "h", "f", "v")
    two("HPEXPIRE", "h", 10_000, "FIELDS", 1, "f")
    sync(one, two)
    for node in (one, two):
        assert node("HPTTL", "h", "FIELDS", 1, "f") == b"*1\r\n:10000\r\n"


def digest(node: Node) -> bytes:
    """The reply to ACTIVE DIGEST, which comes a few slices later."""
    client = Peer(node.engine)
    client.send("ACTIVE", "DIGEST")
    while client.is_waiting:
        node.clock.advance(1)
    (reply,) = client.replies()
    return reply


def test_digest_is_answered_in_slices_and_others_are_served_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surveying, "BUDGET_S", 0.0)  # a slice is one key
    one, two = (activated(Node(number)) for number in (1, 2))
    for number in range(20):
        one("SET", f"k{number}", number)
    sync(one, two)
    client = Peer(one.engine)
    client.send("ACTIVE", "DIGEST")
    slices = 0
    while client.is_waiting:
        assert one("GET", "k1") == b"$1\r\n1\r\n"
        one.clock.advance(surveying.BREAK_S)
        slices += 1
    assert slices >= 20
    assert client.replies() == [digest(one)] == [digest(two)]
    one("SET", "k1", "another")
    assert digest(one) != digest(two)
    left = Peer(one.engine)
    left.send("ACTIVE", "DIGEST")
    one.engine.disconnected(left.session)
    one.clock.advance(1)
    assert left.replies() == []
    assert b"transaction" in one.client.transaction(("ACTIVE", "DIGEST"))


def test_digest_and_check_find_keys_that_differ_from_their_replica_keys(
    tmp_path: Path,
) -> None:
    path = tmp_path / "1.db"
    one = activated(Node(1, path))
    one("SET", "s", "v")
    one("RPUSH", "l", "a")
    assert not digest(one).startswith(b"-")
    assert check_file(path) == []
    database = one.keyspace.replicated_databases[0]
    key = database.find(b"l")
    assert key is not None
    assert isinstance(key.value, List)
    untold = ChangeLog()
    untold.ops = one.keyspace.ops
    key.value.push_right([b"b"], untold)
    database.show_new_string(b"more", b"v")
    one.stage.rows += one.keyspace.ops
    one.keyspace.ops.clear()
    one.engine.turn.end()
    assert digest(one).startswith(b"-ERR keys differ from their replicated values: key b'l' of")
    assert check_file(path) == [
        "key b'l' of database 0 is a list, but its replicated value has other contents",
        "key b'more' of database 0 exists, but is not replicated",
    ]
    one.close()


def test_a_returned_entry_has_no_consumer_on_any_node() -> None:
    one, two = Node(1), Node(2)
    one("XADD", "s", "*", "f", "v")
    one("XGROUP", "CREATE", "s", "g", "0")
    (entry,) = re.findall(rb"\d+-\d+", one("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"))
    sync(one, two)
    two("XNACK", "s", "g", "FAIL", "IDS", 1, entry)
    one("XGROUP", "DELCONSUMER", "s", "g", "c")  # of which the other one has not heard
    sync(one, two)
    for node in (one, two):
        assert node("XPENDING", "s", "g", "-", "+", 9).endswith(b"$0\r\n\r\n:-1\r\n:1\r\n")
        assert node("XINFO", "CONSUMERS", "s", "g") == b"*0\r\n"
        node.check()
    two("XREADGROUP", "GROUP", "g", "d", "CLAIM", 60_000, "STREAMS", "s", ">")
    sync(one, two)
    assert b"$1\r\nd\r\n" in one("XPENDING", "s", "g")
    for node in (one, two):
        node.close()


@pytest.mark.parametrize("fold", [False, True], ids=["killed", "closed"])
def test_a_stream_of_a_standalone_server_brings_its_returned_entries_along(
    tmp_path: Path, fold: bool
) -> None:
    """Its idempotent ids stay in the file, and mean nothing to this node or to others."""
    store = FileStore(tmp_path / "1.db")
    peer = InProcess({"appendfsync": "no"}, store).peer()
    entry = peer.command("XADD", "s", "IDMP", "p", "1", "*", "a", "b").split(b"\r\n")[1]
    peer.command("XGROUP", "CREATE", "s", "g", "0")
    peer.command("XNACK", "s", "g", "FAIL", "IDS", 1, entry, "FORCE")
    store.close()
    one, two = Node(1, tmp_path / "1.db"), Node(2)
    assert one("COPY", "s", "copy") == b":1\r\n"
    sync(one, two)
    one.restart(fold=fold)
    for node in (one, two):
        for name in ("s", "copy"):
            pending = node("XPENDING", name, "g", "-", "+", 9)
            assert pending.endswith(b"$0\r\n\r\n:-1\r\n:0\r\n")
        node.check()
    one("DEL", "s", "copy")
    one.restart(fold=fold)
    assert check_file(tmp_path / "1.db") == []
    for node in (one, two):
        node.close()


def test_a_node_promises_nothing_about_messages_that_come_again() -> None:
    """Another node may add the same message at the same time."""
    node = Node(1)
    for options in (["IDMP", "p", "1"], ["IDMPAUTO", "p"]):
        reply = node("XADD", "s", *options, "*", "a", "b")
        assert reply == b"-ERR an active-active server takes no IDMP and no IDMPAUTO\r\n"
    assert node("EXISTS", "s") == b":0\r\n"
    node("XADD", "s", "*", "a", "b")
    reply = node("XCFGSET", "s", "IDMP-MAXSIZE", 5)
    assert reply == b"-ERR an active-active server has no idempotent IDs\r\n"
    node.close()
