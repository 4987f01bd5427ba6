"""`make bench-cold`: the longest wait for a PONG while another client touches a cold collection.

A file is filled with one collection of each type. For each row of the table a server starts on
that file, so that all keys are cold. One client sends the command; another one sends a PING after
the other until the command is answered. The table shows the longest wait of a PING and the time
until the command was answered, as medians of the rounds. The first row is without a command: on a
busy machine the scheduler alone makes a PING wait.

With `--maxmemory` below the size of a collection the server forgets the collection after each
command. Then each command is sent twice, and both are measured.
"""

import argparse
import statistics
import time
from pathlib import Path

from bench.common import ask, fail, holdfast_server, machine, say, send_all, workplace
from tests.harness import RawClient, encode_command
from tests.harness.processes import ServerProcess
from tests.harness.rawclient import Argument

ROUNDS = 3
ELEMENTS = 1_000_000
PER_COMMAND = 500
GIVE_UP_AFTER_S = 120
IDLE_S = 1.0
SETTLE_S = 0.5

TOUCHES: tuple[tuple[Argument, ...], ...] = (
    ("HGET", "hash", "field:7"),
    ("HSET", "hash", "new", "x"),
    ("HSCAN", "hash", "0"),
    ("SISMEMBER", "set", "member:7"),
    ("SADD", "set", "new"),
    ("SRANDMEMBER", "set"),
    ("ZSCORE", "zset", "member:7"),
    ("ZADD", "zset", "1", "new"),
    ("ZRANGE", "zset", "0", "9"),
    ("XADD", "stream", "*", "field", "value"),
    ("XRANGE", "stream", "-", "+", "COUNT", "10"),
    ("LPUSH", "list", "new"),
    ("LRANGE", "list", "500000", "500009"),
    ("LPOS", "list", "missing"),
)


def fill(client: RawClient, elements: int) -> None:
    for start in range(0, elements, PER_COMMAND):
        # In an order that differs from that of the names, as in real use.
        numbers = [number * 7919 % elements for number in range(start, start + PER_COMMAND)]
        fields: list[Argument] = []
        scores: list[Argument] = []
        for number in numbers:
            fields += [f"field:{number}", f"{number:032d}"]
            scores += [str(number * 31 % elements), f"member:{number}"]
        members = [f"member:{number}" for number in numbers]
        elements_of_list = [f"{number:032d}" for number in numbers]
        ask(client, "HSET", "hash", *fields)
        ask(client, "SADD", "set", *members)
        ask(client, "ZADD", "zset", *scores)
        ask(client, "RPUSH", "list", *elements_of_list)
        send_all(client, [("XADD", "stream", "*", "field", text) for text in elements_of_list])


def waits(pinging: RawClient, touching: RawClient, command: tuple[Argument, ...]) -> list[float]:
    """In seconds, from sending the command until its reply. The last one is the time until the
    reply."""
    ping = encode_command("PING")
    found: list[float] = []
    started_s = time.perf_counter()
    until_s = started_s + IDLE_S
    if command:
        touching.send(encode_command(*command))
    while True:
        sent_s = time.perf_counter()
        pinging.send(ping)
        if pinging.read_reply() != b"+PONG\r\n":
            fail("PING was not answered PONG")
        found.append(time.perf_counter() - sent_s)
        if command:
            if not touching.is_quiet():
                break
        elif time.perf_counter() > until_s:
            break
    if command and touching.read_reply()[:1] == b"-":
        fail(f"{command[0]!r} failed")
    return [*found, time.perf_counter() - started_s]


def measure(server: ServerProcess, command: tuple[Argument, ...], times: int) -> list[list[float]]:
    results = []
    with (
        server.client(timeout_s=GIVE_UP_AFTER_S) as pinging,
        server.client(timeout_s=GIVE_UP_AFTER_S) as touching,
    ):
        ask(pinging, "PING")
        ask(touching, "PING")
        for _ in range(times):
            results.append(waits(pinging, touching, command))
            time.sleep(SETTLE_S)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-cold ARGS=…", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--maxmemory", default="0")
    parser.add_argument("--only", default="", help="commands that begin with this")
    parser.add_argument("--keep", default="", help="a folder for the file, filled if it is new")
    args = parser.parse_args()
    times = 1 if args.maxmemory == "0" else 2
    with workplace() as folder:
        place = Path(args.keep).absolute() if args.keep else folder
        if not (place / "holdfast").exists():
            say(f"filling five collections of {args.elements} elements")
            with holdfast_server(place, "--appendfsync", "everysec") as server:
                with server.client(timeout_s=GIVE_UP_AFTER_S) as client:
                    fill(client, args.elements)
                server.terminate()
        print(f"{machine()}\nmaxmemory {args.maxmemory}; ms, medians of {args.rounds}\n")
        print("| command | longest PING | command answered | … again: PING | answered |")
        print("|---|---|---|---|---|")
        for command in ((), *TOUCHES):
            title = " ".join(map(str, command[:2])) or "nothing"
            if not title.startswith(args.only):
                continue
            rounds = []
            for _ in range(args.rounds):
                with holdfast_server(place, "--maxmemory", args.maxmemory) as server:
                    rounds.append(measure(server, command, times))
                    server.terminate()  # so that the journal is empty, and all keys are cold
            cells = [title]
            for turn in range(times):
                found = [each[turn] for each in rounds]
                cells.append(f"{1e3 * statistics.median([max(each[:-1]) for each in found]):.1f}")
                cells.append(f"{1e3 * statistics.median([each[-1] for each in found]):.0f}")
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
