"""A survey compares the keys that clients see in a database with their replica keys.

Both exist beside each other, in memory and in the file, and each change of one changes the other
(effect_builder.py, view_updater.py). Servers exchange only the replica keys. So an error in a key
that clients see would stay unnoticed on one server, unless a survey finds it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.crdt.effects import frozen
from holdfast.crdt.replicated_key import EXPIRY, ReplicatedKey
from holdfast.crdt.replicated_stream import ReplicatedGroup
from holdfast.store.memory import scanning
from holdfast.store.memory.key import Key
from holdfast.store.replicated.effect_builder import registers
from holdfast.store.replicated.replica_keys import Address, ReplicaKey
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group
from holdfast.store.values.zset import ZSet

if TYPE_CHECKING:
    from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace

NAMES_AT_ONCE = 100
DIGESTS = 1 << 128


class Difference(NamedTuple):
    address: Address
    what: str

    def __str__(self) -> str:
        database, name = self.address
        return f"key {name!r} of database {database} {self.what}"


class Survey:
    """Compares all keys, one step at a time, so that the caller can do other work in between. At
    the end `digest` is a number that is equal on all servers that have seen the same events. A key
    that changes meanwhile is compared either before or after the change."""

    def __init__(self, keyspace: "ReplicatedKeyspace") -> None:
        self._keyspace = keyspace
        self._stage = keyspace.stage
        self.digest = 0
        self.found: list[Difference] = []
        self._steps = self._walk()

    @property
    def is_outdated(self) -> bool:
        """Whether the file was read again. Then this survey would use objects that are gone."""
        return self._keyspace.stage is not self._stage

    def step(self) -> bool:
        """Compare one key, or look at a few names. False if there are no more."""
        self._stage.seal()
        return next(self._steps, False)

    def finish(self) -> "Survey":
        while self.step():
            pass
        return self

    def _walk(self) -> Iterator[bool]:
        keyspace, replica_keys = self._keyspace, self._stage.replica_keys
        for address in replica_keys.walk():
            if address in replica_keys:  # otherwise it was dropped since the survey began
                replica_key = replica_keys.glance(address)
                self.digest = (self.digest + replica_key.digest(b"%d:%s" % address)) % DIGESTS
                what = difference(keyspace, replica_key)
                if what is not None:
                    self.found.append(Difference(address, what))
            yield True
        for database in keyspace.replicated_databases:
            cursor = 0
            while len(database.space):
                cursor, names = scanning.walk(keyspace, database.space, cursor, NAMES_AT_ONCE)
                for name, _ in names:
                    if (database.index, name) not in replica_keys:
                        what = "exists, but is not replicated"
                        self.found.append(Difference((database.index, name), what))
                yield True
                if not cursor:
                    break


def difference(keyspace: "ReplicatedKeyspace", replica_key: ReplicaKey) -> str | None:
    """How the key that clients see differs from its replica key; None if it does not. The batch
    must be sealed."""
    databases = keyspace.replicated_databases
    if replica_key.database >= len(databases):
        return None  # a peer has more databases than this server
    key = databases[replica_key.database].inspect(replica_key.name)
    if key is None:
        return (
            None
            if replica_key.type is None
            else f"is replicated as a {replica_key.type}, but does not exist"
        )
    if replica_key.type is None:
        return f"is a {key.type_name}, but its replicated value is empty"
    if key.expires_at_ms != replica_key.expires_at_ms:
        return "expires at another time than its replicated value"
    if seen(key) != meant(replica_key):
        return f"is a {key.type_name}, but its replicated value has other contents"
    return None


# -- one key, as a value that both sides can be turned into -----------------------------------


def seen(key: Key) -> Any:
    """The content of a key as clients see it."""
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


def meant(key: ReplicatedKey | ReplicaKey) -> Any:
    """The content that clients should see for a replica key that has a type."""
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
    # Streams that were renamed may have two entries with one id: clients see one of them.
    return list(dict(part.view()).items()), counts, groups


def _meant_group(group: ReplicatedGroup) -> Any:
    return group.last_id, group.entries_read, group.shown_consumers, frozen(group.pending)
