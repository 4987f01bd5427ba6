"""A server without a socket: it shows the bytes written to it, and sends replies that the test
chooses."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.client.errors import ClientError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.pending import PendingOne
from holdfast.client.protocol.pipeline import ReplySink
from holdfast.client.protocol.request import encode
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.link import Factory, Link
from holdfast.client.transport.options import ClientOptions
from holdfast.clock import ManualClock
from holdfast.resp import RequestParser


async def turns(count: int = 10) -> None:
    """Let everything run that needs no event from outside."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(predicate: Callable[[], bool]) -> None:
    """Wait for something that others do, in this process or not; pytest's timeout is the limit."""
    while not predicate():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


def hang_up_behind_reply(connection: Connection) -> None:
    """The next reply and the end of the connection come together. What its caller sends at once
    finds a connection that was lent and is broken."""
    deliver, link = connection.on_replies, connection._link
    assert link is not None

    def deliver_and_end(replies: list[Any]) -> None:
        deliver(replies)
        asyncio.get_running_loop().call_soon(link.eof_received)

    connection.on_replies = deliver_and_end  # type: ignore[method-assign]


class FakeTransport(asyncio.Transport):
    def __init__(self, protocol: Link) -> None:
        super().__init__()
        self.protocol = protocol
        self.writes: list[bytes] = []
        self.aborted = False
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.aborted, "written after the end"
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True

    def commands(self) -> list[list[bytes]]:
        """The commands written since the last call."""
        data, self.writes = b"".join(self.writes), []
        return RequestParser().feed(data)

    def say(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def cut(self) -> None:
        self.protocol.connection_lost(None)


class FakeServer:
    """Refuses while `refusing`; answers handshakes with `hello`, unless that is None."""

    def __init__(self) -> None:
        self.refusing = False
        self.hello: bytes | None = b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n"
        self.dials = 0
        self.links: list[FakeTransport] = []

    async def dial(self, factory: Factory) -> object:
        self.dials += 1
        if self.refusing:
            raise ConnectionRefusedError("refused")
        transport = FakeTransport(factory())
        self.links.append(transport)
        if self.hello is not None:
            asyncio.get_running_loop().call_soon(self._greet, transport, self.hello)
        return transport

    def _greet(self, transport: FakeTransport, hello: bytes) -> None:
        if not transport.writes:  # it connects, but has not asked yet
            asyncio.get_running_loop().call_soon(self._greet, transport, hello)
            return
        transport.writes.clear()
        transport.say(hello)

    @property
    def link(self) -> FakeTransport:
        return self.links[-1]


class Rig:
    """A connection to a fake server, at a clock that stands still."""

    def __init__(self, **options: Any) -> None:
        self.server = FakeServer()
        self.clock = ManualClock()
        self.connection = Connection(
            ClientOptions(**options), dial=self.server.dial, clock=self.clock
        )

    async def open(self) -> "Rig":
        await self.connection.connect()
        return self

    def is_in(self, state: State) -> bool:
        return self.connection.state is state

    def submit(self, *args: str, timeout_s: float | None = None) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        due_s = None if timeout_s is None else self.clock.monotonic_s() + timeout_s
        self.connection.submit(PendingOne(encode(args), future, due_s))
        return future


class FakeSink(ReplySink):
    """A sink that is no future: the pipeline cannot tell."""

    def __init__(self, data: bytes = b"x", replies: int = 1, due_s: float | None = None) -> None:
        super().__init__(data, replies, due_s)
        self.settled = False
        self.got: list[Any] = []

    @property
    def is_settled(self) -> bool:
        return self.settled

    def deliver(self, reply: Any) -> None:
        self.got.append(reply)
        self.settled = self.settled or not self.missing

    def fail(self, error: ClientError) -> None:
        assert not self.settled, "told twice"
        self.settled = True
        self.got.append(error)
