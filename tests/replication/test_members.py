"""The members of a cluster: joining with a snapshot, coming back from a backup, being removed."""

import asyncio
import shutil
from pathlib import Path

import pytest

from holdfast.crdt.dots import Vector
from holdfast.errors import CommandError, ConfigError, StorageError
from holdfast.replication.link_states import TABLE, LinkEvent, LinkState, after
from holdfast.replication.messages import Hello, pack
from holdfast.replication.puller import LinkError, Puller
from holdfast.replication.replicator import Replicator
from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import CRDT_FACTS, CRDT_KEYS, CRDT_LOG, CRDT_ROWS
from holdfast.store.store import FileStore, MemoryStore, Store
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.harness.in_process import InProcess
from tests.replication.crew import CONVERGENCE_S, are_linked, ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

pytestmark = pytest.mark.timeout(300)


def replicator_of(node: Node, *urls: str) -> Replicator:
    return Replicator(node.engine, "test", list(urls))


def hello(
    node: int, vector: Vector | None = None, now_ms: int = 0, *, cluster: str = "test"
) -> Hello:
    """The hello of a server that knows no other."""
    return Hello(cluster, node, node, vector or {}, now_ms, view_of({node: node}))


def view_of(known: dict[int, int], *removed: int) -> bytes:
    return pack((known, removed))


def test_a_joiner_gets_a_snapshot_when_the_log_was_cut() -> None:
    one = Node(1)
    for number in range(200):
        one("RPUSH", "list", number)
        one("SADD", f"set-{number}", "x")
    one.tidy()
    assert len(one.stage.log) == 0, "nobody else is there who may need it"
    two = Node(2)
    two("RPUSH", "list", "of my own")
    sync(one, two)
    assert two("LLEN", "list") == b":201\r\n"
    assert two("DBSIZE") == b":201\r\n"


def test_nothing_is_cut_while_a_member_is_expected_that_never_came() -> None:
    one = Node(1)
    one.keyspace.expect(1)
    one("SET", "k", "v")
    one.tidy()
    assert len(one.stage.log) == 1


def test_the_log_is_cut_when_all_have_confirmed() -> None:
    one, two, three = Node(1), Node(2), Node(3)
    sync(one, two, three)
    one("SET", "k", "v")
    two.pull(one)
    one.tidy()
    assert len(one.stage.log) == 1
    three.pull(one)
    one.tidy()
    assert len(one.stage.log) == 0


def test_a_queue_leaves_no_residue() -> None:
    one, two = Node(1), Node(2)
    sync(one, two)
    for round_ in range(20):
        for number in range(100):
            one("RPUSH", "queue", f"{round_}-{number}")
        sync(one, two)
        while two("LPOP", "queue") != b"$-1\r\n":
            pass
        sync(one, two)
    for node in (one, two):
        node.tidy()
        assert len(node.stage.log) == 0
        assert node.stage.unconfirmed_removals == 0
        assert node.stage.replica_keys.addresses == []


def test_a_counter_that_was_deleted_is_forgotten_when_all_know() -> None:
    one, two = Node(1), Node(2)
    sync(one, two)
    one("INCR", "n")
    sync(one, two)
    two("DEL", "n")
    two.tidy()
    assert two.stage.replica_keys.addresses == [(0, b"n")], "a state may come that does not know"
    sync(one, two)
    for node in (one, two):
        node.tidy()
        assert node.stage.replica_keys.addresses == []


def test_a_file_knows_whose_it_is(tmp_path: Path) -> None:
    node = Node(1, tmp_path / "a.db")
    node("SET", "k", "v")
    replicator_of(node)
    node.engine.turn.end()
    node.restart()
    with pytest.raises(ConfigError, match="belongs to the cluster 'test'"):
        Replicator(node.engine, "another", [])
    node.close()
    with pytest.raises(StorageError, match="active-active"):
        FileStore(tmp_path / "a.db")


