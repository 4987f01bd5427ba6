"""Two servers with one node id: neither is linked, neither takes writes, and both say why."""

import time
from pathlib import Path

import pytest

from holdfast.errors import CommandError
from holdfast.replication.claims import PATIENCE_S, Claims
from holdfast.replication.replicator import Replicator
from tests.harness import HoldfastServer, wait_until
from tests.replication.crew import CONVERGENCE_S, ask
from tests.replication.nodes import Node

pytestmark = pytest.mark.timeout(300)

REFUSAL = b"-READONLY another server has the same node id: stop one of the two"


def started(number: int) -> Replicator:
    node = Node(number)
    node.replicator = Replicator(node.engine, "test", [])
    return node.replicator


def test_a_node_is_disputed_while_two_lives_are_heard_of_it() -> None:
    now_s = 0.0
    claims = Claims(lambda: now_s)
    assert not claims.hear(2, b"a")
    assert claims.hear(2, b"b")
    assert claims.hear(2, b"a"), "whoever speaks"
    assert not claims.hear(3, b"c")
    assert claims.disputed == [2]
    now_s = PATIENCE_S + 1
    assert not claims.hear(2, b"a"), "the other one is gone"
    assert claims.disputed == []


def test_a_server_that_comes_back_replaces_itself() -> None:
    claims = Claims(lambda: 0.0)
    assert not claims.hear(2, b"a")
    assert not claims.hear(2, b"b", [b"a"])
    assert claims.hear(2, b"c", [b"a"]), "a second copy of what the first one was before"


def test_neither_of_two_is_let_in_and_the_one_that_was_is_cut_off() -> None:
    one, two, other = started(1), started(2), started(2)
    one.link(Node(9).client.session, two.hello())
    assert one.followers.by_node(2) is not None
    for greeting in (other.hello(), two.hello(), other.hello()):
        with pytest.raises(CommandError, match="DUPLICATE two servers have the node id 2"):
            one.link(Node(9).client.session, greeting)
    assert one.followers.by_node(2) is None
    one.engine.clock.advance(PATIENCE_S + 1)  # type: ignore[attr-defined]
    one.link(Node(9).client.session, two.hello())
    assert one.followers.by_node(2) is not None


def test_a_server_is_told_by_each_peer_that_dials_it() -> None:
    """It may have no address of the one that hears two of it."""
    one, two = started(1), started(2)
    two.link(Node(9).client.session, one.hello()._replace(disputed=[2]))
    node = two.engine
    assert two.shown_state == "duplicate"
    refusal = node.condition.refusal
    assert refusal is not None
    assert refusal.message.startswith(REFUSAL[1:])
    assert b"restored" in refusal.message, "it may be itself, before it was restored"
    node.clock.advance(PATIENCE_S - 1)  # type: ignore[attr-defined]
    two.identity.check_dispute()
    assert two.shown_state == "duplicate"
    node.clock.advance(2)  # type: ignore[attr-defined]
    two.identity.check_dispute()
    assert two.shown_state == "member"
    assert node.condition.read_only is None


def test_both_know_when_they_meet_each_other() -> None:
    two, other = started(2), started(2)
    with pytest.raises(CommandError, match="DUPLICATE"):
        two.link(Node(9).client.session, other.hello())
    assert two.shown_state == "duplicate"


def tried(server: HoldfastServer) -> int:
    """How many connections there were."""
    (line,) = [
        each for each in ask(server, "INFO", "stats").split() if b"total_connections" in each
    ]
    return int(line.partition(b":")[2])


@pytest.mark.source_only
def test_writes_that_three_servers_acknowledge_survive_two_servers_with_one_node_id(
    tmp_path: Path,
) -> None:
    """Started together on new files, as nodes 1, 2 and 2."""
    names = ("1", "2", "other")
    servers = []
    for name in names:
        server = HoldfastServer(
            tmp_path / f"node-{name}",
            *("--active-active", "--node-id", "1" if name == "1" else "2"),
            *("--unixsocket", str(tmp_path / f"{name}.sock")),
        )
        for peer in names:
            if peer != name:
                server.args += ("--peer", f"unix://{tmp_path}/{peer}.sock")
        servers.append(server)
    one, two, other = servers
    with one, two, other:
        for server in (two, other):
            wait_until(
                lambda s=server: ask(s, "SET", "k", "v").startswith(REFUSAL),  # type: ignore[misc]
                "both take no writes",
                CONVERGENCE_S,
            )
        before = {server: tried(server) for server in servers}
        time.sleep(2)  # how long it is watched, not a wait
        for server in servers:
            assert tried(server) - before[server] < 20, "links do not flap"
        other.terminate()
        assert ask(one, "ACTIVE", "FORGET", f"unix://{tmp_path}/other.sock") == b"+OK\r\n"
        assert ask(two, "ACTIVE", "FORGET", f"unix://{tmp_path}/other.sock") == b"+OK\r\n"
        for number, server in enumerate((one, two)):
            wait_until(
                lambda s=server, n=number: ask(s, "SET", f"key-{n}", "v") == b"+OK\r\n",  # type: ignore[misc]
                "the two that are left take writes",
                CONVERGENCE_S,
            )
        wait_until(
            lambda: ask(one, "ACTIVE", "DIGEST") == ask(two, "ACTIVE", "DIGEST"),
            "the same",
            CONVERGENCE_S,
        )
        assert ask(one, "DBSIZE") == b":2\r\n"
