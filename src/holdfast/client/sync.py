"""The same client for code without coroutines: blocking, safe to share between threads.

Each `SyncClient` has a thread that runs an event loop and the real client; calls are handed to
it and waited for. Types are plain: what the asynchronous method returns when awaited. Replies are
converted in the caller's thread: whatever that takes, it costs nobody else.
"""

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Self, TypeVar, overload

from holdfast.client.client import A, B, C, Client, D, Slot, named, slots_of
from holdfast.client.convert import Failure, Got, Into, Maybe, checked, converter, slot_value
from holdfast.client.errors import ClosedError
from holdfast.client.into import Key
from holdfast.client.pubsub import Message, PubSub
from holdfast.client.request import Argument, Request
from holdfast.client.script import Script
from holdfast.client.single import DEFAULT, Command
from holdfast.client.state import State
from holdfast.client.sync_commands import SyncCommands
from holdfast.client.thread import LoopThread
from holdfast.client.transaction import Transaction

T = TypeVar("T")
V = TypeVar("V", bound=str | bytes)
_END = object()


class SyncView(SyncCommands[V]):
    """The same client with another type of names and values, or another timeout."""

    def __init__(self, client: "SyncClient", value: type[V], timeout_s: float | None) -> None:
        super().__init__(value)
        self._client = client
        self._type = value
        self._timeout_s = timeout_s

    @property
    def binary(self) -> "SyncView[bytes]":
        """The same with names and values as bytes."""
        return SyncView(self._client, bytes, self._timeout_s)

    def within(self, timeout_s: float | None) -> "SyncView[V]":
        """The same with a timeout of its own."""
        return SyncView(self._client, self._type, timeout_s)

    def scan_iter(
        self, match: Key | None = None, *, count: int | None = None, type: str | None = None
    ) -> Iterator[V]:
        """All keys; each that is there all the time comes, some may come twice."""
        return self._client.scan(self._names, match, count, type, self._timeout_s)

    def _run(self, args: Command, convert: Callable[[Any], T]) -> T:
        return self._client.run(args, convert, self._timeout_s)


