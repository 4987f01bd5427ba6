"""XREAD and XREADGROUP that wait, against redis-server: which client gets which entries, and
when."""

import shlex
from collections.abc import Callable

import pytest

from tests.blocking.talk import PONG
from tests.harness import Pair, encode_command

Peer = Callable[[], Pair]
WAITING = ["XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"]


def play(pair: Pair, *commands: str) -> None:
    pair.play("\n".join(commands))


def block(pair: Pair, command: str) -> Pair:
    """When the PING is answered, the command waits."""
    pair.send(encode_command("PING") + encode_command(*shlex.split(command)))
    assert pair.same_reply() == PONG
    return pair


def assert_quiet(other: Pair, *pairs: Pair) -> None:
    """No client of `pairs` has been answered by either server."""
    assert other.same("PING") == PONG
    for pair in pairs:
        assert pair.ours.is_quiet()
        assert pair.oracle.is_quiet()


def test_one_entry_is_for_all_readers(pair: Pair, peer: Peer) -> None:
    play(pair, "XADD s 1 a b")
    readers = [
        block(peer(), command)
        for command in (
            "XREAD BLOCK 0 STREAMS s $",
            "XREAD BLOCK 100000 COUNT 1 STREAMS s 1",
            "XREAD BLOCK 0 STREAMS none s 0 1-0",
            "XREAD BLOCK 0 STREAMS s none 1 $",
        )
    ]
    later = block(peer(), "XREAD BLOCK 0 STREAMS s 5")
    assert_quiet(pair, *readers)
    play(pair, "XADD s 2 c d")
    for reader in readers:
        reader.same_reply()
    assert_quiet(pair, later)
    play(pair, "XADD s 6 e f")
    later.same_reply()


def test_from_now_on_is_decided_when_the_wait_begins(pair: Pair, peer: Peer) -> None:
    reader = block(peer(), "XREAD BLOCK 0 STREAMS s t $ $")
    play(pair, "MULTI", "XADD s 1 a b", "XADD s 2 a b", "XADD s 3 a b", "EXEC")
    reader.same_reply()
    play(pair, "XGROUP CREATE u g $ MKSTREAM")
    reader = block(peer(), "XREAD BLOCK 0 STREAMS u $")
    play(pair, "XADD u 5 a b", "XADD u 6 a b")
    reader.same_reply()


def test_an_entry_is_for_one_consumer_of_each_group(pair: Pair, peer: Peer) -> None:
    play(pair, "XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE s h $")
    first, second, third = (
        block(peer(), f"XREADGROUP GROUP g {name} BLOCK 0 STREAMS s >") for name in "abc"
    )
    other = block(peer(), "XREADGROUP GROUP h a BLOCK 0 STREAMS s >")
    without_ack = block(peer(), "XREADGROUP GROUP h b BLOCK 0 NOACK STREAMS s >")
    reader = block(peer(), "XREAD BLOCK 0 STREAMS s $")
    play(pair, "XADD s 1 a b")
    for waiter in (first, other, reader):
        waiter.same_reply()
    assert_quiet(pair, second, third, without_ack)
    play(pair, "MULTI", "XADD s 2 a b", "XADD s 3 a b", "EXEC")
    second.same_reply()
    without_ack.same_reply()
    assert_quiet(pair, third)
    play(pair, "XPENDING s g", "XPENDING s h", "XINFO GROUPS s", "XADD s 4 a b")
    third.same_reply()


def test_a_client_that_has_waited_gets_a_thousand_entries(pair: Pair, peer: Peer) -> None:
    reader = block(peer(), "XREAD BLOCK 0 STREAMS s 0")
    counting = block(peer(), "XREAD BLOCK 0 COUNT 1100 STREAMS s 0")
    adds = [encode_command("XADD", "s", f"{number}-0", "a", "b") for number in range(1, 1201)]
    pair.send(encode_command("MULTI") + b"".join(adds) + encode_command("EXEC"))
    for _ in range(1202):
        pair.same_reply()
    reader.same_reply()
    counting.same_reply()


@pytest.mark.parametrize(
    "command",
    [
        "DEL s",
        "UNLINK s",
        "RENAME s elsewhere",
        "MOVE s 1",
        "SET s string",
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "RENAME list s",
        "COPY list s REPLACE",
        "PEXPIRE s -1",
        "XGROUP DESTROY s g",
        "XGROUP DESTROY s h",
        "XGROUP DELCONSUMER s g a",
        "RENAME other s",
        "XTRIM s MAXLEN 0",
        "XADD s MAXLEN 0 9 a b",
        "XGROUP SETID s g 0",
        "XSETID s 9",
    ],
)
def test_changes_of_the_stream_during_a_wait(pair: Pair, peer: Peer, command: str) -> None:
    play(pair, "XADD s 1 a b", "XGROUP CREATE s g $", "XGROUP CREATE s h $", "RPUSH list x")
    play(pair, "XADD other 7 a b", "XGROUP CREATE other g 0")
    waiters = [
        block(peer(), "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"),
        block(peer(), "XREADGROUP GROUP g b BLOCK 0 STREAMS s >"),
        block(peer(), "XREADGROUP GROUP h a BLOCK 0 STREAMS s >"),
        block(peer(), "XREAD BLOCK 0 STREAMS s 1"),
        block(peer(), "BLPOP s 0"),
    ]
    play(pair, command, "PING")
    for waiter in waiters:
        assert waiter.ours.is_quiet() == waiter.oracle.is_quiet(), command
        if not waiter.ours.is_quiet():
            waiter.same_reply(command)


