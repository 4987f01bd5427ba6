"""`make bench-memory`: bytes for each key and each list element, beside redis-server.

Memory is the resident size of the process (RSS) less its size when it was empty. `loaded` includes
the pending work of our fold; `folded` is after SAVE, when the server is idle and has given free
memory back to the system; `restarted` is after a restart and one read: it shows how much is loaded
before a client asks for it.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.common import (
    ROOT,
    ask,
    holdfast_server,
    machine,
    redis_server,
    rss_bytes,
    say,
    send_all,
    wait_until_idle,
    workplace,
)
from bench.workloads import VALUE
from tests.harness.processes import ServerProcess
from tests.harness.rawclient import Argument

Command = tuple[Argument, ...]
COUNT = 1_000_000
ELEMENTS_PER_PUSH = 100
FIRST = f"key:{0:012d}"


def strings(count: int) -> Iterator[Command]:
    for i in range(count):
        yield "SET", f"key:{i:012d}", f"{i:032d}"


def small(command: str, *rest: str) -> Callable[[int], Iterator[Command]]:
    """Keys that one command each makes; `rest` is the same for all keys."""

    def commands(count: int) -> Iterator[Command]:
        for i in range(count):
            yield command, f"key:{i:012d}", *rest

    return commands


def one_list(count: int) -> Iterator[Command]:
    for first in range(0, count, ELEMENTS_PER_PUSH):
        last = min(first + ELEMENTS_PER_PUSH, count)
        yield "RPUSH", "list", *[f"{i:032d}" for i in range(first, last)]


def members(count: int) -> list[str]:
    return [f"member:{number:04d}" for number in range(count)]


def pairs(count: int) -> list[str]:
    return [word for name in members(count) for word in (name, VALUE)]


def scored(count: int) -> list[str]:
    return [word for at, name in enumerate(members(count)) for word in (str(at), name)]


@dataclass(frozen=True)
class Content:
    title: str
    commands: Callable[[int], Iterator[Command]]
    read_one: Command


CONTENTS = (
    Content("strings (16-byte keys, 32-byte values)", strings, ("GET", FIRST)),
    Content("elements of 32 bytes in one list", one_list, ("LRANGE", "list", 0, 0)),
    Content("counters", small("INCR"), ("GET", FIRST)),
    Content("hashes of one field", small("HSET", "field", VALUE), ("HGETALL", FIRST)),
    Content("sets of one member", small("SADD", "member"), ("SMEMBERS", FIRST)),
    Content("lists of one element", small("RPUSH", VALUE), ("LRANGE", FIRST, 0, 0)),
    Content("sorted sets of one member", small("ZADD", "1", "member"), ("ZRANGE", FIRST, 0, 0)),
    Content("streams of one entry", small("XADD", "*", "field", VALUE), ("XLEN", FIRST)),
    Content("strings of 1 kB", small("SET", VALUE * 32), ("GET", FIRST)),
    Content("hashes of five fields", small("HSET", *pairs(5)), ("HGETALL", FIRST)),
    Content("hashes of ten fields", small("HSET", *pairs(10)), ("HGETALL", FIRST)),
    Content("sets of ten members", small("SADD", *members(10)), ("SMEMBERS", FIRST)),
    Content("lists of ten elements", small("RPUSH", *([VALUE] * 10)), ("LRANGE", FIRST, 0, 0)),
    Content("sorted sets of ten members", small("ZADD", *scored(10)), ("ZRANGE", FIRST, 0, 0)),
)


@dataclass
class Usage:
    """Bytes per key or element."""

    loaded: float
    folded: float | None  # redis-server has nothing to fold
    restarted: float
    on_disk: float


def measure(server: ServerProcess, content: Content, count: int, *, folds: bool) -> Usage:
    empty = rss_bytes(server.pid)

    def grown() -> float:
        return (rss_bytes(server.pid) - empty) / count

    # SAVE replies when everything is folded. Until then the server answers no other command.
    client = server.client(timeout_s=300)
    send_all(client, content.commands(count))
    loaded = grown()
    folded = None
    if folds:
        ask(client, "SAVE")
        wait_until_idle(server.pid)
        folded = grown()
    client.close()
    server.restart()
    ask(server.client(), *content.read_one)
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    return Usage(loaded, folded, grown(), sum(path.stat().st_size for path in files) / count)


def shown(number: float | None) -> str:
    return "–" if number is None else f"{number:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-memory ARGS=…", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="keys, and elements")
    parser.add_argument("--only", default="", help="contents whose title has this word")
    args = parser.parse_args()
    count: int = args.count
    results: dict[str, dict[str, Usage]] = {}
    with workplace() as folder:
        for number, content in enumerate(CONTENTS):
            if args.only not in content.title:
                continue
            place = folder / str(number)
            results[content.title] = usages = {}
            for name in ("ours", "redis"):
                say(f"{count:,} {content.title}: {name}")
                with start(name, place) as server:
                    usages[name] = measure(server, content, count, folds=name == "ours")
            print(f"\nbytes each, of {count:,} {content.title}\n")
            print(f"{'':8}{'loaded':>10}{'folded':>10}{'restarted':>12}{'on disk':>10}")
            for name, usage in usages.items():
                print(
                    f"{name:8}{shown(usage.loaded):>10}{shown(usage.folded):>10}"
                    f"{shown(usage.restarted):>12}{shown(usage.on_disk):>10}",
                    flush=True,
                )
    path = write_json(count, results, is_whole=count == COUNT and not args.only)
    say(f"\nwritten to {path.relative_to(ROOT)}")


def start(name: str, folder: Path) -> AbstractContextManager[ServerProcess]:
    if name == "redis":
        return redis_server(folder, "everysec")
    return holdfast_server(folder, "--appendfsync", "everysec")


def write_json(count: int, results: dict[str, dict[str, Usage]], *, is_whole: bool) -> Path:
    partial = "" if is_whole else "-partial"
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-memory{partial}.json"
    path.parent.mkdir(exist_ok=True)
    bytes_each = {
        title: {name: asdict(usage) for name, usage in usages.items()}
        for title, usages in results.items()
    }
    result = {"count": count, "machine": machine(), "bytes_each": bytes_each}
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
