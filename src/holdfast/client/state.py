"""The states of a connection, as tables. Nothing here does anything: `connection` asks.

The diagram in the docs is drawn from these tables, so it cannot be wrong.
"""

from enum import Enum


class State(Enum):
    INIT = "nothing tried yet"
    CONNECTING = "first connect and handshake"
    OPEN = "connected"
    FAILED = "connection lost, or waiting before the next attempt"
    RECONNECTING = "another connect and handshake"
    CLOSING = "finishing what is in flight"
    CLOSED = "over; the reason is kept"


class Admission(Enum):
    """What happens to a request that arrives in a state."""

    ACCEPT = "sent in this loop turn"
    QUEUE = "kept until the connection opens"
    REJECT = "fails at once, never sent"


ADMISSION: dict[State, Admission] = {
    State.INIT: Admission.REJECT,
    State.CONNECTING: Admission.QUEUE,
    State.OPEN: Admission.ACCEPT,
    State.FAILED: Admission.REJECT,
    State.RECONNECTING: Admission.QUEUE,
    State.CLOSING: Admission.REJECT,
    State.CLOSED: Admission.REJECT,
}

TRANSITIONS: dict[tuple[State, State], str] = {
    (State.INIT, State.CONNECTING): "connect()",
    (State.INIT, State.CLOSED): "close()",
    (State.CONNECTING, State.OPEN): "handshake done",
    (State.CONNECTING, State.FAILED): "error or timeout",
    (State.CONNECTING, State.CLOSED): "close()",
    (State.OPEN, State.FAILED): "connection lost: in flight fails",
    (State.OPEN, State.CLOSING): "close()",
    (State.FAILED, State.RECONNECTING): "at once, or after the delay",
    (State.FAILED, State.CLOSED): "close(), or reconnection is off",
    (State.RECONNECTING, State.OPEN): "handshake done: attempts count from 0 again",
    (State.RECONNECTING, State.FAILED): "error or timeout",
    (State.RECONNECTING, State.CLOSED): "close()",
    (State.CLOSING, State.CLOSED): "all answered, or the grace period is over",
}


def diagram() -> str:
    """The two tables as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.INIT.name}"]
    lines += [f"    {a.name} --> {b.name}: {why}" for (a, b), why in TRANSITIONS.items()]
    lines.append(f"    {State.CLOSED.name} --> [*]")
    for state, admission in ADMISSION.items():
        lines.append(f"    note right of {state.name}: {state.value}; {admission.name.lower()}s")
    return "\n".join(lines) + "\n"
