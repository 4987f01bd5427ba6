"""What the queue answers. No I/O."""

from dataclasses import dataclass
from typing import Any, Literal

from holdfast.builds.build import BuildRecord
from holdfast.builds.events import pairs
from holdfast.builds.states import State

Action = Literal["START", "BLOCK", "COLLAPSE", "ABORT", "FREEZE", "DELAY", "REFUSE", "NONE"]


@dataclass(frozen=True)
class Decision:
    """What becomes of a build that wants to start, and why.

    START: it may go (`record` is there if it has begun). BLOCK: it waits for `blockers`. DELAY and
    FREEZE: it waits for the time to come. COLLAPSE and ABORT: it has ended. REFUSE: nothing
    changed, `message` says why. `cycle` are jobs that block each other in a circle.
    """

    build_id: int | None
    action: Action
    reason: str
    state: State | None
    blockers: tuple[int, ...] = ()
    cycle: tuple[str, ...] = ()
    message: str = ""
    record: BuildRecord | None = None
    next_due_s: float | None = None
    now_ms: int = 0

    @classmethod
    def enqueued(cls, reply: list[bytes]) -> "Decision":
        """From what enqueueBuild.lua answers."""
        cycle = reply[6].decode()
        return cls(**cls._common(reply), cycle=tuple(cycle.split("\n")) if cycle else ())

    @classmethod
    def started(cls, reply: list[Any]) -> "Decision":
        """From what startBuild.lua answers."""
        due_ms, now_ms, raw = reply[6:9]
        record = BuildRecord.of(pairs(raw)) if raw else None
        return cls(**cls._common(reply), next_due_s=due_s(due_ms), now_ms=now_ms, record=record)

    @staticmethod
    def _common(reply: list[bytes]) -> dict[str, Any]:
        identity, action, reason, state, blockers, message = (item.decode() for item in reply[:6])
        return {
            "build_id": int(identity) if identity else None,
            "action": action,
            "reason": reason,
            "state": State[state] if state else None,
            "blockers": tuple(map(int, blockers.split())),
            "message": message,
        }

    @property
    def token(self) -> int | None:
        return self.record.token if self.record else None


@dataclass(frozen=True)
class Stopped:
    """CLEANED: it has ended now. NOT_RUNNING and ALREADY_CLEAN: it had before; another build of
    its job runs, or none. STALE: the token is an older attempt's. REFUSED: not from this state.
    `removed` are the indexes that it was in, `owner` is the build that its job runs now."""

    status: Literal["CLEANED", "NOT_RUNNING", "ALREADY_CLEAN", "STALE", "REFUSED"]
    state: State | None
    removed: tuple[str, ...]
    owner: int | None
    message: str


@dataclass(frozen=True)
class Retried:
    """RETRIED: on offer again after `delay_s`. ENDED: no attempt was left. ENQUEUED: it had ended,
    and `build_id` is a new build that does the same."""

    status: Literal["RETRIED", "ENDED", "ENQUEUED", "STALE", "REFUSED"]
    state: State | None
    build_id: int
    delay_s: float
    message: str


@dataclass(frozen=True)
class Checked:
    """What time brought a build: kind "run" is CLEANUP, TIMEOUT, RETRY or SKIP."""

    kind: str
    build_id: int
    action: str
    reason: str


@dataclass(frozen=True)
class Stats:
    by_state: dict[State, int]
    on_offer: int
    next_due_s: float | None
    newest_id: int

    @property
    def unfinished(self) -> int:
        return sum(count for state, count in self.by_state.items() if not state.is_final)


def state_of(reply: bytes) -> State | None:
    return State[reply.decode()] if reply else None


def due_s(due_ms: int) -> float | None:
    return None if due_ms < 0 else due_ms / 1000
