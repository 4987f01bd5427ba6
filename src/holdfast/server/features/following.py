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
        """Become a replica of this server. Raises CommandError."""
        ...

    def lead(self) -> None:
        """Become a primary, with the present data."""
        ...

    def promote(self, replication_id: bytes) -> None:
        """Become the primary, because the present primary hands over. Raises CommandError."""
        ...

    def begin_failover(
        self, target: tuple[str, int] | None, timeout_s: float | None, *, force: bool
    ) -> None:
        """Exchange roles with a replica. Raises CommandError."""
        ...

    def abort_failover(self) -> None: ...

    @property
    def failover_state(self) -> str:
        """The state of a failover, for INFO."""
        ...

    def storage_failed(self) -> None:
        """Continue at the position that the file has, because memory was loaded from the file
        again."""
        ...

    def settings_changed(self) -> None:
        """Apply the parameters of replicas after CONFIG SET."""
        ...

    def facts(self) -> Iterable[tuple[str, object]]:
        """Lines for the section Replication of INFO."""
        ...

    def role(self) -> list[Reply]:
        """The reply to ROLE."""
        ...

    async def stop(self) -> None:
        """Stop following, because the server ends."""
        ...
