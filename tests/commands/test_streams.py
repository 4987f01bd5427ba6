"""The events of commands on streams; a refused command changes nothing. tests/wire compares the
replies."""

import pytest

from tests.commands.listening import Listening, published
from tests.harness import RedisServer

START = [
    "XADD k 1 a b",
    "XADD k 2 a b",
    "XADD k 3 a b",
    "XGROUP CREATE k g 0",
    "XREADGROUP GROUP g alice COUNT 2 STREAMS k >",
    "SET s v",
]
CHANGES = [
    *("XADD k 4 a b", "XADD new 4 a b", "XADD new NOMKSTREAM 4 a b", "XADD k MAXLEN 1 4 a b"),
    *("XADD k MAXLEN 9 4 a b", "XADD new MAXLEN 0 4 a b", "XADD k 1 a b", "XADD s 1 a b"),
    *("XDEL k 1", "XDEL k 1 2 3", "XDEL k 9", "XDEL new 1", "XTRIM k MAXLEN 1", "XTRIM k MAXLEN 9"),
    *("XTRIM k MINID 9", "XSETID k 9", "XSETID new 9", "XLEN new", "XRANGE new - +"),
    *("XREAD STREAMS k 0", "XREAD STREAMS new 0", "XREAD STREAMS new k 0 0"),
    *("XREADGROUP GROUP g alice STREAMS k >", "XREADGROUP GROUP g bob STREAMS k >"),
    *("XREADGROUP GROUP g bob STREAMS k 0", "XREADGROUP GROUP g bob NOACK STREAMS k >"),
    *("XREADGROUP GROUP g bob STREAMS new >", "XREADGROUP GROUP g alice STREAMS k 0"),
    *("XACK k g 1", "XACK k g 9", "XACK new g 1", "XPENDING k g", "XPENDING new g"),
    *("XCLAIM k g bob 0 1", "XCLAIM k g alice 0 1", "XCLAIM k g bob 0 9", "XCLAIM new g bob 0 1"),
    *("XCLAIM k g bob 0 3 FORCE", "XCLAIM k g bob 99999 1", "XAUTOCLAIM k g bob 0 0"),
    *("XAUTOCLAIM k g alice 0 0", "XAUTOCLAIM k g bob 99999 0", "XAUTOCLAIM new g bob 0 0"),
    *("XGROUP CREATE k h 0", "XGROUP CREATE new h 0", "XGROUP CREATE new h 0 MKSTREAM"),
    *("XGROUP CREATE k g 0", "XGROUP SETID k g 0", "XGROUP SETID k h 0", "XGROUP DESTROY k g"),
    *("XGROUP DESTROY k h", "XGROUP CREATECONSUMER k g bob", "XGROUP CREATECONSUMER k g alice"),
    *("XGROUP DELCONSUMER k g alice", "XGROUP DELCONSUMER k g bob"),
    *("XINFO STREAM k", "XINFO STREAM new", "XINFO GROUPS new", "XINFO CONSUMERS new g"),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


REFUSED = [
    *("XADD s 9 a b", "XADD k 1 a b", "XADD k x a b", "XADD k MAXLEN 1 9 a", "XADD new 0-0 a b"),
    *("XADD k MAXLEN 1 LIMIT 2 9 a b", "XDEL k 1 x", "XDEL s 1", "XTRIM k MAXLEN x"),
    *("XSETID k 1", "XSETID k 9 ENTRIESADDED 1", "XSETID s 9", "XREAD BLOCK x STREAMS k 0"),
    *("XREADGROUP GROUP g bob STREAMS k x", "XREADGROUP GROUP g bob STREAMS k k > x"),
    *("XREADGROUP GROUP g bob STREAMS k new > >", "XREADGROUP GROUP h bob STREAMS k >"),
    *("XACK k g 1 x", "XACK s g 1", "XCLAIM k g bob 0 1 NOPE", "XCLAIM k g bob 0 1 LASTID x"),
    *("XCLAIM k h bob 0 1", "XAUTOCLAIM k g bob 0 0 COUNT 0", "XAUTOCLAIM k h bob 0 0"),
    *("XGROUP CREATE k g 0", "XGROUP CREATE new h x MKSTREAM", "XGROUP CREATE new h 0"),
    *("XGROUP SETID k g x", "XGROUP SETID k h 0", "XGROUP CREATECONSUMER k h bob"),
    *("XGROUP DELCONSUMER k h bob", "XGROUP DESTROY s g"),
]  # fmt: skip


@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_command_changes_nothing(refused: str) -> None:
    setting = Listening()
    peer = setting.peer()
    for command in START:
        peer.command(*command.split())
    setting.events()
    peer.send(*refused.split())
    assert setting.engine.keyspace.ops == []
    (reply,) = peer.replies()
    assert [event for event in setting.events() if event[1] != b"keymiss"] == []
    assert reply[:1] == b"-"
    setting.assert_nothing_left()


@pytest.mark.parametrize("waiters", [1, 50])
def test_consumers_that_get_nothing_are_not_all_tried(waiters: int) -> None:
    """One entry for a group: the first gets it, one more is asked in vain, and that will do."""
    setting = Listening()
    peer = setting.peer()
    peer.command("XGROUP", "CREATE", "k", "g", "$", "MKSTREAM")
    command = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "k", ">")
    blocked = [setting.blocked(*command) for _ in range(waiters)]
    stats = setting.engine.commands.table["xreadgroup"]
    asked = 0
    handler = stats.handler

    def counting(*args: object) -> object:
        nonlocal asked
        asked += 1
        return handler(*args)  # type: ignore[arg-type]

    stats.handler = counting  # type: ignore[assignment]
    try:
        peer.command("XADD", "k", "1", "a", "b")
    finally:
        stats.handler = handler
    assert blocked[0].replies() != []
    assert asked == min(waiters, 2)
