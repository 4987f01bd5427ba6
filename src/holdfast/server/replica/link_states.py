"""The life of the link to a primary, as a table. No I/O. The words are those of ROLE."""

from enum import Enum


class LinkState(Enum):
    WAITING = "connect"  # to dial, or to dial again
    DIALING = "connecting"
    GREETING = "handshake"
    LOADING = "sync"  # the snapshot
    FOLLOWING = "connected"


NEXT: dict[LinkState, set[LinkState]] = {
    LinkState.WAITING: {LinkState.DIALING},
    LinkState.DIALING: {LinkState.GREETING, LinkState.WAITING},
    LinkState.GREETING: {LinkState.LOADING, LinkState.FOLLOWING, LinkState.WAITING},
    LinkState.LOADING: {LinkState.FOLLOWING, LinkState.WAITING},
    LinkState.FOLLOWING: {LinkState.WAITING},
}


def after(state: LinkState, wanted: LinkState) -> LinkState:
    assert wanted in NEXT[state] or wanted is state, (state, wanted)
    return wanted
