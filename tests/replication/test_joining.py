"""A server on a new file takes no writes before it has caught up. All servers learn of all members,
also of those they have not met."""

from pathlib import Path

import pytest

from holdfast.errors import CommandError, ConfigError
from holdfast.replication.intake import Intake
from holdfast.replication.link_states import LinkState
from holdfast.replication.messages import BEGIN, COMPLETE, KEYS, Hello, pack
from holdfast.replication.puller import LinkError
from holdfast.replication.replicator import Replicator
from holdfast.store.replicated.members import Members
from tests.harness import HoldfastServer, wait_until
from tests.replication.crew import CONVERGENCE_S, ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

pytestmark = pytest.mark.timeout(300)

URLS = ("redis://127.0.0.1:1", "redis://127.0.0.1:2")


def replicator_of(node: Node, *urls: str) -> Replicator:
    replicator = node.replicator = Replicator(node.engine, "test", list(urls))
    return replicator


def hello(node: Node, *, is_joining: bool = False) -> Hello:
    return node.hello()._replace(is_joining=is_joining)


def meet(replicator: Replicator, number: int, peer: Hello) -> None:
    """As the link with that number does, up to where it follows."""
    puller = replicator.pullers[number]
    puller._meet(peer)
    puller.state = LinkState.FOLLOWING
    replicator.check_joined()


# -- read-only ------------------------------------------------------------------------------------


def test_a_joiner_takes_no_writes_before_it_has_caught_up() -> None:
    founder, joiner = Node(1), Node(2)
    founder("SET", "k", "v")
    replicator = replicator_of(joiner, URLS[0])
    assert joiner("SET", "k", "w").startswith(b"-READONLY this server has not reached its peers")
    meet(replicator, 0, hello(founder))
    assert joiner("SET", "k", "w").startswith(b"-READONLY this server has not caught up")
    for script in ("return redis.call('SET', 'k', 'w')", "#!lua\nreturn redis.call('DEL', 'k')"):
        assert b"READONLY" in joiner("EVAL", script, 0)
    assert b"EXECABORT" in joiner.client.transaction(("SET", "k", "w"))
    assert joiner("GET", "k") == b"$-1\r\n"
    assert joiner("EVAL", "return redis.call('GET', 'k')", 0) == b"$-1\r\n"
    assert joiner("PING") == b"+PONG\r\n"
    joiner.pull(founder)
    replicator.check_joined()
    assert joiner("SET", "k", "w") == b"+OK\r\n"
    assert joiner("EVAL", "return redis.call('GET', 'k')", 0) == b"$1\r\nw\r\n"
    sync(founder, joiner)


def test_a_server_remembers_that_it_has_caught_up(tmp_path: Path) -> None:
    founder, joiner = Node(1), Node(2, tmp_path / "two.db")
    founder("SET", "k", "v")
    meet(replicator_of(joiner, URLS[0]), 0, hello(founder))
    joiner.engine.turn.end()
    joiner.restart()
    replicator = replicator_of(joiner, URLS[0])
    assert joiner("SET", "k", "w").startswith(b"-READONLY"), "it was killed too early"
    meet(replicator, 0, hello(founder))
    joiner.pull(founder)
    replicator.check_joined()
    joiner.engine.turn.end()
    joiner.restart()
    replicator_of(joiner, URLS[0])
    assert joiner("SET", "k", "w") == b"+OK\r\n", "also while nobody else is there"
    joiner.close()


def test_a_server_that_begins_alone_takes_writes_and_one_with_peers_waits_for_all() -> None:
    assert replicator_of(alone := Node(1)).state == "member"
    assert alone("SET", "k", "v") == b"+OK\r\n"
    one, two, three = Node(1), Node(2), Node(3)
    replicator = replicator_of(one, *URLS)
    meet(replicator, 0, hello(two, is_joining=True))
    assert replicator.is_joining, "the third may know more"
    meet(replicator, 1, hello(three, is_joining=True))
    assert not replicator.is_joining


