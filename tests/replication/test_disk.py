"""The cost of a write on disk; and no peer receives it before it is there."""

import os
from pathlib import Path

import apsw
import pytest

from holdfast.crdt.causal_log import decode
from holdfast.errors import StoreBusyError
from holdfast.replication.followers import LONGEST_PAUSE_S, PAUSES_S
from holdfast.replication.messages import RECORDS, Ack, pack
from holdfast.replication.replicator import Replicator
from holdfast.server.core import turn
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer
from tests.replication.nodes import Node


@pytest.fixture(autouse=True)
def _a_quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow it is: there is no loop here to wait beside."""
    monkeypatch.setattr(turn, "SYNC_HERE_BELOW_S", 1e9)


class Server(InProcess):
    """With `appendfsync always`, and a peer that follows it."""

    def __init__(self, path: Path) -> None:
        self.store = FileStore(path, node=1)
        super().__init__(store=self.store)
        self.engine.peers = Replicator(self.engine, "test", [])
        self.client, self.follower = self.peer(), Peer(self.engine, 3)
        other = Node(2)
        self.follower.command("ACTIVE", "LINK", pack(other.hello()))
        self.clock.advance(LONGEST_PAUSE_S)  # it would not be told again before

    def heard(self) -> bytes:
        """By the follower, so far."""
        return b"".join(self.follower._delivered)


def test_a_push_writes_what_is_new_and_syncs_once(tmp_path: Path) -> None:
    """The system whose list this was wrote the whole store for each push, and synced nothing."""
    server = Server(tmp_path / "a.db")

    def written() -> tuple[int, int]:
        server.client.command("RPUSH", "list", "x")
        *_, (_, ops) = server.store.journal.batches()
        return len(ops), server.engine.turn.syncs

    short, syncs = written()
    server.client.command("RPUSH", "list", *["x"] * 5000)
    long, more_syncs = written()
    assert long <= short
    assert more_syncs == syncs + 2
    server.store.abandon()


def test_no_peer_hears_of_a_write_that_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path / "a.db")
    heard: list[bytes] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: heard.append(server.heard()))
    server.client.command("SET", "k", "precious")
    assert len(heard) == 1
    assert b"precious" not in heard[0]
    assert RECORDS in server.heard()
    assert b"precious" in server.heard()
    server.store.abandon()


def test_under_load_a_peer_is_told_of_many_turns_at_once(tmp_path: Path) -> None:
    server = Server(tmp_path / "a.db")
    for number in range(10):
        server.client.command("SET", f"k{number}", "v")
    assert server.heard().count(RECORDS) == 1
    assert b"k1" not in server.heard()
    server.clock.advance(LONGEST_PAUSE_S)
    server.client.command("PING")
    assert server.heard().count(RECORDS) == 2
    assert b"k9" in server.heard()
    server.store.abandon()


@pytest.mark.parametrize(
    ("length", "pause_s"),
    [(1, PAUSES_S[0][1]), (PAUSES_S[0][0], PAUSES_S[1][1]), (PAUSES_S[1][0], LONGEST_PAUSE_S)],
)
def test_after_little_a_peer_is_told_again_sooner(
    tmp_path: Path, length: int, pause_s: float
) -> None:
    server = Server(tmp_path / "a.db")
    server.client.command("SET", "k", "v" * length)
    server.client.command("SET", "next", "v")
    server.clock.advance(pause_s * 0.9)
    server.client.command("PING")
    assert b"next" not in server.heard()
    server.clock.advance(pause_s * 0.2)
    server.client.command("PING")
    assert b"next" in server.heard()
    server.store.abandon()


def test_the_last_follower_may_leave_while_there_is_news(tmp_path: Path) -> None:
    server = Server(tmp_path / "a.db")
    server.follower.session.closing = True
    assert server.client.command("SET", "k", "v") == b"+OK\r\n"
    assert server.client.command("SET", "k", "w") == b"+OK\r\n"
    server.store.abandon()


def test_a_server_without_news_does_not_look_again(tmp_path: Path) -> None:
    """It holds back records of other servers for a while, and waits only for those."""
    server, other = Server(tmp_path / "a.db"), Node(3)
    other("SET", "k", "v")
    record = other.stage.log.read(0)
    keyspace = server.engine.keyspace
    assert isinstance(keyspace, ReplicatedKeyspace)
    before = server.clock.pending_timers
    keyspace.stage.inbound.apply(record)
    server.engine.turn.end()
    server.engine.turn.end()
    assert server.clock.pending_timers == before + 1, "the one for what is held back"
    server.store.abandon()


def test_two_followers_are_sent_the_same(tmp_path: Path) -> None:
    server = Server(tmp_path / "a.db")
    second = Peer(server.engine, 3)
    second.command("ACTIVE", "LINK", pack(Node(3).hello()))
    for value in ("a", "b"):
        server.clock.advance(LONGEST_PAUSE_S)
        server.client.command("SET", "k", value)
        heard = b"".join(second._delivered)
        assert server.heard()[-20:] == heard[-20:]
        assert value.encode() in heard[-40:]
    server.store.abandon()


def test_a_write_whose_sync_fails_reaches_no_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path / "a.db")

    def fail(fd: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fdatasync", fail)
    server.client.send("SET", "k", "precious")
    assert b"MISCONF" in b"".join(server.client.replies())
    assert b"precious" not in server.heard()
    server.store.abandon()


def test_a_batch_that_finds_the_file_locked_is_told_once(tmp_path: Path) -> None:
    one = Node(1, tmp_path / "a.db")
    one("HSET", "h", "f", "a")
    records = len(one.stage.log)
    other_program = apsw.Connection(str(tmp_path / "a.db"))
    other_program.execute("BEGIN IMMEDIATE")
    one.client.send("HSET", "h", "f", "b")
    with pytest.raises(StoreBusyError):
        one.store.commit()
    other_program.close()
    one.client.send("HSET", "h", "g", "c")
    assert one.client.replies() == [b":0\r\n", b":1\r\n"]
    first, second = [decode(one.stage.log.read(records + at)).changes for at in range(2)]
    assert [effect[1] for *_, effect in first] == [b"f"]
    assert [effect[1] for *_, effect in second] == [b"g"]
    assert len(one.stage.log) == records + 2
    one.close()


def test_a_write_that_cannot_become_a_record_is_not_acknowledged(tmp_path: Path) -> None:
    server = Server(tmp_path / "a.db")
    server.client.command("SET", "k", "before")
    server.client.send("SET", "k", "precious")
    keyspace = server.engine.keyspace
    assert isinstance(keyspace, ReplicatedKeyspace)
    keyspace.stage.spaces.clear()
    server.client.send("SET", "new", "precious")  # no database is known for its key
    assert all(b"MISCONF" in reply for reply in server.client.replies())
    assert b"precious" not in server.heard()
    assert server.client.command("GET", "k") == b"$6\r\nbefore\r\n"
    assert server.client.command("EXISTS", "new") == b":0\r\n"
    server.store.abandon()


def test_an_acknowledgement_covers_records_on_disk_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to an acknowledgement has this server's vector, so it waits for the disk, too."""
    server = Server(tmp_path / "a.db")
    heard: list[bytes] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: heard.append(server.heard()))
    view = server.engine.peers.stage.members.view  # type: ignore[union-attr]
    server.client.send("SET", "k", "v")
    server.follower.send("ACTIVE", "ACK", pack(Ack({}, 0, 0, view, False)))
    before = server.heard()
    server.engine.turn.end()
    assert heard == [before], "nothing came before the sync"
    assert len(server.heard()) > len(before)
    server.store.abandon()
