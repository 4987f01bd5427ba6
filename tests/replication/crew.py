"""Servers that follow each other, and clients that note the replies they were given."""

import random
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.harness.rawclient import Argument
from tests.replication.cutter import Cutter

CONVERGENCE_S = 120.0  # on a busy machine; it takes well below one


def node(
    folder: Path, number: int, others: Iterable[int], *options: str, cutter: Cutter | None = None
) -> HoldfastServer:
    """A server that is not started yet. It is linked through unix sockets, whose names outlive a
    server that is killed; through those of a cutter, if there is one."""
    server = HoldfastServer(
        folder / f"node-{number}",
        *("--active-active", "--node-id", str(number)),
        *("--unixsocket", str(folder / f"{number}.sock")),
        *options,
    )
    for other in others:
        way = cutter.way(number, other) if cutter else folder / f"{other}.sock"
        server.args += ("--peer", f"unix://{way}")
    return server


@contextmanager
def cluster(
    folder: Path, count: int, *options: str, cutter: Cutter | None = None
) -> Iterator[list[HoldfastServer]]:
    """Servers that follow each other, see `node`."""
    numbers = range(1, count + 1)
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                node(folder, number, set(numbers) - {number}, *options, cutter=cutter)
            )
            for number in numbers
        ]


def ask(server: HoldfastServer, *args: Argument, within_s: float = 20.0) -> bytes:
    with RawClient.connect(server.port, within_s) as client:
        return client.command(*args)


def are_linked(servers: list[HoldfastServer]) -> bool:
    """Whether every server follows every other."""
    wanted = len(servers) - 1
    return all(
        ask(server, "ACTIVE", "PEERS").count(b"$9\r\nfollowing\r\n") == wanted for server in servers
    )


def await_links(servers: list[HoldfastServer], within_s: float) -> None:
    """Until all follow all. If they do not, this says how far they were, and whether they do so a
    minute later: a busy machine is slow, and a broken link stays broken."""
    try:
        wait_until(lambda: are_linked(servers), "all follow all", within_s)
    except AssertionError as error:
        for server in servers:
            error.add_note(ask(server, "ACTIVE", "PEERS").decode(errors="replace"))
        with suppress(AssertionError):
            wait_until(lambda: are_linked(servers), "all follow all at last", 60)
            error.add_note("a minute later all follow all")
        raise


def await_the_same(servers: list[HoldfastServer], within_s: float = CONVERGENCE_S) -> None:
    """Until all have seen the same, and so have the same."""
    await_links(servers, within_s)

    def is_so() -> bool:
        return len({ask(server, "ACTIVE", "DIGEST") for server in servers}) == 1

    wait_until(is_so, "equal digests", within_s)


