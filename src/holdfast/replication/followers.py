"""The peers that follow this server: which records are sent to them, and when."""

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING

from holdfast.clock import Timer
from holdfast.replication.feeds import Feed
from holdfast.replication.messages import PUSH, Hello
from holdfast.resp import Push, encode3
from holdfast.server.sessions.out_of_band import Published
from holdfast.server.sessions.session import LINK, Session
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated.stage import ReplicationStage

if TYPE_CHECKING:
    from holdfast.server.core.engine import Engine

log = logging.getLogger(__name__)

# A record is sent at once, but a pause follows. So under load the records of many turns are one
# message, which is one turn and one commit at the peer. The pause after a short message is short.
PAUSES_S = ((2 << 10, 0.001), (16 << 10, 0.005))  # the pause after a message below so many bytes
LONGEST_PAUSE_S = 0.02
# A record of another server is sent to a peer that has not acknowledged it after this time.
RELAY_AFTER_S = 0.1


def pause_s(nbytes: float) -> float:
    """The pause after a message of so many bytes."""
    return next((seconds for below, seconds in PAUSES_S if nbytes < below), LONGEST_PAUSE_S)


class Followers:
    def __init__(self, engine: "Engine", keyspace: ReplicatedKeyspace) -> None:
        self._engine = engine
        self._keyspace = keyspace
        self._feeds: dict[Session, Feed] = {}
        self._relay_timer: Timer | None = None
        self._pump_timer: Timer | None = None
        self._next_pump_s = 0.0
        self._pumped_bytes = 0
        # the last message, and its encoded form
        self._sent: tuple[list[bytes], Published] = ([], Published())

    def stop(self) -> None:
        for timer in (self._relay_timer, self._pump_timer):
            if timer is not None:
                timer.cancel()

    # -- the peers ----------------------------------------------------------------------------

    def add(self, session: Session, peer: Hello, stage: ReplicationStage) -> None:
        """Add a peer. Another session of the same node is ended."""
        for other, feed in list(self._feeds.items()):
            if feed.node == peer.node and other is not session:
                self._drop(other, "it has linked again")

        self._feeds[session] = Feed(stage, peer, partial(self._send, session))
        session.kind = LINK  # the limits of clients do not apply to it
        session.limits_changed()

    def by_session(self, session: Session) -> Feed | None:
        return self._feeds.get(session)

    def by_node(self, node: int | None) -> Feed | None:
        return next((feed for feed in self._feeds.values() if feed.node == node), None)

    @property
    def first_needed(self) -> int:
        """The number of the first record in the log that a linked peer may need."""
        return min((feed.cursor for feed in self._feeds.values()), default=sys.maxsize)

    def cut(self, node: int | None) -> None:
        """End the session of that node; with None, of all nodes."""
        for session, feed in list(self._feeds.items()):
            if node in (None, feed.node):
                self._drop(session, "it was paused or removed here")

    def lost(self, session: Session, why: str) -> None:
        """Note that the connection of a session has ended. It may be that of a peer or of a
        client."""
        feed = self._feeds.pop(session, None)
        if feed is not None:
            self._report(feed, why)

    def _drop(self, session: Session, why: str) -> None:
        self._report(self._feeds.pop(session), why)
        session.abort()

    def _report(self, feed: Feed, why: str) -> None:
        log.warning(
            "node %d does not follow any more: %s (%d records unsent)", feed.node, why, feed.lag_ops
        )

    # -- what they are sent -------------------------------------------------------------------

    def tell(self) -> None:
        """Called when a batch is committed: send its records. They leave with the replies, so not
        before they are on disk."""
        if not self._feeds or self._pump_timer is not None:
            return
        stage = self._keyspace.stage
        # A server that only follows takes much and sends almost nothing: then it needs no timer.
        if not any(feed.has_news or feed.stage is not stage for feed in self._feeds.values()):
            self._wait_for_relay()
            return
        clock = self._engine.clock
        now_s = clock.monotonic_s()
        if (wait_s := self._next_pump_s - now_s) > 0:
            self._pump_timer = clock.call_later(wait_s, self._pump_again)
            return
        self._pumped_bytes = 0
        has_more = False  # whether a feed stopped so that clients get their turn
        peers = len(self._feeds)
        for session, feed in list(self._feeds.items()):
            if session.closing:
                del self._feeds[session]
            elif feed.stage is not stage:  # it may have sent records that are lost now
                self._drop(session, "our file was read again")
            elif feed.pump():
                has_more = True
        if has_more:
            self._next_pump_s = now_s
            self._pump_timer = clock.call_later(0.0, self._pump_again)
        else:
            self._next_pump_s = now_s + pause_s(self._pumped_bytes / peers)
        self._wait_for_relay()

    def _pump_again(self) -> None:
        self._pump_timer = None
        self._engine.turn.schedule()

    def _wait_for_relay(self) -> None:
        if self._relay_timer is None and any(feed.is_holding for feed in self._feeds.values()):
            self._relay_timer = self._engine.clock.call_later(RELAY_AFTER_S, self._relay)

    def _relay(self) -> None:
        self._relay_timer = None
        for feed in self._feeds.values():
            feed.relay()
        self._engine.turn.schedule()

    def _send(self, session: Session, parts: list[bytes]) -> None:
        """Send a message. Usually all peers get the same one, so it is encoded once."""
        if parts != self._sent[0]:
            self._sent = parts, Published(encode3(Push([PUSH, *parts])))
        data = self._sent[1]
        self._pumped_bytes += len(data)
        session.push([data], len(data))
