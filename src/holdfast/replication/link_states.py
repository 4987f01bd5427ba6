"""The states of a link at the end that pulls: which event leads to which state. No I/O."""

from enum import Enum


class LinkState(Enum):
    PAUSED = "paused"
    WAITING = "waiting"  # until the next dial
    DIALING = "dialing"
    GREETING = "greeting"
    BEHIND = "behind"  # the peer's log lacks records: waits until no other peer sends a snapshot
    SNAPSHOT = "snapshot"  # the peer sends all its keys
    FOLLOWING = "following"


class LinkEvent(Enum):
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


_ALWAYS = {LinkEvent.LOST: LinkState.WAITING, LinkEvent.PAUSE: LinkState.PAUSED}

TABLE: dict[LinkState, dict[LinkEvent, LinkState]] = {
    LinkState.PAUSED: {
        LinkEvent.RESUME: LinkState.WAITING,
        LinkEvent.LOST: LinkState.PAUSED,
        LinkEvent.PAUSE: LinkState.PAUSED,
    },
    LinkState.WAITING: {
        LinkEvent.DIAL: LinkState.DIALING,
        LinkEvent.RESUME: LinkState.WAITING,
        **_ALWAYS,
    },
    LinkState.DIALING: {
        LinkEvent.CONNECTED: LinkState.GREETING,
        LinkEvent.RESUME: LinkState.DIALING,
        **_ALWAYS,
    },
    LinkState.GREETING: {
        LinkEvent.WELCOME: LinkState.FOLLOWING,
        LinkEvent.RESUME: LinkState.GREETING,
        **_ALWAYS,
    },
    LinkState.FOLLOWING: {
        LinkEvent.BEHIND: LinkState.BEHIND,
        LinkEvent.RESUME: LinkState.FOLLOWING,
        **_ALWAYS,
    },
    LinkState.BEHIND: {
        LinkEvent.BEGIN: LinkState.SNAPSHOT,
        LinkEvent.FOLLOWS: LinkState.FOLLOWING,  # after a snapshot from another peer
        LinkEvent.RESUME: LinkState.BEHIND,
        **_ALWAYS,
    },
    LinkState.SNAPSHOT: {
        LinkEvent.COMPLETE: LinkState.FOLLOWING,
        LinkEvent.RESUME: LinkState.SNAPSHOT,
        **_ALWAYS,
    },
}


def after(state: LinkState, event: LinkEvent) -> LinkState:
    return TABLE[state][event]