def test_a_node_that_lost_its_file_gives_no_number_twice() -> None:
    """It comes back empty, with its old node id. Writes before it met a peer would have reused the
    numbers of its earlier writes."""
    one, lost = Node(1), Node(2)
    lost("RPUSH", "list", "a", "b")
    sync(one, lost)
    again = Node(2)
    replicator = replicator_of(again, URLS[0])
    assert again("RPUSH", "list", "c").startswith(b"-READONLY")
    with pytest.raises(LinkError, match="new replica"):
        meet(replicator, 0, hello(one))
    meet(replicator, 0, hello(one))
    again.pull(one)
    replicator.check_joined()
    assert again("RPUSH", "list", "c") == b":3\r\n"
    assert again.stage.replica == 258
    sync(one, again)
    assert one("LLEN", "list") == b":3\r\n"


def test_a_file_with_data_cannot_take_the_number_of_another_node() -> None:
    one, two = Node(1), Node(2)
    two("SET", "k", "v")
    sync(one, two)
    stranger = Node(2)
    stranger("SET", "mine", "v")
    with pytest.raises(LinkError, match="node id 2 was another file's"):
        meet(replicator_of(stranger, URLS[0]), 0, hello(one))


def test_a_file_is_one_node_s(tmp_path: Path) -> None:
    node = Node(1, tmp_path / "a.db")
    replicator_of(node)
    node.engine.turn.end()
    node.close()
    other = Node(2, tmp_path / "a.db")
    with pytest.raises(ConfigError, match="this file is node 1's"):
        replicator_of(other)
    other.close()


# -- how servers learn of members -----------------------------------------------------------------


def view_of(known: dict[int, int], *removed: int) -> bytes:
    return pack((known, removed))


def test_a_joiner_is_waited_for_also_by_servers_that_have_not_met_it() -> None:
    """Two has not been told of three, and would forget that it deleted three's counter."""
    one, two, three = Node(1), Node(2), Node(3)
    sync(one, two)
    three.pull(one)
    three("INCR", "n")
    one.pull(three)
    two.pull(one)
    two("DEL", "n")
    one.pull(two)
    two.tidy()
    three("INCR", "n")
    three.pull(two)
    assert three("GET", "n") == b"$1\r\n1\r\n"
    sync(one, two, three)


def test_views_become_equal_in_any_order_of_messages() -> None:
    one, two, three = Members(1), Members(2), Members(3)
    for members in (one, two, three):
        members.identify(members.node, members.replica)
    one.admit(4, 4)
    two.remove([4])
    three.identify(3, 259)
    for _ in range(2):
        for members in (one, two, three):
            for other in (one, two, three):
                members.learn(other.view)
    assert one.view == two.view == three.view
    assert one.epoch == two.epoch == three.epoch == 6  # four nodes, one came anew, one went
    assert one.present == {2: 2, 3: 259}
    assert one.removed == {4}


def test_an_acknowledgement_does_not_count_while_its_sender_admits_a_removed_server() -> None:
    members = Members(1)
    members.identify(1, 1)
    members.admit(2, 2)
    members.admit(3, 3)
    members.acknowledge(2, {1: 5}, members.view)
    members.acknowledge(3, {1: 1}, members.view)
    assert members.stable({1: 5}) == {1: 1}
    members.remove([3])
    assert members.stable({1: 5}) == {}, "what was said before does not count"
    members.acknowledge(2, {1: 5}, view_of({1: 1, 2: 2, 3: 3}))
    assert members.stable({1: 5}) == {}, "nor what is said by one who does not know"
    members.acknowledge(2, {1: 5, 3: 9}, view_of({1: 1, 2: 2, 3: 3}, 3))
    assert members.stable({1: 5, 3: 8}) == {}, "something of the third is still on the way"
    assert members.stable({1: 5, 3: 9}) == {1: 5, 3: 9}


