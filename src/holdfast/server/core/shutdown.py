"""The end of a server, by SHUTDOWN or by a signal.

While a replica lacks writes, the server waits for it, for `shutdown-timeout` at most. During this
time clients may read, their writes wait, and SHUTDOWN ABORT ends the shutdown. Without replicas the
server stops at once.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from holdfast.clock import Timer
from holdfast.commands.context import Block
from holdfast.errors import CommandError
from holdfast.server.features.pause import Purpose
from holdfast.server.sessions.session import Session
from holdfast.store.values.stream import Stream

if TYPE_CHECKING:
    from holdfast.server.core.engine import Engine

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.01
NONE_IN_PROGRESS = CommandError("ERR No shutdown in progress.")
ABORTED = CommandError("ERR Errors trying to SHUTDOWN. Check logs.")


@final
class Shutdown:
    def __init__(
        self, engine: "Engine", stop: Callable[[bool, str], None], on_abort: Callable[[], None]
    ) -> None:
        """`stop` disconnects the clients and ends the server. Its arguments are whether to fold
        before, and the reason."""
        self._engine = engine
        self._stop = stop
        self._on_abort = on_abort
        self._deadline_s: float | None = None  # None: it does not wait
        self._folds, self._why = True, ""
        self._timer: Timer | None = None
        self._clients: list[tuple[Session, Block]] = []  # that have sent SHUTDOWN

    @property
    def left_ms(self) -> int | None:
        """How long the server still waits for its replicas; None if no shutdown is in progress."""
        if self._deadline_s is None:
            return None
        return max(0, int(1000 * (self._deadline_s - self._engine.clock.monotonic_s())))

    def begin(self, *, folds: bool, why: str, waits: bool = True) -> bool:
        """Stop, or wait for replicas first. Returns whether it waits."""
        engine, primary = self._engine, self._engine.primary
        was_waiting = self._deadline_s is not None
        if not was_waiting or not waits:
            self._folds, self._why = folds, why
        primary.waits_at_end = waits
        primary.ask_how_far()
        timeout_s = engine.config.shutdown_timeout
        if not waits or not timeout_s or not self._lacks_writes:
            self._finish()
            return False
        if not was_waiting:
            log.info("%s: waits for replicas that lack writes, for %d s at most", why, timeout_s)
            self._deadline_s = engine.clock.monotonic_s() + timeout_s
            engine.pause.hold_writes(Purpose.SHUTDOWN)
            self._look_later()
        return True

    def wait(self, session: Session) -> Block:
        """The session waits for the end, which is the end of its connection."""
        block = Block((), Stream, 0, on_timeout=ABORTED, when_denied=ABORTED)
        self._clients.append((session, block))
        return block

    def abort(self) -> None:
        """End the shutdown; the server continues. Raises CommandError if there is no shutdown."""
        if self._deadline_s is None:
            raise NONE_IN_PROGRESS
        log.warning("the shutdown was aborted by a client")
        self._end()
        self._on_abort()
        engine = self._engine
        engine.primary.waits_at_end = True
        engine.pause.end(Purpose.SHUTDOWN)
        engine.scripts.go_on()
        clients, self._clients = self._clients, []
        for session, block in clients:
            if session.waiter is not None and session.waiter.block is block:
                engine.blocking.unblock(session.waiter, ABORTED)

    @property
    def _lacks_writes(self) -> bool:
        """Whether a replica lacks writes, those of the open batch included."""
        primary = self._engine.primary
        is_open = self._engine.keyspace.open_ops and any(True for _ in primary.online())
        return primary.is_ahead or bool(is_open)

    def _look_later(self) -> None:
        self._timer = self._engine.clock.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        if self._lacks_writes and self.left_ms:
            self._look_later()
            return
        # Replicas that still lack writes have had their time.
        self._engine.primary.waits_at_end = not self._lacks_writes
        self._finish()

    def _finish(self) -> None:
        self._end()
        self._stop(self._folds, self._why)

    def _end(self) -> None:
        self._deadline_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
