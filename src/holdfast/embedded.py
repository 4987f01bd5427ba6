"""A database in this process: the server's commands and durability, without a socket."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self

from holdfast import all_commands as all_commands
from holdfast.errors import CommandError, ConfigError, HoldfastError
from holdfast.resp import NullArray, Push, Reply
from holdfast.server.config.config import Config
from holdfast.server.core.cron import Cron
from holdfast.server.core.engine import Engine
from holdfast.server.sessions.out_of_band import OutOfBand, Output
from holdfast.server.sessions.session import Session
from holdfast.store.store import Store, open_store

Argument = str | bytes | int | float

IS_CLOSED = "the database is closed"
IS_FORKED = "the database was opened before a fork: open it in the process that uses it"

# Commands that change their session. `LocalDatabase.execute` shares sessions between its callers,
# so these commands need a `Conversation`.
STATEFUL = frozenset(
    {"auth", "hello", "monitor", "quit", "reset", "select"}
    | {"discard", "exec", "multi", "unwatch", "watch"}
    | {"client|caching", "client|capa", "client|no-evict", "client|no-touch", "client|reply"}
    | {"client|setinfo", "client|setname", "client|tracking"}
    | {"himport|discard", "himport|discardall", "himport|prepare", "himport|set"}
    | {"psubscribe", "punsubscribe", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"}
)


class PendingCalls:
    """The sink of a local session: each reply completes the oldest call."""

    output_bytes = 0

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[Reply]] = deque()
        self.on_push: Callable[[Reply], None] = lambda push: None

    def deliver(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if isinstance(reply, (Push, OutOfBand)):
                if reply:
                    self.on_push(reply)
                continue
            call = self.waiting.popleft()
            if call.done():
                continue  # the caller was cancelled
            if isinstance(reply, CommandError):
                call.set_exception(reply)
            else:
                call.set_result(reply)

    def close(self) -> None:
        for call in self.waiting:
            call.cancel()

    def fail(self, message: str) -> None:
        for call in self.waiting:
            if not call.done():
                call.set_exception(HoldfastError(message))


class Conversation:
    """A session with one user: MULTI, WATCH and SELECT hold until it is closed.

    Calls may overlap. They run in order and are answered in order.
    """

    def __init__(self, database: "LocalDatabase") -> None:
        self._database = database
        self._engine = database.engine
        self._calls = PendingCalls()
        self._session = Session(self._engine, self._calls, "local:0", "local:0")
        self._session.protocol = 3
        self._session.encode = _as_it_is
        self._engine.connected(self._session)

    def listen(self, on_push: Callable[[Reply], None]) -> None:
        """Receive messages and invalidations. Each is a list, as RESP3 pushes it."""
        self._calls.on_push = on_push

    async def execute(self, *args: Argument) -> Reply:
        """Run a command. Returns when its effects, and all data that it read, are on disk.

        Raises CommandError for an error reply. A cancelled call stops waiting for its key. It does
        not undo a command that has already run.
        """
        if not args:
            raise ValueError("execute() needs a command")
        self._database.check_open()
        argv = [_to_bytes(arg) for arg in args]
        call: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls.waiting.append(call)
        self._engine.receive(self._session, [argv])
        try:
            return _to_python(await call)
        except asyncio.CancelledError:
            waiter = self._session.waiter
            if waiter is not None and self._calls.waiting[0] is call:
                self._engine.blocking.unblock(waiter, None)
            raise

    async def close(self) -> None:
        self._engine.disconnected(self._session)
        self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_idle(self) -> bool:
        return not self._calls.waiting


class LocalDatabase:
    """The database of `holdfast.open`. It belongs to the event loop that first uses it."""

    def __init__(self, store: Store, config: Config) -> None:
        self.engine = Engine(store, config)
        self._cron = Cron(self.engine)
        self._store = store
        self._pid = os.getpid()
        self._idle: list[Conversation] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def check_open(self) -> None:
        """Raise HoldfastError if the database is closed, or belongs to another event loop or
        process. A fork shares the lock of the file, which therefore does not keep it out."""
        if self._closed:
            raise HoldfastError(IS_CLOSED)
        if os.getpid() != self._pid:
            raise HoldfastError(IS_FORKED)
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self.engine.turn.start(loop)
            self._cron.start()
        elif self._loop is not loop:
            raise HoldfastError("the database belongs to another event loop")

    async def execute(self, *args: Argument) -> Reply:
        """Run one command. Calls of many tasks may overlap; a call that blocks delays no other."""
        self.check_open()
        if args:
            command, _ = self.engine.commands.find([_to_bytes(arg) for arg in args])
            if command.name in STATEFUL:
                raise HoldfastError(
                    f"{command.name.upper()} changes the session it runs in:"
                    " use `async with db.session() as session`"
                )
        conversation = self._idle.pop() if self._idle else Conversation(self)
        try:
            return await conversation.execute(*args)
        finally:
            if conversation.is_idle:
                self._idle.append(conversation)
            else:  # the call was cancelled, and its reply is still to come
                await conversation.close()

    def session(self) -> Conversation:
        """Open a session for one user, for MULTI, WATCH and SELECT. Use it with `async with`."""
        self.check_open()
        return Conversation(self)

    async def close(self) -> None:
        """Write everything into the tables and close the file. A second call does nothing, and so
        does a call in a forked process: file and lock belong to the process that opened them."""
        if self._closed or os.getpid() != self._pid:
            return
        if self._loop is not None:
            self._cron.stop()
            await self.engine.turn.drain()
            self._dismiss()
            self.engine.turn.stop()
        self._closed = True
        self._store.close()

    def _dismiss(self) -> None:
        """End all sessions. Replies have been delivered; a call that still waits for a key would
        wait for ever, so it fails."""
        for session in list(self.engine.sessions.values()):
            if isinstance(session.sink, PendingCalls):
                self.engine.disconnected(session)
                session.sink.fail(IS_CLOSED)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def open_local(path: str, **options: str | int) -> LocalDatabase:
    config = Config(options)
    if config.replicaof or config.active_active or config.peer:
        raise ConfigError(
            "replicaof, active-active and peer are for a server (`holdfast serve`):"
            " an embedded database does not replicate"
        )
    store = open_store(
        path,
        config.databases,
        accept_data_loss=config.accept_data_loss,
        keeps_copy=not config.no_backup,
    )
    return LocalDatabase(store, config)


def _as_it_is(value: Reply) -> Output:
    return value


def _to_bytes(arg: Argument) -> bytes:
    if isinstance(arg, bytes):
        return arg
    if isinstance(arg, str):
        return arg.encode()
    if isinstance(arg, int) and not isinstance(arg, bool):
        return b"%d" % arg
    if isinstance(arg, float):
        return float.__repr__(arg).encode()
    raise TypeError(f"an argument is str, bytes, int or float, not {type(arg).__name__}")


def _to_python(reply: Reply) -> Reply:
    """Convert a reply for the caller: arrays become lists, nulls become None, at every depth."""
    if isinstance(reply, NullArray):
        return None
    if isinstance(reply, list | tuple):
        return [_to_python(item) for item in reply]
    if isinstance(reply, dict):
        return {name: _to_python(item) for name, item in reply.items()}
    return reply
