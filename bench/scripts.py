"""Scripts: the cost of a run and of a call, and the wait of other clients while a script overruns.

Runs and calls are measured in this process, without sockets and without syncing the disk, on a
database in a file. A call is one call in a Lua loop, without the cost of the loop. The table
compares it with the same command in three forms: run by the engine, without a client and without a
commit; dispatched, from its arguments to the bytes of its reply; and as a request, from the bytes
received. All but the first include the commit at the end of the turn, shared by as many commands.

The wait is measured on a separate server, with scripts that never end by themselves.
"""

import argparse
import asyncio
import gc
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.common import say, workplace
from holdfast import all_commands as all_commands
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.net.wire_connection import Connection
from holdfast.server.scripts.scripts import NoSink
from holdfast.server.sessions.session import Session
from holdfast.store.store import open_store
from tests.harness import HoldfastServer, RawClient
from tests.harness.rawclient import Argument, encode_command

CALLS: dict[str, tuple[tuple[bytes, ...], str]] = {
    "GET": ((b"GET", b"k"), "redis.call('get', 'k')"),
    "SET": ((b"SET", b"k", b"v"), "redis.call('set', 'k', 'v')"),
    "INCR": ((b"INCR", b"n"), "redis.call('incr', 'n')"),
    "HSET": ((b"HSET", b"h", b"f", b"v"), "redis.call('hset', 'h', 'f', 'v')"),
    "HMGET": ((b"HMGET", b"h", b"f", b"g"), "redis.call('hmget', 'h', 'f', 'g')"),
    "LRANGE": ((b"LRANGE", b"l", b"0", b"-1"), "redis.call('lrange', 'l', 0, -1)"),
    "TIME": ((b"TIME",), "redis.call('time')"),
}
MODULE = "local M{0} = {{}} function M{0}.f(a) return a + {0} end "
# Scripts that do (almost) nothing, and their number of keys. They get as many arguments.
RUNS: dict[str, tuple[str, int]] = {
    "empty": ("return 1", 1),
    "empty, 6 keys and 6 arguments": ("return 1", 6),
    "returns 3 numbers": ("return {1, 2, 3}", 1),
    "makes 20 tables and 20 functions": ("".join(map(MODULE.format, range(20))), 1),
}
PER_SCRIPT = 50  # calls in a script, and requests that arrive together
COMMANDS = 1000  # in a turn
LIMIT_MS = 50
LOOPS = {
    "a plain loop": "while true do end",
    "in pcall": "while true do pcall(function() while true do end end) end",
    "calls": "while true do redis.call('get', 'k') end",
    "large texts": "local s = ('x'):rep(1e7) while true do local t = s .. 'y' end",
    "patterns": "local s = ('a'):rep(30000) while true do s:find('.-.-.-.-b') end",
}


# -- calls ------------------------------------------------------------------------------------


class NoSocket:
    """A transport that accepts everything at once and discards it."""

    family = socket.AF_INET

    def get_extra_info(self, name: str) -> object:
        return self if name == "socket" else ("127.0.0.1", 1)

    def fileno(self) -> int:
        return -1

    def setsockopt(self, *option: int) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None: ...

    def writelines(self, data: list[bytes]) -> None: ...


@dataclass
class Costs:
    """The costs of one command in µs, the best of all rounds."""

    alone: float
    dispatched: float
    request: float
    call: float


