"""What a waiter knows, and which messages it believes without asking. No I/O."""

import asyncio
import math

from holdfast.semaphore.acquisition import Acquisition


class Waiter:
    """One that has asked to enter.

    A message that it was let in is beyond doubt while the server still believes in it. It was let
    in after the server last called it waiting, which it did no earlier than it was asked; that
    this message is from after that, its token shows: it is larger than the last one then.
    """

    __slots__ = ("_woken", "acquisition", "is_told", "last_token", "message", "renewed_s")

    def __init__(self) -> None:
        self.acquisition: Acquisition | None = None
        self.is_told = False
        self.message: list[str] | None = None  # one that came before the answer that it waits
        self._woken: asyncio.Future[None] | None = None  # most need not wait
        self.last_token = math.inf
        self.renewed_s = 0.0

    def tell(self) -> None:
        """That there is something to look at."""
        self.is_told = True
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def told(self) -> None:
        if not self.is_told:
            self._woken = asyncio.get_running_loop().create_future()
            await self._woken

    def still_waits(self, last_token: float, asked_s: float) -> None:
        self.last_token = last_token
        self.renewed_s = asked_s

    def believe(self, message: list[str], heartbeat_s: float, now_s: float) -> None:
        """A message of id, token, slot number and the heartbeat interval of who sent it."""
        if self.last_token == math.inf:
            self.message = message
        try:
            id, token, number = message[0], int(message[1]), int(message[2])
            their_heartbeat_s = float(message[3])
        except (IndexError, ValueError):
            return  # it says less, or nothing that we know
        is_new = token > self.last_token and now_s < self.renewed_s + heartbeat_s
        if is_new and their_heartbeat_s >= heartbeat_s:
            self.acquisition = Acquisition(id, number, token, renewed_s=self.renewed_s)
