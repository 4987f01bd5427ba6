"""The other servers of an active-active database, as this server knows them.

The package `replication` implements this; the server does not import it.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from holdfast.server.sessions.session import Session


class LinkFacts(NamedTuple):
    """A link to a peer, in the order in which INFO shows it."""

    node: int  # 0: not known yet
    address: str
    state: str
    lag_ops: int
    lag_s: float | None  # None: this server never had all data of the peer
    received_bytes: int
    sent_bytes: int
    unsent_records: int | None  # None: the peer does not follow this server
    clock_drift_ms: int
    last_error: str

    @property
    def is_up(self) -> bool:
        return self.state == "following"


class Peers(Protocol):
    def committed(self) -> None:
        """A batch is committed: send its records to the peers, before its replies leave."""
        ...

    def session_lost(self, session: Session, why: str) -> None:
        """A connection has ended. It may have been that of a peer."""
        ...

    def facts(self) -> Iterable[tuple[str, object]]:
        """Lines for the section Replication of INFO."""
        ...

    def links(self) -> Iterable[LinkFacts]:
        """The links, for /metrics."""
        ...
