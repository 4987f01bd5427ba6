"""A malformed message of a peer is refused in one sentence: nothing of it is applied, no error is
an internal one, and it costs no more memory than its own size."""

import asyncio
import logging
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast.client.protocol.reply_parser import Push
from holdfast.crdt.causal_log import GapError, Record, encode
from holdfast.crdt.effects import POP
from holdfast.crdt.shapes import MalformedError
from holdfast.errors import INTERNAL, HoldfastError, ProtocolError
from holdfast.replication.messages import (
    BEGIN,
    COMPLETE,
    KEYS,
    MOST_BYTES,
    PIECE,
    PUSH,
    RECORDS,
    STARTS,
    Ack,
    pack,
)
from holdfast.replication.puller import MOST_PARTS, LinkError, Puller, reader
from holdfast.replication.replicator import Replicator
from tests.harness.in_process import Peer
from tests.replication.nodes import Node, sync
from tests.replication.test_random_lives import command

unpack = msgspec.msgpack.Decoder().decode


def started(number: int) -> Node:
    node = Node(number)
    node.replicator = Replicator(node.engine, "test", [])
    return node


def junk(rng: random.Random) -> Any:
    return rng.choice(
        [
            *(None, True, -1, 0, 1, -32, 255, 256, 65535, 65536, 1 << 47, 1 << 63, -(1 << 63)),
            *(
                0.5,
                float("nan"),
                float("inf"),
                b"",
                b"x",
                b"\xff" * 22,
                "",
                "string",
                "1e999",
                ".",
                "e5",
            ),
            *([], [1], [[]], {}, {1: 1}, {-1: 2}, {300: -5}, [b"a", b"b"], [None] * 5),
            rng.randrange(1 << 40),
            rng.randbytes(rng.choice([1, 9, 16, 22, 25])),
        ]
    )


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(data, list):
        for at, each in enumerate(data):
            yield from places(each, (*path, at))
    elif isinstance(data, dict):
        for name, each in data.items():
            yield from places(each, (*path, name))


def mutated(rng: random.Random, data: Any) -> Any:
    """One place is something else, or is missing, or is there twice."""
    path = rng.choice(list(places(data)))
    if not path:
        return junk(rng)
    *way, last = path
    around = data
    for step in way:
        around = around[step]
    what = rng.random()
    if what < 0.7 or isinstance(around, dict):
        around[last] = junk(rng)
    elif what < 0.85:
        del around[last]
    else:
        around.insert(last, around[last])
    return data


def bent(rng: random.Random, data: bytes) -> bytes:
    """Bytes that were a message."""
    if rng.random() < 0.8:
        try:
            return pack(mutated(rng, unpack(data)))
        except (OverflowError, msgspec.MsgspecError):
            return b"\xc1"
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.randrange(3)) + data[at + 1 :]


def said_of_bugs(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.exc_info]


@pytest.mark.parametrize("node", [-32, 0, 256, 1 << 40])
def test_only_numbers_from_1_to_255_are_nodes(node: int) -> None:
    one, two = started(1), started(2)
    hello = two.replicator.hello()._replace(node=node, replica=node)
    reply = Peer(one.engine, 3).command("ACTIVE", "LINK", pack(hello))
    assert reply == b"-ERR this is not a message of a peer\r\n"
    assert one.stage.members.known == {}
    view = pack(({node: node}, []))
    hello = two.replicator.hello()._replace(view=view)
    assert b"not a message" in Peer(one.engine, 3).command("ACTIVE", "LINK", pack(hello))
    hello = two.replicator.hello()._replace(view=pack(({}, [node])))
    assert b"not a message" in Peer(one.engine, 3).command("ACTIVE", "LINK", pack(hello))
    assert one.stage.members.known == {}


