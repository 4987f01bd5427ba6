"""One server: a connection that ordinary commands share, and dedicated connections beside it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import replace
from functools import partial
from math import isnan
from typing import Any, Final, Protocol
from weakref import WeakSet

from holdfast.client.errors import ClientError, ClosedError, ServerError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.pending import PendingMany, PendingOne
from holdfast.client.protocol.pipeline import ReplySink, time_out
from holdfast.client.protocol.request import Argument, encode, encode_all
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.hooks import NO_HOOKS, Hooks
from holdfast.client.transport.link import Dial
from holdfast.client.transport.options import ClientOptions
from holdfast.client.transport.silence import SilenceJudge
from holdfast.clock import Clock, SystemClock

Command = tuple[Argument, ...]
DEFAULT: Final[Any] = object()  # the timeout of the options
MAX_REDIRECTIONS = 100  # of one command; `cluster` waits a moment before some of them
_MAX_IDLE = 16
_PING = encode(("PING",))


class Caller(Protocol):
    """Sends the commands of a client. Returns unconverted replies, error replies included."""

    clock: Clock
    options: ClientOptions

    @property
    def state(self) -> State: ...

    @property
    def last_error(self) -> Exception | None: ...

    async def connect(self) -> None: ...

    async def close(self, grace_s: float | None) -> None: ...

    def call(self, args: Command, timeout_s: float | None = DEFAULT) -> Awaitable[Any]: ...

    def call_many(
        self, commands: list[Command], timeout_s: float | None = DEFAULT
    ) -> Awaitable[list[Any]]: ...

    async def lease(
        self, key: Argument | None = None, moved: ServerError | None = None
    ) -> Connection:
        """A connection for one caller, to the server that has the key or to which it moved."""
        ...

    def give(self, connection: Connection) -> None:
        """Return a leased connection. It is in the state in which it was lent, or closed."""
        ...

    def call_beside(self, connection: Connection, args: Command) -> Awaitable[Any]:
        """Run a command over the shared connection to the server of a leased connection."""
        ...

    def has_moved(self, reply: Any) -> bool:
        """Whether this reply says that another server has the key, and nothing ran."""
        ...

    def new_connection(self, slot: int | None = None) -> Connection:
        """A connection that reconnects by itself, for pub/sub; not connected yet."""
        ...

    async def shard_of(self, channel: str, *, again: bool) -> tuple[Hashable, int] | None:
        """The node of a sharded channel, and its slot. None: there is one server only.

        `again`: ask the cluster, because the known node may be out of date.
        """
        ...

    async def servers(self) -> list["Caller"]:
        """All servers that have keys of their own."""
        ...

    def check_loop(self) -> None:
        """Raises RuntimeError in another event loop than that of `connect`."""
        ...

    def abandon(self) -> None:
        """Close at once, from any thread and without an event loop."""
        ...


def send_one(
    connection: Connection, args: Command, timeout_s: float | None = None
) -> asyncio.Future[Any]:
    """Run one command over one connection, with a deadline of its own."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    submit(connection, PendingOne(encode(args), future), future, timeout_s)
    return future


def send_many(
    connection: Connection, commands: list[Command], timeout_s: float | None = None
) -> asyncio.Future[list[Any]]:
    future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
    sink = PendingMany(encode_all(commands), len(commands), future)
    submit(connection, sink, future, timeout_s)
    return future


def submit(
    connection: Connection, sink: ReplySink, future: asyncio.Future[Any], timeout_s: float | None
) -> None:
    try:
        connection.submit(sink)
    except ClientError as error:
        _reject(future, error)
        return
    if timeout_s is not None:
        timer = connection.clock.call_later(timeout_s, partial(time_out, sink))
        future.add_done_callback(lambda _: timer.cancel())


async def ask(options: ClientOptions, clock: Clock, *args: Argument) -> Any:
    """Run one command on a new connection."""
    connection = Connection(options, clock=clock)
    try:
        await connection.connect()
        return await send_one(connection, args, options.request_timeout_s)
    finally:
        connection.abandon()


def check_timeout(timeout_s: object) -> None:
    """Raise TypeError for a wrong type here, where the error can name the argument."""
    if timeout_s is None or timeout_s is DEFAULT:
        return
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or isnan(timeout_s):
        raise TypeError(f"timeout_s is a number of seconds or None, not {timeout_s!r:.80}")


async def check_open(caller: Caller) -> None:
    """Raise ClosedError, in the next turn of the loop, if the client is closed: see `_reject`."""
    if caller.state is State.CLOSED or caller.state is State.CLOSING:
        await asyncio.sleep(0)
        raise ClosedError("the client is closed")


def _reject(future: asyncio.Future[Any], error: ClientError) -> None:
    """Fail a call that was not accepted, in the next turn of the loop.

    Not at once: a caller that retries in a loop would never give the event loop a turn. Nothing
    would be read then, no timer would fire and no connection would open.
    """

    def fail() -> None:
        if not future.done():
            future.set_exception(error)

    asyncio.get_running_loop().call_soon(fail)


