"""What clients see of a replicated database, against what is replicated.

The two are kept side by side, in memory and in the file, and each is brought up to date by the
other (replicated_changes.py, replicated_shown.py). Servers only tell each other of one of them: a
mistake in the other is seen by clients and by nobody else, unless somebody looks for it here.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.crdt.effects import frozen
from holdfast.crdt.keys import EXPIRY
from holdfast.crdt.keys import Key as ReplicatedKey
from holdfast.crdt.streams import Group as ReplicatedGroup
from holdfast.store import walking
from holdfast.store.hashes import Hash
from holdfast.store.keys import Key
from holdfast.store.lists import List
from holdfast.store.replicated_changes import registers
from holdfast.store.replicated_rows import Address, Slot
from holdfast.store.sets import Set
from holdfast.store.stream_groups import Group
from holdfast.store.streams import Stream
from holdfast.store.zsets import ZSet

if TYPE_CHECKING:
    from holdfast.store.replicated_keyspace import ReplicatedKeyspace

NAMES_AT_ONCE = 100
DIGESTS = 1 << 128


class Difference(NamedTuple):
    address: Address
    what: str

    def __str__(self) -> str:
        database, name = self.address
        return f"key {name!r} of database {database} {self.what}"


class Survey:
    """Goes through all keys, in as many steps as whoever asks can spare time for in between.
    `digest` is, in the end, the number that is the same wherever the same was seen. What changes
    meanwhile is looked at as it was or as it is then."""

    def __init__(self, keyspace: "ReplicatedKeyspace") -> None:
        self._keyspace = keyspace
        self._replication = keyspace.replication
        self.digest = 0
        self.found: list[Difference] = []
        self._steps = self._walk()

    @property
    def is_outdated(self) -> bool:
        """The file was read again, so this would go on with what is no more."""
        return self._keyspace.replication is not self._replication

    def step(self) -> bool:
        """A key, or a few names; False when there are no more."""
        self._replication.seal()
        return next(self._steps, False)

    def finish(self) -> "Survey":
        while self.step():
            pass
        return self

    def _walk(self) -> Iterator[bool]:
        keyspace, slots = self._keyspace, self._replication.slots
        for address in slots.addresses:
            if address in slots:  # else it has gone since
                slot = slots.glance(address)
                self.digest = (self.digest + slot.digest(b"%d:%s" % address)) % DIGESTS
                what = difference(keyspace, slot)
                if what is not None:
                    self.found.append(Difference(address, what))
            yield True
        for database in keyspace.replicated_databases:
            cursor = 0
            while len(database.space):
                cursor, names = walking.walk(keyspace, database.space, cursor, NAMES_AT_ONCE)
                for name, _ in names:
                    if (database.index, name) not in slots:
                        what = "is there, and is not replicated"
                        self.found.append(Difference((database.index, name), what))
                yield True
                if not cursor:
                    break


def difference(keyspace: "ReplicatedKeyspace", slot: Slot) -> str | None:
    """What is wrong with a key, if anything is. What the open batch has changed must be told."""
    databases = keyspace.replicated_databases
    if slot.database >= len(databases):
        return None  # others have more databases
    key = databases[slot.database].inspect(slot.name)
    if key is None:
        return None if slot.type is None else f"is replicated as a {slot.type}, and is not there"
    if slot.type is None:
        return f"is there as a {key.type_name}, and is replicated as nothing"
    if key.expires_at_ms != slot.expires_at_ms:
        return "expires at another time than is replicated"
    if seen(key) != meant(slot):
        return f"is a {key.type_name}, and is replicated with other contents"
    return None


# -- one key, in words that both sides have ---------------------------------------------------


def seen(key: Key) -> Any:
    """What a key holds, for clients."""
    value: Any = key.value
    if isinstance(value, bytes):
        held = registers(value)
        return value if held is None else held
    if isinstance(value, List):
        return list(value.range(0, -1))
    if isinstance(value, Hash):
        return {name: (text, value.expires_at_ms(name)) for name, text in value.items.items()}
    if isinstance(value, Set):
        return set(value)
    if isinstance(value, ZSet):
        return sorted((score, member) for member, score in value.items())
    assert isinstance(value, Stream)
    groups = {name: _seen_group(group) for name, group in value.groups.items()}
    counts = (value.last_id, value.max_deleted_id, value.entries_added)
    return list(value.range(0)), counts, groups


def _seen_group(group: Group) -> Any:
    consumers = {name: consumer.seen_at_ms for name, consumer in group.consumers.items()}
    pending = {id_row: entry.row for id_row, entry in group.pending.items()}
    return group.last_id, group.entries_read, consumers, pending


def meant(key: ReplicatedKey | Slot) -> Any:
    """What a replicated key that has a type is to be seen as."""
    kind = key.type
    assert kind is not None
    part = key.part(kind)
    if kind == "hash":
        expiry = key.find(EXPIRY)
        return {
            name: (text, None if expiry is None else expiry.written(name))
            for name, text in part.view().items()
        }
    if kind != "stream":
        return part.view()
    groups = {name: _meant_group(group) for name, group in part.groups().items()}
    counts = (part.last_id, part.max_deleted_id, part.entries_added)
    # Of entries that came to have the same id, in streams that were moved, one is seen.
    return list(dict(part.view()).items()), counts, groups


def _meant_group(group: ReplicatedGroup) -> Any:
    return group.last_id, group.entries_read, group.shown_consumers, frozen(group.pending)
