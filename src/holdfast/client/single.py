"""One server: the connection that ordinary commands share, and dedicated ones beside it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol
from weakref import WeakSet

from holdfast.client.connection import Connection
from holdfast.client.errors import ClientError, ClosedError, ServerError
from holdfast.client.hooks import NO_HOOKS, Hooks
from holdfast.client.link import Dial
from holdfast.client.options import Options
from holdfast.client.pending import PendingMany, PendingOne
from holdfast.client.pipeline import Sink, time_out
from holdfast.client.request import Argument, encode, encode_all
from holdfast.client.silence import SilenceJudge
from holdfast.client.state import State
from holdfast.clock import Clock, SystemClock

Command = tuple[Argument, ...]
DEFAULT: Final[Any] = object()  # the timeout that the options name
MAX_REDIRECTIONS = 100  # of one command; some of them take a moment, see `cluster`
_MAX_IDLE = 16
_PING = encode(("PING",))


class Caller(Protocol):
    """Where a client sends commands. Replies come as they are, error replies included."""

    clock: Clock
    options: Options

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
        """A connection for one caller, to the server that has the key, or to which it moved."""
        ...

    def give(self, connection: Connection) -> None:
        """A leased connection that is as it was, or closed."""
        ...

    def call_beside(self, connection: Connection, args: Command) -> Awaitable[Any]:
        """A command over the shared connection to the server of a leased one."""
        ...

    def has_moved(self, reply: Any) -> bool:
        """Whether this reply says that another server has the key, and nothing ran."""
        ...

    def new_connection(self, slot: int | None = None) -> Connection:
        """A connection that reconnects by itself, for pub/sub; not connected yet."""
        ...

    async def shard_of(self, channel: str, *, again: bool) -> tuple[Hashable, int] | None:
        """Who has a sharded channel, and its slot; None if there is but one. `again`: look."""
        ...

    async def servers(self) -> list["Caller"]:
        """Each that has keys of its own."""
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
    """One command over one connection. The deadline is this call's own."""
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
    connection: Connection, sink: Sink, future: asyncio.Future[Any], timeout_s: float | None
) -> None:
    try:
        connection.submit(sink)
    except ClientError as error:
        _reject(future, error)
        return
    if timeout_s is not None:
        timer = connection.clock.call_later(timeout_s, partial(time_out, sink))
        future.add_done_callback(lambda _: timer.cancel())


async def ask(options: Options, clock: Clock, *args: Argument) -> Any:
    """One question on a connection of its own."""
    connection = Connection(options, clock=clock)
    try:
        await connection.connect()
        return await send_one(connection, args, options.request_timeout_s)
    finally:
        connection.abandon()


def _reject(future: asyncio.Future[Any], error: ClientError) -> None:
    """Fail a call that was not accepted, in the next turn of the loop.

    Not at once: a caller that tries again and again would never give the loop a turn, and without
    one nothing is read, no timer fires and no connection opens.
    """

    def fail() -> None:
        if not future.done():
            future.set_exception(error)

    asyncio.get_running_loop().call_soon(fail)


class Single:
    """The caller for one server."""

    def __init__(
        self,
        options: Options,
        *,
        dial: Dial | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        hooks: Hooks = NO_HOOKS,
        on_close: Callable[[], Coroutine[Any, Any, None]] | None = None,
        is_watched: bool = True,
        follows: bool = False,
    ) -> None:
        """`is_watched`: a server that does not answer is noticed. `follows`: see SilenceJudge."""
        self.options = options
        self._on_close = on_close or _nothing
        self.clock: Clock = clock or SystemClock()
        self._make: Callable[[Options], Connection] = lambda options: Connection(
            options, dial=dial, clock=self.clock, rng=rng, hooks=hooks
        )
        self.silence = SilenceJudge(options, self._make, self._connections, follows=follows)
        self._watch = self.silence.watch if is_watched else _no_watch
        self.has_successors = follows  # another server may take the place of this one
        self.connection = self._make(options)
        self._watch(self.connection)
        if options.cache_keys:
            self.connection.on_quiet = self._ping  # what is cached must not outlive its server
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
        """A command that is encoded already."""
        future: asyncio.Future[Any] = self._create_future()
        wait_s = self._timeout_s
        deadline_s = None if wait_s is None else self._now_s() + wait_s
        try:
            self.connection.submit(PendingOne(data, future, deadline_s))
        except ClientError as error:
            # A client that is closed may be called in another loop than its own.
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
            # Over a lent connection nothing may come for long: the shared one is asked instead.
            self.connection.watch_when_quiet(self._ping)
        while self._idle:
            connection = self._idle.pop()
            if connection.is_connected:
                self._leased.add(connection)
                return connection
        if self.state is State.CLOSED or self.state is State.CLOSING:
            raise ClosedError("the client is closed")
        connection = self._make(replace(self.options, reconnect=False, cache_keys=0))
        connection.is_replaceable = True
        connection.owes = connection.is_wait_overdue  # else silence is what it is lent for
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
        """Those that wait in blocking commands, or for messages, end at once; others finish."""
        self.silence.stop()
        beside = [*self._leased, *self._idle, *self._others]
        self._idle.clear()
        for connection in beside:
            connection.abandon()  # all of them, also if we are cancelled while we wait for them
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
        """Give this server up for good. No caller is told that the client is closed: it is not."""
        self.silence.stop()
        for connection in self._connections():
            connection.give_up(error)
            connection.abandon(error)

    def _connections(self) -> list[Connection]:
        return [self.connection, *self._leased, *self._idle, *self._others]

    def _ping(self) -> None:
        """When the shared connection is quiet: an answer shows that the server is there."""
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
    """For a server in this process."""