class Worker(threading.Thread):
    """A client of one server, which may be away. A command without a reply is in doubt."""

    def __init__(self, server: HoldfastServer, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._server = server
        self._rng = random.Random(seed)
        self._enough = threading.Event()
        self._client: RawClient | None = None
        self.done = 0  # operations
        self.added: set[str] = set()
        self.removed: set[str] = set()  # by this client, after it had seen them
        self.perhaps_removed: set[str] = set()
        self.pushed: set[str] = set()
        self.counted: set[str] = set()
        self.logged: set[str] = set()  # as entries of a stream
        self.in_doubt: set[str] = set()  # added, pushed or counted, or not

    def stop(self) -> None:
        self._enough.set()
        self.join(60)

    def run(self) -> None:
        while not self._enough.is_set():
            self._note(self.added, "SADD", "set")
            self._note(self.pushed, self._rng.choice(("RPUSH", "LPUSH")), "queue")
            self._count()
            if self._rng.random() < 0.5:
                self._remove()
            self._command("LMOVE", "queue", f"done-{self.name}", "LEFT", "RIGHT")
            if self._rng.random() < 0.01:
                self._write_halves()
            if self._rng.random() < 0.2:
                self._note(self.logged, "XADD", "stream", "*", "name")
                self._use_group()
            if self._rng.random() < 0.2:
                self._use_short_lived()
        if self._client is not None:
            self._client.close()

    def _talk(self, *commands: tuple[Argument, ...]) -> bytes | None:
        """The last reply; None if the result is unknown."""
        try:
            if self._client is None:
                self._client = RawClient.connect(self._server.port, 30)
            self._client.send(b"".join(encode_command(*each) for each in commands))
            return self._client.read_replies(len(commands))[-1]
        except (OSError, AssertionError):
            if self._client is not None:
                self._client.close()
                self._client = None
            self._enough.wait(0.05)
            return None

    def _command(self, *args: Argument) -> bytes | None:
        return self._talk(args)

    def _next_name(self, more: object = "") -> str:
        self.done += 1
        return f"{self.name}-{self.done}:{more}"

    def _note(self, names: set[str], *args: Argument) -> None:
        name = self._next_name()
        self._keep(name, self._command(*args, name), names)

    def _keep(self, name: str, reply: bytes | None, names: set[str]) -> None:
        """A server that says no has not done it."""
        if reply is None:
            self.in_doubt.add(name)
        elif not reply.startswith(b"-"):
            names.add(name)

    def _count(self) -> None:
        """Together with its name: so it is known in the end whether it counts."""
        amount = self._rng.randint(-9, 9)
        name = self._next_name(amount)
        commands = (("MULTI",), ("SADD", "counted", name), ("INCRBY", "counter", amount))
        self._keep(name, self._talk(*commands, ("EXEC",)), self.counted)

    def _write_halves(self) -> None:
        """Larger than several messages of a link, and never seen apart."""
        half = self._next_name().ljust(300_000, ".")
        self._talk(("MULTI",), ("SET", "half", half), ("SET", "other half", half), ("EXEC",))

    def _use_group(self) -> None:
        """Consumers come and go with entries that are pending for them, and so do groups."""
        group = ("stream", "group")
        consumer = self._rng.choice(("c", "d"))
        chance = self._rng.random()
        if chance < 0.6:
            reading = ("XREADGROUP", "GROUP", "group", consumer, "COUNT", 5, "STREAMS", "stream")
            reply = self._command(*reading, ">")
            if reply is not None and reply.startswith(b"-NOGROUP"):
                self._command("XGROUP", "CREATE", *group, "0", "MKSTREAM")
        elif chance < 0.8:
            self._command("XAUTOCLAIM", *group, consumer, 0, "0", "COUNT", 5)
        elif chance < 0.98:
            self._command("XGROUP", "DELCONSUMER", *group, consumer)
        else:
            self._command("XGROUP", "DESTROY", *group)

    def _use_short_lived(self) -> None:
        """Which one deletes while another prolongs it."""
        key = f"short-{self._rng.randrange(20)}"
        commands: list[tuple[Argument, ...]] = [
            ("SET", key, self.name, "PX", self._rng.choice((50, 1000, 100_000))),
            ("INCR", f"{key}-n"),
            ("EXPIRE", f"{key}-n", self._rng.choice((1, 100))),
            ("DEL", key, f"{key}-n"),
            ("PEXPIRE", key, self._rng.choice((50, 1000, 100_000))),
            ("PERSIST", key),
        ]
        self._command(*self._rng.choice(commands))

    def _remove(self) -> None:
        """Remove an element that is seen here; any client may have added it."""
        seen = self._command("SRANDMEMBER", "set")
        if seen is not None and not seen.startswith((b"$-1", b"-")):
            name = seen.split(b"\r\n")[1].decode()
            self.perhaps_removed.add(name)
            reply = self._command("SREM", "set", name)
            if reply is not None and not reply.startswith(b"-"):
                self.removed.add(name)


def names_in_stream(reply: bytes) -> list[str]:
    return [name.decode() for name in re.findall(rb"\r\nname\r\n\$\d+\r\n(.*?)\r\n", reply)]


def names_in(reply: bytes) -> list[str]:
    return [line.decode() for line in reply.split(b"\r\n")[2::2]]
