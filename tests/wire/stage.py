"""Several clients acting on both servers at once, in lockstep, and seeing the same."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.rawclient import Argument

# Values that naturally differ between two servers: ids, ports, ages, sizes, times.
_MASKS = (
    (rb"id=\d+", b"id=#"),
    (rb"(l?addr)=127\.0\.0\.1:\d+", rb"\1=#"),
    (rb" (fd|age|idle|qbuf|qbuf-free|rbs|rbp|obl|oll|omem)=\d+", rb" \1=#"),
    (rb" (argv-mem|multi-mem|tot-mem)=\d+", rb" \1=#"),
    (rb" lib-name=\S* lib-ver=\S*", b""),  # since 7.2
    (rb"\+\d{10}\.\d{6} \[(\d+) (?:127\.0\.0\.1:\d+|(lua))\]", rb"+# [\1 #\2]"),  # MONITOR
    (rb"(\$2\r\nid\r\n):\d+", rb"\1:#"),  # HELLO
    (rb"(\$7\r\nversion\r\n)\$\d\r\n[0-9.]+", rb"\1#"),
    (rb"(age-seconds\r\n)(?:,|\$\d+\r\n)[0-9.e-]+", rb"\1#"),  # ACL LOG
    (rb"([$=])\d+(\r\n(?:txt:)?id=)", rb"\1#\2"),  # the length of a line of CLIENT LIST
)


def masked(reply: bytes) -> bytes:
    for pattern, replacement in _MASKS:
        reply = re.sub(pattern, replacement, reply)
    return reply


@dataclass
class Actor:
    """One client, connected to both servers."""

    ours: RawClient
    oracle: RawClient

    def send(self, data: bytes) -> None:
        self.ours.send(data)
        self.oracle.send(data)

    def send_command(self, *args: Argument) -> None:
        self.ours.send_command(*args)
        self.oracle.send_command(*args)

    def do(self, line: str) -> bytes:
        """`same` for commands without blanks in their arguments."""
        return self.same(*line.split())

    def same(self, *args: Argument) -> bytes:
        self.send_command(*args)
        return self.same_reply(args)

    def same_reply(self, after: object = "what was sent") -> bytes:
        ours, oracle = masked(self.ours.read_reply()), masked(self.oracle.read_reply())
        assert ours == oracle, f"ours == redis-server's after {after}: {ours!r} {oracle!r}"
        return oracle

    def same_end(self) -> bytes:
        """The bytes that still come before both close the connection."""
        ours, oracle = self.ours.read_until_closed(), self.oracle.read_until_closed()
        assert masked(ours) == masked(oracle)
        return oracle

    def is_quiet(self) -> bool:
        assert self.ours.is_quiet() == self.oracle.is_quiet()
        return self.ours.is_quiet()

    def ids(self) -> tuple[int, int]:
        """This client's id with us and with the oracle."""
        ours, oracle = (int(c.command("CLIENT", "ID")[1:]) for c in (self.ours, self.oracle))
        return ours, oracle

    def same_about(self, ids: tuple[int, int], *args: Argument) -> bytes:
        """`same` for a command that names a client: `#` stands for its id."""
        for client, client_id in zip((self.ours, self.oracle), ids, strict=True):
            client.send_command(*[client_id if arg == "#" else arg for arg in args])
        return self.same_reply(args)

    def wait_for_blocked(self, count: int) -> None:
        """Until so many others wait, at both servers."""
        for client in (self.ours, self.oracle):
            wait_until(
                lambda client=client: client.command("CLIENT", "LIST").count(b"flags=b") == count,  # type: ignore[misc]
                f"{count} clients block",
            )


class Stage:
    def __init__(
        self, server: HoldfastServer, oracle: RedisServer, protocol: int, stack: ExitStack
    ) -> None:
        self._ports = server.port, oracle.port
        self._stack = stack
        self.protocol = protocol

    def enter(self, *, protocol: int | None = None) -> Actor:
        ours, oracle = (self._stack.enter_context(RawClient.connect(port)) for port in self._ports)
        actor = Actor(ours, oracle)
        if (protocol or self.protocol) == 3:
            actor.same("HELLO", 3)
        return actor


@contextmanager
def open_stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    """Both servers are empty, and as configured when the curtain falls."""
    with ExitStack() as stack:
        stage = Stage(server, oracle, protocol, stack)
        manager = stage.enter(protocol=2)
        manager.do("FLUSHALL")
        try:
            yield stage
        finally:
            for client in (manager.ours, manager.oracle):
                client.command("CONFIG", "SET", "requirepass", "")
                client.command("CONFIG", "SET", "notify-keyspace-events", "")
                client.command("CONFIG", "SET", "tracking-table-max-keys", 1_000_000)
