"""Random commands of several clients on large cold collections, loaded in slices, against the same
commands, in the order in which they ran, on a server that loads at once: the replies are the same,
and so is what both files have in the end.

The first server folds, forgets clean keys and lets time pass between any two turns.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.commands.context import Block, Result
from holdfast.commands.table import Command
from holdfast.resp import Reply
from holdfast.server.core.cron import Cron
from holdfast.server.features.latency import Stats
from holdfast.server.sessions.session import Session, Waiter
from holdfast.store.file.tables import SLICE_ROWS
from tests.harness.in_process import Peer
from tests.harness.seeds import seed_of
from tests.server.core.cold import ColdServer, fill, is_loading, write_file
from tests.store.consistency import check_counts, check_settled

# The tests replace methods, which compiled classes do not allow.
pytestmark = pytest.mark.source_only

CLIENTS = 4
STEPS = 100
RUNS = 2
COUNT = 3 * SLICE_ROWS
Argv = list[str]


class Random:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def command(self) -> list[Argv]:
        """One, or a transaction."""
        if self.rng.random() < 0.1:
            inner = [self._one() for _ in range(self.rng.randint(1, 4))]
            return [["MULTI"], *inner, ["EXEC"]]
        return [self._one()]

    def _one(self) -> Argv:
        rng = self.rng
        n, m = str(rng.randrange(COUNT)), str(rng.randrange(COUNT))
        all_of_it = str(10 * COUNT)  # a part depends on the places of removed elements
        h, s, z, x = [self._name(kind) for kind in "hszx"]
        any_name = rng.choice([h, s, z, x, "l0", "small"])
        other = rng.choice([h, s, z, x, "new"])
        choices: list[Argv] = [
            ["HGET", h, f"f{n}"], ["HSET", h, f"f{n}", m], ["HDEL", h, f"f{n}"], ["HLEN", h],
            ["HINCRBY", h, "n", m], ["HSCAN", h, "0", "COUNT", all_of_it], ["HGETALL", h],
            ["HMGET", h, f"f{n}", f"f{m}"], ["HEXPIRE", h, "5", "FIELDS", "1", f"f{n}"],
            ["SADD", s, f"m{n}"], ["SREM", s, f"m{n}"], ["SISMEMBER", s, f"m{n}"], ["SCARD", s],
            ["SSCAN", s, "0", "COUNT", all_of_it], ["SMOVE", s, self._name("s"), f"m{n}"],
            ["SMEMBERS", s],
            ["SINTERCARD", "2", s, self._name("s")], ["SDIFFSTORE", other, s, self._name("s")],
            ["SUNIONSTORE", self._name("s"), s, self._name("s")],
            ["ZADD", z, n, f"m{m}"], ["ZREM", z, f"m{n}"], ["ZSCORE", z, f"m{n}"], ["ZCARD", z],
            ["ZRANK", z, f"m{n}"], ["ZRANGE", z, n, m], ["ZPOPMIN", z], ["ZINCRBY", z, n, f"m{m}"],
            ["ZRANGESTORE", self._name("z"), z, "0", n], ["ZCOUNT", z, n, m],
            ["ZRANGEBYSCORE", z, n, m, "WITHSCORES"], ["BZPOPMAX", z, self._name("z"), "0.01"],
            ["ZUNION", "2", z, s], ["ZINTERCARD", "2", z, self._name("z")],
            ["XADD", x, "*", "f", n], ["XRANGE", x, f"1-{n}", "+", "COUNT", "5"], ["XLEN", x],
            ["XDEL", x, f"1-{n}"], ["XTRIM", x, "MAXLEN", n],
            ["XREVRANGE", x, "+", "-", "COUNT", "2"],
            ["XREAD", "COUNT", "2", "STREAMS", x, self._name("x"), "0", f"1-{n}"],
            ["LPUSH", "l0", n], ["LRANGE", "l0", n, m], ["LPOS", "l0", f"e{n}"], ["RPOP", "l0"],
            ["SORT", s, "ALPHA", "LIMIT", "0", "3"], ["SORT", z, "ALPHA", "STORE", other],
            ["GET", any_name], ["SET", "small", n], ["SETNX", any_name, n], ["TYPE", any_name],
            ["EXISTS", any_name, other], ["OBJECT", "ENCODING", any_name], ["DUMP", z],
            ["EXPIRE", any_name, rng.choice(["1", "2", "100"])], ["PERSIST", any_name],
            ["COPY", any_name, other, "REPLACE"], ["RENAME", any_name, other],
            ["EVAL", "return redis.call('HGET', KEYS[1], ARGV[1])", "1", h, f"f{n}"],
            ["EVAL", "redis.call('SADD', KEYS[1], ARGV[1]) return redis.call('ZCARD', ARGV[2])",
             "1", s, f"m{n}", z],
            ["EVAL", "redis.call('DEL', KEYS[1]) return redis.call('HGET', KEYS[2], 'f1', 'x')",
             "2", z, h],
        ]  # fmt: skip
        if rng.random() < 0.06:
            choices = [
                ["DEL", any_name], ["UNLINK", any_name, other], ["MOVE", any_name, "1"],
                ["SWAPDB", "0", "1"], ["SET", any_name, n],
            ]  # fmt: skip
        return rng.choice(choices)

    def _name(self, kind: str) -> str:
        return kind + self.rng.choice("012")


def write_collections(path: Path) -> None:
    """The same in both databases, so that SWAPDB leaves the clients something to load."""
    kinds = {"h": "hash", "s": "set", "z": "zset", "x": "stream"}
    collections = [
        command
        for name, kind in kinds.items()
        for number in range(3)
        for command in fill(kind, f"{name}{number}", COUNT - 100 * number)
    ]
    commands = [*collections, *fill("list", "l0", COUNT), ("SET", "small", "1")]
    write_file(path, *commands, ("SELECT", "1"), *commands)


Ran = tuple[int, list[bytes], int]  # the client, its command, the time


def recording(server: ColdServer, numbers: dict[Session, int]) -> list[Ran]:
    """What clients run from now on, in that order. A blocked command is recorded when its client
    is answered: which commands run before that depends on how long its key takes to load."""
    ran: list[Ran] = []
    invoker, blocking = server.engine.invoker, server.engine.blocking
    invoke: Callable[..., Result] = invoker.invoke
    unblock: Callable[..., bool] = blocking.unblock

    def invoke_and_record(
        session: Session, command: Command, argv: list[bytes], stats: Stats
    ) -> Result:
        is_own = session in numbers and not session.in_exec and session.waiter is None
        if not is_own:
            return invoke(session, command, argv, stats)
        number, now_ms = numbers[session], server.engine.keyspace.now_ms
        queued = [argv for _, argv in session.multi or ()] if command.name == "exec" else []
        result = invoke(session, command, argv, stats)  # raises, if the command will run again
        if not isinstance(result, Block):
            ran.extend((number, argv, now_ms) for argv in [*queued, argv])
        return result

    def unblock_and_record(waiter: Waiter, result: Reply) -> bool:
        ran.append((numbers[waiter.session], waiter.argv, server.engine.keyspace.now_ms))
        return unblock(waiter, result)

    invoker.invoke = invoke_and_record  # type: ignore[method-assign]
    blocking.unblock = unblock_and_record  # type: ignore[method-assign]
    return ran


def run_in_slices(path: Path, seed: int) -> tuple[list[Ran], list[list[bytes]], int]:
    """What ran, the replies to each client, and how often a command waited for a load."""
    server, randomness = ColdServer(path), Random(seed)
    rng = randomness.rng
    peers = [server.peer() for _ in range(CLIENTS)]
    ran = recording(server, {peer.session: number for number, peer in enumerate(peers)})
    cron = Cron(server.engine)
    waits = 0
    for _ in range(STEPS):
        peer = rng.choice(peers)
        was_loading = is_loading(peer)
        for argv in randomness.command():
            peer.send(*argv)
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            server.turn()
            waits += is_loading(peer) and not was_loading
            if rng.random() < 0.3:
                server.store.commit()
                server.store.fold_step()
        if rng.random() < 0.15:
            server.store.commit()
            server.store.fold()
            server.forget_clean_keys()
        # A client may time out while its key is loaded, and would be served by a load at once.
        is_served_late = server.engine.loading.is_busy and any(peer.is_waiting for peer in peers)
        if rng.random() < 0.1 and not is_served_late:
            server.clock.advance(rng.choice([0.001, 0.3]))
    server.engine.turn.end()
    server.clock.advance(0.02)  # clients that wait for a key
    replies = [peer.replies() for peer in peers]
    server.assert_no_load_left()
    check_counts(server.engine.keyspace)
    cron.stop()
    server.store.close()
    return ran, replies, waits


def run_at_once(path: Path, ran: list[Ran]) -> list[list[bytes]]:
    server = ColdServer(path)
    server.engine.loading.hold = lambda *_: False  # type: ignore[method-assign]
    peers = [server.peer() for _ in range(CLIENTS)]
    for number, argv, now_ms in ran:
        server.clock.advance((now_ms - server.clock.now_ms()) / 1000)
        peers[number].send(*argv)
        run_all(server, peers[number])
        waiter = peers[number].session.waiter
        if waiter is not None:  # so it has timed out when it was recorded
            server.engine.blocking.unblock(waiter, waiter.block.on_timeout)
    replies = [peer.replies() for peer in peers]
    server.store.close()
    return replies


def run_all(server: ColdServer, peer: Peer) -> None:
    while peer.session.backlog and not peer.is_waiting:
        server.turn()


@pytest.mark.parametrize("run", range(RUNS))
def test_loading_in_slices_gives_the_replies_of_loading_at_once(tmp_path: Path, run: int) -> None:
    seed = seed_of(f"loading {run}")
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    write_collections(first)
    shutil.copy(first, second)
    ran, replies, waits = run_in_slices(first, seed)
    assert waits > 0
    expected = run_at_once(second, ran)
    for number in range(CLIENTS):
        own = [argv for client, argv, _ in ran if client == number]
        for argv, reply, wanted in zip(own, replies[number], expected[number], strict=True):
            assert reply == wanted, argv
    for path in (first, second):
        check_settled(path)
    assert content(first) == content(second)


def content(path: Path) -> list[bytes]:
    """All that is in the file, as clients see it."""
    server = ColdServer(path)
    peer = server.peer()
    found: list[bytes] = []
    for index in (0, 1):
        found.append(peer.command("SELECT", index))
        names = sorted(peer.command("KEYS", "*").split(b"\r\n")[2::2])
        for name in names:
            found += [name, peer.command("DUMP", name), peer.command("PEXPIRETIME", name)]
    server.store.close()
    return found