def test_gone_and_back_in_one_transaction(pair: Pair, peer: Peer) -> None:
    play(pair, "XGROUP CREATE s g $ MKSTREAM")
    waiter = block(peer(), "XREADGROUP GROUP g a BLOCK 0 STREAMS s >")
    play(pair, "MULTI", "DEL s", "XGROUP CREATE s g $ MKSTREAM", "EXEC")
    assert_quiet(pair, waiter)
    play(pair, "MULTI", "DEL s", "XADD s 1 a b", "EXEC")
    waiter.same_reply()


@pytest.mark.parametrize("queued", ["XADD s 5 a b;XDEL s 5", "XADD s 5 a b;XTRIM s MAXLEN 0"])
def test_added_and_deleted_in_one_transaction(pair: Pair, peer: Peer, queued: str) -> None:
    play(pair, "XGROUP CREATE s g $ MKSTREAM")
    waiters = [
        block(peer(), "XREAD BLOCK 0 STREAMS s $"),
        block(peer(), "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"),
    ]
    play(pair, "MULTI", *queued.split(";"), "EXEC")
    for waiter in waiters:
        waiter.same_reply()
    play(pair, "XINFO GROUPS s", "XPENDING s g")


def test_a_reader_does_not_mind_what_is_no_stream(pair: Pair, peer: Peer) -> None:
    reader = block(peer(), "XREAD BLOCK 0 STREAMS s t $ $")
    play(pair, "SET s string", "RPUSH t x", "DEL t")
    assert_quiet(pair, reader)
    play(pair, "XADD t 1 a b")
    reader.same_reply()


@pytest.mark.parametrize("arrival", ["RENAME full s", "COPY full s", "SWAPDB 0 1"])
def test_a_stream_arrives_whole(pair: Pair, peer: Peer, arrival: str) -> None:
    play(pair, "XADD full 1 a b", "XADD full 2 a b", "SELECT 1", "XADD s 3 a b", "SELECT 0")
    reader = block(peer(), "XREAD BLOCK 0 STREAMS s $")
    play(pair, arrival)
    reader.same_reply()


@pytest.mark.parametrize("how", ["", "TIMEOUT", "ERROR"])
@pytest.mark.parametrize("waiting", WAITING)
def test_client_unblock(pair: Pair, peer: Peer, waiting: str, how: str) -> None:
    play(pair, "XGROUP CREATE s g $ MKSTREAM")
    waiter = peer()
    ids = [client.command("CLIENT", "ID")[1:-2] for client in (waiter.ours, waiter.oracle)]
    block(waiter, waiting)
    for client, number in zip((pair.ours, pair.oracle), ids, strict=True):
        assert client.command("CLIENT", "UNBLOCK", number, *how.split()) == b":1\r\n"
    waiter.same_reply()
    waiter.same("PING")


def test_timeouts_and_transactions(pair: Pair) -> None:
    play(
        pair,
        "XGROUP CREATE s g $ MKSTREAM",
        "XREAD BLOCK 1 STREAMS s $",
        "XREADGROUP GROUP g a BLOCK 1 STREAMS s >",
        "MULTI",
        "XREAD BLOCK 0 STREAMS s $",
        "XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
        "EXEC",
    )


NAMES = (
    "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange"
    " xsetid xtrim xgroup|create xgroup|setid xgroup|destroy xgroup|createconsumer"
    " xgroup|delconsumer xgroup|help xinfo|stream xinfo|groups xinfo|consumers xinfo|help"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_command_info(pair: Pair, name: str) -> None:
    ours, theirs = (client.command("COMMAND", "INFO", name) for client in (pair.ours, pair.oracle))
    assert sorted(ours.split(b"\r\n")) == sorted(theirs.split(b"\r\n"))


@pytest.mark.parametrize(
    "queued", ["XADD t 1 a b;XADD s 1 a b", "XADD s 1 a b;XADD t 1 a b", "XADD t 1 a b;DEL s"]
)
@pytest.mark.parametrize(
    "waiting",
    [
        "XREAD BLOCK 0 STREAMS s t s 0 0 5",
        "XREADGROUP GROUP g a BLOCK 0 STREAMS s t > >",
    ],
)
def test_of_several_streams_the_first_that_changed(
    pair: Pair, peer: Peer, queued: str, waiting: str
) -> None:
    play(pair, "XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM")
    waiter = block(peer(), waiting)
    play(pair, "XSETID s 0-1", "MULTI", *queued.split(";"), "EXEC")
    waiter.same_reply()
    play(pair, "XPENDING s g", "XPENDING t g")
