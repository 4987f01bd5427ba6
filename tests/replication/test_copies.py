"""A server on a copy of a file is another replica, however the copy was made, before it takes a
write: else two histories would go on under one number, and replicas would differ for ever."""

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import CommandError
from holdfast.replication.messages import Ack, Hello
from holdfast.replication.puller import LinkError
from holdfast.replication.replicator import Replicator
from holdfast.store.backup import backup
from holdfast.store.file.life import left_beside
from holdfast.store.memory.expiry import expire_due
from holdfast.store.store import FileStore
from tests.harness import HoldfastServer, wait_until
from tests.replication.crew import CONVERGENCE_S, ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

pytestmark = pytest.mark.timeout(300)

URL = "redis://127.0.0.1:1"


def start(node: Node, *urls: str) -> Replicator:
    node.replicator = Replicator(node.engine, "test", list(urls))
    node.engine.turn.end()
    return node.replicator


def started(number: int, path: Path, *urls: str) -> Node:
    node = Node(number, path)
    start(node, *urls)
    return node


def put_over(copy: Path, path: Path) -> None:
    """Overwrite the existing file, so that the inode stays the same."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    path.write_bytes(copy.read_bytes())


def hello_of(node: Node) -> Hello:
    return node.replicator.hello()


# -- the files beside the database ----------------------------------------------------------------


def copy_while_stopped(node: Node, path: Path, copy: Path) -> None:
    node.store.close()
    shutil.copy(path, copy)


def copy_while_running(node: Node, path: Path, copy: Path) -> None:
    """File and WAL, as they are at this moment."""
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    merged = FileStore(copy, node=node.number)
    merged.close()
    node.store.abandon()


def holdfast_backup(node: Node, path: Path, copy: Path) -> None:
    backup(path, copy)
    node.store.abandon()


WAYS = [copy_while_stopped, copy_while_running, holdfast_backup]


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("is_killed", [True, False])
def test_an_older_copy_in_the_place_of_the_file_is_recognised(
    tmp_path: Path, make: Callable[[Node, Path, Path], None], is_killed: bool
) -> None:
    """The inode is the same, and the files beside it are as the server left them."""
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    node = started(1, path)
    node("SET", "k", "v")
    make(node, path, copy)
    node = started(1, path)
    node("SET", "k", "w")
    node.engine.store.sync()
    node.restart(fold=not is_killed)
    node.close()
    put_over(copy, path)
    node = started(1, path)
    assert node.stage.replica == 257
    node("SET", "k", "x")
    assert node.stage.vector == {1: 1, 257: 1}
    node.close()


def test_a_copy_that_was_made_while_the_server_ran_is_recognised_within_one_life(
    tmp_path: Path,
) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    node = started(1, path)
    node("SET", "k", "v")
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    node("SET", "k", "w")
    node.engine.store.sync()  # and then it is acknowledged
    node.close()
    shutil.copy(copy, path)
    shutil.copy(f"{copy}-wal", f"{path}-wal")
    Path(f"{path}-mark").unlink()  # which says that writes are lost, and so they are
    node = started(1, path)
    assert node.stage.replica == 257
    node.close()


@pytest.mark.parametrize("make", WAYS)
def test_a_copy_elsewhere_is_recognised(
    tmp_path: Path, make: Callable[[Node, Path, Path], None]
) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    node = started(1, path)
    node("SET", "k", "v")
    make(node, path, copy)
    node = started(1, copy)
    assert node.stage.replica == 257
    node.close()


def test_a_copy_that_went_on_elsewhere_and_came_back_is_recognised(tmp_path: Path) -> None:
    """It has more than the file had that it replaces. The server elsewhere may go on with it."""
    path, elsewhere = tmp_path / "a.db", tmp_path / "elsewhere.db"
    node = started(1, path)
    node("SET", "k", "v")
    copy_while_stopped(node, path, elsewhere)
    other = started(1, elsewhere)
    other("SET", "k", "w")
    assert other.stage.replica == 257
    other.store.close()
    put_over(elsewhere, path)
    node = started(1, path)
    assert node.stage.replica == 513
    node.close()


@pytest.mark.parametrize("content", [None, b"", b"holdfast life=", b"\x00" * 200])
def test_a_file_without_its_life_counts_as_a_copy(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.db"
    node = started(1, path)
    node("SET", "k", "v")
    node.restart(fold=True)
    node.close()
    beside = tmp_path / "a.db-life"
    assert beside.stat().st_mode & 0o777 == 0o600
    beside.unlink() if content is None else beside.write_bytes(content)
    node = started(1, path)
    assert node.stage.replica == 257
    node.close()


def test_the_file_itself_is_no_copy_however_it_was_left(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    node = started(1, path)
    for number in range(12):
        node("SET", "k", number)
        if number % 2:
            node.engine.store.sync()
        node.restart(fold=number % 3 == 0)
        start(node)
        assert node.stage.replica == 1
    node.close()


def test_a_start_that_is_killed_half_way_does_not_make_a_copy_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new token is beside the file, and the file does not have it yet."""
    path = tmp_path / "a.db"
    node = started(1, path)
    node("SET", "k", "v")
    node.restart()
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "commit", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Replicator(node.engine, "test", [])
    node.restart()
    start(node)
    assert node.stage.replica == 1
    node.close()


