"""The sinks behind `Client.exec`: callers wait for their futures.

They store unconverted replies. The caller converts them in its own task.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.client.errors import ClientError, ReplyTooLargeError
from holdfast.client.protocol.pipeline import ReplySink


class PendingOne(ReplySink):
    """The reply of a single command, errors included as objects."""

    __slots__ = ("future",)

    def __init__(
        self, data: bytes, future: asyncio.Future[Any], deadline_s: float | None = None
    ) -> None:
        self.data = data
        self.size = len(data)
        self.missing = 1
        self.deadline_s = deadline_s
        self.future = future

    @property
    def is_settled(self) -> bool:
        return self.future.done()

    def deliver(self, reply: Any) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def refuse(self, error: ReplyTooLargeError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def fail(self, error: ClientError) -> None:
        self.future.set_exception(error)


class PendingWait(PendingOne):
    """The same for a caller that may stop waiting and still want the reply.

    The caller awaits `woken`, which is set when the reply has come, or by a call of `wake`. `heed`
    gets the reply before the caller resumes, and also if the caller has left.
    """

    __slots__ = ("heed", "is_heeded", "is_overdue", "woken")

    def __init__(
        self, data: bytes, loop: asyncio.AbstractEventLoop, heed: Callable[[Any], None] | None
    ) -> None:
        super().__init__(data, loop.create_future())
        self.woken: asyncio.Future[None] = loop.create_future()
        self.heed = heed
        self.is_heeded = False
        self.is_overdue = False

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def deliver(self, reply: Any) -> None:
        if self.heed is not None and isinstance(reply, list) and not self.future.done():
            self.is_heeded = True
            self.heed(reply)
        super().deliver(reply)
        self.wake()  # a callback of the future would come one turn of the loop later

    def refuse(self, error: ReplyTooLargeError) -> None:
        super().refuse(error)
        self.wake()

    def fail(self, error: ClientError) -> None:
        super().fail(error)
        self.wake()


class PendingMany(ReplySink):
    """The replies of a request, one per command; an error for each that will not come."""

    __slots__ = ("future", "replies")

    def __init__(
        self,
        data: bytes,
        replies: int,
        future: asyncio.Future[list[Any]],
        deadline_s: float | None = None,
    ) -> None:
        super().__init__(data, replies, deadline_s)
        self.future = future
        self.replies: list[Any] = []

    @property
    def is_settled(self) -> bool:
        return self.future.done()

    def deliver(self, reply: Any) -> None:
        self.replies.append(reply)
        if not self.missing and not self.future.done():
            self.future.set_result(self.replies)

    def fail(self, error: ClientError) -> None:
        if error.may_have_executed:
            # A copy: replies that come after a timeout must not change the list of the caller.
            self.future.set_result(self.replies + [error] * self.missing)
        else:
            self.future.set_exception(error)