def test_a_standalone_file_becomes_replicated(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    database = store.keyspace.databases[0]
    database.set_string(b"s", b"v", 4102444800000)
    store.close()
    one, two = Node(1, tmp_path / "a.db"), Node(2)
    sync(one, two)
    assert two("GET", "s") == b"$1\r\nv\r\n"
    assert two("PEXPIRETIME", "s") == b":4102444800000\r\n"
    one.close()


def test_a_copy_of_a_file_is_another_replica(tmp_path: Path) -> None:
    node = Node(1, tmp_path / "a.db")
    replicator_of(node)
    node("SET", "k", "v")
    node.restart(fold=True)
    replicator_of(node)
    assert node.stage.replica == 1
    node.engine.turn.end()
    node.restart(fold=True)
    node.close()
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    copy = Node(1, tmp_path / "b.db")
    replicator_of(copy)
    copy("SET", "k", "w")
    assert copy.stage.replica == 257
    assert copy.stage.vector.keys() == {1, 257}
    copy.restart()
    replicator_of(copy)
    assert copy.stage.replica == 257, "from now on"
    copy.close()


def test_a_node_comes_back_from_a_backup(tmp_path: Path) -> None:
    """It gets its own later writes back, and elements it had removed do not come back."""
    one, two = Node(1), Node(2, tmp_path / "two.db")
    replicator_of(two)
    two("INCRBY", "n", 5)
    two("RPUSH", "list", "a", "b")
    two("SADD", "gone", "x")
    sync(one, two)
    two.restart(fold=True)
    two.close()
    shutil.copy(tmp_path / "two.db", tmp_path / "backup.db")
    two = Node(2, tmp_path / "two.db")
    two("INCRBY", "n", 1)
    two("LPOP", "list")
    two("RPUSH", "list", "c")
    one("DEL", "gone")
    sync(one, two)
    two("DEL", "n")
    sync(one, two)
    for node in (one, two):
        node.tidy()
        assert len(node.stage.log) == 0
    two.close()
    restored = Node(2, tmp_path / "backup.db")
    replicator_of(restored)
    restored("RPUSH", "list", "new")
    restored("INCRBY", "n", 1)
    assert restored.stage.replica == 258
    sync(one, restored)
    assert one("LRANGE", "list", 0, -1) == restored("LRANGE", "list", 0, -1)
    assert set(one("LRANGE", "list", 0, -1).split(b"\r\n")[2::2]) == {b"b", b"c", b"new"}
    assert one("GET", "n") == b"$1\r\n1\r\n"
    assert one("EXISTS", "gone") == b":0\r\n"
    restored.close()


def test_a_server_that_learns_of_its_own_future_becomes_another_replica() -> None:
    """As after a power cut that lost records which peers have."""
    node = Node(1)
    replicator = replicator_of(node)
    puller = Puller(replicator, "redis://127.0.0.1:1")
    peer = hello(2, {1: 10, 257: 3}, node.clock.now_ms())
    with pytest.raises(LinkError, match="backup"):
        replicator.met(puller, peer)
    assert node.stage.replica == 513
    replicator.met(puller, peer)


@pytest.mark.parametrize(
    ("peer", "why"),
    [
        (hello(2, cluster="other"), "this is the cluster 'test'"),
        (hello(1), "DUPLICATE node id 1 is this server's, too"),
        (hello(3), "was removed"),
        (hello(2)._replace(version=1), "node 2 speaks version 1 of the links"),
    ],
)
def test_servers_that_are_refused(peer: Hello, why: str) -> None:
    node = Node(1)
    replicator = replicator_of(node)
    node.stage.members.admit(3, 3)
    replicator.forget(3)
    with pytest.raises(CommandError, match=why):
        replicator.link(node.client.session, peer)


def test_a_link_that_is_forgotten_leaves_no_task_behind() -> None:
    async def main() -> None:
        node = Node(1)
        replicator = node.replicator = Replicator(node.engine, "test", [])
        for _ in range(2):
            replicator.join("redis://127.0.0.1:1")
            replicator.join("redis://user:other@127.0.0.1:1")
            await asyncio.sleep(0)
            replicator.forget_address("redis://127.0.0.1:1")
            for _ in range(5):
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_an_unknown_node_cannot_be_forgotten() -> None:
    """A slip of the finger would keep out a server that is still to come."""
    node = Node(1)
    node.replicator = replicator_of(node)
    assert node("ACTIVE", "FORGET", 7) == b"-ERR node 7 is not known here, see ACTIVE INFO\r\n"
    assert node.stage.members.removed == set()
    node.stage.members.admit(7, 7)
    for _ in range(2):
        assert node("ACTIVE", "FORGET", 7) == b"+OK\r\n"


def test_a_server_that_was_told_to_follow_itself_does_not() -> None:
    node = Node(1)
    replicator = replicator_of(node, "redis://127.0.0.1:1")
    (puller,) = replicator.pullers
    with pytest.raises(LinkError, match="this address is this server's own"):
        puller._meet(replicator.hello())
    assert replicator.pullers == []
    assert node.stage.members.expected == 0
    replicator.check_joined()
    assert node("SET", "k", "v") == b"+OK\r\n", "nobody is waited for"


def test_an_address_that_turns_out_to_be_ones_own_is_followed_no_more(tmp_path: Path) -> None:
    """It is the server, not the puller, that finds out first: it is greeted by itself."""
    with cluster(tmp_path, 1) as (server,):
        assert ask(server, "ACTIVE", "JOIN", f"unix://{tmp_path / '1.sock'}") == b"+OK\r\n"
        wait_until(lambda: ask(server, "ACTIVE", "PEERS") == b"*0\r\n", "no peers", 20.0)
        assert ask(server, "SET", "k", "v") == b"+OK\r\n", "nobody is waited for"
        server.kill()
        server.start()
        assert ask(server, "ACTIVE", "PEERS") == b"*0\r\n"


@pytest.mark.parametrize(
    ("urls", "members", "said"),
    [
        ((), (), "no --peer is given: this server is alone, and takes writes"),
        ((), (2, 3), "no address of node 2, 3 is known"),
        (("redis://127.0.0.1:1",), (2,), ""),
    ],
)
def test_a_start_without_peers_warns(
    urls: tuple[str, ...], members: tuple[int, ...], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(1)
    for member in members:
        node.stage.members.admit(member, member)
    replicator = replicator_of(node, *urls)

    async def main() -> None:
        replicator.start()
        await replicator.stop()

    asyncio.run(main())
    assert said in caplog.text
    assert bool(said) == bool(caplog.text)


def test_a_clock_that_is_far_off_is_reported() -> None:
    node = Node(1)
    replicator = replicator_of(node)
    replicator.link(node.client.session, hello(2, {}, node.clock.now_ms() + 60_000))
    assert replicator.drift.ms == {2: 60_000}
    replicator.link(node.client.session, hello(2, {}, node.clock.now_ms() + 100))
    assert replicator.drift.ms == {}


def test_every_state_can_be_lost_and_paused() -> None:
    for state in LinkState:
        assert after(state, LinkEvent.PAUSE) is LinkState.PAUSED
        assert after(state, LinkEvent.LOST) in (LinkState.WAITING, LinkState.PAUSED)
    assert set(TABLE) == set(LinkState)


def test_info_tells_how_each_link_is() -> None:
    one, two = Node(1), Node(2)
    one("SADD", "k", "v")
    one("SREM", "k", "v")
    replicator = one.replicator = replicator_of(one, "redis://user:secret@127.0.0.1:1")
    (puller,) = replicator.pullers
    puller._meet(hello(2, {2: 7}, one.clock.now_ms() + 60_000))
    puller.history.failed(OSError("refused, as ever"))
    info = one("INFO", "replication").decode().split("\r\n")
    fields = dict(line.split(":", 1) for line in info if ":" in line)
    link = dict(pair.split("=", 1) for pair in fields["peer0"].split(","))
    assert (link["node"], link["address"], link["state"]) == ("2", "127.0.0.1:1", "waiting")
    assert (link["lag_ops"], link["lag_s"]) == ("7", "")
    assert (link["received_bytes"], link["sent_bytes"]) == ("0", "0")
    assert link["last_error"] == "refused; as ever"
    assert link["clock_drift_ms"] == "60000"
    assert fields["active_active_drifting_clocks"] == "1"
    assert fields["active_active_unconfirmed_removals"] == "1"
    assert fields["active_active_log_records"] == "2"
    assert int(fields["active_active_log_bytes"]) > 20
    assert "secret" not in str(info)
    assert two("INFO", "replication").count(b"active_active") == 0


def test_a_standalone_server_states_no_intents() -> None:
    """A standalone server pays nothing for replication: its commands write the same rows as
    before."""
    commands: list[tuple[str | int, ...]] = [
        ("RPUSH", "list", "a", "b", "c"),
        ("LINSERT", "list", "AFTER", "a", "x"),
        ("LSET", "list", 0, "y"),
        ("LREM", "list", 1, "x"),
        ("LPOP", "list"),
        ("INCR", "n"),
        ("HINCRBY", "hash", "n", 1),
        ("ZINCRBY", "zset", 1, "m"),
        ("SADD", "set", "m"),
        ("SADD", "set", "m"),
        ("PERSIST", "n"),
    ]

    def batch(store: Store, commands: list[tuple[str | int, ...]]) -> ChangeLog:
        server = InProcess(store=store)
        server.peer().pipeline(*commands)
        return server.engine.keyspace

    standalone = batch(MemoryStore(), commands)
    ours = {CRDT_FACTS, CRDT_KEYS, CRDT_LOG, CRDT_ROWS}
    assert not {op[0] for op in standalone.ops} & ours
    assert standalone.intents == []
    assert batch(MemoryStore(16, 1), commands).intents != [], "else this shows nothing"


def test_commands_of_a_standalone_server(client: RawClient) -> None:
    assert client.command("ACTIVE", "INFO").startswith(b"-ERR this server is not active-active")


@pytest.mark.source_only
def test_links_authenticate(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, 2, "--requirepass", "secret") as servers,
        RawClient.connect(servers[0].port) as client,
    ):
        assert client.command("AUTH", "secret") == b"+OK\r\n"
        wait_until(
            lambda: b"NOAUTH" in client.command("ACTIVE", "PEERS"),
            "the link is refused without the password",
            CONVERGENCE_S,
        )
        url = f"unix://:secret@{tmp_path}/2.sock"
        assert client.command("ACTIVE", "JOIN", url) == b"+OK\r\n"
        wait_until(
            lambda: b"$9\r\nfollowing\r\n" in client.command("ACTIVE", "PEERS"),
            "the link is let in with it",
            CONVERGENCE_S,
        )


@pytest.mark.source_only
def test_a_third_server_comes_later(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        wait_until(lambda: are_linked(servers), "both follow each other", CONVERGENCE_S)
        for number in range(50):
            ask(servers[0], "RPUSH", "list", number)
        await_the_same(servers)
        sock = tmp_path / "3.sock"
        peers = [f"unix://{tmp_path}/{number}.sock" for number in (1, 2)]
        third = HoldfastServer(
            tmp_path / "node-3",
            *("--active-active", "--node-id", "3", "--unixsocket", str(sock)),
            *("--peer", peers[0], "--peer", peers[1]),
        )
        with third:
            for server in servers:
                assert ask(server, "ACTIVE", "JOIN", f"unix://{sock}") == b"+OK\r\n"
            ask(servers[1], "LPUSH", "list", "meanwhile")
            await_the_same([*servers, third])
            assert ask(third, "LLEN", "list") == b":51\r\n"
            assert b"peer1:node=3," in ask(servers[0], "INFO", "replication")
            for server in servers:
                assert ask(server, "ACTIVE", "FORGET", 3) == b"+OK\r\n"
            wait_until(
                lambda: b"was removed" in ask(third, "ACTIVE", "PEERS"),
                "the third is refused",
                CONVERGENCE_S,
            )
            await_the_same(servers)


def test_keys_that_a_peer_may_have_prolonged_are_left_in_the_file(tmp_path: Path) -> None:
    """For as long as he is away: nothing searches for them again and again, nothing loads them."""
    one, two = Node(1, tmp_path / "one.db"), Node(2)
    for number in range(50):
        one("SET", f"k{number}", "v", "EX", 10)
    sync(one, two)
    one.restart(fold=True)
    one.clock.advance(20)
    for _ in range(3):
        one.tidy()
    space = one.keyspace.databases[0].space
    assert (len(space), len(space.keys)) == (50, 0)
    assert one("GET", "k1") == b"$-1\r\n"
    two.clock.advance(20)
    two.pull(one)
    one.tidy()
    assert len(space) == 0
    one.close()
