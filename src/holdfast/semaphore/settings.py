"""The settings of a semaphore. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.clock import Clock
from holdfast.coordination.backend import Replicas
from holdfast.coordination.lua_scripts import LuaScript
from holdfast.semaphore.names import Names


@dataclass
class Settings:
    """Shared by all keepers of a semaphore. The limit can change."""

    name: str
    names: Names
    limit: int | None
    is_exact: bool  # refuse any other limit, also after a resize
    ttl_s: float | None
    heartbeat_s: float
    max_acquire_time_s: float | None
    shared_mailbox: bool
    now: Callable[[], float] | None
    clock: Clock
    replicas: Replicas | None = None  # that must have an acquisition before it counts
    is_warned: bool = False  # of an active-active database

    def args_of(self, script: LuaScript, more: dict[str, Any]) -> dict[str, Any]:
        """The arguments that a script names in its header."""
        values = {
            "limit": "" if self.limit is None else self.limit,
            "is_exact": "1" if self.is_exact else "",
            "heartbeat_max_interval": self.heartbeat_s,
            "ttl": "" if self.ttl_s is None else self.ttl_s,
            "now": "" if self.now is None else self.now(),
            "acquisition_notification_key_pattern": self.names.pattern,
            **more,
        }
        return {name: values[name] for name in script.args}
