"""What a holder has, and how it learns that it has it no more."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class Acquisition:
    """A slot that is held until it is released or lost."""

    id: str
    slot_number: int
    """How many slots were taken when this one was, itself included."""
    fencing_token: int
    """Larger than that of every grant before. Who stores something with its token can refuse
    whoever comes with a smaller one: a holder that lost its slot and does not know it yet."""
    lost: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the slot is no longer held, and nobody released it."""
    renewed_s: float = field(default=0.0, repr=False)
    """When the server was last asked to prolong it, successfully: by the clock of this process."""
    _callbacks: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call that in the event loop when the slot is lost; at once if it is already."""
        if self.lost.is_set():
            callback()
        else:
            self._callbacks.append(callback)

    def lose(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            for callback in self._callbacks:
                callback()


def id_of(acquisition: Any) -> str:
    """Of what `release` is given: an acquisition of either kind, or its id."""
    id = acquisition if isinstance(acquisition, str) else getattr(acquisition, "id", None)
    if not isinstance(id, str):
        raise TypeError(f"release() takes an acquisition or its id, not {acquisition!r}")
    return id
