"""The same client for code without coroutines: blocking, safe to share between threads.

Each `SyncClient` has a thread that runs an event loop and the real client; a call is passed to this
thread, and the caller waits for its result. A method returns the type that the awaited asynchronous
method returns. Replies are converted in the caller's thread, so a slow conversion does not delay
other threads.
"""

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Self, TypeVar

from holdfast.client.api.client import Client
from holdfast.client.api.client_script import Script
from holdfast.client.api.subscriptions import Message, PubSub
from holdfast.client.api.thread import LoopThread
from holdfast.client.api.transaction import Transaction
from holdfast.client.api.typed_sync_commands import TypedSyncCommands
from holdfast.client.api.typed_sync_exec import SyncExec, SyncScriptExec, SyncTransactionExec
from holdfast.client.errors import ClosedError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.convert import checked, converter, slot_value
from holdfast.client.protocol.into import Key
from holdfast.client.protocol.request import Argument
from holdfast.client.topology.single import DEFAULT, Command

T = TypeVar("T")
V = TypeVar("V", bound=str | bytes)
_END = object()


class SyncView(TypedSyncCommands[V]):
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
        """All keys. A key that exists during the whole scan is in it, perhaps twice."""
        return self._client.scan(self._names, match, count, type, self._timeout_s)

    def _run(self, args: Command, convert: Callable[[Any], T]) -> T:
        return self._client.run(args, convert, self._timeout_s)


class SyncClient(TypedSyncCommands[str], SyncExec):
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
        """Let requests in flight finish, for the grace period at most. Idempotent."""
        if not self._thread.is_over:
            try:
                self._thread.wait(self._client.close(grace_s))
            except ClosedError:
                pass  # another thread has closed it already
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
        """The state of the connection."""
        return self._client.state

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open now."""
        return self._client.is_connected

    @property
    def last_error(self) -> Exception | None:
        """Why the last attempt to connect failed, or why the connection broke; None before that."""
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
        """Run a command and convert its reply; the typed methods call this."""
        return checked(convert, self._thread.wait(self._client.run(args, _as_it_is, timeout_s)))

    def run_many(
        self, kind: str, commands: list[Command], timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """Run the commands of a request; `exec` and `exec_dynamic` convert the replies."""
        return self._thread.wait(self._client.run_many(kind, commands, timeout_s))

    def wait_for(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of the asyncio client, in its event loop, and wait for the result."""
        return self._thread.wait(work(self._client))

    def transaction(self, *watch: Key) -> "SyncTransaction":
        """MULTI and EXEC with `with`, after a WATCH of these keys."""
        return SyncTransaction(self._thread, self._client.transaction(*watch))

    def script(self, source: str) -> "SyncScript":
        """A Lua script that can be called with keys and arguments."""
        return SyncScript(self._thread, self._client.script(source))

    def pubsub(self) -> "SyncPubSub":
        """Subscriptions, on a connection of their own. Use it with `with`."""
        return SyncPubSub(self._thread, self._thread.wait(_called(self._client.pubsub)))

    def scan_iter(
        self, match: Key | None = None, *, count: int | None = None, type: str | None = None
    ) -> Iterator[str]:
        """All keys. A key that exists during the whole scan is in it, perhaps twice."""
        return self.scan(self._names, match, count, type)

    def scan(
        self,
        names: Callable[[Any], list[V]],
        match: Key | None,
        count: int | None,
        type: str | None,
        timeout_s: float | None = DEFAULT,
    ) -> Iterator[V]:
        """All keys, converted by `names`; `scan_iter` calls this."""
        keys = self._client.scan(names, match, count, type, timeout_s)
        while (key := self._thread.wait(_next(keys))) is not _END:
            yield key


class SyncTransaction(SyncTransactionExec):
    def __init__(self, thread: LoopThread, transaction: Transaction) -> None:
        self._thread = thread
        self._transaction = transaction

    def __enter__(self) -> Self:
        self._thread.wait(self._transaction.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.wait(self._transaction.__aexit__())

    def _exec(self, command: str, args: Command, into: Any) -> Any:
        convert = converter(into)
        return checked(convert, self._thread.wait(self._transaction.exec(command, *args)))

    def add(self, *args: Argument) -> Self:
        self._transaction.add(*args)
        return self

    def _commit(self, into: Any) -> list[Any]:
        converters = self._transaction.converters_of(into)
        return list(map(slot_value, converters, self._thread.wait(self._transaction.commit())))


class SyncScript(SyncScriptExec):
    def __init__(self, thread: LoopThread, script: Script) -> None:
        self._thread = thread
        self._script = script
        self.source = script.source
        self.sha = script.sha

    def _call(self, keys: Iterable[Key], args: Iterable[Argument], into: Any) -> Any:
        convert = converter(into)
        return checked(convert, self._thread.wait(self._script(keys, args)))


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
