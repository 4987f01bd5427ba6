"""The life of a link, as the one who pulls sees it: which event leads where. No I/O."""

from enum import Enum


class State(Enum):
    PAUSED = "paused"
    WAITING = "waiting"  # to dial again
    DIALING = "dialing"
    GREETING = "greeting"
    BEHIND = "behind"  # too far for the peer's log: waits until no other peer sends a snapshot
    SNAPSHOT = "snapshot"  # everything is sent
    FOLLOWING = "following"


class Event(Enum):
    DIAL = "dial"
    CONNECTED = "connected"
    WELCOME = "welcome"
    BEHIND = "behind"
    FOLLOWS = "follows"
    BEGIN = "begin"
    COMPLETE = "complete"
    LOST = "lost"
    PAUSE = "pause"
    RESUME = "resume"


_ALWAYS = {Event.LOST: State.WAITING, Event.PAUSE: State.PAUSED}

TABLE: dict[State, dict[Event, State]] = {
    State.PAUSED: {
        Event.RESUME: State.WAITING,
        Event.LOST: State.PAUSED,
        Event.PAUSE: State.PAUSED,
    },
    State.WAITING: {Event.DIAL: State.DIALING, Event.RESUME: State.WAITING, **_ALWAYS},
    State.DIALING: {Event.CONNECTED: State.GREETING, Event.RESUME: State.DIALING, **_ALWAYS},
    State.GREETING: {Event.WELCOME: State.FOLLOWING, Event.RESUME: State.GREETING, **_ALWAYS},
    State.FOLLOWING: {Event.BEHIND: State.BEHIND, Event.RESUME: State.FOLLOWING, **_ALWAYS},
    State.BEHIND: {
        Event.BEGIN: State.SNAPSHOT,
        Event.FOLLOWS: State.FOLLOWING,  # thanks to a snapshot from elsewhere
        Event.RESUME: State.BEHIND,
        **_ALWAYS,
    },
    State.SNAPSHOT: {Event.COMPLETE: State.FOLLOWING, Event.RESUME: State.SNAPSHOT, **_ALWAYS},
}


def after(state: State, event: Event) -> State:
    return TABLE[state][event]
