"""Chooses the peer that sends us a snapshot: one at a time.

A server that joins lacks records that are in no log of its peers any more, so each peer would send
a snapshot. One is enough: after it, the logs of the other peers usually have all that is missing.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.replication.link_states import LinkState

if TYPE_CHECKING:
    from holdfast.replication.puller import Puller


class Snapshots:
    def __init__(self, pullers: "Callable[[], Sequence[Puller]]") -> None:
        self._pullers = pullers

    def is_from_another(self, puller: "Puller") -> bool:
        """Whether another peer is sending a snapshot. Until it is complete, no record may be
        applied, because the snapshot lacks elements that were removed before it was made. A record
        that adds such an element would add it for good, because the snapshot counts the removal as
        seen."""
        return any(
            each.state is LinkState.SNAPSHOT and each is not puller for each in self._pullers()
        )

    def wanted(self) -> None:
        """A peer's log is not enough. If no snapshot is being sent, ask one such peer for a
        snapshot; if possible, a peer that is not a joiner itself."""
        pullers = self._pullers()
        behind = [each for each in pullers if each.state is LinkState.BEHIND]
        if behind and not any(each.takes_snapshot for each in pullers):
            chosen = min(behind, key=lambda each: each.is_peer_joining)
            chosen.takes_snapshot = True
            chosen.acknowledge()

    def ended(self, puller: "Puller") -> None:
        """The snapshot was applied, or was not needed, or the link has ended."""
        puller.takes_snapshot = False
        self.wanted()
        for each in self._pullers():
            if each is not puller:
                each.go_on()
