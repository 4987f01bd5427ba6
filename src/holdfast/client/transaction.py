"""MULTI and EXEC: one request that nothing can come between; with WATCH, on a leased connection."""

from collections.abc import Awaitable, Callable
from typing import Any, Self

from holdfast.client.connection import Connection
from holdfast.client.convert import convert, converter
from holdfast.client.errors import ClientError, ServerError, TransactionAbortedError
from holdfast.client.into import Key
from holdfast.client.request import Argument
from holdfast.client.single import Caller, Command, send_many, send_one
from holdfast.client.special import check

RunMany = Callable[[str, list[Command]], Awaitable[list[Any]]]


class Transaction:
    """`add` commands, then `commit`. With watched keys, `exec` reads before that."""

    def __init__(self, caller: Caller, run_many: RunMany, watch: tuple[Key, ...]) -> None:
        self._caller = caller
        self._run_many = run_many
        self._watch = watch
        self._connection: Connection | None = None
        self._commands: list[Command] = []

    async def __aenter__(self) -> Self:
        if self._watch:
            self._connection = await self._caller.lease(self._watch[0])
            await self.exec("WATCH", *self._watch)
        return self

    async def __aexit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                if connection.is_connected:
                    await send_one(connection, ("UNWATCH",))
            finally:
                self._caller.give(connection)

    async def exec(self, command: str, *args: Argument, into: Any = Any) -> Any:
        """Run a command now, seeing what is watched."""
        if self._connection is None:
            raise ValueError("only a transaction with watched keys can read before it commits")
        return convert(await send_one(self._connection, (command, *args)), into)

    def add(self, *args: Argument) -> Self:
        """Queue a command until `commit`."""
        check(args, together=True)
        self._commands.append(args)
        return self

    async def commit(self, into: Any = Any) -> list[Any]:
        """Run all that was added, at once; a value or error per command.

        `into` is one type for all, or a tuple with one for each. Raises
        TransactionAbortedError if a watched key changed: nothing ran then.
        """
        commands, self._commands = self._commands, []
        slots = into if isinstance(into, tuple) else (into,) * len(commands)
        if len(slots) != len(commands):
            raise ValueError(f"into= names {len(slots)} types for {len(commands)} commands")
        converters = [converter(slot) for slot in slots]
        request: list[Command] = [("MULTI",), *commands, ("EXEC",)]
        if self._connection is not None:
            replies = await send_many(self._connection, request)
        else:
            replies = await self._run_many("transaction", request)
        result = replies[-1]
        if isinstance(result, ServerError):
            result.__cause__ = next((r for r in replies if isinstance(r, ServerError)), None)
        if isinstance(result, ServerError | ClientError):
            raise result
        if result is None:
            raise TransactionAbortedError("a watched key changed; nothing ran")
        return [
            reply if isinstance(reply, ServerError) else make(reply)
            for make, reply in zip(converters, result, strict=True)
        ]
