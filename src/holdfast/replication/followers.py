"""The peers that follow this server: which records leave for them, and when."""

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

# A record leaves at once, but after it there is a pause. So under load the records of many turns
# are one message, which is one turn and one commit at the peer. After a short message the pause is
# short.
PAUSES_S = ((2 << 10, 0.001), (16 << 10, 0.005))  # the pause after a message below so many bytes
LONGEST_PAUSE_S = 0.02
# A peer that has not acknowledged a record of another server after so long is sent it.
RELAY_AFTER_S = 0.1


def pause_s(nbytes: float) -> float:
    """How long nothing more is sent after a message of so many bytes."""
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
        self._sent: tuple[list[bytes], Published] = ([], Published())  # the last message, encoded

    def stop(self) -> None:
        for timer in (self._relay_timer, self._pump_timer):
            if timer is not None:
                timer.cancel()

    # -- the peers ----------------------------------------------------------------------------

    def add(self, session: Session, peer: Hello, stage: ReplicationStage) -> None:
        """Another session of the same node ends."""
        for other, feed in list(self._feeds.items()):
            if feed.node == peer.node and other is not session:
                self._drop(other, "it has linked again")

        self._feeds[session] = Feed(stage, peer, partial(self._send, session))
        session.kind = LINK  # it is no client: the limits of clients do not apply
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
        """End the session of that node; None: of all nodes."""
        for session, feed in list(self._feeds.items()):
            if node in (None, feed.node):
                self._drop(session, "it was paused or removed here")

    def lost(self, session: Session, why: str) -> None:
        """The connection of a peer, or of a client, has ended."""
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
        """A batch is committed. Its records leave with the replies, so not before they are on
        disk."""
        if not self._feeds or self._pump_timer is not None:
            return
        stage = self._keyspace.stage
        # A server that follows takes in much and mostly sends nothing: it needs no timer then.
        if not any(feed.has_news or feed.stage is not stage for feed in self._feeds.values()):
            self._wait_for_relay()
            return
        clock = self._engine.clock
        now_s = clock.monotonic_s()
        if (wait_s := self._next_pump_s - now_s) > 0:
            self._pump_timer = clock.call_later(wait_s, self._pump_again)
            return
        self._pumped_bytes = 0
        has_more = False  # a feed stopped so that clients get their turn
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
        """Mostly all peers are sent the same, so it is encoded once."""
        if parts != self._sent[0]:
            self._sent = parts, Published(encode3(Push([PUSH, *parts])))
        data = self._sent[1]
        self._pumped_bytes += len(data)
        session.push([data], len(data))
