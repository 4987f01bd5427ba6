"""Load that redis-benchmark cannot make: whole transactions in one write, and listeners.

The code is as simple as possible, so that the time is spent in the servers: replies are known in
advance, and are only compared.
"""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from types import TracebackType
from typing import Self, cast

from bench.common import Sample, cpu_s, fail
from tests.harness import encode_command
from tests.harness.processes import ServerProcess

CHUNK = 1 << 20
GIVE_UP_AFTER_S = 60


def run_load(
    server: ServerProcess,
    requests_bytes: list[bytes],
    reply: bytes,
    *,
    requests: int,
    clients: int,
    pipeline: int,
) -> Sample:
    """Each client sends `pipeline` requests together, and sends the next ones when all are
    answered. Each reply must be `reply`."""
    rounds = requests // (clients * pipeline)
    payloads = cycle(
        [b"".join(islice(cycle(requests_bytes), at, at + pipeline)) for at in range(100)]
    )
    before_s, started_s = cpu_s(server.pid), time.perf_counter()
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(clients):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The rounds left, the bytes received in this round, and the time it was sent.
            selector.register(sock, selectors.EVENT_READ, [rounds - 1, b"", time.perf_counter()])
            sock.sendall(next(payloads))
        took_s = sorted(_exchange(selector, payloads, reply * pipeline))
    elapsed_s = time.perf_counter() - started_s
    done = rounds * clients * pipeline
    p99_ms = took_s[int(len(took_s) * 0.99)] * 1000
    cpu_us = 1e6 * (cpu_s(server.pid) - before_s) / done
    return Sample(done, done / elapsed_s, p99_ms, cpu_us)


def _exchange(
    selector: selectors.BaseSelector, payloads: Iterator[bytes], expected: bytes
) -> Iterator[float]:
    """The time that each round took."""
    while selector.get_map():
        for key, _ in selector.select(GIVE_UP_AFTER_S) or fail("the server does not answer"):
            sock, state = cast(socket.socket, key.fileobj), key.data
            state[1] += sock.recv(CHUNK) or fail("the server hung up")
            if not expected.startswith(state[1]):
                fail(f"the server answered {state[1][:200]!r}")
            if len(state[1]) < len(expected):
                continue
            now_s = time.perf_counter()
            yield now_s - state[2]
            if state[0]:
                state[:] = state[0] - 1, b"", now_s
                sock.sendall(next(payloads))
            else:
                selector.unregister(sock)


class Listeners:
    """Subscribers to a channel. They read on a thread of their own and count bytes."""

    def __init__(self, port: int, count: int, channel: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._received = [0] * count
        self._stops = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        confirmation = encode_command("subscribe", channel) + b":1\r\n"
        confirmation = confirmation.replace(b"*2", b"*3", 1)
        for number in range(count):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(encode_command("SUBSCRIBE", channel))
            answer = sock.recv(len(confirmation), socket.MSG_WAITALL)
            if answer != confirmation:
                fail(f"SUBSCRIBE was answered {answer!r}")
            self._selector.register(sock, selectors.EVENT_READ, number)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stops = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            cast(socket.socket, key.fileobj).close()
        self._selector.close()

    def wait_for(self, nbytes: int) -> None:
        """Wait until every listener has received exactly this many bytes."""
        deadline_s = time.monotonic() + GIVE_UP_AFTER_S
        while min(self._received) < nbytes and time.monotonic() < deadline_s:
            time.sleep(0.01)
        if set(self._received) != {nbytes}:
            fail(f"a listener received {min(self._received)} bytes instead of {nbytes}")

    def _read(self) -> None:
        received = self._received
        while not self._stops:
            for key, _ in self._selector.select(0.1):
                received[key.data] += len(cast(socket.socket, key.fileobj).recv(CHUNK))
