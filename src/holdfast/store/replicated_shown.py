"""What clients see of a replicated key, brought up to date when others have changed it.

The other direction is replicated_changes.py's. Values change here by the same methods by which
commands change them, so that rows, memory, watchers and waiters follow; whoever calls sees to it
that no intents are stated, because these are no local changes.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.crdt.effects import PUSH, Change, Effect
from holdfast.crdt.keys import EXPIRY
from holdfast.crdt.keys import Key as ReplicatedKey
from holdfast.crdt.streams import ENTRY
from holdfast.crdt.streams import Stream as ReplicatedStream
from holdfast.store import hll
from holdfast.store.events import GENERIC, HASH, LIST, SET, STREAM, STRING, ZSET
from holdfast.store.hashes import Hash
from holdfast.store.keys import FollowedKey, Key
from holdfast.store.lists import List
from holdfast.store.ops import STREAM_CONSUMERS, STREAM_ENTRIES, STREAM_GROUPS, STREAM_PENDING
from holdfast.store.replicated_rows import Address, Slot
from holdfast.store.sets import Set
from holdfast.store.stream_ids import to_row
from holdfast.store.streams import Stream
from holdfast.store.types import COLLECTIONS
from holdfast.store.zsets import ZSet

if TYPE_CHECKING:
    from holdfast.store.replicated_keyspace import ReplicatedDatabase, ReplicatedKeyspace

EVENT = b"replicated"  # what notifications call a change that came from elsewhere
EVENT_KINDS: Final = {
    "string": STRING,
    "list": LIST,
    "hash": HASH,
    "set": SET,
    "zset": ZSET,
    "stream": STREAM,
}
NO_HELD = bytes(hll.REGISTERS)

_encode = msgspec.msgpack.Encoder().encode


class Shown:
    def __init__(self, keyspace: "ReplicatedKeyspace") -> None:
        self._keyspace = keyspace

    def update(
        self, slot: Slot, kind: str, changes: list[Change], before: str | None
    ) -> Key | None:
        """Rows of one kind have changed. `before` is the type that was seen until then; returns
        the key that is seen now."""
        database = self._database(slot.database)
        if database is None:
            return None
        if slot.type != before or kind not in (before, EXPIRY):
            return self.rebuild(slot, before)
        key = self._key(database, slot)
        if key is None:
            return None  # an expiry of nothing
        if kind == EXPIRY:
            self._expire_fields(key, slot, changes)
        else:
            _UPDATES[kind](self, key, slot.part(kind), changes)
            if kind == "hash" and slot.find(EXPIRY) is not None:
                self._expire_fields(key, slot, changes)  # of those that came back
        self._follow_expiry(database, key, slot)
        return key

    def key_of(self, slot: Slot) -> FollowedKey | None:
        """The key which clients see."""
        database = self._database(slot.database)
        if database is not None:
            self._key(database, slot)
        return slot.shown

    def recover_string(self, slot: Slot) -> None:
        """As a run of changes left it, if it is one: the journal has no row of it."""
        database = self._database(slot.database)
        if slot.type == "string" and database is not None:
            key = database.glance(slot.name)
            text = _text("string", slot.part("string"))
            if key is not None and type(key.value) is bytes and key.value != text:
                self._keyspace.put_string(key, text, key.value)

    def is_heard(self, index: int) -> bool:
        """Whether anybody is to be told of changes in that database."""
        databases = self._keyspace.databases
        if self._keyspace.notify_kinds:
            return True
        return index < len(databases) and bool(databases[index].watched)

    def list_at_end(self, slot: Slot, effect: Effect) -> Key | None:
        """It was a list and still is one, and this was done at one of its ends."""
        database = self._database(slot.database)
        key = None if database is None else self._key(database, slot)
        if key is not None:
            value, log = key.value, self._keyspace
            assert isinstance(value, List)
            if effect[0] == PUSH:
                value.push_right(effect[3], log)
            elif slot.part("list").is_left_of(effect[1]):
                value.pop_right(effect[2], log)
            else:
                value.pop_left(effect[2], log)
        return key

    def _key(self, database: "ReplicatedDatabase", slot: Slot) -> Key | None:
        if slot.shown is not None:
            return slot.shown
        key = database.glance(slot.name)
        if key is not None:
            slot.show_by(key)
        return key

    def rebuild(self, slot: Slot, before: str | None) -> Key | None:
        """Whatever was seen, this is to be seen now."""
        database = self._database(slot.database)
        if database is None:
            return None
        name, kind = slot.name, slot.type
        addresses = self._keyspace.replication.addresses
        key = self._key(database, slot)
        if key is not None and (kind is None or kind != before or kind in _FILLS):
            database.remove(key)
            # No local change, so nobody else will: the next key of that name has another id.
            addresses.pop(key.id, None)
            slot.release()
            key = None
        if kind is None:
            return None
        if kind in _FILLS:
            key, value = database.create_as(name, COLLECTIONS[kind].cls)
            _FILLS[kind](self, value, slot)
        elif key is None:
            key = database.create(name, _text(kind, slot.part(kind)))
        else:
            _UPDATES[kind](self, key, slot.part(kind), [])
        self._keyspace.watch_fields(key)
        self._follow_expiry(database, key, slot)
        addresses[key.id] = slot
        slot.show_by(key)
        return key

    def flush(self, index: int) -> None:
        """Nothing is seen in that database any more."""
        database = self._database(index)
        if database is not None:
            database.empty()
            self._keyspace.flushed()

    def announce(self, address: Address, key: Key | None) -> None:
        """Once all is in place: watchers, notifications, and those who wait for a stream."""
        database = self._database(address[0])
        if database is None:
            return
        kind = GENERIC if key is None else EVENT_KINDS[key.type_name]
        database.signal(address[1], EVENT, kind)
        if key is not None and isinstance(key.value, Stream):
            database.wake_waiters(key)

    def _database(self, index: int) -> "ReplicatedDatabase | None":
        """None when others have more databases than this server."""
        databases = self._keyspace.replicated_databases
        return databases[index] if index < len(databases) else None

    def _follow_expiry(
        self, database: "ReplicatedDatabase", key: Key, replicated: ReplicatedKey
    ) -> None:
        if key.expires_at_ms != replicated.expires_at_ms:
            database.set_expiry(key, replicated.expires_at_ms)

    def _expire_fields(self, key: Key, replicated: ReplicatedKey, changes: list[Change]) -> None:
        if not isinstance(key.value, Hash):
            return
        expiry = replicated.part(EXPIRY)
        for field in dict.fromkeys(sub[0] for sub, _, _ in changes):
            if field is None or field not in key.value:
                continue
            expires_at_ms = expiry.written(field)
            if key.value.expires_at_ms(field) != expires_at_ms:
                key.value.set_expiry(field, expires_at_ms, self._keyspace)
        self._keyspace.watch_fields(key)

    # -- each type, after a change ------------------------------------------------------------

    def show_string(self, key: Key, part: Any, changes: list[Change]) -> None:
        self._replace(key, _text("string", part))

    def show_sketch(self, key: Key, part: Any, changes: list[Change]) -> None:
        self._replace(key, _text("hyperloglog", part))

    def _replace(self, key: Key, text: bytes) -> None:
        old = key.value
        assert isinstance(old, bytes)
        if text != old:
            self._keyspace.databases[0].replace(key, text, old)

    def show_hash(self, key: Key, part: Any, changes: list[Change]) -> None:
        log = self._keyspace
        assert isinstance(key.value, Hash)
        for field in dict.fromkeys(sub[0] for sub, _, _ in changes):
            value = part.get(field)
            if value is None:
                key.value.remove(field, log)
            elif value != key.value.get(field):
                key.value.set(field, value, log, keep_expiry=True)

    def show_set(self, key: Key, part: Any, changes: list[Change]) -> None:
        assert isinstance(key.value, Set)
        for member in dict.fromkeys(sub[0] for sub, _, _ in changes):
            change = key.value.add if member in part else key.value.remove
            change(member, self._keyspace)

    def show_zset(self, key: Key, part: Any, changes: list[Change]) -> None:
        assert isinstance(key.value, ZSet)
        for member in dict.fromkeys(sub[0] for sub, _, _ in changes):
            score = part.score(member)
            if score is None:
                key.value.remove(member, self._keyspace)
            elif score != key.value.score(member):
                key.value.put(member, score, self._keyspace)

    def show_list(self, key: Key, part: Any, changes: list[Change]) -> None:
        """One effect inserts, deletes or replaces, never two of these. In order of positions each
        finds the place where it is in the end; most are at one of the ends, side by side."""
        value, log = key.value, self._keyspace
        assert isinstance(value, List)
        rank, count = part.rank, len(changes)
        ordered = sorted(changes, key=_position)
        first, last = rank(ordered[0][0]), rank(ordered[-1][0])
        _, new, old = ordered[0]
        if new is None and first == last == 0:
            value.pop_left(count, log)
        elif new is None and first == last == len(value) - count:
            value.pop_right(count, log)
        elif old is None and first == len(value):
            value.push_right([new[0] for _, new, _ in ordered], log)
        elif old is None and last == count - 1:
            value.push_left([new[0] for _, new, _ in reversed(ordered)], log)
        else:
            for position, new, old in ordered:
                self._show_element(value, rank(position), new, old)

    def _show_element(self, value: List, i: int, new: Any, old: Any) -> None:
        log = self._keyspace
        if new is None:
            if i == 0:
                value.pop_left_one(log)
            elif i == len(value) - 1:
                value.pop_right_one(log)
            else:
                value.remove_at(i, log)
        elif old is None:
            value.insert_at(i, new[0], log)
        else:
            value.set(i, new[0], log)

    def show_stream(self, key: Key, part: ReplicatedStream, changes: list[Change]) -> None:
        """Entries one by one; groups are compared as a whole, because what is seen of one may
        come from several."""
        stream, log = key.value, self._keyspace
        assert isinstance(stream, Stream)
        names = dict.fromkeys(sub[0] for sub, _, _ in changes)
        for name in names:
            if name.startswith(ENTRY):
                fields = part.written(name)
                row = None if fields is None else _encode(fields)
                stream.write_row(STREAM_ENTRIES, name[1:], row, log)
        meta = (part.last_id, part.max_deleted_id, part.entries_added)
        if meta != (stream.last_id, stream.max_deleted_id, stream.entries_added):
            stream.set_meta(*meta, log)
        if any(name[:1] in b"gpcn" for name in names):
            self._groups(stream, part)

    def _groups(self, stream: Stream, part: ReplicatedStream) -> None:
        log = self._keyspace
        groups = part.groups()
        for name in set(stream.groups) - set(groups):
            stream.delete_group(stream.groups[name], log)
        for name, group in groups.items():
            row = (to_row(group.last_id), group.entries_read)
            if name not in stream.groups or stream.groups[name].row != row:
                stream.write_row(STREAM_GROUPS, name, row, log)
            seen, consumers = stream.groups[name], group.shown_consumers
            for consumer, seen_at_ms in consumers.items():
                known = seen.consumers.get(consumer)
                if known is None or known.seen_at_ms != seen_at_ms:
                    stream.write_row(STREAM_CONSUMERS, (name, consumer), seen_at_ms, log)
            for id_row in set(seen.pending.rows()) - set(group.pending):
                stream.write_row(STREAM_PENDING, (name, id_row), None, log)
            for id_row, (consumer, delivered_at_ms, deliveries) in group.pending.items():
                entry = seen.pending.get(id_row)
                new = (consumer, delivered_at_ms, deliveries)
                if entry is None or entry.row != new:
                    stream.write_row(STREAM_PENDING, (name, id_row), new, log)
            # Last: a consumer that goes takes its entries along, out of memory and not of the file.
            for consumer in set(seen.consumers) - set(consumers):
                stream.write_row(STREAM_CONSUMERS, (name, consumer), None, log)

    # -- each type, when it is new ------------------------------------------------------------

    def fill_list(self, value: List, replicated: ReplicatedKey) -> None:
        value.push_right(replicated.part("list").range(0, -1), self._keyspace)

    def fill_hash(self, value: Hash, replicated: ReplicatedKey) -> None:
        expiry = replicated.part(EXPIRY)
        for field, text in replicated.part("hash").view().items():
            value.set(field, text, self._keyspace)
            if expiry.written(field) is not None:
                value.set_expiry(field, expiry.written(field), self._keyspace)

    def fill_set(self, value: Set, replicated: ReplicatedKey) -> None:
        for member in replicated.part("set").names():
            value.add(member, self._keyspace)

    def fill_zset(self, value: ZSet, replicated: ReplicatedKey) -> None:
        for score, member in replicated.part("zset").view():
            value.put(member, score, self._keyspace)

    def fill_stream(self, value: Stream, replicated: ReplicatedKey) -> None:
        part: ReplicatedStream = replicated.part("stream")
        for entry_id, fields in part.view():
            value.write_row(STREAM_ENTRIES, to_row(entry_id), _encode(fields), self._keyspace)
        value.set_meta(part.last_id, part.max_deleted_id, part.entries_added, self._keyspace)
        self._groups(value, part)


_UPDATES: Final[dict[str, Any]] = {
    "string": Shown.show_string,
    "hyperloglog": Shown.show_sketch,
    "list": Shown.show_list,
    "hash": Shown.show_hash,
    "set": Shown.show_set,
    "zset": Shown.show_zset,
    "stream": Shown.show_stream,
}
_FILLS: Final[dict[str, Any]] = {
    "list": Shown.fill_list,
    "hash": Shown.fill_hash,
    "set": Shown.fill_set,
    "zset": Shown.fill_zset,
    "stream": Shown.fill_stream,
}


def _text(kind: str, part: Any) -> bytes:
    """The string that a string or HyperLogLog is."""
    shown: bytes = part.view()
    if kind == "string":
        return shown
    sketch = hll.Sketch(hll.EMPTY, hll.DENSE_BYTES)
    for register, rank in enumerate(shown):
        if rank:
            sketch.raise_to(register, rank)
    sketch.forget_count()
    return bytes(sketch.data)


def _position(change: Change) -> bytes:
    position: bytes = change[0]
    return position
