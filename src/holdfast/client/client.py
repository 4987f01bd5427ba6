"""`Client`: what users hold. It sends nothing itself; see `single` and `cluster`."""

import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar, overload

from holdfast.client.blocking import Blocking
from holdfast.client.cache import Cache
from holdfast.client.commands import Commands
from holdfast.client.connection import Connection
from holdfast.client.convert import Converter, Failure, Got, Into, Maybe, converter, slot_value
from holdfast.client.errors import ConversionError, ServerError
from holdfast.client.hooks import NO_HOOKS, Hooks
from holdfast.client.into import Key
from holdfast.client.observed import Observer
from holdfast.client.pubsub import PubSub
from holdfast.client.request import Argument, Request
from holdfast.client.script import Script
from holdfast.client.single import DEFAULT, Caller, Command, Single, send_many
from holdfast.client.special import SPECIAL, blocks, check, check_all, name_of
from holdfast.client.state import State
from holdfast.client.transaction import Transaction

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
V = TypeVar("V", bound=str | bytes)

Slot: TypeAlias = Into[T] | None


def named(command: object, args: Command) -> Command:
    """The arguments of `exec` as a command."""
    if not isinstance(command, str | bytes):
        raise TypeError(f"exec() takes a command's name or a Request, not {command!r}")
    return (name_of(command), *args)


def slots_of(request: Request, into: object) -> list[Converter]:
    if not isinstance(into, tuple) or len(into) != len(request):
        raise ValueError(f"into= names one type per command: a tuple of {len(request)}")
    return [converter(slot) for slot in into]


class View(Commands[V]):
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
        """All keys; each that is there all the time comes, some may come twice."""
        return self._client.scan(self._names, match, count, type, self._timeout_s)

    def _run(self, args: Command, convert: Callable[[Any], T]) -> Coroutine[object, None, T]:
        return self._client.run(args, convert, self._timeout_s)


