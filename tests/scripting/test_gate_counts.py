"""The gate in C counts calls as `Invoker` does, which counts all others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast.commands.table import TABLE, Command
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.scripting import sandbox as sandboxes
from holdfast.server.features.latency import FAST_NS, SHIFT, Stats
from holdfast.store.store import MemoryStore
from tests.scripting.running import Running

pytest.importorskip("holdfast.scripting._gate")

SCRIPTS = {
    "succeeds": "return redis.call('set', 'k', 'v')",
    "reads": "return {redis.call('get', 'k'), redis.call('get', 'none')}",
    "fails": "return redis.call('incr', 'k')",
    "fails and goes on": "redis.pcall('incr', 'k') return redis.pcall('lpush', 'k', 'x')",
    "has the wrong arity": "redis.pcall('get') return redis.call('set', 'k')",
    "calls what is not there": "redis.pcall('nothing') return redis.call('nothing')",
    "calls what is not allowed": "return redis.call('subscribe', 'c')",
    "waits": "return redis.call('blpop', 'none', 0)",
    "has subcommands": "return redis.call('object', 'encoding', 'k')",
    "has a bug": "return redis.call('echo', 'x')",
}


class Counts:
    """An engine with the gate, or with none, and the numbers that INFO makes of its counts."""

    def __init__(self) -> None:
        self.running = Running(MemoryStore())

    def eval(self, script: str, *, read_only: bool) -> Reply:
        name = b"EVAL_RO" if read_only else b"EVAL"
        return self.running.do(name, script.encode(), b"0")

    def of(self, stats: Stats) -> tuple[int, int, int]:
        return stats.calls, stats.failed, stats.rejected

    @property
    def all(self) -> dict[str, object]:
        engine = self.running.engine
        commands = {name: self.of(stats) for name, stats in engine.commands.stats.items()}
        used = {name: counts for name, counts in commands.items() if any(counts)}
        return {"commands": used, "errors": dict(engine.invoker.error_stats)}


def both() -> tuple[Counts, Counts]:
    gated, plain = Counts(), Counts()
    assert gated.running.engine.scripts.sandbox._gate is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandboxes, "GATE", None)
        assert plain.running.engine.scripts.sandbox._gate is None
    return gated, plain


@contextmanager
def handler_of(name: str, handler: Callable[[object, list[bytes]], Reply]) -> Iterator[Command]:
    command = TABLE[name]
    usual, command.handler = command.handler, handler
    try:
        yield command
    finally:
        command.handler = usual


def fail(session: object, argv: list[bytes]) -> Reply:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_the_gate_counts_as_the_invoker_does(script: str, read_only: bool) -> None:
    gated, plain = both()
    with handler_of("echo", fail):
        replies = []
        for counts in (gated, plain):
            counts.running.do(b"SET", b"k", b"text")
            counts.eval("return redis.call('get', 'k')", read_only=False)  # a door is there
            replies.append(str([counts.eval(script, read_only=read_only) for _ in range(3)]))
    assert replies[0] == replies[1]
    assert gated.all == plain.all


def test_a_monitored_script_counts_as_others_do() -> None:
    """Nothing passes the gate without being admitted then."""
    alone, watched = Counts(), Counts()
    other = watched.running.engine.monitors
    other.add(watched.running.session)
    for counts in (alone, watched):
        counts.eval("redis.call('lpush', 'l', 'x') redis.pcall('incr', 'l')", read_only=False)
    del other.sessions[watched.running.session.id]
    assert watched.all == alone.all


def test_slow_calls_and_quick_ones_are_in_the_same_slots() -> None:
    """Of the gate the quick ones are in its tally until they are asked for."""

    def slow(session: object, argv: list[bytes]) -> Reply:
        for _ in range(FAST_NS):
            pass  # at least a nanosecond each
        return b"done"

    gated, plain = both()
    with handler_of("echo", slow):
        for counts in (gated, plain):
            counts.eval("redis.call('echo', 'x') redis.call('get', 'k')", read_only=False)
            stats = counts.running.engine.commands.stats
            assert stats["echo"].calls == stats["get"].calls == 1
            assert sum(stats["echo"].fast) == 0
            assert sum(stats["echo"].slow.values()) == 1
            (slot,) = (slot for slot, count in enumerate(stats["get"].fast) if count)
            assert slot == stats["get"].ns >> SHIFT


def test_an_error_of_a_called_command_is_counted_once() -> None:
    for counts in both():
        reply = counts.eval("return redis.call('incr', 'k', 'too', 'many')", read_only=False)
        assert isinstance(reply, CommandError)
        assert sum(counts.running.engine.invoker.error_stats.values()) == 1