def test_removing_spreads() -> None:
    one, two = Node(1), Node(2)
    replicator = replicator_of(two, *URLS)
    meet(replicator, 0, hello(one))
    meet(replicator, 1, hello(Node(3)))
    one.stage.members.admit(3, 3)
    replicator_of(one).forget(3)
    replicator.learn(one.stage.members.view)
    assert [puller.node for puller in replicator.pullers] == [1]
    assert replicator.unlinked == []
    with pytest.raises(CommandError, match="FORGOTTEN node 3 was removed"):
        replicator.link(two.client.session, hello(Node(3)))
    assert two("ACTIVE", "FORGET", 2).startswith(b"-ERR a server does not forget itself")


def test_one_node_with_two_addresses_is_expected_once() -> None:
    one, two = Node(1), Node(2)
    replicator = replicator_of(one, *URLS)
    assert one.stage.members.expected == 2
    for number in (0, 1):
        meet(replicator, number, hello(two))
    assert one.stage.members.expected == 1


def test_an_address_that_leads_nowhere_is_forgotten() -> None:
    """Until then a member is expected that never comes, and nothing is cut from the log."""
    one, two = Node(1), Node(2)
    replicator = replicator_of(one, *URLS)
    meet(replicator, 0, hello(two))
    one("SET", "k", "v")
    sync(one, two)
    one.tidy()
    assert len(one.stage.log) == 1
    assert one("ACTIVE", "FORGET", "redis://other").startswith(b"-ERR there is no link")
    assert one("ACTIVE", "FORGET", URLS[1]) == b"+OK\r\n"
    one.tidy()
    assert len(one.stage.log) == 0


def test_a_removed_server_takes_no_writes() -> None:
    node = Node(3)
    replicator = replicator_of(node)
    assert node("SET", "k", "v") == b"+OK\r\n"
    replicator.learn(view_of({1: 1, 3: 3}, 3))
    assert node("SET", "k", "w").startswith(b"-READONLY this server was removed")
    assert node("GET", "k") == b"$1\r\nv\r\n"


def test_a_pause_holds_also_for_servers_never_met() -> None:
    node = Node(1)
    replicator = replicator_of(node)
    replicator.pause(None)
    with pytest.raises(CommandError, match="paused"):
        replicator.link(node.client.session, hello(Node(2)))
    replicator.resume(2)
    replicator.link(node.client.session, hello(Node(2)))


@pytest.mark.parametrize("words", [("LINK", "x"), ("ACK", "x"), ("LINK", pack(["test"]))])
def test_a_malformed_message_is_refused(words: tuple[str | bytes, ...]) -> None:
    node = Node(1)
    replicator_of(node)
    node("HELLO", 3)
    assert node("ACTIVE", *words).startswith(b"-ERR this is not a message of a peer")


# -- with processes -------------------------------------------------------------------------------


@pytest.mark.source_only
def test_a_joiner_and_a_removal_among_servers(tmp_path: Path) -> None:
    """The third follows one of two, and a server that is away; all learn of it, and of its end."""
    with cluster(tmp_path, 2) as servers:
        await_the_same(servers)
        assert ask(servers[0], "SET", "k", "v") == b"+OK\r\n"
        third = HoldfastServer(
            tmp_path / "node-3",
            *("--active-active", "--node-id", "3", "--unixsocket", str(tmp_path / "3.sock")),
        )
        with third:
            assert ask(third, "ACTIVE", "JOIN", f"unix://{tmp_path}/away.sock") == b"+OK\r\n"
            assert ask(third, "SET", "k", "w").startswith(b"-READONLY"), "it is empty, and new"
            for path, server in (("1.sock", third), ("3.sock", servers[0])):
                assert ask(server, "ACTIVE", "JOIN", f"unix://{tmp_path}/{path}") == b"+OK\r\n"
            wait_until(
                lambda: ask(third, "SET", "k", "w") == b"+OK\r\n", "it takes writes", CONVERGENCE_S
            )
            wait_until(
                lambda: b"unlinked\r\n$1\r\n3\r\n" in ask(servers[1], "ACTIVE", "INFO"),
                "two has heard of three",
                CONVERGENCE_S,
            )
            assert ask(servers[1], "ACTIVE", "FORGET", 3) == b"+OK\r\n"
            wait_until(
                lambda: ask(third, "SET", "k", "x").startswith(b"-READONLY this server was rem"),
                "three has heard of its end",
                CONVERGENCE_S,
            )
        await_the_same(servers)