class Single:
    """The caller for one server."""

    def __init__(
        self,
        options: ClientOptions,
        *,
        dial: Dial | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        hooks: Hooks = NO_HOOKS,
        on_close: Callable[[], Coroutine[Any, Any, None]] | None = None,
        is_watched: bool = True,
        follows: bool = False,
    ) -> None:
        """`is_watched`: notice when the server does not answer. `follows`: see `SilenceJudge`."""
        self.options = options
        self._on_close = on_close or _nothing
        self.clock: Clock = clock or SystemClock()
        self._make: Callable[[ClientOptions], Connection] = lambda options: Connection(
            options, dial=dial, clock=self.clock, rng=rng, hooks=hooks
        )
        self.silence = SilenceJudge(options, self._make, self._connections, follows=follows)
        self._watch = self.silence.watch if is_watched else _no_watch
        self.has_successors = follows  # another server may take the place of this one
        self.connection = self._make(options)
        self._watch(self.connection)
        if options.cache_keys:
            self.connection.on_quiet = self._ping  # cached replies must not outlive their server
        self._timeout_s = options.request_timeout_s
        self._now_s = self.clock.monotonic_s
        self._create_future: Callable[[], asyncio.Future[Any]] = lambda: (
            asyncio.get_running_loop().create_future()
        )
        self._idle: list[Connection] = []
        self._leased: set[Connection] = set()
        self._others: WeakSet[Connection] = WeakSet()

    @property
    def state(self) -> State:
        return self.connection.state

    @property
    def last_error(self) -> Exception | None:
        return self.connection.last_error

    async def connect(self) -> None:
        await self.connection.connect()
        self._create_future = asyncio.get_running_loop().create_future

    def call(self, args: Command, timeout_s: float | None = DEFAULT) -> asyncio.Future[Any]:
        if timeout_s is not DEFAULT:
            return send_one(self.connection, args, timeout_s)
        return self.send(encode(args))

    def send(self, data: bytes) -> asyncio.Future[Any]:
        """Send an encoded command."""
        future: asyncio.Future[Any] = self._create_future()
        wait_s = self._timeout_s
        deadline_s = None if wait_s is None else self._now_s() + wait_s
        try:
            self.connection.submit(PendingOne(data, future, deadline_s))
        except ClientError as error:
            # A closed client may be called in any event loop.
            future = asyncio.get_running_loop().create_future()
            _reject(future, error)
        return future

    def call_many(
        self, commands: list[Command], timeout_s: float | None = DEFAULT
    ) -> asyncio.Future[list[Any]]:
        if timeout_s is DEFAULT:
            timeout_s = self._timeout_s
        return send_many(self.connection, commands, timeout_s)

    async def lease(
        self, key: Argument | None = None, moved: ServerError | None = None
    ) -> Connection:
        if self.has_successors:
            # A lent connection may be silent for long, so the shared one is asked instead.
            self.connection.watch_when_quiet(self._ping)
        while self._idle:
            connection = self._idle.pop()
            if connection.is_connected:
                self._leased.add(connection)
                return connection
        await check_open(self)
        connection = self._make(replace(self.options, reconnect=False, cache_keys=0))
        connection.is_replaceable = True
        connection.owes = connection.is_wait_overdue  # else it waits, and silence is normal
        self._watch(connection)
        self._leased.add(connection)
        try:
            await connection.connect()
        except BaseException:
            self._leased.discard(connection)
            connection.abandon()
            raise
        return connection

    def give(self, connection: Connection) -> None:
        self._leased.discard(connection)
        reusable = connection.is_connected and connection.pending == (0, 0)
        if reusable and len(self._idle) < _MAX_IDLE and self.state is not State.CLOSED:
            self._idle.append(connection)
        else:
            connection.abandon()

    def call_beside(self, connection: Connection, args: Command) -> Awaitable[Any]:
        return self.call(args)

    def has_moved(self, reply: Any) -> bool:
        return False

    async def shard_of(self, channel: str, *, again: bool) -> None:
        return None

    def new_connection(self, slot: int | None = None) -> Connection:
        connection = self._make(replace(self.options, cache_keys=0))
        self._watch(connection)
        self._others.add(connection)
        return connection

    async def servers(self) -> list[Caller]:
        return [self]

    async def close(self, grace_s: float | None) -> None:
        """Blocking commands and subscriptions end at once; other requests may finish."""
        self.silence.stop()
        beside = [*self._leased, *self._idle, *self._others]
        self._idle.clear()
        for connection in beside:
            connection.abandon()  # every connection, also if this call is cancelled
        try:
            await asyncio.gather(*(connection.close(0) for connection in beside))
        finally:
            try:
                await self.connection.close(grace_s)
            finally:
                await self._on_close()

    def check_loop(self) -> None:
        self.connection.check_loop()

    def retire(self, error: Exception) -> None:
        """Give this server up for good. Its requests fail, but not with ClosedError."""
        self.silence.stop()
        for connection in self._connections():
            connection.give_up(error)
            connection.abandon(error)

    def _connections(self) -> list[Connection]:
        return [self.connection, *self._leased, *self._idle, *self._others]

    def _ping(self) -> None:
        """Ping while the shared connection is quiet: an answer shows that the server is there."""
        if self._leased or self.options.cache_keys:
            self.send(_PING).add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            self.connection.watch_when_quiet(None)

    def abandon(self) -> None:
        for connection in [*self._leased, *self._idle, *self._others]:
            connection.abandon_from_anywhere()
        self.connection.abandon_from_anywhere(self._on_close)


async def _nothing() -> None:
    return None


def _no_watch(connection: Connection) -> None:
    """A server in this process needs no watching."""
