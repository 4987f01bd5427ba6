"""MULTI and EXEC, sent as one request; with WATCH, on a leased connection."""

from collections.abc import Awaitable
from typing import Any, Protocol, Self

from holdfast.client.api.typed_exec import TransactionExec
from holdfast.client.errors import (
    ClientError,
    ClosedError,
    ConversionError,
    NotConnectedError,
    ServerError,
    TransactionAbortedError,
)
from holdfast.client.protocol.convert import Converter, checked, converter, slot_value
from holdfast.client.protocol.into import Key
from holdfast.client.protocol.request import Argument, as_bytes
from holdfast.client.protocol.special import check_all
from holdfast.client.topology.single import MAX_REDIRECTIONS, Caller, Command, send_one
from holdfast.client.topology.slots import first_key, redirection, slot_of
from holdfast.client.transport.connection import Connection


class RunMany(Protocol):
    def __call__(
        self, kind: str, commands: list[Command], *, over: Connection | None = None
    ) -> Awaitable[list[Any]]:
        """Send a request over the given connection, or over the shared one."""
        ...


class Transaction(TransactionExec):
    """`add` commands, then `commit`. With watched keys, `exec` reads before that."""

    def __init__(self, caller: Caller, run_many: RunMany, watch: tuple[Key, ...]) -> None:
        self._caller = caller
        self._run_many = run_many
        self._watch = watch
        self._connection: Connection | None = None
        self._before: list[Command] = []  # sent before each command: ASKING, while a slot moves
        self._commands: list[Command] = []

    async def __aenter__(self) -> Self:
        if self._watch:
            moved: ServerError | None = None
            for left in reversed(range(MAX_REDIRECTIONS)):
                self._connection = await self._caller.lease(self._watch[0], moved)
                self._before = [("ASKING",)] if moved is not None and moved.code == b"ASK" else []
                try:
                    await self._send("WATCH", *self._watch)
                    break
                except ServerError as error:
                    self._give()
                    if not left or not self._caller.has_moved(error):
                        raise
                    moved = error
                except NotConnectedError as error:
                    self._give()
                    if not left or isinstance(error, ClosedError):
                        raise  # else it was never sent: try another connection
                except BaseException:
                    # The server may watch the keys already: no other caller may get this
                    # connection.
                    self._connection.abandon()
                    self._give()
                    raise
        return self

    async def __aexit__(self, *_: object) -> None:
        connection, is_unwatched = self._connection, False
        try:
            if connection is not None and connection.is_connected:
                timeout_s = self._caller.options.request_timeout_s
                answer = await send_one(connection, ("UNWATCH",), timeout_s)
                is_unwatched = not isinstance(answer, ServerError)
        except ClientError:
            pass
        finally:
            # A cancelled UNWATCH may never be sent. Closing the connection ends the watch too.
            if connection is not None and not is_unwatched:
                connection.abandon()
            self._give()

    async def _exec(self, command: str, args: Command, into: Any) -> Any:
        if self._connection is None:
            raise ValueError("only a transaction with watched keys can read before it commits")
        if command.upper() != "WATCH":
            check_all([(command, *args)])
        convert = converter(into)
        self._check_asked([(command, *args)])
        try:
            return checked(convert, await self._send(command, *args))
        except ServerError as error:
            self._check_place(error)
            raise

    async def _send(self, *args: Argument) -> Any:
        request = [*self._before, args]
        *_, reply = await self._run_many("single", request, over=self._connection)
        if isinstance(reply, ServerError | ClientError):
            raise reply
        return reply

    def _check_asked(self, commands: list[Command]) -> None:
        """Refuse keys of a moving slot, except the watched keys.

        The new node accepts every key of the slot. A key that the old node still has would be
        created a second time. Only watched keys are known to have left the old node.
        """
        if self._before:
            slot, watched = slot_of(self._watch[0]), set(map(as_bytes, self._watch))
            for key in map(first_key, commands):
                if key is not None and as_bytes(key) not in watched and slot_of(key) == slot:
                    text = "the slot of the watched keys is moving to another node; nothing ran"
                    raise TransactionAbortedError(text)

    def _check_place(self, error: BaseException | None) -> None:
        """Abort if the keys have left the node of the watch: it would not notice changes."""
        moved = redirection(error, "?") if self._caller.has_moved(error) else None
        if moved is not None and self._watch and moved.slot == slot_of(self._watch[0]):
            text = "the watched keys have moved to another node; nothing ran"
            raise TransactionAbortedError(text) from error

    def add(self, *args: Argument) -> Self:
        """Queue a command until `commit`."""
        if not args:
            raise ValueError("a command needs a name")
        check_all([args])
        self._commands.append(args)
        return self

    async def _commit(self, into: Any) -> list[Any]:
        if self._watch and self._connection is None:
            raise ValueError("a transaction with watched keys is used with async with")
        converters = self.converters_of(into)
        commands, self._commands = self._commands, []
        self._check_asked(commands)
        request: list[Command] = [*self._before, ("MULTI",), *commands, ("EXEC",)]
        replies = await self._run_many("transaction", request, over=self._connection)
        multi, result = replies[len(self._before)], replies[-1]
        if isinstance(multi, ServerError):
            between = replies[len(self._before) + 1 : -1]
            if all(isinstance(reply, ServerError) for reply in between):
                raise multi
            text = f"the server refused MULTI, so each command ran by itself: {multi}"
            raise ClientError(text, may_have_executed=True) from multi
        if isinstance(result, ServerError):
            result.__cause__ = next((r for r in replies[:-1] if isinstance(r, ServerError)), None)
            self._check_place(result.__cause__)
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

    def converters_of(self, into: Any) -> list[Converter]:
        """One converter per added command. `into` is one type for all, or a tuple."""
        count = len(self._commands)
        types = into if isinstance(into, tuple) else (into,) * count
        if len(types) != count:
            raise ValueError(f"into= names {len(types)} types for {count} commands")
        return [converter(each) for each in types]

    def _give(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._caller.give(connection)
