"""`Client`: the object that users work with. `single` and `cluster` do the sending."""

import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Self, TypeVar

from holdfast.client.api.blocking_calls import BlockingCalls
from holdfast.client.api.cache import Cache
from holdfast.client.api.client_script import Script
from holdfast.client.api.observed import Observer
from holdfast.client.api.subscriptions import PubSub
from holdfast.client.api.transaction import Transaction
from holdfast.client.api.typed_commands import TypedCommands
from holdfast.client.api.typed_exec import Exec
from holdfast.client.errors import (
    ConversionError,
    NotReplicatedError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.convert import converter
from holdfast.client.protocol.into import Key
from holdfast.client.protocol.request import Argument
from holdfast.client.protocol.special import SPECIAL, blocks, check, check_all
from holdfast.client.topology.single import (
    DEFAULT,
    Caller,
    Command,
    Single,
    check_timeout,
    send_many,
)
from holdfast.client.topology.slots import first_key
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.deadlines import deadline
from holdfast.client.transport.hooks import NO_HOOKS, Hooks

T = TypeVar("T")
V = TypeVar("V", bound=str | bytes)


class View(TypedCommands[V]):
    """The same client with another type of names and values, or another timeout."""

    def __init__(self, client: "Client", value: type[V], timeout_s: float | None) -> None:
        super().__init__(value)
        self._client = client
        self._type = value
        self._timeout_s = timeout_s

    @property
    def binary(self) -> "View[bytes]":
        """The same with names and values as bytes."""
        return View(self._client, bytes, self._timeout_s)

    def within(self, timeout_s: float | None) -> "View[V]":
        """The same with a timeout of its own."""
        return View(self._client, self._type, timeout_s)

    def scan_iter(
        self, match: Key | None = None, *, count: int | None = None, type: str | None = None
    ) -> AsyncIterator[V]:
        """All keys. A key that exists during the whole scan is in it, perhaps twice."""
        return self._client.scan(self._names, match, count, type, self._timeout_s)

    def _run(self, args: Command, convert: Callable[[Any], T]) -> Coroutine[object, None, T]:
        return self._client.run(args, convert, self._timeout_s)


class Client(TypedCommands[str], Exec):
    """Use it with `async with`, from one event loop, in as many tasks as you like."""

    def __init__(
        self,
        caller: Caller,
        *,
        hooks: Hooks = NO_HOOKS,
        cache: Cache | None = None,
    ) -> None:
        super().__init__(str)
        self._caller = caller
        self._blocking = BlockingCalls(caller)
        self._cache = cache
        self._observer = None if hooks is NO_HOOKS else Observer(hooks, caller.clock)
        self._pid = os.getpid()
        self._plain = cache is None and self._observer is None

    # -- life ---------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Raises ConnectError. `async with` does this for you."""
        await self._caller.connect()

    async def close(self, grace_s: float | None = None) -> None:
        """Let requests in flight finish, for the grace period at most. Idempotent."""
        if grace_s is None:
            grace_s = self._caller.options.close_grace_s
        self._caller.check_loop()
        try:
            await self._blocking.finish(grace_s)
        finally:
            await self._caller.close(grace_s)

    def warn_if_unclosed(self) -> bool:
        """For `__del__`: warn if the client is still open. Returns whether it is open."""
        if self.state is State.INIT or self.state is State.CLOSED:
            return False
        text = f"unclosed client of {self._caller.options.address}: use with, or close()"
        warnings.warn(text, ResourceWarning, source=self, stacklevel=3)
        return True

    def __del__(self) -> None:
        # __init__ may have failed. A copy in a forked process does not own the connection.
        if getattr(self, "_pid", None) == os.getpid() and self.warn_if_unclosed():
            self._caller.abandon()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close(0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._caller.state

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open now."""
        return self.state is State.OPEN

    @property
    def last_error(self) -> Exception | None:
        """Why the last attempt to connect failed, or why the connection broke; None before that."""
        return self._caller.last_error

    # -- commands -----------------------------------------------------------------------------

    @property
    def binary(self) -> View[bytes]:
        """The typed methods with names and values as bytes."""
        return View(self, bytes, DEFAULT)

    def within(self, timeout_s: float | None) -> View[str]:
        """The typed methods with a timeout of their own. It fails the call, not the connection."""
        return View(self, str, timeout_s)

    def _run(self, args: Command, convert: Callable[[Any], T]) -> Coroutine[object, None, T]:
        return self.run(args, convert)

    async def run(
        self,
        args: Command,
        convert: Callable[[Any], T],
        timeout_s: float | None = DEFAULT,
        heed: Callable[[Any], None] | None = None,
    ) -> T:
        """Run a command whose name is in capitals, and convert its reply.

        `heed` is for commands that wait: see `BlockingCalls.call`.
        """
        if timeout_s is not DEFAULT:
            check_timeout(timeout_s)
        if self._plain and args[0] not in SPECIAL:
            reply = await self._caller.call(args, timeout_s)
        else:
            reply = await self._run_watched(args, timeout_s, heed)
        if isinstance(reply, ServerError):
            raise reply
        try:
            return convert(reply)
        except ConversionError as error:  # as `checked` does, without a call
            error.reply = reply
            raise

    @property
    def sender(self) -> Callable[[bytes], Awaitable[Any]] | None:
        """A function that sends an encoded ordinary command and returns its unconverted reply.

        None if a cluster, a cache or hooks have to see the command itself.
        """
        return self._caller.send if self._plain and isinstance(self._caller, Single) else None

    async def _run_watched(
        self, args: Command, timeout_s: float | None, heed: Callable[[Any], None] | None
    ) -> Any:
        check(args)
        if self._observer is not None:
            return await self._observer.one(args, lambda: self._run_special(args, timeout_s, heed))
        return await self._run_special(args, timeout_s, heed)

    async def _run_special(
        self, args: Command, timeout_s: float | None, heed: Callable[[Any], None] | None
    ) -> Any:
        if blocks(args):
            patience_s = None if timeout_s is DEFAULT else timeout_s
            try:
                return await self._blocking.call(args, patience_s, heed)
            finally:
                self._forget([args])
        if self._cache is not None:
            return await self._cache.call(args, lambda: self._caller.call(args, timeout_s))
        return await self._caller.call(args, timeout_s)

    async def run_many(
        self,
        kind: str,
        commands: list[Command],
        timeout_s: float | None = DEFAULT,
        *,
        over: Connection | None = None,
    ) -> list[Any]:
        """The unconverted replies of a request, over a leased connection or the shared one."""
        if not commands:
            return []
        check_timeout(timeout_s)
        self._forget(commands)
        if over is None:
            check_all(commands)
        elif timeout_s is DEFAULT:
            timeout_s = self._caller.options.request_timeout_s

        def call() -> Awaitable[list[Any]]:
            if over is not None:
                return send_many(over, commands, timeout_s)
            return self._caller.call_many(commands, timeout_s)

        try:
            if self._observer is None:
                return await call()
            return await self._observer.many(kind, commands, call)
        finally:
            if over is not None:
                self._forget(commands)

    async def run_then_wait(self, args: Command, replicas: int, timeout_s: float) -> Any:
        """Run a command, then WAIT until so many replicas have its effect. Returns its reply,
        unconverted. Raises NotReplicatedError if they do not have it within the timeout.

        Both go over one connection of their own, because WAIT delays all that follows it, and
        counts only the writes of its own connection.
        """
        check_timeout(timeout_s)
        wait: Command = ("WAIT", replicas, max(1, round(timeout_s * 1000)))
        limit_s = self._caller.options.request_timeout_s
        limit_s = None if limit_s is None else limit_s + timeout_s
        moved: ServerError | None = None
        while True:
            connection = await self._caller.lease(first_key(args), moved)
            before: list[Command] = [("ASKING",)] if moved and moved.code == b"ASK" else []
            commands = [*before, args, wait]
            try:
                replies = await self.run_many("pipeline", commands, limit_s, over=connection)
            finally:
                self._caller.give(connection)
            reply, count = replies[-2:]
            if moved is None and self._caller.has_moved(reply):
                moved = reply
                continue
            for each in (reply, count):
                if isinstance(each, Exception):
                    raise each
            if count < replicas:
                raise NotReplicatedError(count, replicas)
            return reply

    def _forget(self, commands: list[Command]) -> None:
        """Forget cached replies of keys that these commands may change.

        Called before they are sent; and again after, if reads on another connection may overtake.
        """
        if self._cache is not None:
            for args in commands:
                self._cache.evict(args)

    # -- more than one command ----------------------------------------------------------------

    def transaction(self, *watch: Key) -> Transaction:
        """MULTI and EXEC; with keys to watch, use it with `async with`."""
        return Transaction(self._caller, self.run_many, watch)

    def script(self, source: str) -> Script:
        """A Lua script. Its source is sent once; after that, its digest is enough."""
        return Script(self.run, source)

    def pubsub(self) -> PubSub:
        """Channels and patterns, on a connection of their own; use it with `async with`."""
        return PubSub(self._caller)

    async def servers(self) -> list[Caller]:
        """The servers that have keys of their own: one, or the masters of a cluster."""
        return await self._caller.servers()

    def scan_iter(
        self, match: Key | None = None, *, count: int | None = None, type: str | None = None
    ) -> AsyncIterator[str]:
        """All keys. A key that exists during the whole scan is in it, perhaps twice."""
        return self.scan(self._names, match, count, type)

    async def scan(
        self,
        names: Callable[[Any], list[V]],
        match: Key | None,
        count: int | None,
        type: str | None,
        timeout_s: float | None = DEFAULT,
    ) -> AsyncIterator[V]:
        """SCAN on all servers; `names` converts a list of keys."""
        check_timeout(timeout_s)
        options: list[Argument] = []
        for word, value in (("MATCH", match), ("COUNT", count), ("TYPE", type)):
            options += () if value is None else (word, value)
        convert = converter(tuple[str, list[bytes]])
        limit_s = self._caller.options.request_timeout_s if timeout_s is DEFAULT else timeout_s
        text = "not sent in time: no connection to all nodes"
        async with deadline(self._caller.clock, limit_s, text, RequestTimeoutError):
            servers = await self._caller.servers()
        for server in servers:
            cursor = "0"
            while True:
                args: Command = ("SCAN", cursor, *options)
                call = partial(server.call, args, timeout_s)
                reply = await (call() if self._observer is None else self._observer.one(args, call))
                if isinstance(reply, ServerError):
                    raise reply
                cursor, keys = convert(reply)
                for key in names(keys):
                    yield key
                if cursor == "0":
                    break
