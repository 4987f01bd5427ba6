"""The puller, and connections that break at awkward moments."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.client.protocol.reply_parser import Push
from holdfast.client.transport.link import Link
from holdfast.crdt.causal_log import decode, encode
from holdfast.replication import puller as puller_module
from holdfast.replication.greeting import Greeting
from holdfast.replication.link_states import LinkState
from holdfast.replication.messages import PUSH, RECORDS
from holdfast.replication.puller import SLICE_BYTES, LinkError, Puller
from holdfast.replication.replicator import Replicator
from holdfast.store.replicated import inbound as replicated
from tests.harness.in_process import Peer
from tests.replication.nodes import Node


def test_a_connection_that_breaks_between_two_messages_is_noticed() -> None:
    """Between two messages of the handshake. The second would never be answered, and the link would
    be given up only when its patience ended; here time stands still."""

    async def main() -> None:
        node = Node(1)
        puller = Puller(Replicator(node.engine, "test", []), "redis://127.0.0.1:1")
        link = puller._link = Link(puller, None)
        greeting = puller._greeting = Greeting(link)
        puller.on_lost(link, OSError("cut"))
        with pytest.raises(OSError, match="cut"):
            await greeting.exchange(b"hello")

    asyncio.run(main())


def test_a_record_wakes_the_clients_that_wait_for_its_keys() -> None:
    """At once, and not when the next command comes."""

    async def main() -> None:
        one, two = Node(1), Node(2)
        two("RPUSH", "list", "x")
        (record,) = two.stage.log.since(0)
        one.client.send("BLPOP", "list", 0)
        puller = Puller(Replicator(one.engine, "test", []), "redis://127.0.0.1:1")
        puller._over = asyncio.get_running_loop().create_future()
        puller.on_replies([Push([PUSH, RECORDS, record.data])])
        assert one.client.replies() == [b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"]
        one.engine.turn.end()
        two.pull(one)
        assert two("EXISTS", "list") == b":0\r\n"

    asyncio.run(main())


def test_a_server_that_catches_up_serves_its_clients_in_between() -> None:
    """A limited number of records at a time, however many arrive; but a transaction's record stays
    whole."""
    value, together = "x" * 1000, 100

    async def main() -> list[int]:
        one, two = Node(1), Node(2)
        for number in range(200):
            two("SET", f"key-{number}", value)
        two("MSET", *(word for number in range(together) for word in (f"t-{number}", value)))
        records = [record.data for record in two.stage.log.since(0)]
        puller = Puller(Replicator(one.engine, "test", []), "redis://127.0.0.1:1")
        puller._over = asyncio.get_running_loop().create_future()
        puller.on_replies(
            [Push([PUSH, RECORDS, *records[:90]]), Push([PUSH, RECORDS, *records[90:]])]
        )
        sizes = [0]
        while puller._going_on is not None:
            sizes.append(int(one("DBSIZE")[1:]))  # a client is answered
            await asyncio.sleep(0)
        sizes.append(int(one("DBSIZE")[1:]))
        assert one.digest() == two.digest()
        assert puller._inbox.pushes_taken == 2
        return sizes

    sizes = asyncio.run(main())
    steps = [after - before for before, after in pairwise(sizes)]
    most = SLICE_BYTES // len(value)
    assert sizes[-1] == 200 + together
    assert len(steps) >= 200 // most
    assert all(1 <= step <= most for step in steps[:-1])
    assert steps[-1] >= together


@pytest.mark.parametrize("bound", ["MOST_OPS", "MOST_OWED_SLICES"])
def test_a_link_takes_in_nothing_while_the_journal_or_the_fold_is_behind(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would have to keep up later with whatever count has come."""
    monkeypatch.setattr(puller_module, "WAIT_S", 0)

    async def main() -> None:
        one, two = Node(1), Node(2)
        for number in range(100):
            two("SET", f"key-{number}", "v")
        records = [record.data for record in two.stage.log.since(0)]
        puller = Puller(Replicator(one.engine, "test", []), "redis://127.0.0.1:1")
        puller._over = asyncio.get_running_loop().create_future()
        with monkeypatch.context() as patch:
            patch.setattr(puller_module, bound, -1)
            puller.on_replies([Push([PUSH, RECORDS, *records])])
            for _ in range(20):
                await asyncio.sleep(0)
            assert one("DBSIZE") == b":0\r\n"
        for _ in range(20):
            await asyncio.sleep(0)
        assert one("DBSIZE") == b":100\r\n"

    asyncio.run(main())


