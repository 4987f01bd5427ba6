"""`async with`: a slot while the body runs. If the slot is lost, the body is cancelled."""

import asyncio
import logging
from types import TracebackType
from typing import Any, Protocol

from holdfast.client.errors import ClientError, ServerError
from holdfast.semaphore.acquisition import Acquisition, LeaseLostError

log = logging.getLogger(__name__)


class Slots(Protocol):
    """The methods of a semaphore that a scope calls."""

    name: str

    async def acquire(self) -> Acquisition: ...

    async def release(self, acquisition: Acquisition | str) -> bool: ...


class Scope:
    """The context manager of a semaphore. Use it once."""

    def __init__(self, slots: Slots, cancel_on_loss: bool) -> None:
        self._slots = slots
        self._cancel_on_loss = cancel_on_loss
        self._acquisition: Acquisition | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._has_cancelled = False

    async def __aenter__(self) -> Acquisition:
        if self._task is not None:
            raise RuntimeError("a context manager of a semaphore is used once: call cm() again")
        self._task = asyncio.current_task()
        assert self._task is not None
        self._acquisition = await self._slots.acquire()
        self._cancelling = self._task.cancelling()
        if self._cancel_on_loss:
            self._acquisition.on_lost(self._cancel)
        return self._acquisition

    def _cancel(self) -> None:
        if self._acquisition is not None and self._task is not None:
            self._has_cancelled = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        acquisition, self._acquisition = (
            self._acquisition,
            None,
        )  # from now on a loss cancels no task
        assert acquisition is not None
        try:
            await self._slots.release(acquisition)
        except (ClientError, ServerError) as failure:
            # The body has done its work. The slot falls free when its lease is over.
            log.warning("semaphore %s: %s", self._slots.name, failure)
        except asyncio.CancelledError as cancelled:
            # The body ended before our cancellation reached it.
            if not self._has_cancelled or error is not None:
                raise
            error = cancelled
        if self._has_cancelled and self._task is not None:
            only_ours = self._task.uncancel() <= self._cancelling
            if only_ours and (error is None or isinstance(error, asyncio.CancelledError)):
                raise LeaseLostError(
                    f"semaphore {self._slots.name!r}: the slot was lost"
                ) from error
