"""`make bench-active-active-million`: active-active servers with a million keys, beside PINGs.

Scenes, each with servers of its own:
- `flush`: two servers. `ACTIVE DIGEST` on both, then `FLUSHALL` on one, until both have freed
  memory and file.
- `join`: two full servers, and a third one that joins, until it has all keys and has folded them.
- `expire`: a server whose peer was killed, and a standalone one, take in keys that soon expire.

One client of each server sends a PING every millisecond and notes how long it waits. So does a
client of an idle standalone server, the control: on a busy machine the scheduler alone makes a PING
wait. The table has for each server and phase the longest wait, and the most time that the server's
main thread has run while a PING waited: this is the same on a busy machine.
"""

import argparse
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.common import ask, fail, machine, rss_bytes, say, send_all, workplace
from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.replication.crew import are_linked, cluster, node
from tests.replication.crew import ask as ask_once

KEYS = 1_000_000
SHORT_LIVED = 300_000
PATIENCE_S = 1_800.0
PING_EVERY_S = 0.001
LOOK_EVERY_S = 0.2
QUIET_S = 5.0
LIFE_MS = 10_000
OPTIONS = ("--appendfsync", "everysec")
VALUE = "0123456789abcdef"
MB = 1 << 20


class Pinger(threading.Thread):
    """A client of one server that measures how long it waits for each PONG."""

    def __init__(self, server: HoldfastServer) -> None:
        super().__init__(daemon=True)
        self._client = RawClient.connect(server.port, PATIENCE_S)
        self._running = Path(f"/proc/{server.pid}/task/{server.pid}/schedstat")
        self._ends = threading.Event()
        self._longest_s = 0.0
        self._most_ns = 0

    def run(self) -> None:
        ping = encode_command("PING")
        while not self._ends.wait(PING_EVERY_S):
            before_ns, sent_s = self._ran_ns(), time.perf_counter()
            self._client.send(ping)
            if self._client.read_reply() != b"+PONG\r\n":
                fail("PING was not answered PONG")
            self._longest_s = max(self._longest_s, time.perf_counter() - sent_s)
            self._most_ns = max(self._most_ns, self._ran_ns() - before_ns)
        self._client.close()

    def _ran_ns(self) -> int:
        """The CPU time of the server's main thread."""
        return int(self._running.read_text().split()[0])

    def take_longest_ms(self) -> str:
        """The longest wait since the last call, and the most CPU time during one wait."""
        longest_s, self._longest_s = self._longest_s, 0.0
        most_ns, self._most_ns = self._most_ns, 0
        return f"{1e3 * longest_s:.0f} ({most_ns / 1e6:.0f})"

    def stop(self) -> None:
        self._ends.set()
        self.join(PATIENCE_S)


class Scene:
    """Servers with a client each that sends PINGs. A phase prints one row of the table."""

    def __init__(self, servers: dict[str, HoldfastServer]) -> None:
        self._servers = servers
        self._pingers: dict[str, Pinger] = {}
        for name in servers:
            self.watch(name)
        print(f"\n| phase | s | longest PING, ms (CPU): {', '.join(servers)} | MB |")
        print("|---|---|---|---|")

    def watch(self, name: str) -> None:
        self._pingers[name] = Pinger(self._servers[name])
        self._pingers[name].start()

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        for pinger in self._pingers.values():
            pinger.take_longest_ms()
        started_s = time.perf_counter()
        yield
        took_s = time.perf_counter() - started_s
        waits = ", ".join(each.take_longest_ms() for each in self._pingers.values())
        sizes = ", ".join(f"{rss_bytes(each.pid) // MB}" for each in self._servers.values())
        print(f"| {title} | {took_s:.1f} | {waits} | {sizes} |", flush=True)

    def stop(self) -> None:
        for pinger in self._pingers.values():
            pinger.stop()


def facts(server: HoldfastServer) -> dict[str, str]:
    """The fields of INFO."""
    text = ask_once(server, "INFO", "everything", within_s=PATIENCE_S).decode()
    return dict(re.findall(r"^(\w+):(.*)\r$", text, re.MULTILINE))


def size(server: HoldfastServer) -> int:
    return int(ask_once(server, "DBSIZE", within_s=PATIENCE_S)[1:])