@pytest.mark.parametrize(
    "bad",
    [
        (0, b"list", "list", (10, ((b"position", b"v"), 7))),
        (0, b"stream", "stream", (4, ((1, b"e" + bytes(16), 1 << 16 | 2, 1, (b"f",), (), ()), 7))),
        (0, b"key", "no such kind", (0, {}, (), 0)),
        (0, None, "string", (5, 9 << 16 | 2, 1, [b"key", b"v"])),
    ],
    ids=["list", "stream", "kind", "run"],
)
@pytest.mark.parametrize("is_noticed_before", [True, False])
@pytest.mark.source_only
def test_a_record_that_fails_half_way_leaves_nothing_and_what_was_before_it_stays(
    tmp_path: Path,
    bad: tuple[object, ...],
    is_noticed_before: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bad record arrives after a client's write that is not committed yet; later the peer sends
    the good record instead. With `is_noticed_before` the check of its shape refuses it; without,
    it fails while it is applied."""
    if not is_noticed_before:
        monkeypatch.setattr(replicated, "read_record", lambda data, databases: decode(data))

    async def main() -> None:
        one, two = Node(1, tmp_path / "1.db"), Node(2)
        two("RPUSH", "list", "a")
        two.client.transaction(("SET", "first", "v"), ("XADD", "stream", "*", "f", "v"))
        log = two.stage.log
        before, good = (decode(log.read(number)) for number in range(len(log)))
        worse = good._replace(changes=[*good.changes, bad])
        puller = Puller(Replicator(one.engine, "test", []), "redis://127.0.0.1:1")
        over = puller._over = asyncio.get_running_loop().create_future()
        waiter = Peer(one.engine)
        waiter.send("BLPOP", "list", 0)
        one.client.send("SET", "mine", "v")
        puller.on_replies([Push([PUSH, RECORDS, encode(before), encode(worse)])])
        why = "the peer sent" if is_noticed_before else "record"
        assert why in str(over.exception())
        one.engine.turn.end()
        assert one.client.replies() == [b"+OK\r\n"]
        assert waiter.replies() == [b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n"]
        assert one("KEYS", "*") == b"*1\r\n$4\r\nmine\r\n"
        one.check()
        one.check_file()
        one.pull(two)
        for restarts in (False, True):
            one.check()
            assert one("DBSIZE") == b":3\r\n"
            if not restarts:
                one.restart()
        two.pull(one)
        assert one.digest() == two.digest()

    asyncio.run(main())


def test_a_link_that_was_given_up_takes_in_nothing_more() -> None:
    async def main() -> None:
        one, two = Node(1), Node(2)
        for number in range(100):
            two("SET", f"key-{number}", "x" * 1000)
        records = [record.data for record in two.stage.log.since(0)]
        puller = Puller(Replicator(one.engine, "test", []), "redis://127.0.0.1:1")
        over = puller._over = asyncio.get_running_loop().create_future()
        puller.on_replies([Push([PUSH, RECORDS, *records])])
        size = one("DBSIZE")
        puller.pause()
        await asyncio.sleep(0)
        assert one("DBSIZE") == size != b":0\r\n"
        assert str(over.exception()) == "paused"

    asyncio.run(main())


def test_the_end_of_an_earlier_link_is_ignored() -> None:
    async def main() -> None:
        node = Node(1)
        puller = Puller(Replicator(node.engine, "test", []), "redis://127.0.0.1:1")
        puller._link = Link(puller, None)
        puller.on_lost(Link(puller, None), OSError("cut"))
        assert puller._lost is None

    asyncio.run(main())


@pytest.mark.parametrize("resumed", [False, True])
def test_a_link_may_be_paused_while_it_is_dialled(
    monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    """That attempt is over, with or without success."""

    async def main() -> None:
        dialled, answered = asyncio.Event(), asyncio.Event()

        def slow_dialer(*_: object) -> Callable[[object], Awaitable[None]]:
            async def dial(_: object) -> None:
                dialled.set()
                await answered.wait()

            return dial

        monkeypatch.setattr(puller_module, "dialer", slow_dialer)
        node = Node(1)
        puller = Puller(Replicator(node.engine, "test", []), "redis://127.0.0.1:1")
        puller.resume()
        attempt = asyncio.ensure_future(puller._follow())
        await dialled.wait()
        puller.pause()
        if resumed:
            puller.resume()
        answered.set()
        with pytest.raises(LinkError, match="paused"):
            await attempt
        assert puller.state is (LinkState.WAITING if resumed else LinkState.PAUSED)

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(6))
def test_a_link_ends_also_if_it_is_woken_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """A peer dials us in the same moment. The link was tried for ever, and the server did not
    stop."""

    async def main() -> None:
        puller = Puller(Replicator(Node(1).engine, "test", []), "redis://127.0.0.1:1")

        async def follow() -> None:
            raise LinkError("not there")

        monkeypatch.setattr(puller, "_follow", follow)
        puller.start()
        for _ in range(5):
            await asyncio.sleep(0)
        assert puller.history.attempts == 1, "it waits"
        puller.hurry()
        for _ in range(turns):
            await asyncio.sleep(0)
        stopped = asyncio.ensure_future(puller.stop())
        for _ in range(10):
            await asyncio.sleep(0)
        assert stopped.done()

    asyncio.run(main())
