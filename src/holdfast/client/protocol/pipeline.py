"""Requests in order: those not sent yet, and those whose replies are awaited.

No I/O, no tasks, no clock. The caller of a request is behind its `ReplySink`, so nothing here can
resume a caller or run a caller's code.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

from holdfast.client.errors import (
    ClientError,
    QueueFullError,
    ReplyTooLargeError,
    RequestTimeoutError,
    RequestTooLargeError,
)
from holdfast.errors import ProtocolError

MAX_REQUESTS = 16_384
MAX_BYTES = 64 << 20
_MAX_WRITE_BYTES = 256 << 10


class ReplySink(ABC):
    """One request and the place of its replies. `deliver` and `fail` store and notify, no more."""

    __slots__ = ("data", "deadline_s", "missing", "size")
    is_overdue: bool = False  # the wait that the command names is over: the reply is due

    def __init__(self, data: bytes, replies: int, deadline_s: float | None = None) -> None:
        self.data: bytes | None = data  # None once it is sent
        self.size = len(data)
        self.missing = replies
        self.deadline_s = deadline_s

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether no caller waits any more: answered, failed, timed out or cancelled."""

    @abstractmethod
    def deliver(self, reply: Any) -> None:
        """Store one of the replies. Settled sinks are called too: they consume their replies."""

    def refuse(self, error: ReplyTooLargeError) -> None:
        """Store the error for a reply that was dropped because of its size."""
        self.deliver(error)

    @abstractmethod
    def fail(self, error: ClientError) -> None:
        """Fail the request. Never called twice, nor after the last reply."""

    @property
    def is_sent(self) -> bool:
        return self.data is None


class Pipeline:
    __slots__ = (
        "_inflight",
        "_max_bytes",
        "_max_requests",
        "_queue",
        "_refusals_to_come",
        "bytes",
        "requests",
    )

    def __init__(self, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._queue: deque[ReplySink] = deque()
        self._inflight: deque[ReplySink] = deque()
        self._refusals_to_come = 0  # before `_forget_unsent` looks again
        # Of all unfinished requests: they limit the memory used here and at the server.
        self.requests = 0
        self.bytes = 0

    @property
    def has_unsent(self) -> bool:
        return bool(self._queue)

    @property
    def oldest(self) -> ReplySink | None:
        """The request whose reply comes next."""
        return self._inflight[0] if self._inflight else None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller still waits for a request."""
        return any(not sink.is_settled for sink in chain(self._inflight, self._queue))

    def push(self, sink: ReplySink) -> None:
        if self.requests >= self._max_requests or self.bytes + sink.size > self._max_bytes:
            if self._refusals_to_come:
                self._refusals_to_come -= 1
            else:
                self._forget_unsent()
            if self.requests >= self._max_requests:
                raise QueueFullError(f"{self.requests} requests are pending")
            if sink.size > self._max_bytes:
                text = f"a request of {sink.size} bytes: max_bytes={self._max_bytes} allows no more"
                raise RequestTooLargeError(text)
            if self.bytes + sink.size > self._max_bytes:
                raise QueueFullError(f"{self.bytes} bytes are pending, and {sink.size} more")
        self._queue.append(sink)
        self.requests += 1
        self.bytes += sink.size

    def take(self) -> bytes:
        """Bytes of as many requests as make a good write. These requests are then in flight.

        A request without a waiting caller is not sent at all.
        """
        queue, parts, size = self._queue, [], 0
        while queue and size < _MAX_WRITE_BYTES:
            sink = queue.popleft()
            if sink.is_settled or sink.data is None:
                self._reclaim(sink)
                continue
            parts.append(sink.data)
            size += sink.size
            sink.data = None
            if sink.missing:
                self._inflight.append(sink)
            else:
                self._reclaim(sink)
        return b"".join(parts)

    def on_reply(self, reply: Any) -> None:
        if not self._inflight:
            raise ProtocolError(f"a reply to no request: {reply!r:.80}")
        sink = self._inflight[0]
        sink.missing -= 1
        if not sink.missing:
            del self._inflight[0]
            self.requests -= 1
            self.bytes -= sink.size
        sink.deliver(reply)

    def on_too_large(self, error: ReplyTooLargeError) -> None:
        """Take an error in place of a reply. Apart from `on_reply`, which is the hot path."""
        sink = self.oldest
        if sink is None:
            raise ProtocolError(f"a reply to no request: {error}")
        sink.missing -= 1
        if not sink.missing:
            del self._inflight[0]
            self._reclaim(sink)
        sink.refuse(error)

    def fail_sent(self, error: Callable[[], ClientError]) -> None:
        """The connection is lost: all requests in flight fail."""
        sinks, self._inflight = self._inflight, deque()
        self._fail(sinks, error)

    def fail_unsent(self, error: Callable[[], ClientError]) -> None:
        sinks, self._queue = self._queue, deque()
        self._fail(sinks, error)

    def expire(self, now_s: float) -> float | None:
        """Time out requests that are due. Returns the next deadline, if any.

        All deadlines in this queue have the same duration, so the first one that is not due
        ends the search. A timed-out request stays where it is and consumes its replies.
        """
        for sink in chain(self._inflight, self._queue):
            if sink.deadline_s is None or sink.is_settled:
                continue
            if sink.deadline_s > now_s:
                return sink.deadline_s
            time_out(sink)
        return None

    def _fail(self, sinks: deque[ReplySink], error: Callable[[], ClientError]) -> None:
        for sink in sinks:
            self._reclaim(sink)
            if not sink.is_settled:
                sink.fail(error())

    def _forget_unsent(self) -> None:
        """Remove cancelled and timed-out requests that wait for a connection.

        Searching a long queue for each refused request would make overload worse. So the next
        search comes only after some requests were refused without one.
        """
        for sink in self._queue:
            if sink.is_settled:
                self._reclaim(sink)
        self._queue = deque(sink for sink in self._queue if not sink.is_settled)
        self._refusals_to_come = len(self._queue) // 64

    def _reclaim(self, sink: ReplySink) -> None:
        self.requests -= 1
        self.bytes -= sink.size


def time_out(sink: ReplySink) -> None:
    if not sink.is_settled:
        if sink.is_sent:
            text = "no reply in time; the server may have run the command, or may yet"
        else:
            text = "not sent in time"
        sink.fail(RequestTimeoutError(text, may_have_executed=sink.is_sent))
