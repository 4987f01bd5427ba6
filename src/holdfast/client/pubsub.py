"""Channels and patterns, on a connection of their own that subscribes again after a loss."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from holdfast.client.connection import Connection
from holdfast.client.errors import ClosedError, ServerError
from holdfast.client.pipeline import Sink
from holdfast.client.request import encode
from holdfast.client.state import State

_MAX_MESSAGES = 65_536


@dataclass(frozen=True, slots=True)
class Message:
    channel: str
    data: bytes
    pattern: str | None = None  # that it came through

    @property
    def text(self) -> str:
        return self.data.decode()


class _Sent(Sink):
    """A request that is answered by pushes, if at all."""

    __slots__ = ()

    is_settled = False

    def deliver(self, reply: Any) -> None: ...

    def fail(self, error: Exception) -> None: ...


class PubSub:
    """Iterate over it for messages. What is sent while it reconnects is lost: see `losses`."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connection = connection = connect()
        connection.on_push = self._on_push
        connection.on_open = self._on_open
        connection.on_state = self._on_state
        # What we want, and by kind what the server has confirmed.
        self._wanted: dict[str, set[str]] = {"subscribe": set(), "psubscribe": set()}
        self._wanted["ssubscribe"] = set()
        self._confirmations: dict[tuple[str, str], list[asyncio.Future[None]]] = {}
        self._messages: deque[Message] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.losses = 0  # how often messages may have been missed

    async def __aenter__(self) -> Self:
        await self._connection.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close(0)
        self._wake_all()

    async def subscribe(self, *channels: str) -> None:
        """Returns when the server has confirmed all of them."""
        await self._ask("subscribe", channels)

    async def psubscribe(self, *patterns: str) -> None:
        await self._ask("psubscribe", patterns)

    async def ssubscribe(self, *channels: str) -> None:
        await self._ask("ssubscribe", channels)

    async def unsubscribe(self, *channels: str) -> None:
        await self._ask("unsubscribe", channels)

    async def punsubscribe(self, *patterns: str) -> None:
        await self._ask("punsubscribe", patterns)

    async def sunsubscribe(self, *channels: str) -> None:
        await self._ask("sunsubscribe", channels)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message; the iteration ends when this is closed."""
        while not self._messages:
            if self._connection.state is State.CLOSED:
                raise StopAsyncIteration
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
                else:
                    self._wake_one()  # the message is still there, for somebody else
                raise
        return self._messages.popleft()

    # -- inside -------------------------------------------------------------------------------

    async def _ask(self, kind: str, names: tuple[str, ...]) -> None:
        wanted = self._wanted[kind.replace("un", "")]
        if kind.startswith(("un", "pun", "sun")):
            wanted.difference_update(names)
        else:
            wanted.update(names)
        confirmed = [self._confirmation(kind, name) for name in names]
        self._send(kind, names)
        for future in confirmed:
            await future

    def _confirmation(self, kind: str, name: str) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirmations.setdefault((kind, name), []).append(future)
        return future

    def _send(self, kind: str, names: tuple[str, ...]) -> None:
        if names and self._connection.state is State.OPEN:  # else `_on_open` will
            self._connection.submit(_Sent(encode((kind.upper(), *names)), 0))

    def _on_open(self) -> None:
        self._connection.is_subscriber = True
        if self._connection.generation > 1:
            self.losses += 1
            for kind, names in self._wanted.items():
                self._send(kind, tuple(sorted(names)))
            for (kind, name), futures in list(self._confirmations.items()):
                if "un" in kind:  # a new connection has no subscriptions to end
                    self._confirm(kind, name, futures)

    def _on_state(self, state: State) -> None:
        if state is not State.OPEN:
            self._connection.is_subscriber = False  # a handshake comes first
        if state is State.CLOSED:
            self._wake_all()

    def _on_push(self, push: Any) -> None:
        if isinstance(push, ServerError):
            self._refuse_all(push)
            return
        kind = push[0].decode()
        if kind in ("message", "smessage"):
            self._put(Message(_text(push[1]), push[2]))
        elif kind == "pmessage":
            self._put(Message(_text(push[2]), push[3], _text(push[1])))
        elif push[1] is not None:
            name = _text(push[1])
            self._confirm(kind, name, self._confirmations.get((kind, name), []))

    def _confirm(self, kind: str, name: str, futures: list[asyncio.Future[None]]) -> None:
        self._confirmations.pop((kind, name), None)
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _put(self, message: Message) -> None:
        if len(self._messages) >= _MAX_MESSAGES:
            self._messages.popleft()  # a reader that slow loses the oldest
            self.losses += 1
        self._messages.append(message)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                break

    def _wake_all(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._refuse_all(ClosedError("closed before it was confirmed"))

    def _refuse_all(self, error: Exception) -> None:
        confirmations, self._confirmations = self._confirmations, {}
        for futures in confirmations.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
