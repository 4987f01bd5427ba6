"""Removed values leave memory in slices, and nothing stays behind: the server does not collect
reference cycles."""

from collections.abc import Sequence

import pytest

from holdfast.server.core.cron import FREE_BREAK_S, Cron
from holdfast.store.memory.key import Key, Space
from holdfast.store.memory.lazy_free import FEW, SLICE
from holdfast.store.values.registry import COLLECTIONS
from holdfast.store.values.stream_group import Consumer, Group
from tests.harness.garbage import nothing_left_to_collect
from tests.harness.in_process import InProcess, Peer

MANY = 3 * SLICE

Commands = Sequence[Sequence[object]]


def large(what: str, count: int = MANY) -> Commands:
    """Commands that give `k` so many elements, or circles."""
    commands: dict[str, Commands] = {
        "list": [["RPUSH", "k", *range(count)]],
        "list with inserts": [
            ["RPUSH", "k", *range(count)],
            *(["LINSERT", "k", "BEFORE", 7, "x"] for _ in range(9)),
        ],
        "hash": [["HSET", "k", *range(2 * count)]],
        "hash with expiry": [
            ["HSET", "k", *range(2 * count)],
            ["HEXPIRE", "k", 100, "FIELDS", 50, *range(0, 100, 2)],
        ],
        "set": [["SADD", "k", *range(count)], ["SSCAN", "k", 0], ["SRANDMEMBER", "k"]],
        "sorted set": [["ZADD", "k", *range(2 * count)], ["ZRANK", "k", 7], ["ZSCAN", "k", 0]],
        "stream": [["XADD", "k", "*", "f", "v"] for _ in range(count)],
        "stream with a group": [
            ["XADD", "k", "1-1", "f", "v"],
            ["XGROUP", "CREATE", "k", "g", 0],
            ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">"],
            ["XPENDING", "k", "g", "-", "+", 10],
        ],
    }
    return commands[what]


LARGE = [
    "list",
    "list with inserts",
    "hash",
    "hash with expiry",
    "set",
    "sorted set",
    "stream",
]


class World(InProcess):
    def __init__(self) -> None:
        super().__init__()
        self.one = self.peer()
        self.cron = Cron(self.engine)
        self.cron.start()

    @property
    def pending(self) -> int:
        return self._fact("lazyfree_pending_objects")

    @property
    def freed(self) -> int:
        return self._fact("lazyfreed_objects")

    def _fact(self, name: str) -> int:
        (line,) = (
            line
            for line in self.one.command("INFO", "memory").decode().splitlines()
            if line.startswith(f"{name}:")
        )
        return int(line.removeprefix(f"{name}:"))

    def free(self) -> int:
        """Until nothing is left; in how many slices."""
        slices = 0
        self.clock.advance(0.1)
        while self.pending:
            self.clock.advance(FREE_BREAK_S)
            slices += 1
            assert slices < 10_000
        return slices


def send(peer: Peer, commands: Commands) -> None:
    for argv in commands:
        assert not peer.command(*map(str, argv)).startswith(b"-"), argv


@pytest.mark.source_only
@pytest.mark.parametrize("kind", [*LARGE, "stream with a group"])
@pytest.mark.parametrize("how", ["UNLINK k", "DEL k", "SET k x", "RENAME other k", "FLUSHALL"])
def test_a_value_that_is_gone_leaves_nothing_behind(kind: str, how: str) -> None:
    kinds = [each.cls for each in COLLECTIONS.values()]
    world = World()
    send(world.one, [["SET", "other", "x"], *large(kind, 2 * FEW)])
    with nothing_left_to_collect(Key, Space, *kinds, Group, Consumer):
        send(world.one, [how.split()])
        world.free()
        world.engine.keyspace.fold_state.created.clear()  # as a fold does


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_value_goes_in_slices(kind: str) -> None:
    world = World()
    send(world.one, large(kind))
    send(world.one, [["UNLINK", "k"]])
    assert world.pending == 1
    assert world.free() >= 2
    assert world.freed == 1
    assert world.engine.keyspace.used_bytes == 0


def test_the_longer_turns_take_the_more_goes_between_them() -> None:
    world = World()
    send(world.one, [*large("set"), ["UNLINK", "k"]])
    world.clock.advance(0.1)
    assert world.pending == 1
    turn_s = 100
    end_us = round((world.clock.monotonic_s() + turn_s) * 1e6)
    world.clock.call_later(FREE_BREAK_S / 2, lambda: world.clock._move_to(end_us))
    world.clock.advance(turn_s)  # the timer fires when the turn is over
    assert world.pending == 0


def test_few_elements_go_at_once() -> None:
    world = World()
    send(world.one, [["SADD", "k", *range(FEW)], ["DEL", "k"]])
    assert (world.pending, world.freed) == (0, 0)


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB SYNC"])
def test_a_flushed_database_goes_in_slices(command: str) -> None:
    world = World()
    pairs = [word for number in range(MANY) for word in (f"k{number}", "x")]
    send(world.one, [["MSET", *pairs], *large("hash"), command.split()])
    assert world.one.command("DBSIZE") == b":0\r\n"
    assert world.engine.keyspace.used_bytes == 0
    assert world.pending == MANY + 1
    send(world.one, [["SET", "new", "x"]])
    assert world.free() >= 4
    assert world.freed == MANY + 1
    assert world.one.command("GET", "new") == b"$1\r\nx\r\n"


def test_what_another_database_has_is_still_counted() -> None:
    world = World()
    send(world.one, [["SET", "a", "x"], ["SELECT", 1], ["SET", "b", "x"]])
    both = world.engine.keyspace.used_bytes
    send(world.one, [["FLUSHDB"]])
    assert world.engine.keyspace.used_bytes == both / 2
    world.free()
    assert world.one.command("SELECT", "0") == b"+OK\r\n"
    assert world.one.command("GET", "a") == b"$1\r\nx\r\n"


@pytest.mark.parametrize("command", ["'DEL', 'k'", "'FLUSHALL'", "'SET', 'k', 'x'"])
def test_what_a_failed_script_removed_stays(command: str) -> None:
    world = World()
    send(world.one, large("hash"))
    used_bytes = world.engine.keyspace.used_bytes
    script = f"redis.call({command}) error('no')"
    assert world.one.command("EVAL", script, "1", "k").startswith(b"-")
    world.free()
    assert world.one.command("HLEN", "k") == b":%d\r\n" % MANY
    assert world.one.command("HGET", "k", "0") == b"$1\r\n1\r\n"
    assert len(world.one.command("HGETALL", "k").split(b"\r\n")) == 4 * MANY + 2
    assert world.engine.keyspace.used_bytes == used_bytes


def test_a_name_is_free_while_what_it_had_is_taken_apart() -> None:
    world = World()
    send(world.one, [*large("set"), ["DEL", "k"], ["SADD", "k", "a"]])
    world.free()
    assert world.one.command("SMEMBERS", "k") == b"*1\r\n$1\r\na\r\n"
