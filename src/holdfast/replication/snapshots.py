"""Which peer sends us a snapshot: one at a time.

A server that joins lacks what the log of none of its peers has any more, so each of them would send
all it has. One is enough: after it the logs of the others mostly do.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.replication.states import State

if TYPE_CHECKING:
    from holdfast.replication.puller import Puller


class Snapshots:
    def __init__(self, pullers: "Callable[[], Sequence[Puller]]") -> None:
        self._pullers = pullers

    def is_from_another(self, puller: "Puller") -> bool:
        """Whether another peer is sending its snapshot. Until all of it is here, nothing else is
        taken in: the snapshot does not have what was removed before it was made, and a record that
        adds this would add it for good, as the one that removes it will have been seen."""
        return any(each.state is State.SNAPSHOT and each is not puller for each in self._pullers())

    def wanted(self) -> None:
        """A peer has said that it needs to send one: the next one may, if none does. One that is
        itself new has no more than others."""
        pullers = self._pullers()
        behind = [each for each in pullers if each.state is State.BEHIND]
        if behind and not any(each.takes_snapshot for each in pullers):
            chosen = min(behind, key=lambda each: each.is_peer_joining)
            chosen.takes_snapshot = True
            chosen.acknowledge()

    def ended(self, puller: "Puller") -> None:
        """It was taken in, or was not needed, or the link has ended."""
        puller.takes_snapshot = False
        self.wanted()
        for each in self._pullers():
            if each is not puller:
                each.go_on()
