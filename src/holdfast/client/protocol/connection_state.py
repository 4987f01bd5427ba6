"""The states of a connection, as tables. `connection` looks things up here; no code acts here.

The diagram in the docs is drawn from these tables, so it is always right.
"""

from enum import Enum


class State(Enum):
    """The states of a connection; the value says what a state means."""

    INIT = "nothing tried yet"
    CONNECTING = "first connect and handshake"
    OPEN = "connected"
    FAILED = "connection lost, or waiting before the next attempt"
    RECONNECTING = "another connect and handshake"
    CLOSING = "requests in flight finish"
    CLOSED = "over; the reason is kept"


class Acceptance(Enum):
    """The treatment of a request that arrives in a state."""

    ACCEPT = "sent in this loop turn"
    QUEUE = "kept until the connection opens"
    REJECT = "fails at once, never sent"


ACCEPTANCE: dict[State, Acceptance] = {
    State.INIT: Acceptance.REJECT,
    State.CONNECTING: Acceptance.QUEUE,
    State.OPEN: Acceptance.ACCEPT,
    State.FAILED: Acceptance.REJECT,
    State.RECONNECTING: Acceptance.QUEUE,
    State.CLOSING: Acceptance.REJECT,
    State.CLOSED: Acceptance.REJECT,
}

TRANSITIONS: dict[tuple[State, State], str] = {
    (State.INIT, State.CONNECTING): "connect()",
    (State.INIT, State.CLOSED): "close()",
    (State.CONNECTING, State.OPEN): "handshake done",
    (State.CONNECTING, State.FAILED): "error or timeout",
    (State.CONNECTING, State.CLOSED): "close()",
    (State.OPEN, State.FAILED): "connection lost, requests in flight fail",
    (State.OPEN, State.CLOSING): "close()",
    (State.FAILED, State.RECONNECTING): "at once, or after the delay",
    (State.FAILED, State.CLOSED): "close(), or reconnection is off",
    (State.RECONNECTING, State.OPEN): "handshake done, attempts count from 0 again",
    (State.RECONNECTING, State.FAILED): "error or timeout",
    (State.RECONNECTING, State.CLOSED): "close()",
    (State.CLOSING, State.CLOSED): "all answered, or the grace period is over",
}


def diagram() -> str:
    """The two tables as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.INIT.name}"]
    lines += [f"    {a.name} --> {b.name}: {why}" for (a, b), why in TRANSITIONS.items()]
    lines.append(f"    {State.CLOSED.name} --> [*]")
    for state, admission in ACCEPTANCE.items():
        lines.append(f"    note right of {state.name}: {state.value}; {admission.name.lower()}s")
    return "\n".join(lines) + "\n"
