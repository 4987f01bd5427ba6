"""The servers that share an active-active database, and the events that each of them has confirmed.

Two sets are kept: nodes that were ever admitted, and nodes that were removed. Both only grow, so
servers that exchange them (`view`) agree in the end, in any order of messages. Each member has to
know all others: data is forgotten when all have confirmed it, and no member may need it after that.
So an acknowledgement carries the view of its sender. It counts only if that view has all removals
that we know. Otherwise the sender may still apply records of a node for which we do not wait.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec

from holdfast.crdt.causal_log import Confirmations
from holdfast.crdt.dots import MAX_REPLICA, Vector, includes

END = 1 << 63  # later than any time
REPLICAS_PER_NODE = 256  # a replica's number is its node's plus a multiple of this
Node = Annotated[int, msgspec.Meta(ge=1, lt=REPLICAS_PER_NODE)]
Replica = Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLICA)]

_encode_view = msgspec.msgpack.Encoder().encode
_decode_view = msgspec.msgpack.Decoder(tuple[dict[Node, Replica], list[Node]]).decode


def read_view(view: bytes) -> tuple[dict[int, int], list[int]]:
    """The replica number of each node, and the removed nodes. Raises msgspec's errors."""
    known, removed = _decode_view(view)
    if any(replica % REPLICAS_PER_NODE != node for node, replica in known.items()):
        raise msgspec.ValidationError("a replica number that belongs to another node")
    return known, removed


class Members:
    """The members. `known` has the replica number of each other node; of a removed node, its last
    one."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.replica = node
        self.known: dict[int, int] = {}
        self.removed: set[int] = set()
        self.expected = 0  # so many other members have to be known
        self._confirmations = Confirmations(())
        self._heard_ms: dict[int, int] = {}  # by replica: we have all that it did before this time
        # Replicas for which the log was cut too early: they take a snapshot when they return. 0
        # stands for nodes that have never linked.
        self.lapsed: set[int] = set()
        self._note: Callable[[bytes, Any], None] = lambda name, value: None
        self.view = b""

    def load(self, facts: dict[bytes, Any], note: Callable[[bytes, Any], None]) -> None:
        self.known = dict(facts.get(b"members", {}))
        self.removed = set(facts.get(b"removed", ()))
        self.lapsed = set(facts.get(b"lapsed", ()))
        self._confirmations = Confirmations(self.present.values())
        self._note = note

    def identify(self, node: int, replica: int) -> None:
        self.node, self.replica = node, replica
        self._refresh()

    def _refresh(self) -> None:
        known = sorted({**self.known, self.node: self.replica}.items())
        self.view = _encode_view((dict(known), sorted(self.removed)))

    @property
    def present(self) -> dict[int, int]:
        """The nodes for which we wait, with their replica numbers."""
        return {node: each for node, each in self.known.items() if node not in self.removed}

    @property
    def epoch(self) -> int:
        """A number that grows with each admission and removal. Servers that know the same members
        have the same number."""
        replicas = [*self.known.values(), self.replica]
        return sum(1 + each // REPLICAS_PER_NODE for each in replicas) + len(self.removed)

    # -- changes ------------------------------------------------------------------------------

    def admit(self, node: int, replica: int) -> None:
        """Add a node. From now on nothing is forgotten that it has not confirmed."""
        before = self.known.get(node, 0)
        if replica > before and node != self.node:
            if before:  # it was restored from a backup, as a new replica
                self._confirmations.forget(before)
                self.caught_up(before)
            self.known[node] = replica
            if node not in self.removed:
                self._confirmations.admit(replica)
            self._note(b"members", self.known)
            self._refresh()

    def remove(self, nodes: Iterable[int]) -> None:
        """Remove nodes. No member waits for them any more, and they may not link again."""
        for node in nodes:
            self.removed.add(node)
            replica = self.known.get(node)
            if replica is not None:
                self._confirmations.forget(replica)
                self.caught_up(replica)
                self._heard_ms.pop(replica, None)
        self._confirmations.start_over()
        self._note(b"removed", sorted(self.removed))
        self._refresh()

    def learn(self, view: bytes) -> set[int]:
        """Add the members that a peer knows. Returns the nodes that this removed. Raises msgspec's
        errors."""
        if view == self.view:
            return set()
        known, removed = read_view(view)
        for node, replica in known.items():
            self.admit(node, replica)
        gone = set(removed) - self.removed
        if gone:
            self.remove(gone)
        return gone

    # -- what every member has ----------------------------------------------------------------

    def acknowledge(self, replica: int, vector: Vector, view: bytes) -> None:
        """Note that a member has these events on disk. It counts only if the view does: see
        above."""
        if view != self.view and not self.removed <= set(read_view(view)[1]):
            return
        self._confirmations.acknowledge(replica, vector)

    def heard(self, replica: int, until_ms: int) -> None:
        """Note that we have all that the replica did before its clock showed this time."""
        self._heard_ms[replica] = max(self._heard_ms.get(replica, 0), until_ms)

    @property
    def are_complete(self) -> bool:
        return len(self.present) >= self.expected

    def stable(self, seen: Vector) -> Vector:
        """The events that each member has. None, if a member is expected that has never linked."""
        return self._confirmations.stable(seen) if self.are_complete else {}

    @property
    def horizon_ms(self) -> int:
        """The time before which we have all that the members did. Lapsed members do not count."""
        if not self.are_complete and 0 not in self.lapsed:
            return 0
        waited_for = {*self.present.values()} - self.lapsed
        return min((self._heard_ms.get(each, 0) - 1 for each in waited_for), default=END)

    # -- members that are away for too long ---------------------------------------------------

    def behind(self, base: Vector) -> list[int]:
        """The nodes that have not confirmed all these events, and 0 if an expected node has never
        linked."""
        confirmed = self._confirmations.confirmed
        nodes = [node for node, each in self.present.items() if not includes(confirmed(each), base)]
        return nodes if self.are_complete else [0, *nodes]

    def lapse(self, base: Vector) -> None:
        """Note that the log begins after these events: members that lack any of them need a
        snapshot."""
        lapsed = {self.known.get(node, 0) for node in self.behind(base)}
        if not lapsed <= self.lapsed:
            self.lapsed |= lapsed
            self._note(b"lapsed", sorted(self.lapsed))

    def caught_up(self, replica: int) -> None:
        """Note that the replica needs no snapshot any more, or is no longer a member."""
        if replica in self.lapsed:
            self.lapsed.discard(replica)
            self._note(b"lapsed", sorted(self.lapsed))
