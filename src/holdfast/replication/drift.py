"""Clocks of other nodes that differ too much from ours, as far as messages prove it.

A message may have been on its way for long. So any message can prove that a clock is ahead. Only a
reply can prove that a clock is behind, because it was sent after our question. Otherwise a link
that was stuck would look like a clock that was stuck.
"""

import logging

from holdfast.clock import Clock
from holdfast.crdt.hlc import MAX_DRIFT_MS
from holdfast.store.replicated.members import REPLICAS_PER_NODE

log = logging.getLogger(__name__)

SAID_AGAIN_AFTER_S = 60.0


class Drift:
    """Notes the differences. `ms` has the nodes whose clocks differ, and the least difference;
    negative if the clock is behind ours."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ms: dict[int, int] = {}
        self._said_s: dict[int, float] = {}  # by node: when the log last warned of its records

    def heard(self, node: int, their_ms: int, asked_s: float | None = None) -> None:
        """Note the time on the clock of a node when it sent a message. `asked_s` is the time of our
        question, if the message is a reply."""
        now_ms = self._clock.now_ms()
        off_ms = their_ms - now_ms
        if off_ms <= MAX_DRIFT_MS:
            if asked_s is None:
                if self.ms.get(node, 0) > 0:
                    del self.ms[node]
                return
            off_ms += round((self._clock.monotonic_s() - asked_s) * 1000)
            if off_ms >= -MAX_DRIFT_MS:
                self.ms.pop(node, None)
                return
        if node not in self.ms:
            way = "ahead of" if off_ms > 0 else "behind"
            log.error("the clock of node %d is %d ms %s ours", node, abs(off_ms), way)
        self.ms[node] = off_ms

    def stamped(self, replica: int, ahead_ms: int) -> None:
        """Note that a record has a stamp too far ahead. There will be many, so one line a minute is
        logged."""
        node, now_s = replica % REPLICAS_PER_NODE, self._clock.monotonic_s()
        said_s = self._said_s.get(node)
        if said_s is None or now_s - said_s >= SAID_AGAIN_AFTER_S:
            self._said_s[node] = now_s
            log.error("records of node %d are stamped %d ms ahead of our clock", node, ahead_ms)