def wait_for(condition: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        time.sleep(LOOK_EVERY_S)
        return condition()

    wait_until(look, what, PATIENCE_S)


def is_at_rest(server: HoldfastServer) -> bool:
    """Whether the tables have all that the journal had, and nothing waits to leave memory."""
    found = facts(server)
    return found["holdfast_unfolded_ops"] == "0" and found["lazyfree_pending_objects"] == "0"


def is_empty(server: HoldfastServer) -> bool:
    return facts(server)["used_memory_dataset"] == "0"


def fill(server: HoldfastServer, keys: int, *more: str | int) -> None:
    with server.client(PATIENCE_S) as client:
        send_all(client, (("SET", f"key:{number}", VALUE, *more) for number in range(keys)))


@contextmanager
def full(folder: Path, keys: int) -> Iterator[tuple[list[HoldfastServer], HoldfastServer]]:
    """Yield two servers that follow each other and have no work left, and the control."""
    with (
        cluster(folder, 2, *OPTIONS) as servers,
        HoldfastServer(folder / "control", *OPTIONS) as control,
    ):
        wait_for(lambda: are_linked(servers), "both follow each other")
        say(f"filling two servers with {keys} keys")
        fill(servers[0], keys)
        wait_for(lambda: size(servers[1]) == keys, "both have all keys")
        wait_for(lambda: all(map(is_at_rest, servers)), "both are at rest")
        yield servers, control


def flush(folder: Path, keys: int) -> None:
    with full(folder, keys) as (servers, control), ExitStack() as stack:
        one, two = servers
        scene = Scene({"flushed": one, "peer": two, "control": control})
        stack.callback(scene.stop)
        with scene.phase("nothing"):
            time.sleep(QUIET_S)
        digests = []
        for server, name in ((one, "the first"), (two, "the peer")):
            with scene.phase(f"ACTIVE DIGEST on {name}"), server.client(PATIENCE_S) as client:
                digests.append(ask(client, "ACTIVE", "DIGEST"))
        if digests[0] != digests[1]:
            fail("the servers have different data")
        with scene.phase("FLUSHALL answered"), one.client(PATIENCE_S) as client:
            ask(client, "FLUSHALL")
        with scene.phase("the peer is empty"):
            wait_until(lambda: size(two) == 0, "the peer is empty", PATIENCE_S)
        with scene.phase("both are at rest"):
            wait_for(lambda: all(map(is_at_rest, servers)), "both are at rest")
        with scene.phase("nothing"):
            time.sleep(QUIET_S)


def join(folder: Path, keys: int) -> None:
    with full(folder, keys) as (servers, control), ExitStack() as stack:
        joiner = stack.enter_context(node(folder, 3, [1, 2], *OPTIONS))
        named = {"one": servers[0], "two": servers[1], "joiner": joiner, "control": control}
        scene = Scene(named)
        stack.callback(scene.stop)
        with scene.phase("all keys have come"):
            for server in servers:
                ask_once(server, "ACTIVE", "JOIN", f"unix://{folder}/3.sock")
            wait_for(lambda: size(joiner) == keys, "the joiner has all keys")
        with scene.phase("it takes writes, all follow all"):
            wait_for(lambda: facts(joiner)["active_active_state"] == "member", "a member")
            wait_for(lambda: are_linked([*servers, joiner]), "all follow all")
        with scene.phase("all are at rest"):
            wait_for(lambda: all(map(is_at_rest, [*servers, joiner])), "all are at rest")
        with scene.phase("nothing"):
            time.sleep(QUIET_S)
        found = facts(joiner)
        for number in range(2):
            print(f"joiner's link: {found[f'peer{number}']}")
        for name, server in named.items():
            for line in server.stderr.splitlines():
                if "link" in line or "snapshot" in line:
                    print(f"{name}: {line}")


def expire(folder: Path, keys: int) -> None:
    with (
        cluster(folder, 2, *OPTIONS) as (server, peer),
        HoldfastServer(folder / "alone", *OPTIONS) as alone,
    ):
        wait_for(lambda: are_linked([server, peer]), "both follow each other")
        peer.kill()
        print("\n| server | MB at the start | when full | when all have expired | log, records |")
        print("|---|---|---|---|---|")
        for name, each in (("standalone", alone), ("its peer is away", server)):
            sizes = [rss_bytes(each.pid)]
            fill(each, keys, "PX", LIFE_MS)
            sizes.append(rss_bytes(each.pid))
            wait_for(partial(is_empty, each), "all have left memory")
            wait_for(partial(is_at_rest, each), "it is at rest")
            time.sleep(QUIET_S)
            sizes.append(rss_bytes(each.pid))
            cells = [f"{nbytes // MB}" for nbytes in sizes]
            records = facts(each).get("active_active_log_records", "")
            print(f"| {name} | {' | '.join(cells)} | {records} |", flush=True)


SCENES = {"flush": flush, "join": join, "expire": expire}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench-active-active-million ARGS=…", description=__doc__
    )
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--short-lived", type=int, default=SHORT_LIVED, help="keys that expire")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=SCENES, help="one scene")
    args = parser.parse_args()
    print(machine())
    for _ in range(args.rounds):
        for name, scene in SCENES.items():
            if args.only in (None, name):
                print(f"\n{name}")
                with workplace() as folder:
                    scene(folder, args.short_lived if name == "expire" else args.keys)


if __name__ == "__main__":
    main()
