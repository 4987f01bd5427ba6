"""The states of a build and the legal changes, as a table. No code acts here.

`lua/lib/StateValidator.lua` has the same table and enforces it; a test compares the two. The
diagram in the docs is drawn from this one.
"""

from enum import Enum


class State(Enum):
    """The value is the meaning of the state. A state is stored by its name."""

    QUEUED = "it is enqueued, and may not ask to start before its time"
    BLOCKED = "it waits for other builds, for its turn, or for the time to pass"
    FROZEN = "it came in a freeze window, and waits for the end of the window"
    READY = "it may start: it has its job, and any worker may claim it"
    RUNNING = "it runs, or waits for its next attempt"
    SUCCESS = "it ran without a failure"
    FAILURE = "it ran and failed, or took too long"
    ABORTED = "a client stopped it"
    COLLAPSED = "a newer build of its job made it pointless"

    def __repr__(self) -> str:
        return f"State.{self.name}"

    @property
    def is_final(self) -> bool:
        """Whether the build has ended."""
        return self in FINAL


FINAL = frozenset({State.SUCCESS, State.FAILURE, State.ABORTED, State.COLLAPSED})

_LEAVING = {
    State.READY: "BuildUnblocked",
    State.RUNNING: "BuildStarted",
    State.ABORTED: "BuildAborted",
    State.COLLAPSED: "BuildCollapsed",
}
# Old state and new state, and the name of the event. None: the build is new.
MOVES: dict[State | None, dict[State, str]] = {
    None: {State.QUEUED: "BuildEnqueued"},
    State.QUEUED: {State.BLOCKED: "BuildBlocked", State.FROZEN: "BuildFrozen", **_LEAVING},
    State.BLOCKED: _LEAVING,
    State.FROZEN: {State.BLOCKED: "BuildBlocked", **_LEAVING},
    State.READY: {State.RUNNING: "BuildStarted", State.ABORTED: "BuildAborted"},
    State.RUNNING: {
        State.RUNNING: "BuildRetried",
        State.SUCCESS: "BuildCompleted",
        State.FAILURE: "BuildCompleted",
        State.ABORTED: "BuildAborted",
    },
    **{state: {} for state in FINAL},
}

# RUNNING to RUNNING: the next attempt begins, after the one before was given up. The event
# BuildRetried was written at that moment.
NEXT_ATTEMPT = "BuildStarted"

# Waiting again for the same reason is no change.
SAME = frozenset({State.BLOCKED, State.FROZEN})


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for start, moves in MOVES.items():
        for end, event in moves.items():
            lines.append(f"    {start.name if start else '[*]'} --> {end.name}: {event}")
    lines.append(f"    {State.RUNNING.name} --> {State.RUNNING.name}: {NEXT_ATTEMPT}")
    lines += [f"    {state.name} --> [*]" for state in State if state.is_final]
    return "\n".join(lines) + "\n"


def reference() -> str:
    """The states and what may follow, as a Markdown table."""
    lines = ["| state | | goes to |", "|---|---|---|"]
    for state in State:
        ends = sorted(MOVES[state], key=list(State).index)
        then = ", ".join(end.name for end in ends) or "none: it is final"
        lines.append(f"| `{state.name}` | {state.value} | {then} |")
    return "\n".join(lines) + "\n"
