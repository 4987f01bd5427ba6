"""Residue: data that a replica key keeps only because a member has not confirmed it yet.

A deleted key keeps the reset points of its counters, and an expiry may exist without a value. Both
are forgotten when each member has confirmed the events for which they are kept.
"""

from collections.abc import Iterable
from typing import final

from holdfast.crdt.causal_log import Record
from holdfast.crdt.dots import Vector, includes
from holdfast.crdt.effects import RowChange
from holdfast.store.replicated.replica_keys import Address, ReplicaKey, ReplicaKeys


@final
class Residue:
    def __init__(self, replica_keys: ReplicaKeys) -> None:
        self._replica_keys = replica_keys
        self._addresses: set[Address] = set()  # of keys that may have residue
        # Keys with an expiry and no value (see ReplicatedKey.orphans): the vector of this server at
        # the time when that was found. An entry is removed when its key changes.
        self._orphaned: dict[Address, Vector] = {}
        self._confirmed: Vector = {}  # the confirmed events at the last `forget`

    def begin(self, shown: set[Address]) -> None:
        """Begin after the file was read. A key that clients do not see may have only residue."""
        self._addresses = set(self._replica_keys.addresses) - shown

    def add(self, address: Address) -> None:
        self._addresses.add(address)

    def merged(self, replica_key: ReplicaKey) -> None:
        """Note that a snapshot has changed the key."""
        self._orphaned.pop(replica_key.address, None)
        if replica_key.id and replica_key.has_residue:
            self._addresses.add(replica_key.address)

    def recorded(self, record: Record, removals: int, slow_strings: set[Address]) -> None:
        """Note that a record with so many removals was applied, and drop keys that are empty now.
        `slow_strings` are the strings in the record's runs that may be empty. All other strings in
        runs have a value: looking at them, too, took as long as the rest of a record."""
        if not removals and not self._addresses:
            return
        touched = {(change[0], change[1]) for change in record.changes if change[1] is not None}
        touched |= slow_strings
        self._replica_keys.drop_empty(touched)
        for address in touched & self._orphaned.keys():
            del self._orphaned[address]
        if removals:
            self._addresses |= {address for address in touched if address in self._replica_keys}

    def is_due(self, confirmed: Vector) -> bool:
        """Whether `forget` may find something."""
        return bool(
            confirmed != self._confirmed or self._orphaned or self._replica_keys.with_residue
        )

    def forget(self, confirmed: Vector, seen: Vector) -> None:
        """Forget residue. `confirmed` are the events that each member has, `seen` those that this
        server has."""
        replica_keys = self._replica_keys
        self._confirmed = confirmed
        self._addresses |= replica_keys.with_residue
        replica_keys.with_residue = set()
        for address in list(self._addresses):
            replica_key = replica_keys.at(address)
            orphans = self._orphans_to_forget(replica_key, confirmed, seen)
            for kind, change in [*replica_key.settle(confirmed), *orphans]:
                replica_keys.write(replica_key, kind, [change])
        replica_keys.drop_empty(self._addresses)
        self._addresses = set(_with_residue(replica_keys, self._addresses))

    def _orphans_to_forget(
        self, replica_key: ReplicaKey, confirmed: Vector, seen: Vector
    ) -> list[tuple[str, RowChange]]:
        """Expiries without a value, once each member has all events that this server had seen when
        they were found. From then on a write to the key finds no value, and so removes them.
        Before, a member that has not seen the deletion may add to the value, and the expiry has to
        stay."""
        address = replica_key.address
        if not replica_key.orphans:
            self._orphaned.pop(address, None)
            return []
        when_found = self._orphaned.setdefault(address, dict(seen))
        if not includes(confirmed, when_found):
            return []
        del self._orphaned[address]
        return replica_key.forget_orphans()


def _with_residue(replica_keys: ReplicaKeys, addresses: Iterable[Address]) -> Iterable[Address]:
    return [
        address
        for address in addresses
        if address in replica_keys and replica_keys.at(address).has_residue
    ]
