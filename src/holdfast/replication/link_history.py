"""The history of the attempts to follow one peer, and which of them were logged. No I/O.

A link may fail a thousand times in the same way. So a failure is logged once, until a link was
steady.
"""

import logging

from holdfast.clock import Clock

log = logging.getLogger(__name__)

STEADY_S = 5.0  # a link that followed for so long was steady


class LinkHistory:
    def __init__(self, where: str, clock: Clock) -> None:
        self._where = where
        self._clock = clock
        self.attempts = 0  # since the last steady link
        self.last_error = ""
        self.trouble = ""  # why the last link ended, until the peer was told
        self._begun_s: float | None = None  # when the current link began to follow
        self._node: int | None = None  # the node that it follows
        self._is_unsaid = False  # whether the start of this link is not logged yet
        self._is_shaky = False  # whether the last link failed soon after its greeting
        self._said = ""  # the last failure that was logged since the last steady link
        self._bug = ""  # the last bug that was logged

    def begun(self, node: int | None) -> None:
        """Note that the peer has accepted us. If the last link failed soon after that, this is
        logged later."""
        self._begun_s = self._clock.monotonic_s()
        self._node = node
        self.last_error = ""
        self._is_unsaid = True
        if not self._is_shaky:
            self._say_following()

    def beat(self) -> None:
        """Called from time to time while the link is up."""
        if self._is_unsaid and self._followed_s() >= STEADY_S:
            self._say_following()

    def _say_following(self) -> None:
        self._is_unsaid = False
        log.info("link to %s: following node %s", self._where, self._node)

    def ended(self) -> None:
        """Note the end of the link. An accepted greeting does not count as a success: the messages
        after it may fail each time."""
        is_steady = self._followed_s() >= STEADY_S
        self._is_shaky = self._begun_s is not None and not is_steady
        self._begun_s = None
        if is_steady:
            self.attempts = 0
            self._said = ""

    def _followed_s(self) -> float:
        begun_s = self._begun_s
        return 0.0 if begun_s is None else self._clock.monotonic_s() - begun_s

    def broke(self, error: Exception) -> None:
        """Note that a bug ended the link. It may happen in each attempt, so one traceback is
        logged."""
        if repr(error) != self._bug:
            self._bug = repr(error)
            log.error("link to %s failed", self._where, exc_info=error)

    def failed(self, error: Exception) -> None:
        message = str(error) or type(error).__name__
        if message != self._said:
            log.warning("link to %s: %s", self._where, message)
        self.last_error = self.trouble = self._said = message
