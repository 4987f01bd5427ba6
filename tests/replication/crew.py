"""Servers that follow each other, and clients who note what they were promised."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.harness import HoldfastServer, RawClient, wait_until
from tests.harness.rawclient import Argument

CONVERGENCE_S = 120.0  # on a busy machine; it takes well below one


@contextmanager
def cluster(folder: Path, count: int, *options: str) -> Iterator[list[HoldfastServer]]:
    """Linked through unix sockets, whose names outlive a server that is killed."""
    with ExitStack() as stack:
        sockets = [folder / f"{number}.sock" for number in range(1, count + 1)]
        servers = []
        for number, path in enumerate(sockets, 1):
            peers = [word for other in sockets if other != path for word in _peer(other)]
            server = HoldfastServer(
                folder / f"node-{number}",
                *("--active-active", "--node-id", str(number), "--unixsocket", str(path)),
                *peers,
                *options,
            )
            servers.append(stack.enter_context(server))
        yield servers


def _peer(path: Path) -> tuple[str, str]:
    return "--peer", f"unix://{path}"


def ask(server: HoldfastServer, *args: Argument) -> bytes:
    with RawClient.connect(server.port) as client:
        return client.command(*args)


def are_linked(servers: list[HoldfastServer]) -> bool:
    """Whether everybody follows everybody."""
    wanted = len(servers) - 1
    return all(
        ask(server, "ACTIVE", "PEERS").count(b"$9\r\nfollowing\r\n") == wanted for server in servers
    )


def await_the_same(servers: list[HoldfastServer]) -> None:
    """Until all have seen the same, and so have the same."""
    wait_until(lambda: are_linked(servers), "all follow all", CONVERGENCE_S)

    def is_so() -> bool:
        return len({ask(server, "ACTIVE", "DIGEST") for server in servers}) == 1

    wait_until(is_so, "equal digests", CONVERGENCE_S)


class Worker(threading.Thread):
    """A client of one server, which may be away. What is not answered is in doubt."""

    def __init__(self, server: HoldfastServer, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._server = server
        self._rng = random.Random(seed)
        self._enough = threading.Event()
        self._client: RawClient | None = None
        self._number = 0
        self.added: set[str] = set()
        self.removed: set[str] = set()  # or maybe removed
        self.pushed: set[str] = set()
        self.in_doubt: set[str] = set()  # added or pushed, or not
        self.counted: Counter[str] = Counter()  # "yes" and "maybe"

    def stop(self) -> None:
        self._enough.set()
        self.join(60)

    def run(self) -> None:
        while not self._enough.is_set():
            self._add()
            self._push()
            self._count()
            self._remove()
            self._command("LMOVE", "queue", f"done-{self.name}", "LEFT", "RIGHT")
        if self._client is not None:
            self._client.close()

    def _command(self, *args: Argument) -> bytes | None:
        """None when nobody knows."""
        try:
            if self._client is None:
                self._client = RawClient.connect(self._server.port, 30)
            return self._client.command(*args)
        except (OSError, AssertionError):
            if self._client is not None:
                self._client.close()
                self._client = None
            self._enough.wait(0.05)
            return None

    def _next_name(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"

    def _add(self) -> None:
        name = self._next_name()
        reply = self._command("SADD", "set", name)
        (self.in_doubt if reply is None else self.added).add(name)

    def _push(self) -> None:
        name = self._next_name()
        where = self._rng.choice(("RPUSH", "LPUSH"))
        reply = self._command(where, "queue", name)
        (self.in_doubt if reply is None else self.pushed).add(name)

    def _count(self) -> None:
        reply = self._command("INCR", "counter")
        self.counted["maybe" if reply is None else "yes"] += 1

    def _remove(self) -> None:
        if self.added and self._rng.random() < 0.3:
            name = self._rng.choice(sorted(self.added)[-50:])
            self.removed.add(name)
            self._command("SREM", "set", name)


def names_in(reply: bytes) -> list[str]:
    return [line.decode() for line in reply.split(b"\r\n")[2::2]]
