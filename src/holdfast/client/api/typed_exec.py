"""The typed forms of `exec`, of `commit` and of a script's call.

Generated: edit scripts/client_exec.txt. A subclass says how a request is sent. The classes here say
which type `into=` gives to the reply.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from holdfast.client.protocol.convert import Form, Got, Into, Maybe, Slot, converter, slot_value
from holdfast.client.protocol.exec_args import command_of, commands_of, converters_of
from holdfast.client.protocol.into import Key
from holdfast.client.protocol.request import Argument, Request
from holdfast.client.topology.single import DEFAULT, Command

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Exec(ABC):
    """Commands by name, one at a time or many in one request."""

    @abstractmethod
    async def run(
        self, args: Command, convert: Callable[[Any], T], timeout_s: float | None = DEFAULT
    ) -> T:
        """Run a command whose name is in capitals, and convert its reply."""
        ...

    @abstractmethod
    async def run_many(
        self, kind: str, commands: list[Command], timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """Run the commands of a request, and return their replies unconverted."""
        ...

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
        self, command: str, *args: Argument, into: Form = ..., timeout_s: float | None = DEFAULT
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
        """Run a command, and convert its reply; or a request, with a value or an error per slot.

        A single command raises its error. A request raises only if nothing of it was sent.
        """
        if not isinstance(command, Request):
            return await self.run(command_of(command, args), converter(into), timeout_s)
        converters = converters_of(command, into)
        replies = await self.run_many("fixed", command.commands, timeout_s)
        return tuple(map(slot_value, converters, replies))

    @overload
    async def exec_dynamic(
        self, request: Request, *, into: None, timeout_s: float | None = DEFAULT
    ) -> list[Got[None]]: ...
    @overload
    async def exec_dynamic(
        self, request: Request, *, into: Into[T], timeout_s: float | None = DEFAULT
    ) -> list[Got[T]]: ...
    @overload
    async def exec_dynamic(
        self, request: Request, *, into: Form = ..., timeout_s: float | None = DEFAULT
    ) -> list[Any]: ...
    async def exec_dynamic(
        self, request: Request, *, into: Any = Any, timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """Run a request of any size whose replies have one type: a value or an error per slot."""
        convert = converter(into)
        replies = await self.run_many("dynamic", commands_of(request), timeout_s)
        return [slot_value(convert, reply) for reply in replies]


class TransactionExec(ABC):
    """Commands of a transaction: before it, and its end."""

    @abstractmethod
    async def _exec(self, command: str, args: Command, into: Any) -> Any: ...

    @abstractmethod
    async def _commit(self, into: Any) -> list[Any]: ...

    @overload
    async def exec(self, command: str, *args: Argument, into: None) -> None: ...
    @overload
    async def exec(self, command: str, *args: Argument, into: Into[T]) -> T: ...
    @overload
    async def exec(self, command: str, *args: Argument, into: Form = ...) -> Any: ...
    async def exec(self, command: str, *args: Argument, into: Any = Any) -> Any:
        """Run a command now, on the connection that watches the keys."""
        return await self._exec(command, args, into)

    @overload
    async def commit(self, into: Into[T]) -> list[Got[T]]: ...
    @overload
    async def commit(self, into: Form | tuple[Any, ...] = ...) -> list[Any]: ...
    async def commit(self, into: Any = Any) -> list[Any]:
        """Run all commands that were added, at once: a value or an error per command.

        `into` is one type for all, or a tuple with one for each. Raises
        TransactionAbortedError if a watched key changed: nothing ran then.
        """
        return await self._commit(into)


class ScriptExec(ABC):
    """The call of a script."""

    @abstractmethod
    async def _call(self, keys: Iterable[Key], args: Iterable[Argument], into: Any) -> Any: ...

    @overload
    async def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Into[T]
    ) -> T: ...
    @overload
    async def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Form = ...
    ) -> Any: ...
    async def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Any = Any
    ) -> Any:
        """Run the script with these keys and arguments."""
        return await self._call(keys, args, into)
