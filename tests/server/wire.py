"""A connection on a transport that the test plays: it shows the bytes written, and reads at any
pace."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter_ns
from typing import cast

from holdfast.server.core.cron import Cron
from holdfast.server.net.wire_connection import Connection
from holdfast.store.store import Store
from tests.harness import encode_command
from tests.harness.in_process import InProcess
from tests.harness.rawclient import Argument


class Stopwatch:
    """Moves on by so much whenever it is looked at."""

    def __init__(self, step_ns: int) -> None:
        self._times_ns = count(step_ns, step_ns)

    def __call__(self) -> int:
        return next(self._times_ns)


class Socket:
    """Remembers its options."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self.options: dict[tuple[int, int], int] = {}

    def fileno(self) -> int:
        return 9

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.options[level, option] = value


class Transport:
    """As much of asyncio's transport as a connection uses. Takes writes; the test reads them."""

    def __init__(self, peer: tuple[str, int], protocol: Connection) -> None:
        self._protocol = protocol
        self._peer = peer
        self.socket = Socket()
        self._written: list[bytes] = []
        self.unsent_bytes = 0
        self.peak_bytes = 0
        self.is_stuck = False  # the client does not read
        self.is_reading = True
        self.state = "open"

    def get_extra_info(self, name: str) -> object:
        return {
            "socket": self.socket,
            "peername": self._peer,
            "sockname": ("127.0.0.1", 6379),
        }[name]

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.state != "open"

    def write(self, data: bytes) -> None:
        assert self.state == "open"
        if self.is_stuck:
            self.unsent_bytes += len(data)
        self.peak_bytes = max(self.peak_bytes, self.unsent_bytes)
        self._written.append(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, state: str) -> None:
        if self.state == "open":
            self.state = state
            self._protocol.connection_lost(None)

    def read(self) -> bytes:
        """The bytes that the client has read since the last call."""
        data = b"".join(self._written)
        self._written.clear()
        self.unsent_bytes = 0
        return data


class WireClient:
    def __init__(self, server: "WireServer", peer: tuple[str, int]) -> None:
        self._server = server
        self.connection = Connection(server.engine)
        self.transport = Transport(peer, self.connection)
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def send(self, data: bytes) -> None:
        """It is run at once; the replies leave at the end of the turn."""
        self.connection.data_received(data)
        while self._server.engine.run_some():
            pass

    def send_command(self, *args: Argument) -> None:
        self.send(encode_command(*args))

    def command(self, *args: Argument) -> bytes:
        """Run a command; return the bytes written by the end of the turn."""
        self.send_command(*args)
        return self.read()

    def read(self) -> bytes:
        self._server.engine.turn.end()
        return self.transport.read()

    @property
    def state(self) -> str:
        return self.transport.state


class WireServer(InProcess):
    """An engine with connections, and its cron."""

    def __init__(
        self,
        stopwatch_ns: Callable[[], int] = perf_counter_ns,
        store: Store | None = None,
        /,
        **config: str,
    ) -> None:
        super().__init__(
            {name.replace("_", "-"): value for name, value in config.items()}, store, stopwatch_ns
        )
        self._cron = Cron(self.engine)
        self._cron.start()

    def connect(self, host: str = "127.0.0.1") -> WireClient:
        return WireClient(self, (host, 50000 + len(self.engine.sessions)))

    def wait(self, seconds: float) -> None:
        self.engine.turn.end()
        self.clock.advance(seconds)
        self.engine.turn.end()
