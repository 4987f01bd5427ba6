"""`make bench-fairness`: the time one client waits for a PONG while another floods the server.

The flood is one connection, in a process of its own. It sends a long pipeline as fast as the server
reads it, and reads the replies as fast as they come. Meanwhile this process sends one PING after
the other. Holdfast and redis-server are measured in turn, several times. The figure of a round is
its longest wait; the table shows the median and the worst of the rounds. The first row is without
a flood: on a busy machine the scheduler alone makes a PING wait.
"""

import argparse
import json
import multiprocessing
import selectors
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.common import (
    ROOT,
    ask,
    cpu_s,
    fail,
    holdfast_server,
    machine,
    redis_server,
    say,
    workplace,
)
from tests.harness import RawClient, encode_command
from tests.harness.processes import ServerProcess
from tests.harness.rawclient import Argument

ROUNDS = 3
PIECE_BYTES = 1 << 16  # of the flood, sent at once
RECEIVE_BYTES = 1 << 20
GIVE_UP_AFTER_S = 120
THE_END = b"the last reply of the flood"
IDLE_S = 1.0
INLINE = b"PING " + b"x " * 30_000 + b"\r\n"


@dataclass(frozen=True)
class Flood:
    title: str
    request: bytes
    count: int

    def scaled(self, share: float) -> "Flood":
        return Flood(self.title, self.request, max(int(self.count * share), 1))

    def pieces(self) -> Iterator[bytes]:
        per_piece = max(PIECE_BYTES // len(self.request), 1)
        piece = self.request * per_piece
        for _ in range(self.count // per_piece):
            yield piece
        yield self.request * (self.count % per_piece) + encode_command("ECHO", THE_END)


FLOODS = (
    Flood("1,000,000 PING", encode_command("PING"), 1_000_000),
    Flood("1,000,000 GET", encode_command("GET", "key"), 1_000_000),
    Flood("200,000 LRANGE of 100", encode_command("LRANGE", "list", 0, 99), 200_000),
    Flood("300 inline lines of 60 KB", INLINE, 300),
)
CONTENT: tuple[tuple[Argument, ...], ...] = (
    ("SET", "key", "x" * 32),
    ("RPUSH", "list", *[f"{number:08d}" for number in range(100)]),
)


@dataclass
class Pauses:
    """The waits of one round."""

    longest_ms: float
    p99_ms: float
    pings: int
    flood_s: float  # until the last reply to the flood
    cpu_s: float  # of the server during the round


def send_flood(port: int, flood: Flood) -> None:
    """Send the flood. Returns when the last reply has arrived."""
    pieces, unsent = flood.pieces(), memoryview(b"")
    last = b""
    with (
        socket.create_connection(("127.0.0.1", port)) as sock,
        selectors.DefaultSelector() as selector,
    ):
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        is_sending = True
        while not last.endswith(THE_END + b"\r\n"):
            for _, events in selector.select(GIVE_UP_AFTER_S) or fail("the server does not answer"):
                if events & selectors.EVENT_READ:
                    data = sock.recv(RECEIVE_BYTES) or fail("the server hung up")
                    last = (last + data)[-2 * len(THE_END) :]
                if events & selectors.EVENT_WRITE and is_sending:
                    unsent = unsent or memoryview(next(pieces, b""))
                    if unsent:
                        unsent = unsent[sock.send(unsent) :]
                    else:
                        is_sending = False
                        selector.modify(sock, selectors.EVENT_READ)


def waits_s_of(client: RawClient, until_s: float = 0.0) -> Iterator[float]:
    ping = encode_command("PING")
    while not until_s or time.perf_counter() < until_s:
        started_s = time.perf_counter()
        client.send(ping)
        if client.read_reply() != b"+PONG\r\n":
            fail("PING was not answered PONG")
        yield time.perf_counter() - started_s


def measure(server: ServerProcess, flood: Flood | None) -> Pauses:
    """The waits of a client that connects before the flood, until the flood is answered."""
    with server.client(timeout_s=GIVE_UP_AFTER_S) as client:
        ask(client, "PING")
        started_s, before_s = time.perf_counter(), cpu_s(server.pid)
        if flood is None:
            waits_s = list(waits_s_of(client, started_s + IDLE_S))
        else:
            process = multiprocessing.get_context("fork").Process(
                target=send_flood, args=(server.port, flood)
            )
            process.start()
            waits_s = []
            for wait_s in waits_s_of(client):
                waits_s.append(wait_s)
                if not process.is_alive():
                    break
            if process.exitcode:
                fail(f"the flood of {flood.title} was not answered")
    waits_s.sort()
    return Pauses(
        waits_s[-1] * 1000,
        waits_s[int(len(waits_s) * 0.99)] * 1000,
        len(waits_s),
        time.perf_counter() - started_s,
        cpu_s(server.pid) - before_s,
    )


def row(title: str, rounds: dict[str, list[Pauses]]) -> str:
    """The median and the worst of the longest waits, and the ratio of ours to redis-server's."""
    longest = {name: [pauses.longest_ms for pauses in found] for name, found in rounds.items()}
    medians = {name: statistics.median(found) for name, found in longest.items()}
    cells = [f"{medians[name]:.1f} ({max(longest[name]):.1f})" for name in ("ours", "redis")]
    return f"| {title} | {cells[0]} | {cells[1]} | {medians['ours'] / medians['redis']:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-fairness ARGS=…", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--share", type=float, default=1.0, help="of each flood that is sent")
    parser.add_argument("--policy", default="everysec", help="appendfsync of both servers")
    args = parser.parse_args()
    floods = [None, *[flood.scaled(args.share) for flood in FLOODS]]
    results: dict[str, dict[str, list[Pauses]]] = {}
    with workplace() as folder, ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            "ours": stack.enter_context(holdfast_server(folder, "--appendfsync", args.policy)),
            "redis": stack.enter_context(redis_server(folder, args.policy)),
        }
        for server in servers.values():
            with server.client() as client:
                for command in CONTENT:
                    ask(client, *command)
        print("longest wait of a PING, ms: median (and worst) of the rounds\n")
        print("| beside | ours | redis | ours : redis |\n|---|---|---|---|")
        for flood in floods:
            title = "nothing" if flood is None else flood.title
            rounds: dict[str, list[Pauses]] = {name: [] for name in servers}
            results[title] = rounds
            for number in range(args.rounds):
                for name, server in servers.items():
                    say(f"{title}, round {number + 1}: {name}")
                    rounds[name].append(measure(server, flood))
            print(row(title, rounds), flush=True)
    is_whole = args.share == 1 and args.rounds >= ROUNDS
    say(f"\nwritten to {write_json(results, is_whole).relative_to(ROOT)}")


def write_json(results: dict[str, dict[str, list[Pauses]]], is_whole: bool) -> Path:
    partial = "" if is_whole else "-partial"
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-fairness{partial}.json"
    path.parent.mkdir(exist_ok=True)
    pauses = {
        title: {name: [asdict(each) for each in found] for name, found in rounds.items()}
        for title, rounds in results.items()
    }
    path.write_text(json.dumps({"machine": machine(), "beside": pauses}, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