class SyncClient(SyncCommands[str]):
    """Use it with `with`, from as many threads as you like."""

    def __init__(self, make: Callable[[], Client]) -> None:
        super().__init__(str)
        self._thread = LoopThread()
        try:
            self._client = self._thread.wait(_called(make))
        except BaseException:
            self._thread.stop()
            raise

    def connect(self) -> None:
        """Raises ConnectError. `with` does this for you."""
        self._thread.wait(self._client.connect())

    def close(self, grace_s: float | None = None) -> None:
        """Let what is in flight finish, for a grace period at most. Idempotent."""
        if not self._thread.is_over:
            try:
                self._thread.wait(self._client.close(grace_s))
            except ClosedError:
                pass  # another thread was first
            self._thread.stop()

    def __del__(self) -> None:
        client: Client | None = getattr(self, "_client", None)  # None if __init__ has failed
        if client is None or self._thread.is_over or sys.is_finalizing():
            return
        client.warn_if_unclosed()
        self._thread.abandon(client.close(0))

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close(0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> State:
        return self._client.state

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    @property
    def last_error(self) -> Exception | None:
        return self._client.last_error

    @property
    def binary(self) -> SyncView[bytes]:
        """The typed methods with names and values as bytes."""
        return SyncView(self, bytes, DEFAULT)

    def within(self, timeout_s: float | None) -> SyncView[str]:
        """The typed methods with a timeout of their own."""
        return SyncView(self, str, timeout_s)

    def _run(self, args: Command, convert: Callable[[Any], T]) -> T:
        return self.run(args, convert)

    def run(
        self, args: Command, convert: Callable[[Any], T], timeout_s: float | None = DEFAULT
    ) -> T:
        return checked(convert, self._thread.wait(self._client.run(args, _as_it_is, timeout_s)))

    @overload
    def exec(
        self, command: str, *args: Argument, into: None, timeout_s: float | None = DEFAULT
    ) -> None: ...
    @overload
    def exec(
        self, command: str, *args: Argument, into: Into[T], timeout_s: float | None = DEFAULT
    ) -> T: ...
    @overload
    def exec(
        self, command: str, *args: Argument, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> Any: ...
    @overload
    def exec(
        self, command: Request, *, into: tuple[Into[A]], timeout_s: float | None = DEFAULT
    ) -> tuple[Got[A]]: ...
    @overload
    def exec(
        self, command: Request, *, into: tuple[Slot[A]], timeout_s: float | None = DEFAULT
    ) -> tuple[Maybe[A]]: ...
    @overload
    def exec(
        self, command: Request, *, into: tuple[Into[A], Into[B]], timeout_s: float | None = DEFAULT
    ) -> tuple[Got[A], Got[B]]: ...
    @overload
    def exec(
        self, command: Request, *, into: tuple[Slot[A], Slot[B]], timeout_s: float | None = DEFAULT
    ) -> tuple[Maybe[A], Maybe[B]]: ...
    @overload
    def exec(
        self,
        command: Request,
        *,
        into: tuple[Into[A], Into[B], Into[C]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Got[A], Got[B], Got[C]]: ...
    @overload
    def exec(
        self,
        command: Request,
        *,
        into: tuple[Slot[A], Slot[B], Slot[C]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Maybe[A], Maybe[B], Maybe[C]]: ...
    @overload
    def exec(
        self,
        command: Request,
        *,
        into: tuple[Into[A], Into[B], Into[C], Into[D]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Got[A], Got[B], Got[C], Got[D]]: ...
    @overload
    def exec(
        self,
        command: Request,
        *,
        into: tuple[Slot[A], Slot[B], Slot[C], Slot[D]],
        timeout_s: float | None = DEFAULT,
    ) -> tuple[Maybe[A], Maybe[B], Maybe[C], Maybe[D]]: ...
    @overload
    def exec(
        self, command: Request, *, into: tuple[Any, ...], timeout_s: float | None = DEFAULT
    ) -> tuple[Any, ...]: ...
    def exec(
        self,
        command: str | Request,
        *args: Argument,
        into: Any = Any,
        timeout_s: float | None = DEFAULT,
    ) -> Any:
        """Run a command, and convert its reply; or a request, with a value or error per slot."""
        if not isinstance(command, Request):
            return self.run(named(command, args), converter(into), timeout_s)
        converters = slots_of(command, into)
        calling = self._client.run_many("fixed", command.commands, timeout_s)
        return tuple(map(slot_value, converters, self._thread.wait(calling)))

    @overload
    def exec_dynamic(
        self, request: Request, *, into: None, timeout_s: float | None = DEFAULT
    ) -> list[Failure | None]: ...
    @overload
    def exec_dynamic(
        self, request: Request, *, into: Into[T], timeout_s: float | None = DEFAULT
    ) -> list[Got[T]]: ...
    @overload
    def exec_dynamic(
        self, request: Request, *, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> list[Any]: ...
    def exec_dynamic(
        self, request: Request, *, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """A request of any size, all of whose replies have one type."""
        make = converter(into)
        calling = self._client.run_many("dynamic", request.commands, timeout_s)
        return [slot_value(make, reply) for reply in self._thread.wait(calling)]

    def wait_for(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of the asyncio client, in its event loop, and wait for the result."""
        return self._thread.wait(work(self._client))

    def transaction(self, *watch: Key) -> "SyncTransaction":
        return SyncTransaction(self._thread, self._client.transaction(*watch))

    def script(self, source: str) -> "SyncScript":
        return SyncScript(self._thread, self._client.script(source))

    def pubsub(self) -> "SyncPubSub":
        return SyncPubSub(self._thread, self._thread.wait(_called(self._client.pubsub)))

    def scan_iter(
        self, match: Key | None = None, *, count: int | None = None, type: str | None = None
    ) -> Iterator[str]:
        """All keys; each that is there all the time comes, some may come twice."""
        return self.scan(self._names, match, count, type)

    def scan(
        self,
        names: Callable[[Any], list[V]],
        match: Key | None,
        count: int | None,
        type: str | None,
        timeout_s: float | None = DEFAULT,
    ) -> Iterator[V]:
        keys = self._client.scan(names, match, count, type, timeout_s)
        while (key := self._thread.wait(_next(keys))) is not _END:
            yield key


class SyncTransaction:
    def __init__(self, thread: LoopThread, transaction: Transaction) -> None:
        self._thread = thread
        self._transaction = transaction

    def __enter__(self) -> Self:
        self._thread.wait(self._transaction.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.wait(self._transaction.__aexit__())

    @overload
    def exec(self, command: str, *args: Argument, into: None) -> None: ...
    @overload
    def exec(self, command: str, *args: Argument, into: Into[T]) -> T: ...
    @overload
    def exec(self, command: str, *args: Argument, into: Any = Any) -> Any: ...
    def exec(self, command: str, *args: Argument, into: Any = Any) -> Any:
        make = converter(into)
        return checked(make, self._thread.wait(self._transaction.exec(command, *args)))

    def add(self, *args: Argument) -> Self:
        self._transaction.add(*args)
        return self

    @overload
    def commit(self, into: Into[T]) -> list[Got[T]]: ...
    @overload
    def commit(self, into: Any = Any) -> list[Any]: ...
    def commit(self, into: Any = Any) -> list[Any]:
        converters = self._transaction.slots(into)
        return list(map(slot_value, converters, self._thread.wait(self._transaction.commit())))


class SyncScript:
    def __init__(self, thread: LoopThread, script: Script) -> None:
        self._thread = thread
        self._script = script
        self.source = script.source
        self.sha = script.sha

    @overload
    def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Into[T]
    ) -> T: ...
    @overload
    def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Any = Any
    ) -> Any: ...
    def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Any = Any
    ) -> Any:
        make = converter(into)
        return checked(make, self._thread.wait(self._script(keys, args)))


class SyncPubSub:
    """Iterate over it for messages; the iteration ends when it is closed."""

    def __init__(self, thread: LoopThread, pubsub: PubSub) -> None:
        self._thread = thread
        self._pubsub = pubsub

    def __enter__(self) -> Self:
        self._thread.wait(self._pubsub.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._thread.wait(self._pubsub.close())

    def subscribe(self, *channels: Key) -> None:
        self._thread.wait(self._pubsub.subscribe(*channels))

    def psubscribe(self, *patterns: Key) -> None:
        self._thread.wait(self._pubsub.psubscribe(*patterns))

    def ssubscribe(self, *channels: Key) -> None:
        self._thread.wait(self._pubsub.ssubscribe(*channels))

    def unsubscribe(self, *channels: Key) -> None:
        self._thread.wait(self._pubsub.unsubscribe(*channels))

    def punsubscribe(self, *patterns: Key) -> None:
        self._thread.wait(self._pubsub.punsubscribe(*patterns))

    def sunsubscribe(self, *channels: Key) -> None:
        self._thread.wait(self._pubsub.sunsubscribe(*channels))

    @property
    def losses(self) -> int:
        return self._pubsub.losses

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        message = self._thread.wait(_next(self._pubsub))
        if message is _END:
            raise StopIteration
        assert isinstance(message, Message)
        return message


async def _called(make: Callable[[], T]) -> T:
    return make()


async def _next(items: Any) -> Any:
    return await anext(items, _END)


def _as_it_is(reply: Any) -> Any:
    return reply
