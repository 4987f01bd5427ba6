"""FAILOVER: this primary and one of its replicas exchange their roles, and no write is lost.

Clients may not write until it is over. When a replica has acknowledged all of the stream, this
server follows that replica, and tells it to be the primary. While it waits nothing is added to the
stream: a replica could never have all of it.
"""

import logging
from collections.abc import Callable
from enum import Enum
from typing import final

from holdfast.clock import Timer
from holdfast.errors import CommandError
from holdfast.server.core.engine import Engine
from holdfast.server.features.pause import Purpose
from holdfast.server.primary.replica import Replica, State

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.02

IS_REPLICA = CommandError("ERR FAILOVER is not valid when server is a replica.")
NO_REPLICAS = CommandError("ERR FAILOVER requires connected replicas.")
FORCE_NEEDS = CommandError(
    "ERR FAILOVER with force option requires both a timeout and target HOST and IP."
)
NOT_FOUND = CommandError("ERR FAILOVER target HOST and PORT is not a replica.")
NOT_ONLINE = CommandError("ERR FAILOVER target replica is not online.")
IN_PROGRESS = CommandError("ERR FAILOVER already in progress.")
NOT_IN_PROGRESS = CommandError("ERR No failover in progress.")


class FailoverState(Enum):
    """The words are those of INFO."""

    NONE = "no-failover"
    WAITING = "waiting-for-sync"
    HANDING_OVER = "failover-in-progress"


Address = tuple[str, int]


@final
class Failover:
    def __init__(
        self, engine: Engine, hand_over: Callable[[str, int], None], take_back: Callable[[], None]
    ) -> None:
        """`hand_over`: follow this replica, and make it the primary. `take_back`: be the primary
        again, because the replica did not answer."""
        self._engine = engine
        self._hand_over = hand_over
        self._take_back = take_back
        self.state = FailoverState.NONE
        self._target: Address | None = None
        self._is_forced = False
        self._deadline_s: float | None = None
        self._timer: Timer | None = None

    def begin(self, target: Address | None, timeout_s: float | None, *, force: bool) -> None:
        """Raises CommandError."""
        engine = self._engine
        if self.state is not FailoverState.NONE:
            raise IN_PROGRESS
        if engine.is_replica:
            raise IS_REPLICA
        if not engine.primary.replicas:
            raise NO_REPLICAS
        if force and (target is None or timeout_s is None):
            raise FORCE_NEEDS
        if target is not None:
            replica = self._find(target)
            if replica is None:
                raise NOT_FOUND
            if replica.state is not State.ONLINE:
                raise NOT_ONLINE
        self._target, self._is_forced = target, force
        now_s = engine.clock.monotonic_s()
        self._deadline_s = None if timeout_s is None else now_s + timeout_s
        self.state = FailoverState.WAITING
        engine.primary.holds_stream = True
        engine.pause.hold_writes(Purpose.FAILOVER)
        self._wait()

    def abort(self) -> None:
        if self.state is FailoverState.NONE:
            raise NOT_IN_PROGRESS
        self._give_up("FAILOVER ABORT")

    def accepted(self) -> None:
        """The replica is the primary now."""
        if self.state is FailoverState.HANDING_OVER:
            log.info("failover is complete")
            self._end()

    def failed(self, reason: str) -> None:
        """The replica does not follow, or does not answer."""
        if self.state is FailoverState.HANDING_OVER:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        log.warning("failover is given up: %s", reason)
        was_handing_over = self.state is FailoverState.HANDING_OVER
        self._end()
        if was_handing_over:
            self._take_back()

    def _end(self) -> None:
        self.state = FailoverState.NONE
        self._engine.primary.holds_stream = False
        if self._timer is not None:
            self._timer.cancel()
        self._engine.pause.end(Purpose.FAILOVER)

    def _find(self, target: Address) -> Replica | None:
        for replica in self._engine.primary.replicas.values():
            if (replica.address, replica.port) == target:
                return replica
        return None

    def _wait(self) -> None:
        self._timer = self._engine.clock.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """Whether a replica has everything, or the time is over."""
        engine = self._engine
        if self.state is not FailoverState.WAITING:
            return
        ready = self._ready()
        is_late = self._deadline_s is not None and engine.clock.monotonic_s() >= self._deadline_s
        if ready is not None:
            self._go(ready)
        elif not is_late:
            self._wait()
        elif self._is_forced and self._target is not None:
            log.warning("failover to a replica that lacks writes: the time is over")
            self._go(self._target)
        else:
            self._give_up("no replica had all writes in time")

    def _ready(self) -> Address | None:
        primary = self._engine.primary
        if self._engine.keyspace.open_ops:
            return None
        for replica in primary.online():
            address = (replica.address, replica.port)
            is_wanted = self._target is None or self._target == address
            if is_wanted and replica.acknowledged == primary.offset:
                return address
        return None

    def _go(self, target: Address) -> None:
        self.state = FailoverState.HANDING_OVER
        log.info("failover to %s:%d", *target)
        self._hand_over(*target)