def test_a_server_that_fell_behind_takes_no_writes_while_a_snapshot_arrives(tmp_path: Path) -> None:
    """As after a restore from a backup. Some keys already have events that the server's own vector
    lacks: deleting such a key there would delete only its older value."""
    one, two = Node(1), Node(2, tmp_path / "two.db")
    replicator = replicator_of(two, URLS[0])
    meet(replicator, 0, hello(one))
    assert two("SET", "old", "v") == b"+OK\r\n"
    sync(one, two)
    one("SET", "a", "1"), one("SET", "b", "2")
    one.stage.seal()
    puller = replicator.pullers[0]
    puller._meet(hello(one))
    puller.state = LinkState.BEHIND
    puller._part(BEGIN, pack(one.stage.vector))
    keys = [pack(key) for key in one.stage.snapshot()]
    puller._part(KEYS, keys[0])
    assert two("DEL", "a").startswith(b"-READONLY this server has not caught up")
    replicator.check_joined()
    two.engine.turn.end()
    two.restart()
    replicator = replicator_of(two, URLS[0])
    assert two("DEL", "a").startswith(b"-READONLY"), "also when it was killed half way"
    puller = replicator.pullers[0]
    puller._meet(hello(one))
    puller.state = LinkState.FOLLOWING
    replicator.check_joined()
    assert two("DEL", "a").startswith(b"-READONLY")
    two.pull(one)
    replicator.check_joined()
    assert two("DEL", "a") == b":1\r\n"
    sync(one, two)
    assert one("EXISTS", "a", "b", "old") == b":2\r\n"
    two.close()


@pytest.mark.parametrize(
    "pop",
    [
        ("BLPOP", "list", 0),
        ("BLMOVE", "list", "other", "LEFT", "RIGHT", 0),
        ("BLMPOP", 0, 1, "list", "LEFT"),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_client_that_waits_pops_nothing_before_its_server_has_caught_up(
    pop: tuple[str | int, ...],
) -> None:
    """It began to wait while its server took writes. A snapshot brings an element: others would
    hear that it was popped before they hear of it, and keep it for ever."""
    one, two = Node(1), Node(2)
    replicator = replicator_of(two, URLS[0])
    meet(replicator, 0, hello(one))
    assert two("SET", "k", "v") == b"+OK\r\n"
    two.client.send(*pop)
    reader = two.another_client()
    reader.send("XREAD", "BLOCK", 0, "STREAMS", "stream", 0)
    one("RPUSH", "list", "a")
    one("XADD", "stream", "*", "f", "v")
    one.stage.seal()
    replicator.fell_behind(one.stage.vector)
    intake = Intake(two.stage)
    intake.take(BEGIN, pack(one.stage.vector))
    for key in one.stage.snapshot():
        intake.take(KEYS, pack(key))
    two.engine.blocking.serve_ready()
    still_waiting = (two.client.is_waiting, reader.is_waiting)
    assert still_waiting == (True, False), "who only reads is answered"
    assert two.another_client().command("LLEN", "list") == b":1\r\n"
    intake.take(COMPLETE, pack(one.stage.vector))
    while not intake.finish_some():
        pass
    replicator.check_joined()
    two.engine.turn.end()
    assert len(two.client.replies()) == 1
    sync(one, two)
    assert one("LLEN", "list") == b":0\r\n"


def test_no_server_waits_for_the_records_of_a_removed_one() -> None:
    one, two, three = Node(1), Node(2), Node(3)
    replicator = replicator_of(two, *URLS)
    for number, other in enumerate((one, three)):
        meet(replicator, number, hello(other))
    three("SET", "k", "v")
    three.stage.seal()
    replicator.fell_behind(three.stage.vector)
    assert two("SET", "k", "w").startswith(b"-READONLY")
    replicator.check_joined()
    assert replicator.is_joining
    two.stage.members.removed.add(3)
    replicator.check_joined()
    assert two("SET", "k", "w") == b"+OK\r\n"
