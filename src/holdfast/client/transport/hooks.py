"""Hooks: objects that a client notifies. An error in a hook is logged and changes nothing."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.client.protocol.connection_state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestStart:
    """A request that the client accepted. `kind` is one of: single, fixed, dynamic, transaction."""

    id: int
    kind: str  # "single", "fixed", "dynamic", "transaction"
    commands: tuple[tuple[Any, ...], ...]
    bytes: int  # as sent


@dataclass(frozen=True, slots=True)
class RequestFinish:
    """A request that has all its replies, or failed. `duration_s` includes queueing."""

    start: RequestStart
    duration_s: float  # queueing included
    ok: int
    errors: int
    first_error: BaseException | None


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A change of state. `stage` names it: connected, disconnected, closed, or the new state."""

    before: State
    after: State
    generation: int
    reconnect_attempts: int
    error: Exception | None

    @property
    def stage(self) -> str:
        """connected, disconnected, closed, or the name of the new state."""
        if self.after is State.FAILED and self.before is State.OPEN:
            return "disconnected"
        return {State.OPEN: "connected", State.CLOSED: "closed"}.get(
            self.after, self.after.name.lower()
        )


class Hooks:
    """Subclass it, and override the methods that you need."""

    def request_start(self, event: RequestStart) -> None:
        """Called before a request is sent."""

    def request_finish(self, event: RequestFinish) -> None:
        """Called when a request has all its replies, or has failed."""

    def connection(self, event: ConnectionEvent) -> None:
        """Called when the connection changes its state."""


class GuardedHooks(Hooks):
    """Passes events on to several hooks. An error in one of them does no harm."""

    def __init__(self, hooks: Iterable[Hooks]) -> None:
        self._hooks = tuple(hooks)

    def request_start(self, event: RequestStart) -> None:
        self._call(lambda hook: hook.request_start(event))

    def request_finish(self, event: RequestFinish) -> None:
        self._call(lambda hook: hook.request_finish(event))

    def connection(self, event: ConnectionEvent) -> None:
        self._call(lambda hook: hook.connection(event))

    def _call(self, call: Callable[[Hooks], None]) -> None:
        for hook in self._hooks:
            try:
                call(hook)
            except Exception:
                log.exception("a client hook failed")


NO_HOOKS = Hooks()