def test_greetings_and_acknowledgements_that_are_bent(
    rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = started(1), started(2)
    two("SET", "k", "v")
    sync(one, two)
    hello = pack(two.replicator.hello())
    vector, view = dict(two.stage.vector), two.stage.members.view
    ack = pack(Ack(vector, two.clock.now_ms(), 1, view, False, False, ""))
    for _ in range(1500):
        peer = Peer(one.engine, 3)
        if rng.random() < 0.5:
            reply = peer.command("ACTIVE", "LINK", bent(rng, hello))
        else:
            peer.command("ACTIVE", "LINK", hello)
            reply = peer.command("ACTIVE", "ACK", bent(rng, ack))
        assert INTERNAL.message not in reply
        assert reply[:1] in b"$-", reply
        one.engine.disconnected(peer.session)
        one.clock.advance(20)  # lives that were made up are forgotten
    assert said_of_bugs(caplog) == []
    assert all(0 < node < 256 for node in one.stage.members.known)


def records_of_all_types(rng: random.Random, count: int) -> tuple[Node, list[bytes]]:
    """Made by two, so that there are conflicts in them; the node that has all of them."""
    one, two = Node(1), Node(2)
    for number in range(count):
        node = rng.choice((one, two))
        node(*command(rng))
        if number % 10 == 0:
            node.clock.advance(0.01)
            one.pull(two)
            two.pull(one)
    one.pull(two)
    log = one.stage.log
    return one, [log.read(log.start + number) for number in range(len(log))]


@pytest.mark.parametrize("round_", range(4))
def test_records_that_are_bent(
    rng: random.Random, caplog: pytest.LogCaptureFixture, round_: int
) -> None:
    """Either they are refused, and nothing has changed, or they are records."""
    refused = 0
    while refused <= 30:  # a bent record that is accepted ends the records of a node
        _, records = records_of_all_types(rng, 150)
        node = started(3)
        for data in records:
            for _ in range(6):
                digest = node.digest()
                try:
                    node.stage.inbound.apply(bent(rng, data))
                except (MalformedError, GapError):  # before anything of it was applied
                    refused += 1
                    assert node.digest() == digest
            try:
                node.stage.inbound.apply(data)
            except HoldfastError:  # a bent record took its place
                break
            node.engine.turn.end()
        node.close()
    assert said_of_bugs(caplog) == []


def test_keys_of_snapshots_that_are_bent(
    rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = records_of_all_types(rng, 150)

    async def main() -> None:
        for key in [pack(key) for key in one.stage.snapshot()] * 60:
            node = started(3)
            puller = Puller(node.replicator, "redis://127.0.0.1:1")
            over = puller._over = asyncio.get_running_loop().create_future()
            puller.state = puller.state.FOLLOWING
            puller.on_replies(
                [
                    Push([PUSH, BEGIN, pack(one.stage.vector)]),
                    Push([PUSH, KEYS, bent(rng, key)]),
                    Push([PUSH, COMPLETE, pack(one.stage.vector)]),
                ]
            )
            for _ in range(4):  # slices
                await asyncio.sleep(0)
            if over.done():
                assert "internal" not in str(over.exception())

    asyncio.run(main())
    assert said_of_bugs(caplog) == []


@pytest.mark.parametrize(
    "said",
    [
        Push([]),
        Push([PUSH]),
        Push([b"message", b"a", b"b"]),
        Push([PUSH, RECORDS, 5]),
        Push([PUSH, RECORDS, None]),
        Push([PUSH, 7, b"x"]),
        Push([PUSH, b"unheard of", b"x"]),
        Push([PUSH, PIECE, b"x"]),
        Push([PUSH, PIECE, b""]),
        Push([PUSH, STARTS, pack((RECORDS, -1))]),
        Push([PUSH, STARTS, pack((b"other", 1))]),
        Push([PUSH, COMPLETE, b"\x80"]),
        Push([PUSH, KEYS, b"\x80"]),
        Push([PUSH, BEGIN, pack({-1: 3})]),
        Push([PUSH, RECORDS, encode(Record(1, 0, 5, 0, []))]),
        Push([PUSH, RECORDS, encode(Record(2, 0, 5, 0, [(99, b"k", "set", (1, b"m"))]))]),
        b"no ack",
        7,
        None,
        [b"ack"],
        {},
    ],
    ids=repr,
)
def test_malformed_messages_of_a_peer(said: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = started(1)
        puller = Puller(node.replicator, "redis://127.0.0.1:1")
        puller.state = puller.state.FOLLOWING
        over = puller._over = asyncio.get_running_loop().create_future()
        puller.on_replies([said])
        if over.done():
            assert "internal" not in str(over.exception())
        else:
            assert said == Push([PUSH])

    asyncio.run(main())
    assert said_of_bugs(caplog) == []


def test_one_snapshot_does_not_begin_in_another(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = started(1)
        puller = Puller(node.replicator, "redis://127.0.0.1:1")
        puller.state = puller.state.BEHIND
        over = puller._over = asyncio.get_running_loop().create_future()
        puller.on_replies([Push([PUSH, BEGIN, b"\x80"])])
        assert not over.done()
        puller.on_replies([Push([PUSH, BEGIN, b"\x80"])])
        assert "too early" in str(over.exception())

    asyncio.run(main())
    assert said_of_bugs(caplog) == []


def test_a_pop_of_more_than_there_is_costs_what_there_is() -> None:
    one, two = Node(1), Node(2)
    one("RPUSH", "list", *range(10))
    two.pull(one)
    one("LPOP", "list", 3)
    log = one.stage.log
    record = unpack(log.read(log.start + len(log) - 1))
    (change,) = record[4]
    assert change[3][0] == POP
    change[3][2] = 1_000_000_000
    tracemalloc.start()
    try:
        two.stage.inbound.apply(pack(record))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert two("LLEN", "list") == b":0\r\n"
    two.check()


@pytest.mark.parametrize("kind", [RECORDS, KEYS, BEGIN, STARTS])
def test_a_message_that_is_larger_than_any_peer_sends_is_refused_by_its_size(kind: bytes) -> None:
    """Each byte of it may denote an object. Larger messages travel in pieces."""

    head = b">3\r\n$6\r\nactive\r\n$%d\r\n%s\r\n" % (len(kind), kind)
    reader().feed(head + b"$%d\r\n" % MOST_BYTES)
    with pytest.raises(ProtocolError, match="a string of"):
        reader().feed(head + b"$%d\r\n" % (MOST_BYTES + 1))
    with pytest.raises(ProtocolError, match="elements"):
        reader().feed(b">%d\r\n" % (MOST_PARTS + 1))


def test_a_greeting_that_is_larger_than_any_peer_sends_is_refused_by_its_size() -> None:
    one, two = started(1), started(2)
    huge = [b"x" * 1000] * (MOST_BYTES // 1000)
    hello = pack(two.replicator.hello()._replace(past=huge))
    linked = Peer(one.engine, 3)
    linked.command("ACTIVE", "LINK", pack(two.replicator.hello()))
    for peer, word, data in (
        (Peer(one.engine, 3), "LINK", hello),
        (linked, "ACK", b"\xdd\x00\x50\x00\x00" + b"\x80" * (5 << 20)),
    ):
        tracemalloc.start()
        try:
            reply = peer.command("ACTIVE", word, data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert reply == b"-ERR this is not a message of a peer\r\n"
        assert peak < 4 * len(data)


def test_a_link_that_fails_again_and_again_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a greeting that went well each time."""

    async def main() -> None:
        node = started(1)
        puller = Puller(node.replicator, "redis://127.0.0.1:1")
        tries = 0

        async def follow() -> None:
            puller.history.begun(2)
            node.clock.advance(60 if tries == 10 else 0.1)
            raise LinkError("the peer sent a record that is malformed")

        async def wait(delay_s: float) -> None:
            nonlocal tries
            tries += 1
            if tries == 20:
                raise asyncio.CancelledError

        monkeypatch.setattr(puller, "_follow", follow)
        monkeypatch.setattr(puller, "_wait", wait)
        with pytest.raises(asyncio.CancelledError):
            await puller._run()
        assert puller.history.last_error == "the peer sent a record that is malformed"

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    said = [each.getMessage() for each in caplog.records if "link to" in each.getMessage()]
    assert len([each for each in said if "is malformed" in each]) == 2, (
        "once, and after a good link"
    )
    assert len([each for each in said if "following" in each]) == 2


def test_a_bug_is_logged_once_and_tried_less_and_less_often(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a greeting that went well each time."""
    waits: list[float] = []

    async def main() -> None:
        node = started(1)
        puller = Puller(node.replicator, "redis://127.0.0.1:1")

        async def follow() -> None:
            puller.history.begun(2)
            raise TypeError("a bug")

        async def wait(delay_s: float) -> None:
            waits.append(delay_s)
            if len(waits) == 40:
                raise asyncio.CancelledError

        monkeypatch.setattr(puller, "_follow", follow)
        monkeypatch.setattr(puller, "_wait", wait)
        with pytest.raises(asyncio.CancelledError):
            await puller._run()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert len(said_of_bugs(caplog)) == 1
    assert min(waits[-20:]) > 0.5
