"""How fast jobs come and go, computed from two measurements of a queue. No I/O."""

from dataclasses import dataclass
from enum import Enum

from holdfast.web.readers.queues.model import QueueState

STEADY_PER_S = 0.01  # a smaller change counts as steady


class Direction(Enum):
    GROWING = "growing"
    DRAINING = "draining"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Flow:
    """Jobs a second. `in_per_s`, `out_per_s`: None if the library counts neither."""

    net_per_s: float
    direction: Direction
    in_per_s: float | None = None
    out_per_s: float | None = None


def flow(before_s: float, before: QueueState, now_s: float, now: QueueState) -> Flow | None:
    """The times are from a clock that never goes back. None: both measurements have the same time.

    A queue grows by the jobs that came minus the jobs that went. So one counter is enough for both
    rates. A counter that became smaller was reset, and is not used.
    """
    elapsed_s = now_s - before_s
    if elapsed_s <= 0:
        return None
    grown = now.pending - before.pending
    came, went = _gain(before.added, now.added), _gain(before.finished, now.finished)
    if came is not None and came >= grown:
        went = came - grown
    elif went is not None and went + grown >= 0:
        came = went + grown
    else:
        came = went = None
    net_per_s = grown / elapsed_s
    return Flow(
        net_per_s=net_per_s,
        direction=_direction(net_per_s),
        in_per_s=None if came is None else came / elapsed_s,
        out_per_s=None if went is None else went / elapsed_s,
    )


def _gain(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or now < before else now - before


def _direction(net_per_s: float) -> Direction:
    if abs(net_per_s) < STEADY_PER_S:
        return Direction.STEADY
    return Direction.GROWING if net_per_s > 0 else Direction.DRAINING
