"""Those who follow this server: what leaves for them, and when."""

import logging
import sys
from typing import TYPE_CHECKING

from holdfast.clock import Timer
from holdfast.replication.feeds import Feed
from holdfast.replication.messages import PUSH, Hello
from holdfast.resp import Push, encode3
from holdfast.server.session import LINK, Session
from holdfast.server.unasked import Published
from holdfast.store.replicated import Replication

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

log = logging.getLogger(__name__)

# Peers are told at once, but not again before so long: under load what many turns wrote is one
# message, and one turn and one commit there. After a short message that is worth less than time.
PAUSES_S = ((2 << 10, 0.001), (16 << 10, 0.005))  # after a message below so many bytes
LONGEST_PAUSE_S = 0.02
# Who has not said after so long that it has what others wrote is sent it.
RELAY_AFTER_S = 0.1


def pause_s(nbytes: float) -> float:
    """How long nothing more is said after a message of so many bytes."""
    return next((seconds for below, seconds in PAUSES_S if nbytes < below), LONGEST_PAUSE_S)


class Followers:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._feeds: dict[Session, Feed] = {}
        self._relay_timer: Timer | None = None
        self._pump_timer: Timer | None = None
        self._next_pump_s = 0.0
        self._pumped_bytes = 0
        self._sent: tuple[list[bytes], Published] = ([], Published())  # last, and as it was sent

    def stop(self) -> None:
        for timer in (self._relay_timer, self._pump_timer):
            if timer is not None:
                timer.cancel()

    # -- who there is -------------------------------------------------------------------------

    def add(self, session: Session, peer: Hello, replication: Replication) -> None:
        """In place of any other session of that node."""
        for other, feed in list(self._feeds.items()):
            if feed.node == peer.node and other is not session:
                self._drop(other, "it has linked again")

        def send(parts: list[bytes]) -> None:
            data = self._encoded(parts)
            self._pumped_bytes += len(data)
            session.push([data], len(data))

        self._feeds[session] = Feed(replication, peer, send)
        session.kind = LINK  # it is no client: nothing that bounds clients cuts it off
        session.limits_changed()

    def by_session(self, session: Session) -> Feed | None:
        return self._feeds.get(session)

    def by_node(self, node: int | None) -> Feed | None:
        return next((feed for feed in self._feeds.values() if feed.node == node), None)

    @property
    def first_needed(self) -> int:
        """The number of the first record of the log that a linked peer may need."""
        return min((feed.cursor for feed in self._feeds.values()), default=sys.maxsize)

    def cut(self, node: int | None) -> None:
        """Nothing more to that one, or to anybody."""
        for session, feed in list(self._feeds.items()):
            if node in (None, feed.node):
                self._drop(session, "it was paused or removed here")

    def lost(self, session: Session, why: str) -> None:
        """A connection has ended, of a peer or of a client."""
        feed = self._feeds.pop(session, None)
        if feed is not None:
            self._report(feed, why)

    def _drop(self, session: Session, why: str) -> None:
        self._report(self._feeds.pop(session), why)
        session.abort()

    def _report(self, feed: Feed, why: str) -> None:
        log.warning("node %d follows no more: %s (%d records unsent)", feed.node, why, feed.lag_ops)

    # -- what they are told -------------------------------------------------------------------

    def tell(self, replication: Replication) -> None:
        """At the end of every turn, when what was done is a record. It leaves with the replies, so
        not before it is on disk."""
        if not self._feeds or self._pump_timer is not None:
            return
        if not self._has_news(replication):
            self._wait_for_relay()
            return
        clock = self._engine.clock
        now_s = clock.monotonic_s()
        if (wait_s := self._next_pump_s - now_s) > 0:
            self._pump_timer = clock.call_later(wait_s, self._pump_again)
            return
        self._pumped_bytes = 0
        peers = len(self._feeds)  # some may leave now
        if self._pump(replication):  # more is there: as soon as others have had their turn
            self._next_pump_s = now_s
            self._pump_timer = clock.call_later(0.0, self._pump_again)
        else:
            self._next_pump_s = now_s + pause_s(self._pumped_bytes / peers)

    def _has_news(self, replication: Replication) -> bool:
        """Whether somebody is to be told something. A server that follows takes in much and mostly
        tells nothing: it need not look again in a moment whether there is anything."""
        return any(
            feed.has_news or feed.replication is not replication for feed in self._feeds.values()
        )

    def _pump_again(self) -> None:
        self._pump_timer = None
        self._engine.turn.schedule()

    def _pump(self, replication: Replication) -> bool:
        """Whether one of them has more to say, and stopped for the sake of others."""
        has_more = False
        for session, feed in list(self._feeds.items()):
            if session.closing:
                del self._feeds[session]
            elif feed.replication is not replication:  # it may have told what is lost
                self._drop(session, "our file was read again")
            elif feed.pump():
                has_more = True
        self._wait_for_relay()
        return has_more

    def _wait_for_relay(self) -> None:
        if self._relay_timer is None and any(feed.is_holding for feed in self._feeds.values()):
            self._relay_timer = self._engine.clock.call_later(RELAY_AFTER_S, self._relay)

    def _relay(self) -> None:
        self._relay_timer = None
        for feed in self._feeds.values():
            feed.relay()
        self._engine.turn.schedule()

    def _encoded(self, parts: list[bytes]) -> Published:
        """Mostly all peers are sent the same, one after the other."""
        if parts != self._sent[0]:
            self._sent = parts, Published(encode3(Push([PUSH, *parts])))
        return self._sent[1]
