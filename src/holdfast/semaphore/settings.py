"""What a semaphore was made with. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.client.lua import LuaScript
from holdfast.clock import Clock
from holdfast.semaphore.names import Names


@dataclass
class Settings:
    """For all keepers of a semaphore; the limit can change."""

    name: str
    names: Names
    limit: int | None
    is_exact: bool  # whether no other limit will do, also when the semaphore was resized
    ttl_s: float | None
    heartbeat_s: float
    max_acquire_time_s: float | None
    shared_mailbox: bool
    now: Callable[[], float] | None
    clock: Clock
    is_warned: bool = False  # that the database is active-active

    def args_of(self, script: LuaScript, more: dict[str, Any]) -> dict[str, Any]:
        """The arguments that a script wants."""
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