class Calls:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._engine = engine = Engine(open_store(str(folder / "data.db")), Config())
        engine.turn.set_appendfsync("everysec")  # and no timer here runs a sync
        self._connection = Connection(engine)
        self._connection.connection_made(cast(asyncio.Transport, NoSocket()))
        self._silent = Session(engine, NoSink(), "bench", "bench")
        engine.connected(self._silent)
        engine.receive(self._silent, [[b"SET", b"k", b"v"], [b"RPUSH", b"l", b"a", b"b"]])
        engine.turn.end()

    def _alone_us(self, argv: list[bytes], count: int) -> float:
        engine, session = self._engine, self._silent
        started_s = time.process_time()
        for _ in range(count):
            engine.execute(session, argv)
        elapsed_s = time.process_time() - started_s
        engine.turn.end()
        return elapsed_s / count * 1e6

    def _dispatched_us(self, argv: list[bytes], count: int) -> float:
        engine, session = self._engine, self._connection.session
        started_s = time.process_time()
        for _ in range(count):
            engine.execute(session, argv)
        engine.turn.end()
        return (time.process_time() - started_s) / count * 1e6

    def _request_us(self, argv: list[bytes], count: int) -> float:
        engine, connection = self._engine, self._connection
        data = encode_command(*argv) * PER_SCRIPT
        started_s = time.process_time()
        for _ in range(count // PER_SCRIPT):
            connection.data_received(data)
            engine.run_some()
        engine.turn.end()
        return (time.process_time() - started_s) / count * 1e6

    def measure_runs(self, rounds: int) -> dict[str, float]:
        """The µs of an EVALSHA, by script, and first of a GET. The best of all rounds."""
        get = [b"GET", b"k"]
        best = {"a GET": min(self._dispatched_us(get, 200) for _ in range(rounds))}
        for name, (script, keys) in RUNS.items():
            sha = self._engine.scripts.cache.load(script.encode())
            argv = [b"EVALSHA", sha, b"%d" % keys, *(b"key:%d" % i for i in range(2 * keys))]
            best[name] = min(self._dispatched_us(argv, 200) for _ in range(rounds))
        return best

    def measure(self, rounds: int) -> dict[str, Costs]:
        """The costs by command. The commands take turns, so that noise affects all alike."""
        best: dict[tuple[str, str], float] = {}

        def note(kind: str, name: str, us: float) -> None:
            best[kind, name] = min(best.get((kind, name), us), us)

        scripts = COMMANDS // PER_SCRIPT
        empty = [b"EVAL", b"for i = 1, %d do end" % PER_SCRIPT, b"0"]
        for _ in range(rounds):
            note("loop", "", self._dispatched_us(empty, scripts))
            for name, (words, call) in CALLS.items():
                argv = list(words)
                script = f"for i = 1, {PER_SCRIPT} do {call} end".encode()
                note("alone", name, self._alone_us(argv, COMMANDS))
                note("dispatched", name, self._dispatched_us(argv, COMMANDS))
                note("request", name, self._request_us(argv, COMMANDS))
                note("script", name, self._dispatched_us([b"EVAL", script, b"0"], scripts))
        return {
            name: Costs(
                best["alone", name],
                best["dispatched", name],
                best["request", name],
                (best["script", name] - best["loop", ""]) / PER_SCRIPT,
            )
            for name in CALLS
        }

    def close(self) -> None:
        self._engine.store.close()


# -- waiting ----------------------------------------------------------------------------------


@dataclass
class Waits:
    """Waits in milliseconds."""

    busy: float  # for a reply -BUSY, the longest
    connect: float  # to connect and receive -BUSY
    kill: float  # from KILL to the error reply to the script


def _ms(action: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    action()
    return (time.perf_counter() - started_s) * 1000


def _begin(server: HoldfastServer, client: RawClient, run: tuple[Argument, ...]) -> RawClient:
    """Begin a script that never ends; return the client that runs it. `client` connected before, so
    it gets replies."""
    client.command("PING")
    victim = server.client()
    victim.send_command(*run)
    while client.command("PING") == b"+PONG\r\n":
        pass
    return victim


def measure_waits(server: HoldfastServer, kind: str, body: str, asks: int) -> Waits:
    with RawClient.connect(server.port) as client:
        library = f"#!lua name=l\nredis.register_function('f', function() {body} end)"
        client.command("FUNCTION", "LOAD", "REPLACE", library)
        run = ("FCALL", "f", 0) if kind == "FUNCTION" else ("EVAL", body, 0)
        victim = _begin(server, client, run)

        def connect() -> None:
            with RawClient.connect(server.port) as late:
                assert late.command("PING")[:5] == b"-BUSY"

        def kill() -> None:
            assert client.command(kind, "KILL") == b"+OK\r\n"
            assert victim.read_reply()[:4] == b"-ERR"

        busy = max(_ms(lambda: client.command("GET", "k")) for _ in range(asks))
        return Waits(busy, max(_ms(connect) for _ in range(5)), _ms(kill))


def measure_shutdown(folder: Path) -> float:
    """Milliseconds from SHUTDOWN NOSAVE to the end of the process."""
    with HoldfastServer(folder, "--lua-time-limit", str(LIMIT_MS)) as server:
        client = server.client()
        _begin(server, client, ("EVAL", LOOPS["a plain loop"], 0))

        def shut_down() -> None:
            client.send_command("SHUTDOWN", "NOSAVE")
            server.process.wait()

        return _ms(shut_down)


def measure_calls(folder: Path, rounds: int) -> None:
    calls = Calls(folder)
    print("| script | µs |\n|---|---|")
    for name, run_us in calls.measure_runs(rounds).items():
        print(f"| {name} | {run_us:.1f} |")
    print("\n| µs | alone | dispatched | request | from Lua | : alone | : dispatched | : request |")
    print("|---|---|---|---|---|---|---|---|")
    for name, us in calls.measure(rounds).items():
        beside = (us.alone, us.dispatched, us.request)
        figures = [*beside, us.call, *(us.call / other for other in beside)]
        print(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |", flush=True)
    calls.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="of measuring calls")
    parser.add_argument("--asks", type=int, default=100, help="commands during each script")
    args = parser.parse_args()
    gc.freeze()
    gc.set_threshold(10_000, 5, 1000)  # as in the server
    with workplace() as folder:
        measure_calls(folder / "calls", args.rounds)
        server = HoldfastServer(folder / "busy", "--lua-time-limit", str(LIMIT_MS))
        with server:
            print("\n| script | longest -BUSY, ms | connecting | KILL |\n|---|---|---|---|")
            for kind in ("SCRIPT", "FUNCTION"):
                for title, body in LOOPS.items():
                    say(f"{kind.lower()}: {title}")
                    waits = measure_waits(server, kind, body, args.asks)
                    figures = f"{waits.busy:.1f} | {waits.connect:.1f} | {waits.kill:.1f}"
                    print(f"| {kind.lower()}, {title} | {figures} |", flush=True)
        print(f"\nSHUTDOWN NOSAVE: {measure_shutdown(folder / 'shutdown'):.0f} ms")


if __name__ == "__main__":
    main()
