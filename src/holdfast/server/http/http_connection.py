"""One connection of an HTTP client: it reads a request, gets the answer, sends it and closes.

A connection ends at its deadline, even if its client sends or reads slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

from holdfast.clock import Clock, Timer
from holdfast.server.http.request import (
    MOST_HEAD_BYTES,
    Answer,
    BadRequestError,
    Request,
    read_request,
)

PATIENCE_S = 10.0  # for the request, the answer and its delivery, together
MOST_IGNORED_BYTES = 1 << 20  # behind a request

Respond = Callable[[Request], Awaitable[Answer]]


class HttpConnection(asyncio.Protocol):
    def __init__(
        self, respond: Respond, clock: Clock, connections: "set[HttpConnection]", most: int
    ) -> None:
        self._respond = respond
        self._clock = clock
        self._connections = connections
        self._most = most
        self._transport: asyncio.Transport | None = None
        self._deadline: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._received = b""
        self._ignored_bytes = 0
        self._is_answered = False
        self._is_client_done = False

    # -- as the loop sees it ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        is_full = len(self._connections) >= self._most
        self._connections.add(self)
        self._deadline = self._clock.call_later(PATIENCE_S, self.abort)
        if is_full:
            text = f"{self._most} connections are open already\n"
            self._send(Answer(HTTPStatus.SERVICE_UNAVAILABLE, text.encode()).encode())
            self._close()  # without waiting for the request; refused connections do not count

    def data_received(self, data: bytes) -> None:
        if self._is_answered or self._task is not None:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > MOST_IGNORED_BYTES:
                self.abort()
            return
        self._received += data[: MOST_HEAD_BYTES - len(self._received)]
        try:
            request = read_request(self._received)
        except BadRequestError as error:
            self._send(error.answer.encode())
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._answer(request))

    def eof_received(self) -> bool:
        """A client that has half-closed its connection after its request still gets the answer."""
        self._is_client_done = True
        return self._task is not None and not self._is_answered

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()
        self._transport = None

    # -- answering ----------------------------------------------------------------------------

    async def _answer(self, request: Request) -> None:
        answer = await self._respond(request)
        self._send(answer.encode(is_head=request.is_head))

    def _send(self, data: bytes) -> None:
        """Send the answer and end the output. The socket stays open until the client closes it: if
        a socket with unread bytes is closed, the answer may be lost on its way."""
        self._is_answered = True
        self._received = b""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        if self._is_client_done:
            transport.close()
        else:
            transport.write_eof()

    def _close(self) -> None:
        self._connections.discard(self)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