class Client(Commands[str]):
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
        self._blocking = Blocking(caller)
        self._cache = cache
        self._observer = None if hooks is NO_HOOKS else Observer(hooks, caller.clock)
        self._pid = os.getpid()
        self._plain = cache is None and self._observer is None

    # -- life ---------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Raises ConnectError. `async with` does this for you."""
        await self._caller.connect()

    async def close(self, grace_s: float | None = None) -> None:
        """Let what is in flight finish, for a grace period at most. Idempotent."""
        if grace_s is None:
            grace_s = self._caller.options.close_grace_s
        self._caller.check_loop()
        try:
            await self._blocking.finish(grace_s)
        finally:
            await self._caller.close(grace_s)

    def warn_if_unclosed(self) -> bool:
        if self.state is State.INIT or self.state is State.CLOSED:
            return False
        text = f"unclosed client of {self._caller.options.address}: use with, or close()"
        warnings.warn(text, ResourceWarning, source=self, stacklevel=3)
        return True

    def __del__(self) -> None:
        # It may be half made, or another process's copy, whose end is none.
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
        return self._caller.state

    @property
    def is_connected(self) -> bool:
        return self.state is State.OPEN

    @property
    def last_error(self) -> Exception | None:
        return self._caller.last_error

    # -- commands -----------------------------------------------------------------------------

    @property
    def binary(self) -> View[bytes]:
        """The typed methods with names and values as bytes."""
        return View(self, bytes, DEFAULT)

    def within(self, timeout_s: float | None) -> View[str]:
        """The typed methods with a timeout of their own. It fails the call, not the connection."""
        return View(self, str, timeout_s)

    @overload
    async def exec(
        self, command: str, *args: Argument, into: None, timeout_s: float | None = DEFAULT
    ) -> None: ...
    @overload
    async def exec(
        self, command: str, *args: Argument, into: Into[T], timeout_s: float | None = DEFAULT
    ) -> T: ...
    @overload
    async def exec(
        self, command: str, *args: Argument, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> Any: ...
    @overload
    async def exec(
        self, command: Request, *, into: tuple[Into[A]], timeout_s: float | None = DEFAULT
    ) -> tuple[Got[A]]: ...
    @overload
    async def exec(
        self, command: Request, *, into: tuple[Slot[A]], timeout_s: float | None = DEFAULT
    ) -> tuple[Maybe[A]]: ...
    @overload
    async def exec(
        self, command: Request, *, into: tuple[Into[A], Into[B]], timeout_s: float | None = DEFAULT
    ) -> tuple[Got[A], Got[B]]: ...
    @overload
    async def exec(
        self, command: Request, *, into: tuple[Slot[A], Slot[B]], timeout_s: float | None = DEFAULT
    ) -> tuple[Maybe[A], Maybe[B]]: ...
    @overload
    async def exec(
        self,
        command: Request,
        *,
        into: tuple[Into[A], Into[B], Into[C]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Got[A], Got[B], Got[C]]: ...
    @overload
    async def exec(
        self,
        command: Request,
        *,
        into: tuple[Slot[A], Slot[B], Slot[C]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Maybe[A], Maybe[B], Maybe[C]]: ...
    @overload
    async def exec(
        self,
        command: Request,
        *,
        into: tuple[Into[A], Into[B], Into[C], Into[D]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Got[A], Got[B], Got[C], Got[D]]: ...
    @overload
    async def exec(
        self,
        command: Request,
        *,
        into: tuple[Slot[A], Slot[B], Slot[C], Slot[D]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Maybe[A], Maybe[B], Maybe[C], Maybe[D]]: ...
    @overload
    async def exec(
        self, command: Request, *, into: tuple[Any, ...], timeout_s: float | None = DEFAULT
    ) -> tuple[Any, ...]: ...
    async def exec(
        self,
        command: str | Request,
        *args: Argument,
        into: Any = Any,
        timeout_s: float | None = DEFAULT,
    ) -> Any:
        """Run a command, and convert its reply; or a request, with a value or error per slot.

        A single command raises its error. A request raises only if nothing of it was sent.
        """
        if not isinstance(command, Request):
            return await self.run(named(command, args), converter(into), timeout_s)
        converters = slots_of(command, into)
        replies = await self.run_many("fixed", command.commands, timeout_s)
        return tuple(map(slot_value, converters, replies))

    @overload
    async def exec_dynamic(
        self, request: Request, *, into: None, timeout_s: float | None = DEFAULT
    ) -> list[Failure | None]: ...
    @overload
    async def exec_dynamic(
        self, request: Request, *, into: Into[T], timeout_s: float | None = DEFAULT
    ) -> list[Got[T]]: ...
    @overload
    async def exec_dynamic(
        self, request: Request, *, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> list[Any]: ...
    async def exec_dynamic(
        self, request: Request, *, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """A request of any size, all of whose replies have one type: a value or error per slot."""
        convert = converter(into)
        replies = await self.run_many("dynamic", request.commands, timeout_s)
        return [slot_value(convert, reply) for reply in replies]

    def _run(self, args: Command, convert: Callable[[Any], T]) -> Coroutine[object, None, T]:
        return self.run(args, convert)

    async def run(
        self,
        args: Command,
        convert: Callable[[Any], T],
        timeout_s: float | None = DEFAULT,
        heed: Callable[[Any], None] | None = None,
    ) -> T:
        """A command whose name is in capitals, and what makes a value of its reply.

        `heed` is for commands that wait: see `Blocking.call`.
        """
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
        """Takes an ordinary command that is encoded already, and returns its reply as it is.

        None where somebody wants to see the command itself: a cluster, a cache, hooks.
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
        """The replies of a request, as they are; over a leased connection or the shared one."""
        if not commands:
            return []
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

    def _forget(self, commands: list[Command]) -> None:
        """What is cached of keys that we may change: before, and after where order is not kept."""
        if self._cache is not None:
            for args in commands:
                self._cache.evict(args)

    # -- more than one command ----------------------------------------------------------------

    def transaction(self, *watch: Key) -> Transaction:
        """MULTI and EXEC; with keys to watch, use it with `async with`."""
        return Transaction(self._caller, self.run_many, watch)

    def script(self, source: str) -> Script:
        """A Lua script that is sent once and then named by its digest."""
        return Script(self.run, source)

    def pubsub(self) -> PubSub:
        """Channels and patterns, on a connection of their own; use it with `async with`."""
        return PubSub(self._caller)

    def scan_iter(
        self, match: Key | None = None, *, count: int | None = None, type: str | None = None
    ) -> AsyncIterator[str]:
        """All keys; each that is there all the time comes, some may come twice."""
        return self.scan(self._names, match, count, type)

    async def scan(
        self,
        names: Callable[[Any], list[V]],
        match: Key | None,
        count: int | None,
        type: str | None,
        timeout_s: float | None = DEFAULT,
    ) -> AsyncIterator[V]:
        """SCAN on all servers; `names` makes names of a part of their replies."""
        options: list[Argument] = []
        for word, value in (("MATCH", match), ("COUNT", count), ("TYPE", type)):
            options += () if value is None else (word, value)
        convert = converter(tuple[str, list[bytes]])
        for server in await self._caller.servers():
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
