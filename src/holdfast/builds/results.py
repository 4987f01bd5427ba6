"""The results of the methods of a queue. No I/O."""

from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.builds.build import BuildRecord
from holdfast.builds.build_events import pairs
from holdfast.builds.build_states import State

Action = Literal["START", "BLOCK", "COLLAPSE", "ABORT", "FREEZE", "DELAY", "REFUSE", "NONE"]


@dataclass(frozen=True)
class Decision:
    """The decision about a build that wants to start, and the reason.

    START: it may start (with a `record` if it has begun). BLOCK: it waits for `blockers`. DELAY and
    FREEZE: it waits for a time. COLLAPSE and ABORT: it has ended. REFUSE: nothing changed,
    `message` says why. `cycle` are jobs that block each other in a circle.
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
        """Make a result from an answer of enqueueBuild.lua."""
        cycle = reply[6].decode()
        return cls(**cls._common(reply), cycle=tuple(cycle.split("\n")) if cycle else ())

    @classmethod
    def started(cls, reply: list[Any]) -> "Decision":
        """Make a result from an answer of startBuild.lua."""
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
        """The token of the attempt that has begun; None if no attempt has begun."""
        return self.record.token if self.record else None


@dataclass(frozen=True)
class Stopped:
    """The result of ending a build.

    CLEANED: it has ended now. NOT_RUNNING: it had ended before, and another build of its job runs.
    ALREADY_CLEAN: it had ended before, and no build of its job runs. STALE: the token is of an
    older attempt. REFUSED: it cannot end from its state. `removed` are the indexes from which it
    was removed, `owner` is the build of its job that runs now.
    """

    status: Literal["CLEANED", "NOT_RUNNING", "ALREADY_CLEAN", "STALE", "REFUSED"]
    state: State | None
    removed: tuple[str, ...]
    owner: int | None
    message: str


@dataclass(frozen=True)
class Retried:
    """The result of a retry.

    RETRIED: it is on offer again after `delay_s`. ENDED: no attempt was left. ENQUEUED: it had
    ended, and `build_id` is a new build with the same settings.
    """

    status: Literal["RETRIED", "ENDED", "ENQUEUED", "STALE", "REFUSED"]
    state: State | None
    build_id: int
    delay_s: float
    message: str


@dataclass(frozen=True)
class Checked:
    """The action on a build that was due. Kind "run" has CLEANUP, TIMEOUT, RETRY or SKIP."""

    kind: str
    build_id: int
    action: str
    reason: str


@dataclass(frozen=True)
class Stats:
    """Builds by state, builds that workers may claim, and seconds until the next one is due.

    `frozen_jobs`: jobs that `freeze` has frozen, and when they thaw, in ms since 1970.
    """

    by_state: dict[State, int]
    on_offer: int
    next_due_s: float | None
    newest_id: int
    frozen_jobs: dict[str, int] = field(default_factory=dict)

    @property
    def unfinished(self) -> int:
        """The number of builds that have not ended."""
        return sum(count for state, count in self.by_state.items() if not state.is_final)


def state_of(reply: bytes) -> State | None:
    return State[reply.decode()] if reply else None


def due_s(due_ms: int) -> float | None:
    return None if due_ms < 0 else due_ms / 1000
