"""The server that this one follows (REPLICAOF), as the engine and its commands know it.

The room `server/replica` implements this; servers that follow none do not import it.
"""

from collections.abc import Iterable
from typing import Protocol

from holdfast.resp import Reply


class Following(Protocol):
    @property
    def is_on(self) -> bool:
        """Whether this server is a replica."""
        ...

    def follow(self, host: str, port: int) -> None:
        """Be a replica of this server from now on. Raises CommandError."""
        ...

    def lead(self) -> None:
        """Be a primary from now on, with the data of this moment."""
        ...

    def promote(self, replication_id: bytes) -> None:
        """The primary of this replica hands over to it. Raises CommandError."""
        ...

    def begin_failover(
        self, target: tuple[str, int] | None, timeout_s: float | None, *, force: bool
    ) -> None:
        """Exchange roles with a replica. Raises CommandError."""
        ...

    def abort_failover(self) -> None: ...

    @property
    def failover_state(self) -> str:
        """For INFO."""
        ...

    def storage_failed(self) -> None:
        """Memory went back to what the file has: go on from there."""
        ...

    def settings_changed(self) -> None:
        """CONFIG SET of a parameter of replicas."""
        ...

    def facts(self) -> Iterable[tuple[str, object]]:
        """For the section Replication of INFO."""
        ...

    def role(self) -> list[Reply]:
        """For ROLE."""
        ...

    async def stop(self) -> None:
        """The server ends."""
        ...
