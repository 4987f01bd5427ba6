"""`Acquisition`: a held slot, and the ways to learn that it is lost."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError


class LeaseLostError(HoldfastError):
    """The slot was lost while the body of `async with` ran, so the body was cancelled."""


class LimitMismatchError(HoldfastError, ValueError):
    """The name is in use with another limit. Nothing was taken."""

    def __init__(self, name: str, wanted: int, limit: int) -> None:
        super().__init__(
            f"semaphore {name!r} is in use with a limit of {limit}, not {wanted}:"
            " ask for the same, or resize() it"
        )
        self.limit = limit


class UnknownLimitError(HoldfastError, LookupError):
    """The caller gave no limit, and the server knows none. Nothing was taken."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"semaphore {name!r} has no limit at the server: give one, or resize() it once"
        )


class Acquisition:
    """A slot that is held until it is released or lost.

    `slot_number`: the number of taken slots at the time of the grant, this one included.

    `fencing_token`: larger than the token of every earlier grant. A store that keeps the token of
    its last write can refuse writes with a smaller token: they come from a holder that has lost its
    slot and does not know it yet.
    """

    __slots__ = (
        "_callbacks",
        "_is_lost",
        "_lost",
        "fencing_token",
        "id",
        "renewed_s",
        "slot_number",
    )

    def __init__(
        self, id: str, slot_number: int, fencing_token: int, renewed_s: float = 0.0
    ) -> None:
        self.id = id
        self.slot_number = slot_number
        self.fencing_token = fencing_token
        # The time of the last successful request to prolong the lease, by the local clock.
        self.renewed_s = renewed_s
        self._is_lost = False
        self._lost: asyncio.Event | None = None  # made on demand: most callers do not use it
        self._callbacks: tuple[Callable[[], object], ...] = ()

    def __repr__(self) -> str:
        return (
            f"Acquisition(id={self.id!r}, slot_number={self.slot_number},"
            f" fencing_token={self.fencing_token})"
        )

    @property
    def lost(self) -> asyncio.Event:
        """Set when the slot was lost, that is, no longer held without a release."""
        if self._lost is None:
            self._lost = asyncio.Event()
            if self._is_lost:
                self._lost.set()
        return self._lost

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call a function in the event loop when the slot is lost; at once if it is lost."""
        if self._is_lost:
            callback()
        else:
            self._callbacks += (callback,)

    def lose(self) -> None:
        """Mark the slot as lost. The keeper calls this."""
        if not self._is_lost:
            self._is_lost = True
            if self._lost is not None:
                self._lost.set()
            for callback in self._callbacks:
                callback()


def id_of(acquisition: Any) -> str:
    """The id, from an argument of `release`: an acquisition of either kind, or an id."""
    id = acquisition if isinstance(acquisition, str) else getattr(acquisition, "id", None)
    if not isinstance(id, str):
        raise TypeError(f"release() takes an acquisition or its id, not {acquisition!r}")
    return id
