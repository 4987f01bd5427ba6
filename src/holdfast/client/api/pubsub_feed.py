"""The subscriptions of one connection: wanted, asked for, and confirmed.

The server answers SUBSCRIBE with one push per name, or with one error for all of them, in order.
After a lost connection, all wanted subscriptions are asked for again.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

from holdfast.client.errors import ClosedError, NotConnectedError, ReplyTooLargeError, ServerError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.pipeline import ReplySink
from holdfast.client.protocol.request import encode, text_of
from holdfast.client.transport.connection import Connection
from holdfast.errors import ProtocolError

KINDS = ("subscribe", "psubscribe", "ssubscribe")
_CONFIRMATIONS = {name.encode() for kind in KINDS for name in (kind, kind.replace("sub", "unsub"))}
_PING = "ping"
_MESSAGES: dict[Any, int] = {b"message": 3, b"smessage": 3, b"pmessage": 4}


class MessageListener(Protocol):
    def on_message(self, push: list[Any]) -> None: ...

    def on_gap(self) -> None:
        """Messages may have been missed."""
        ...

    def on_dropped(self, kind: str, name: str, why: ServerError | None) -> None:
        """The server ended a wanted subscription, or did not renew it."""
        ...

    def on_closed(self) -> None:
        """The connection is closed for good."""
        ...


class _Sent(ReplySink):
    """A request that is answered by pushes, if at all."""

    __slots__ = ()

    is_settled = False

    def deliver(self, reply: Any) -> None: ...

    def fail(self, error: Exception) -> None: ...


class _Ask:
    """One command. Without a future it is a ping, or repeats a subscription after a loss."""

    __slots__ = ("future", "kind", "missing", "names")

    def __init__(
        self, kind: str, names: tuple[str, ...], future: asyncio.Future[None] | None
    ) -> None:
        self.kind = kind
        self.names = names
        self.missing = set(names)
        self.future = future


class PubSubFeed:
    def __init__(self, connection: Connection, listener: MessageListener) -> None:
        self.connection = connection
        self.wanted: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self._listener = listener
        self._asked: deque[_Ask] = deque()
        connection.owes = lambda: bool(self._asked)
        connection.on_quiet = self._ping
        connection.on_push = self._on_push
        connection.on_open = self._on_open
        connection.on_state = self._on_state

    async def check_open(self) -> None:
        """Raise if the feed is not open: in the next turn of the loop, as `_reject` does."""
        state = self.connection.state
        if state in (State.INIT, State.CLOSING, State.CLOSED):
            await asyncio.sleep(0)
            if state is State.INIT:
                raise NotConnectedError("pub/sub is used with async with")
            raise ClosedError("pub/sub is closed")

    def ask(self, kind: str, names: tuple[str, ...]) -> asyncio.Future[None]:
        """Returns when the server has confirmed every name, if need be over a new connection.

        Call `check_open` first.
        """
        if kind in KINDS:
            self.wanted[kind].update(names)
        else:
            self.wanted[kind.replace("un", "")].difference_update(names)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ask = _Ask(kind, names, future)
        self._asked.append(ask)
        self._send(ask)
        return future

    # -- inside -------------------------------------------------------------------------------

    def _send(self, ask: _Ask) -> None:
        if self.connection.state is State.OPEN:  # else `_on_open` sends it
            self.connection.submit(_Sent(encode((ask.kind.upper(), *ask.names)), 0))

    def _ping(self) -> None:
        """Ping when nothing comes: any answer shows that the server is there."""
        ask = _Ask(_PING, (), None)
        self._asked.append(ask)
        self._send(ask)

    def _on_open(self) -> None:
        self.connection.is_subscriber = True
        if self.connection.generation > 1:
            self._listener.on_gap()
            # In a cluster, all sharded channels of one command must be in one slot.
            again = [(kind, tuple(sorted(self.wanted[kind]))) for kind in KINDS[:2]]
            again += [("ssubscribe", (name,)) for name in sorted(self.wanted["ssubscribe"])]
            waiting = [ask for ask in self._asked if ask.future is not None]
            # Pings of the lost connection have no future either: they are dropped.
            self._asked = deque(_Ask(kind, names, None) for kind, names in again if names)
            # These were not confirmed before the loss. Asking for a name twice is harmless.
            self._asked += [_Ask(ask.kind, ask.names, ask.future) for ask in waiting]
        for ask in self._asked:
            self._send(ask)

    def _on_state(self, state: State) -> None:
        if state is not State.OPEN:
            self.connection.is_subscriber = False  # the handshake comes first, and it gets replies
        if state is State.CLOSED:
            asked, self._asked = self._asked, deque()
            for ask in asked:
                self._settle(ask, ClosedError("closed before it was confirmed"))
            if self.connection.generation:
                self._listener.on_closed()

    def _on_push(self, push: Any) -> None:
        if isinstance(push, ReplyTooLargeError):
            raise ProtocolError(str(push))  # it answers none of our commands
        if isinstance(push, ServerError):
            if not self._asked:
                raise ProtocolError(f"an error reply to no command: {push}")
            self._refused(self._asked.popleft(), push)
            return
        if push == b"PONG" or push == [b"pong", b""]:
            ping = next((ask for ask in self._asked if ask.kind == _PING), None)
            if ping is not None:
                self._asked.remove(ping)
            return
        kind = push[0] if isinstance(push, list) and push and type(push[0]) is bytes else None
        if kind in _MESSAGES:
            if len(push) != _MESSAGES[kind] or not all(isinstance(part, bytes) for part in push):
                raise ProtocolError(f"not a message of pub/sub: {push!r:.80}")
            self._listener.on_message(push)
        elif kind in _CONFIRMATIONS and len(push) == 3 and isinstance(push[1], bytes):
            self._confirmed(kind.decode(), text_of(push[1]))

    def _confirmed(self, kind: str, name: str) -> None:
        for ask in self._asked:
            if ask.kind == kind and name in ask.missing:
                ask.missing.discard(name)
                if not ask.missing:
                    self._asked.remove(ask)
                    self._settle(ask, None)
                return
        wanted = self.wanted.get(kind.replace("un", ""), set())
        if kind not in KINDS and name in wanted:
            wanted.discard(name)
            self._listener.on_dropped(kind.replace("un", ""), name, None)

    def _refused(self, ask: _Ask, error: ServerError) -> None:
        if ask.kind in KINDS:
            self.wanted[ask.kind].difference_update(ask.names)
        self._settle(ask, error)
        if ask.future is None:
            for name in ask.names:
                self._listener.on_dropped(ask.kind, name, error)

    def _settle(self, ask: _Ask, error: Exception | None) -> None:
        if ask.future is None or ask.future.done():
            return
        if error is None:
            ask.future.set_result(None)
        else:
            ask.future.set_exception(error)
