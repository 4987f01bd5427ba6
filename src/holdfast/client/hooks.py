"""What a client tells whoever watches it. A hook that raises is logged and changes nothing."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.client.state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestStart:
    id: int
    kind: str  # "single", "fixed", "dynamic", "transaction"
    commands: tuple[tuple[Any, ...], ...]
    bytes: int  # on the wire


@dataclass(frozen=True, slots=True)
class RequestFinish:
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
        if self.after is State.FAILED and self.before is State.OPEN:
            return "disconnected"
        return {State.OPEN: "connected", State.CLOSED: "closed"}.get(
            self.after, self.after.name.lower()
        )


class Hooks:
    """Subclass and override what is of interest."""

    def request_start(self, event: RequestStart) -> None: ...

    def request_finish(self, event: RequestFinish) -> None: ...

    def connection(self, event: ConnectionEvent) -> None: ...


class GuardedHooks(Hooks):
    """Passes events on to several, none of which can do harm by raising."""

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
