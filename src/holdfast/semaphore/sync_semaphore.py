"""The semaphore without coroutines: blocking, safe to share between threads.

The thread of the client runs the real semaphore: heartbeats go on while the caller's thread works.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Unpack

from holdfast.client.api.client import Client
from holdfast.client.api.sync_client import SyncClient
from holdfast.client.errors import ClientError, ServerError
from holdfast.semaphore.acquisition import LeaseLostError, id_of
from holdfast.semaphore.scope import log
from holdfast.semaphore.semaphore import Lock, Semaphore, SemaphoreOptions, SemaphoreStats


@dataclass(frozen=True, slots=True, eq=False)
class SyncAcquisition:
    """A slot that is held until it is released or lost; see `Acquisition`."""

    id: str
    slot_number: int
    fencing_token: int
    lost: threading.Event = field(default_factory=threading.Event, repr=False)


class SyncSemaphore:
    """`Semaphore` on a client of holdfast.sync. Use it with `with`, in as many threads as you like.

    A thread cannot be cancelled: look at `acquisition.lost`. With `cancel_on_loss`, the default, a
    body that ends without error though its slot was lost ends with LeaseLostError.
    """

    def __init__(
        self,
        client: SyncClient,
        name: str,
        limit: int | None = None,
        **options: Unpack[SemaphoreOptions],
    ) -> None:
        self._open(client, lambda inner: Semaphore(inner, name, limit, **options))

    def _open(self, client: SyncClient, make: Callable[[Client], Semaphore]) -> None:
        async def make_there(inner: Client) -> Semaphore:
            return make(inner)

        self._client = client
        self._semaphore = client.wait_for(make_there)
        self.name = self._semaphore.name
        self._mine = threading.local()

    @property
    def limit(self) -> int | None:
        """The number of slots; None takes the limit of the server."""
        return self._semaphore.limit

    @property
    def cancel_on_loss(self) -> bool:
        """Whether a lost slot raises LeaseLostError at the end of `with`."""
        return self._semaphore.cancel_on_loss

    def acquire(self) -> SyncAcquisition:
        """Wait for a slot. Raises TimeoutError, LimitMismatchError, UnknownLimitError."""

        async def acquire(_: Client) -> SyncAcquisition:
            inner = await self._semaphore.acquire()
            acquisition = SyncAcquisition(inner.id, inner.slot_number, inner.fencing_token)
            inner.on_lost(acquisition.lost.set)
            return acquisition

        return self._client.wait_for(acquire)

    def release(self, acquisition: SyncAcquisition | str) -> bool:
        """Give a slot back, by its acquisition or id. True if it was held until now."""
        id = id_of(acquisition)
        return self._client.wait_for(lambda _: self._semaphore.release(id))

    def cm(self) -> "SyncScope":
        """`with semaphore.cm() as acquisition:`. Call it anew for each use."""
        return SyncScope(self)

    def __enter__(self) -> SyncAcquisition:
        scope = self.cm()
        acquisition = scope.__enter__()
        if not hasattr(self._mine, "scopes"):
            self._mine.scopes = []
        self._mine.scopes.append(scope)
        return acquisition

    def __exit__(self, *error: Any) -> None:
        self._mine.scopes.pop().__exit__(*error)

    def count(self) -> int:
        """The number of taken slots."""
        return self._client.wait_for(lambda _: self._semaphore.count())

    def locked(self) -> bool:
        """Whether `acquire` would have to wait."""
        return self._client.wait_for(lambda _: self._semaphore.locked())

    def resize(self, limit: int | None) -> None:
        """Set the limit for all clients; see `Semaphore.resize`."""
        self._client.wait_for(lambda _: self._semaphore.resize(limit))

    def stats(self, names: list[str] | None = None, limit: int = 100) -> list[SemaphoreStats]:
        """The named semaphores, or all of the namespace that are in use; the most loaded first."""
        return self._client.wait_for(lambda _: self._semaphore.stats(names, limit))


class SyncLock(SyncSemaphore):
    """A semaphore with one slot, see `Lock`."""

    def __init__(self, client: SyncClient, name: str, **options: Unpack[SemaphoreOptions]) -> None:
        self._open(client, lambda inner: Lock(inner, name, **options))


class SyncScope:
    """The context manager of a semaphore. Use it once."""

    def __init__(self, semaphore: SyncSemaphore) -> None:
        self._semaphore = semaphore
        self._acquisition: SyncAcquisition | None = None

    def __enter__(self) -> SyncAcquisition:
        if self._acquisition is not None:
            raise RuntimeError("a context manager of a semaphore is used once: call cm() again")
        self._acquisition = self._semaphore.acquire()
        return self._acquisition

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._acquisition is not None
        was_lost = self._acquisition.lost.is_set()
        try:
            self._semaphore.release(self._acquisition)
        except (ClientError, ServerError) as failure:
            log.warning("semaphore %s: %s", self._semaphore.name, failure)
        if was_lost and error is None and self._semaphore.cancel_on_loss:
            raise LeaseLostError(f"semaphore {self._semaphore.name!r}: the slot was lost")
