"""Residue: what a replica key keeps only because some member has not confirmed it yet.

A key that was deleted keeps its counters' reset points, and an expiry may stand without a value.
Both are forgotten when every member has confirmed the events that they are for.
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
        self._addresses: set[Address] = set()  # of keys that may have some
        # Keys with an expiry and no value (see ReplicatedKey.orphans): the vector of this server
        # when that was found. An entry goes when its key changes.
        self._orphaned: dict[Address, Vector] = {}
        self._confirmed: Vector = {}  # what was confirmed at the last `forget`

    def begin(self, shown: set[Address]) -> None:
        """The file was read. A key that clients do not see may be nothing but residue."""
        self._addresses = set(self._replica_keys.addresses) - shown

    def add(self, address: Address) -> None:
        self._addresses.add(address)

    def merged(self, replica_key: ReplicaKey) -> None:
        """A snapshot has changed the key."""
        self._orphaned.pop(replica_key.address, None)
        if replica_key.id and replica_key.has_residue:
            self._addresses.add(replica_key.address)

    def recorded(self, record: Record, removals: int, slow_strings: set[Address]) -> None:
        """A record with so many removals was applied. Keys of which nothing is left go.
        `slow_strings` are those strings in the record's runs that may be empty now. All others in
        runs hold a value: to look at them, too, took as long as the rest of a record."""
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
        """`confirmed` is what every member has, `seen` what this server has."""
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
        """Expiries without a value, once every member has all that was seen when they were found.
        From then on a write to the key removes them, as it finds nothing. Before, a member that has
        not seen the deletion may add to the value, and the expiry has to stay."""
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
