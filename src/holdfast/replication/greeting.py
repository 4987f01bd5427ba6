"""The first requests on a link and their replies: the handshake of any client, then ACTIVE LINK."""

import asyncio
from typing import Any

from holdfast._version import __version__
from holdfast.client.errors import ConnectError
from holdfast.client.protocol.request import encode, encode_all
from holdfast.client.transport.handshake import handshake
from holdfast.client.transport.link import Link
from holdfast.client.transport.options import ClientOptions


class Greeting:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._asked: asyncio.Future[list[Any]] | None = None
        self._count = 0  # the number of replies to the current request
        self._replies: list[Any] = []  # the replies so far
        self._error: Exception | None = None  # the reason why no more replies will come

    async def shake_hands(self, options: ClientOptions) -> None:
        steps = handshake(options, __version__)
        try:
            commands = next(steps)
            while True:
                commands = steps.send(await self._ask(encode_all(commands), len(commands)))
        except StopIteration as end:
            if end.value.protocol != 3:
                raise ConnectError(f"{options.address} is no Holdfast server") from None

    async def exchange(self, hello: bytes) -> Any:
        """Send our hello. Returns the reply, which has the hello of the peer."""
        (reply,) = await self._ask(encode(("ACTIVE", "LINK", hello)), 1)
        return reply

    async def _ask(self, data: bytes, count: int) -> list[Any]:
        if self._error is not None:
            raise self._error
        self._asked = asyncio.get_running_loop().create_future()
        self._replies = []
        self._count = count
        self._link.write(data)
        return await self._asked

    def on_replies(self, replies: list[Any]) -> None:
        self._replies += replies
        asked = self._asked
        if asked is not None and not asked.done() and len(self._replies) >= self._count:
            asked.set_result(self._replies[: self._count])

    def fail(self, error: Exception) -> None:
        """Note that the link has ended. If no reply is awaited now, the next request raises the
        error."""
        self._error = error
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(error)