def test_a_copy_is_still_one_when_its_first_start_is_killed_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    node = started(1, path)
    node("SET", "k", "v")
    copy_while_stopped(node, path, copy)
    node = Node(1, copy)
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "commit", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Replicator(node.engine, "test", [])
    node.restart()
    start(node)
    assert node.stage.replica > 1
    node.close()


def test_one_backup_restored_twice_gives_two_replicas(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    node = started(1, path)
    node("SET", "k", "v")
    backup(path, copy)
    node.close()
    replicas = []
    for _ in range(2):
        put_over(copy, path)
        node = started(1, path)
        replicas.append(node.stage.replica)
        node("SET", "k", "w")
        node.close()
    assert replicas == [257, 513]


def test_a_copy_with_peers_takes_no_writes_before_it_has_met_one(tmp_path: Path) -> None:
    """Peers know which numbers its node has used: here that of a copy that was restored before."""
    path, copy = tmp_path / "two.db", tmp_path / "copy.db"
    one, two = Node(1), started(2, path, URL)
    start(one)
    two.replicator.pullers[0]._meet(hello_of(one))
    two.replicator.turn_into("member")
    two("SET", "k", "v")
    sync(one, two)
    copy_while_stopped(two, path, copy)
    one.stage.members.admit(2, 258)
    restored = started(2, copy, URL)
    assert restored("SET", "k", "w").startswith(b"-READONLY this server's file is a copy")
    puller = restored.replicator.pullers[0]
    with pytest.raises(LinkError, match="new replica now"):
        puller._meet(hello_of(one))
    assert restored.stage.replica == 514
    puller._meet(hello_of(one))
    assert restored("SET", "k", "w").startswith(b"-READONLY this server has not caught up")
    restored.pull(one)
    puller.state = puller.state.FOLLOWING
    restored.replicator.check_joined()
    assert restored("SET", "k", "w") == b"+OK\r\n"
    sync(one, restored)
    restored.close()


@pytest.mark.parametrize("is_field", [False, True])
@pytest.mark.parametrize("is_read_again", [False, True])
def test_expired_keys_write_nothing_while_a_copy_takes_no_writes(
    tmp_path: Path, is_field: bool, is_read_again: bool
) -> None:
    """The copy does not know yet which numbers of its node are used. A removal under such a number
    would be a second history: a server that only waited would count as a fork, for ever."""
    path, copy = tmp_path / "two.db", tmp_path / "copy.db"
    one, two = Node(1), started(2, path, URL)
    start(one)
    two.replicator.pullers[0]._meet(hello_of(one))
    two.replicator.turn_into("member")
    if is_field:
        two("HSET", "k", "f", "v")
        two("HPEXPIRE", "k", 50, "FIELDS", 1, "f")
    else:
        two("SET", "k", "v", "PX", 50)
    sync(one, two)
    copy_while_stopped(two, path, copy)
    restored = started(2, copy, URL)
    if is_read_again:
        restored.engine.reload()
    # The members are away for so long that no key waits for them.
    restored.stage.members.lapse({2: sys.maxsize})
    restored.clock.advance(5)
    restored("HLEN" if is_field else "GET", "k")  # a reader finds what has expired
    expire_due(restored.keyspace, 100)
    restored.engine.turn.end()
    assert restored.stage.own_seq == 0
    one.stage.members.admit(2, 258)
    with pytest.raises(LinkError, match="new replica now"):
        restored.replicator.pullers[0]._meet(hello_of(one))
    restored.replicator.turn_into("member")
    assert restored("EXISTS", "k") == b":0\r\n"
    assert restored.stage.own_seq > 0
    restored.close()


def test_a_server_that_became_a_new_replica_greets_all_its_peers_again(tmp_path: Path) -> None:
    """A peer that knows it as the old one counts its acknowledgements for the old one, and keeps
    its log for the new one."""

    async def main() -> None:
        path, copy = tmp_path / "two.db", tmp_path / "copy.db"
        one, two = Node(1), started(2, path, URL)
        start(one)
        two.replicator.pullers[0]._meet(hello_of(one))
        sync(one, two)
        copy_while_stopped(two, path, copy)
        one.stage.members.admit(2, 258)
        restored = started(2, copy, URL, "redis://127.0.0.1:2")
        first, second = restored.replicator.pullers
        greeted = second._over = asyncio.get_running_loop().create_future()
        with pytest.raises(LinkError, match="new replica now"):
            first._meet(hello_of(one))
        assert isinstance(greeted.exception(), LinkError)
        restored.close()

    asyncio.run(main())


def test_a_link_of_an_earlier_replica_ends_when_a_newer_one_is_known() -> None:
    """The node may become a new replica while its greeting as the old one is on its way. Its
    acknowledgements would count for the old one, and the log would wait for the new one."""
    one, two, session = Node(1), Node(2), Node(9).client.session
    start(one)
    start(two)
    one.replicator.link(session, hello_of(two))
    ack = Ack(two.stage.vector, 0, 0, two.stage.members.view, is_joining=False)
    one.replicator.acknowledge(session, ack)
    one.stage.members.admit(2, 258)
    with pytest.raises(CommandError, match="is a new replica by now"):
        one.replicator.acknowledge(session, ack)


# -- copies of both files: peers know -------------------------------------------------------------


def clone(node: Node, path: Path, folder: Path) -> Path:
    """The disk, as it is while the server is stopped."""
    node.store.close()
    folder.mkdir()
    for name in (path.name, f"{path.name}-life"):
        shutil.copy(path.with_name(name), folder / name)
    return folder / path.name


def test_a_clone_that_has_written_nothing_becomes_a_new_replica(tmp_path: Path) -> None:
    path = tmp_path / "two.db"
    one, two = Node(1), started(2, path)
    start(one)
    two.replicator.identity.check_history(hello_of(one))
    two("SET", "k", "v")
    copy = clone(two, path, tmp_path / "clone")
    two = started(2, path)
    two("SET", "k", "w")
    sync(one, two)
    again = started(2, copy)
    assert again.stage.replica == 2, "nobody can tell yet"
    with pytest.raises(CommandError, match="new replica"):
        again.replicator.identity.check_history(hello_of(one))
    assert again.stage.replica == 258
    again.clock.advance(1)
    again("SET", "k", "x")
    sync(one, again)
    assert one("GET", "k") == b"$1\r\nx\r\n"
    for node in (two, again):
        node.close()


@pytest.mark.parametrize("writes", [1, 2, 3])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_clone_that_has_written_says_so_and_takes_no_more(
    tmp_path: Path, writes: int, restarts: bool
) -> None:
    """Fewer, as many and more writes than the other one, which the peers have."""
    path = tmp_path / "two.db"
    one, two = Node(1), started(2, path)
    start(one)
    two("SET", "k", "v")
    copy = clone(two, path, tmp_path / "clone")
    two = started(2, path)
    for number in range(2):
        two("SET", f"key-{number}", "theirs")
    sync(one, two)
    again = started(2, copy)
    again.clock.advance(1)
    for number in range(writes):
        assert again("SET", f"key-{number}", "mine") == b"+OK\r\n"
    if restarts:
        again.restart()
        start(again)
    replicator = again.replicator
    assert replicator is not None
    with pytest.raises(CommandError, match="a copy of this server's file has written, too"):
        replicator.link(again.client.session, hello_of(one))
    assert again("SET", "k", "x").startswith(b"-READONLY a copy of this server's file has written")
    assert again("GET", "key-0") == b"$4\r\nmine\r\n"
    again.restart()
    start(again)
    assert again("SET", "k", "x").startswith(b"-READONLY"), "also after a restart"
    for node in (two, again):
        node.close()


def test_the_original_goes_on_when_peers_have_its_writes(tmp_path: Path) -> None:
    path = tmp_path / "two.db"
    one, two = Node(1), started(2, path)
    start(one)
    for number in range(3):
        two("SET", "k", number)
        two.clock.advance(1)
        sync(one, two)
        two("SET", "more", number)
        two.restart(fold=number == 1)
        replicator = start(two)
        replicator.identity.check_history(hello_of(one))
        assert (two.stage.replica, replicator.state) == (2, "member")
    two.close()


# -- with processes -------------------------------------------------------------------------------


@pytest.mark.source_only
@pytest.mark.parametrize("how", ["backup", "copy"])
def test_all_that_a_restored_server_acknowledges_reaches_its_peer(tmp_path: Path, how: str) -> None:
    """As the guide says: remove the file, put the copy there, start. The new file may have the old
    one's inode. The peer is away until the restored server has been written to."""
    with cluster(tmp_path, 2) as servers:
        one, two = servers
        await_the_same(servers)
        for number in range(4):
            assert ask(two, "SET", f"before-{number}", "v") == b"+OK\r\n"
        await_the_same(servers)
        copy = tmp_path / "copy.db"
        if how == "backup":
            backup(Path(two.db), copy)
        two.terminate()
        if how == "copy":
            shutil.copy(two.db, copy)
        two.start()
        for number in range(4):
            wait_until(
                lambda n=number: ask(two, "SET", f"since-{n}", "v") == b"+OK\r\n",  # type: ignore[misc]
                "written",
                CONVERGENCE_S,
            )
        await_the_same(servers)
        two.terminate()
        for file in Path(two.db).parent.glob("*.db*"):
            if not file.name.endswith("-life"):
                file.unlink()
        shutil.copy(copy, two.db)
        two.start()
        for number in range(8):
            wait_until(
                lambda n=number: ask(two, "SET", f"after-{n}", "v") == b"+OK\r\n",  # type: ignore[misc]
                "the restored server takes writes",
                CONVERGENCE_S,
            )
        await_the_same(servers)
        for server in servers:
            assert ask(server, "DBSIZE") == b":16\r\n"
        assert "is a copy" in two.stderr
        assert one.running


@pytest.mark.source_only
def test_two_clones_of_one_disk_take_no_writes_until_one_is_stopped(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        one, two = servers
        await_the_same(servers)
        assert ask(two, "SET", "k", "v") == b"+OK\r\n"
        await_the_same(servers)
        two.terminate()
        folder = tmp_path / "clone"
        shutil.copytree(Path(two.db).parent, folder)
        two.start()
        await_the_same(servers)
        args = [arg.replace("2.sock", "clone.sock") for arg in two.args]
        with HoldfastServer(folder, *args) as clone:
            assert clone.db != two.db
            for server in (two, clone):
                wait_until(
                    lambda s=server: ask(s, "SET", "k", "w").startswith(  # type: ignore[misc]
                        b"-READONLY another server has the same node id"
                    ),
                    "both take no writes",
                    CONVERGENCE_S,
                )
            assert ask(one, "SET", "other", "v") == b"+OK\r\n"
            assert "two servers have the node id 2" in one.stderr
            clone.terminate()
            wait_until(
                lambda: ask(two, "SET", "k", "x") == b"+OK\r\n", "one is left", CONVERGENCE_S
            )
        await_the_same(servers)
        assert ask(one, "GET", "k") == b"$1\r\nx\r\n"


def test_the_file_beside_the_database_can_be_read(tmp_path: Path) -> None:
    node = started(1, tmp_path / "a.db")
    node("SET", "k", "v")
    node("SET", "k", "w")
    node.engine.store.sync()
    left = left_beside(tmp_path / "a.db")
    assert left is not None
    assert (left.replica, left.seq) == (1, 2)
    assert left.tokens[0] == left.tokens[1] == node.replicator.identity.token
    node.close()
