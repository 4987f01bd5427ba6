"""`SlotWaiter`: a caller that waits for a slot, and the messages that it can trust. No I/O."""

import asyncio
import math

from holdfast.semaphore.acquisition import Acquisition


class SlotWaiter:
    """A caller that has asked to enter.

    A message that grants it a slot can be trusted if two conditions are met. The message is newer
    than the last answer "waiting": its token is larger than the last token in that answer. And the
    lease of the waiter is not over yet: the lease began no earlier than the keeper asked for that
    answer.
    """

    __slots__ = ("_woken", "acquisition", "is_told", "last_token", "message", "renewed_s")

    def __init__(self) -> None:
        self.acquisition: Acquisition | None = None
        self.is_told = False
        self.message: list[str] | None = None  # a message that came before the answer "waiting"
        self._woken: asyncio.Future[None] | None = (
            None  # made on demand: most callers need not wait
        )
        self.last_token = math.inf
        self.renewed_s = 0.0

    def tell(self) -> None:
        """Wake the caller: its state has changed."""
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
        """Take a message: id, token, slot number, and the heartbeat interval of its sender."""
        if self.last_token == math.inf:
            self.message = message
        try:
            id, token, number = message[0], int(message[1]), int(message[2])
            their_heartbeat_s = float(message[3])
        except (IndexError, ValueError):
            return  # an older or unknown form: the caller asks the server
        is_new = token > self.last_token and now_s < self.renewed_s + heartbeat_s
        if is_new and their_heartbeat_s >= heartbeat_s:
            self.acquisition = Acquisition(id, number, token, renewed_s=self.renewed_s)
