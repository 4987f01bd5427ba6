"""MULTI and EXEC: one request that nothing can come between; with WATCH, on a leased connection."""

from collections.abc import Awaitable
from typing import Any, Protocol, Self, TypeVar, overload

from holdfast.client.connection import Connection
from holdfast.client.convert import Converter, Failure, Into, checked, converter, slot_value
from holdfast.client.errors import (
    ClientError,
    ClosedError,
    ConversionError,
    NotConnectedError,
    ServerError,
    TransactionAbortedError,
)
from holdfast.client.into import Key
from holdfast.client.request import Argument
from holdfast.client.single import MAX_REDIRECTIONS, Caller, Command, send_one
from holdfast.client.special import check_all

T = TypeVar("T")


class RunMany(Protocol):
    def __call__(
        self, kind: str, commands: list[Command], *, over: Connection | None = None
    ) -> Awaitable[list[Any]]:
        """Send a request over this connection, or the shared one."""
        ...


class Transaction:
    """`add` commands, then `commit`. With watched keys, `exec` reads before that."""

    def __init__(self, caller: Caller, run_many: RunMany, watch: tuple[Key, ...]) -> None:
        self._caller = caller
        self._run_many = run_many
        self._watch = watch
        self._connection: Connection | None = None
        self._before: list[Command] = []  # each command, where a slot is moving to
        self._commands: list[Command] = []

    async def __aenter__(self) -> Self:
        if self._watch:
            moved: ServerError | None = None
            for left in reversed(range(MAX_REDIRECTIONS)):
                self._connection = await self._caller.lease(self._watch[0], moved)
                self._before = [("ASKING",)] if moved is not None and moved.code == b"ASK" else []
                try:
                    await self.exec("WATCH", *self._watch, into=None)
                    break
                except ServerError as error:
                    self._give()
                    if not left or not self._caller.has_moved(error):
                        raise
                    moved = error
                except NotConnectedError as error:
                    self._give()
                    if not left or isinstance(error, ClosedError):
                        raise  # else it was never sent: another connection will do
                except BaseException:
                    # The server may have answered by now, and watch: not for the next one.
                    self._connection.abandon()
                    self._give()
                    raise
        return self

    async def __aexit__(self, *_: object) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.is_connected:
                timeout_s = self._caller.options.request_timeout_s
                answer = await send_one(connection, ("UNWATCH",), timeout_s)
                if isinstance(answer, ServerError):
                    connection.abandon()
        except ClientError:
            pass  # it is closed then, and that ends the watch, too
        finally:
            self._give()

    @overload
    async def exec(self, command: str, *args: Argument, into: None) -> None: ...
    @overload
    async def exec(self, command: str, *args: Argument, into: Into[T]) -> T: ...
    @overload
    async def exec(self, command: str, *args: Argument, into: Any = Any) -> Any: ...
    async def exec(self, command: str, *args: Argument, into: Any = Any) -> Any:
        """Run a command now, seeing what is watched."""
        if self._connection is None:
            raise ValueError("only a transaction with watched keys can read before it commits")
        if command.upper() != "WATCH":
            check_all([(command, *args)])
        make = converter(into)
        request = [*self._before, (command, *args)]
        *_, reply = await self._run_many("single", request, over=self._connection)
        if isinstance(reply, ServerError | ClientError):
            raise reply
        return checked(make, reply)

    def add(self, *args: Argument) -> Self:
        """Queue a command until `commit`."""
        if not args:
            raise ValueError("a command has a name")
        check_all([args])
        self._commands.append(args)
        return self

    @overload
    async def commit(self, into: Into[T]) -> list[T | Failure]: ...
    @overload
    async def commit(self, into: Any = Any) -> list[Any]: ...
    async def commit(self, into: Any = Any) -> list[Any]:
        """Run all that was added, at once; a value or error per command.

        `into` is one type for all, or a tuple with one for each. Raises
        TransactionAbortedError if a watched key changed: nothing ran then.
        """
        if self._watch and self._connection is None:
            raise ValueError("a transaction with watched keys is used with async with")
        converters = self.slots(into)
        commands, self._commands = self._commands, []
        request: list[Command] = [*self._before, ("MULTI",), *commands, ("EXEC",)]
        replies = await self._run_many("transaction", request, over=self._connection)
        result = replies[-1]
        if isinstance(result, ServerError):
            result.__cause__ = next((r for r in replies[:-1] if isinstance(r, ServerError)), None)
        if isinstance(result, ServerError | ClientError):
            raise result
        if result is None:
            raise TransactionAbortedError("a watched key changed; nothing ran")
        if not isinstance(result, list) or len(result) != len(commands):
            error = ConversionError(
                f"expected {len(commands)} replies from EXEC, got {result!r:.80}"
            )
            error.reply = result
            raise error
        return list(map(slot_value, converters, result))

    def slots(self, into: Any) -> list[Converter]:
        count = len(self._commands)
        types = into if isinstance(into, tuple) else (into,) * count
        if len(types) != count:
            raise ValueError(f"into= names {len(types)} types for {count} commands")
        return [converter(each) for each in types]

    def _give(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._caller.give(connection)
