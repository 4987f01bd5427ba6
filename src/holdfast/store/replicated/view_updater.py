"""Updates the key that clients see after a peer has changed its replica key.

effect_builder.py is the other direction. Values change here by the same methods that commands use,
so that rows, memory, watchers and blocked clients are updated, too.
"""

from typing import Any, Final

import msgspec

from holdfast.crdt.effects import PUSH, Effect, RowChange
from holdfast.crdt.replicated_key import EXPIRY, ReplicatedKey
from holdfast.crdt.replicated_stream import ENTRY, ReplicatedStream
from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import (
    STREAM_CONSUMERS,
    STREAM_ENTRIES,
    STREAM_GROUPS,
    STREAM_PENDING,
    Op,
)
from holdfast.store.memory.events import GENERIC, HASH, LIST, SET, STREAM, STRING, ZSET
from holdfast.store.memory.key import FollowedKey, Key
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.replicated.replica_keys import Address, ReplicaKey
from holdfast.store.replicated.replicated_database import ReplicatedDatabase, show_space
from holdfast.store.replicated.shown_commands import ShownCommands
from holdfast.store.values import hll_sketch
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.registry import COLLECTIONS
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row
from holdfast.store.values.zset import ZSet

EVENT = b"replicated"  # the event of notifications for a change that a peer made
EVENT_KINDS: Final = {
    "string": STRING,
    "list": LIST,
    "hash": HASH,
    "set": SET,
    "zset": ZSET,
    "stream": STREAM,
}
NO_HELD = bytes(hll_sketch.REGISTERS)

_encode = msgspec.msgpack.Encoder().encode


class ViewUpdater:
    """Updates keys. Between `begin` and `end` it collects the rows of one record, or of one key of
    a snapshot. They are not changes of clients, so they need no intents: values report them to
    another log. That log and the databases write to one list, because the row of a key comes before
    those of its elements."""

    def __init__(
        self,
        keyspace: Keyspace,
        databases: list[ReplicatedDatabase],
        addresses: dict[int, Any],
        spaces: dict[int, int],
    ) -> None:
        self._keyspace = keyspace
        self._databases = databases
        self._addresses = addresses
        self._spaces = spaces
        self._log = ChangeLog()
        self._commands: ShownCommands | None = None  # set if this server has replicas of Redis

    def begin(self) -> None:
        """Begin an update. The batch must be sealed."""
        self._log.ops = self._keyspace.ops
        self._commands = None if self._keyspace.on_shown is None else ShownCommands()

    def end(self, rows: list[Op]) -> None:
        """End the update, and append its rows to `rows`."""
        keyspace, log = self._keyspace, self._log
        if keyspace.ops:
            rows += keyspace.ops
            keyspace.ops.clear()
            keyspace.used_bytes += log.used_bytes
            keyspace.recorded += log.recorded
            log.used_bytes = log.recorded = 0
        if self._commands is not None and keyspace.on_shown is not None:
            keyspace.on_shown(self._commands.take())

    def update(
        self, replica_key: ReplicaKey, kind: str, changes: list[RowChange], before: str | None
    ) -> Key | None:
        """Rows of one kind have changed. `before` is the type that clients saw before. Returns the
        key that they see now."""
        database = self._database(replica_key.database)
        if database is None:
            return None
        if replica_key.type != before or kind not in (before, EXPIRY):
            return self.rebuild(replica_key, before)
        key = self._key(database, replica_key)
        if key is None:
            return None  # an expiry without a value
        last_id = key.value.last_id if isinstance(key.value, Stream) else 0
        if kind == EXPIRY:
            self._expire_fields(key, replica_key, changes)
        else:
            _UPDATES[kind](self, key, replica_key.part(kind), changes)
            if kind == "hash" and replica_key.find(EXPIRY) is not None:
                # fields that came back have their old expiry
                self._expire_fields(key, replica_key, changes)
        if self._commands is not None and kind != EXPIRY:
            part = replica_key.part(kind)
            self._commands.changed(database.index, key, part, changes, last_id)
        self._follow_expiry(database, key, replica_key)
        return key

    def string_changed(self, replica_key: ReplicaKey, key: Key) -> None:
        """A run has changed the string, in the loop of `Inbound`."""
        if self._commands is not None:
            self._commands.whole(replica_key.database, key)

    def key_of(self, replica_key: ReplicaKey) -> FollowedKey | None:
        """The key that clients see."""
        database = self._database(replica_key.database)
        if database is not None:
            self._key(database, replica_key)
        return replica_key.shown

    def recover_string(self, replica_key: ReplicaKey) -> None:
        """Show a string as the records left it, after recovery has replayed them: the journal has
        no rows for strings in runs."""
        database = self._database(replica_key.database)
        if replica_key.type == "string" and database is not None:
            key = database.glance(replica_key.name)
            text = _text("string", replica_key.part("string"))
            if key is not None and type(key.value) is bytes and key.value != text:
                self._keyspace.put_string(key, text, key.value)

    def is_heard(self, index: int) -> bool:
        """Whether changes in that database have to be announced."""
        databases = self._keyspace.databases
        if self._keyspace.notify_kinds or self._commands is not None:
            return True
        return index < len(databases) and bool(databases[index].watched)

    def list_at_end(self, replica_key: ReplicaKey, effect: Effect) -> Key | None:
        """Show an effect at one end of a list that is still a list."""
        database = self._database(replica_key.database)
        key = None if database is None else self._key(database, replica_key)
        if key is not None:
            value, log, commands = key.value, self._log, self._commands
            assert isinstance(value, List)
            if effect[0] == PUSH:
                value.push_right(effect[3], log)
                if commands is not None:
                    commands.pushed(replica_key.database, key.name, effect[3])
                return key
            at_left = not replica_key.part("list").is_left_of(effect[1])
            if at_left:
                value.pop_left(effect[2], log)
            else:
                value.pop_right(effect[2], log)
            if commands is not None:
                commands.popped(replica_key.database, key.name, effect[2], left=at_left)
        return key

    def _key(self, database: ReplicatedDatabase, replica_key: ReplicaKey) -> Key | None:
        if replica_key.shown is not None:
            return replica_key.shown
        key = database.glance(replica_key.name)
        if key is not None:
            replica_key.show_by(key)
        return key

    def rebuild(self, replica_key: ReplicaKey, before: str | None) -> Key | None:
        """Show the replica key from scratch, independent of what clients saw before."""
        database = self._database(replica_key.database)
        if database is None:
            return None
        name, kind = replica_key.name, replica_key.type
        key = self._key(database, replica_key)
        if key is not None and (kind is None or kind != before or kind in _FILLS):
            database.remove(key)
            # `seal` sees only changes of clients, so it does not remove this entry. The next key
            # has another id.
            self._addresses.pop(key.id, None)
            replica_key.release()
            key = None
        if kind is None:
            if self._commands is not None:
                self._commands.removed(database.index, name)
            return None
        if kind in _FILLS:
            key, value = database.create_as(name, COLLECTIONS[kind].cls)
            _FILLS[kind](self, value, replica_key)
        elif key is None:
            key = database.show_new_string(name, _text(kind, replica_key.part(kind)))
        else:
            _UPDATES[kind](self, key, replica_key.part(kind), [])
        self._keyspace.watch_fields(key)
        self._follow_expiry(database, key, replica_key)
        self._addresses[key.id] = replica_key
        replica_key.show_by(key)
        if self._commands is not None:
            self._commands.whole(database.index, key)
        return key

    def flush(self, index: int) -> None:
        """Show an empty database."""
        database = self._database(index)
        if database is not None:
            database.flush()
            show_space(self._spaces, index, database.space.id)
            self._keyspace.flushed()
            if self._commands is not None:
                self._commands.flushed(index)

    def announce(self, address: Address, key: Key | None) -> None:
        """Tell watchers, notifications, and clients that wait for a stream that a record was
        applied."""
        database = self._database(address[0])
        if database is None:
            return
        kind = GENERIC if key is None else EVENT_KINDS[key.type_name]
        database.signal(address[1], EVENT, kind)
        if key is not None and isinstance(key.value, Stream):
            database.wake_waiters(key)

    def _database(self, index: int) -> ReplicatedDatabase | None:
        """None if a peer has more databases than this server."""
        databases = self._databases
        return databases[index] if index < len(databases) else None

    def _follow_expiry(
        self, database: ReplicatedDatabase, key: Key, replicated: ReplicatedKey
    ) -> None:
        if key.expires_at_ms != replicated.expires_at_ms:
            database.set_expiry(key, replicated.expires_at_ms)
            if self._commands is not None:
                self._commands.expiry(database.index, key)

    def _expire_fields(self, key: Key, replicated: ReplicatedKey, changes: list[RowChange]) -> None:
        if not isinstance(key.value, Hash):
            return
        expiry = replicated.part(EXPIRY)
        for field in dict.fromkeys(sub[0] for sub, _, _ in changes):
            if field is None or field not in key.value:
                continue
            expires_at_ms = expiry.written(field)
            if key.value.expires_at_ms(field) != expires_at_ms:
                key.value.set_expiry(field, expires_at_ms, self._log)
        self._keyspace.watch_fields(key)

    # -- each type, after a change ------------------------------------------------------------

    def show_string(self, key: Key, part: Any, changes: list[RowChange]) -> None:
        self._replace(key, _text("string", part))

    def show_sketch(self, key: Key, part: Any, changes: list[RowChange]) -> None:
        self._replace(key, _text("hyperloglog", part))

    def _replace(self, key: Key, text: bytes) -> None:
        old = key.value
        assert isinstance(old, bytes)
        if text != old:
            self._databases[0].show_string(key, text, old)

    def show_hash(self, key: Key, part: Any, changes: list[RowChange]) -> None:
        log = self._log
        assert isinstance(key.value, Hash)
        for field in dict.fromkeys(sub[0] for sub, _, _ in changes):
            value = part.get(field)
            if value is None:
                key.value.remove(field, log)
            elif value != key.value.get(field):
                key.value.set(field, value, log, keep_expiry=True)

    def show_set(self, key: Key, part: Any, changes: list[RowChange]) -> None:
        assert isinstance(key.value, Set)
        for member in dict.fromkeys(sub[0] for sub, _, _ in changes):
            change = key.value.add if member in part else key.value.remove
            change(member, self._log)

    def show_zset(self, key: Key, part: Any, changes: list[RowChange]) -> None:
        assert isinstance(key.value, ZSet)
        for member in dict.fromkeys(sub[0] for sub, _, _ in changes):
            score = part.score(member)
            if score is None:
                key.value.remove(member, self._log)
            elif score != key.value.score(member):
                key.value.put(member, score, self._log)

    def show_list(self, key: Key, part: Any, changes: list[RowChange]) -> None:
        """Show the changes of one effect, which either inserts, deletes or replaces. In order of
        positions, each element is found at its final index. Most changes are neighbours at one
        end."""
        value, log = key.value, self._log
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
        log = self._log
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

    def show_stream(self, key: Key, part: ReplicatedStream, changes: list[RowChange]) -> None:
        """Show changed entries one by one. Groups are compared as a whole, because a group that
        clients see may be joined from several of the same name."""
        stream, log = key.value, self._log
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
        log = self._log
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
            # Last, because a consumer that is removed takes its pending entries along in memory,
            # but not in the file.
            for consumer in set(seen.consumers) - set(consumers):
                stream.write_row(STREAM_CONSUMERS, (name, consumer), None, log)

    # -- each type, when it is new ------------------------------------------------------------

    def fill_list(self, value: List, replicated: ReplicatedKey) -> None:
        value.push_right(replicated.part("list").range(0, -1), self._log)

    def fill_hash(self, value: Hash, replicated: ReplicatedKey) -> None:
        expiry = replicated.part(EXPIRY)
        for field, text in replicated.part("hash").view().items():
            value.set(field, text, self._log)
            if expiry.written(field) is not None:
                value.set_expiry(field, expiry.written(field), self._log)

    def fill_set(self, value: Set, replicated: ReplicatedKey) -> None:
        for member in replicated.part("set").names():
            value.add(member, self._log)

    def fill_zset(self, value: ZSet, replicated: ReplicatedKey) -> None:
        for score, member in replicated.part("zset").view():
            value.put(member, score, self._log)

    def fill_stream(self, value: Stream, replicated: ReplicatedKey) -> None:
        part: ReplicatedStream = replicated.part("stream")
        for entry_id, fields in part.view():
            value.write_row(STREAM_ENTRIES, to_row(entry_id), _encode(fields), self._log)
        value.set_meta(part.last_id, part.max_deleted_id, part.entries_added, self._log)
        self._groups(value, part)


_UPDATES: Final[dict[str, Any]] = {
    "string": ViewUpdater.show_string,
    "hyperloglog": ViewUpdater.show_sketch,
    "list": ViewUpdater.show_list,
    "hash": ViewUpdater.show_hash,
    "set": ViewUpdater.show_set,
    "zset": ViewUpdater.show_zset,
    "stream": ViewUpdater.show_stream,
}
_FILLS: Final[dict[str, Any]] = {
    "list": ViewUpdater.fill_list,
    "hash": ViewUpdater.fill_hash,
    "set": ViewUpdater.fill_set,
    "zset": ViewUpdater.fill_zset,
    "stream": ViewUpdater.fill_stream,
}


def _text(kind: str, part: Any) -> bytes:
    """The bytes that clients see for a string or HyperLogLog."""
    shown: bytes = part.view()
    if kind == "string":
        return shown
    sketch = hll_sketch.Sketch(hll_sketch.EMPTY, hll_sketch.DENSE_BYTES)
    for register, rank in enumerate(shown):
        if rank:
            sketch.raise_to(register, rank)
    sketch.forget_count()
    return bytes(sketch.data)


def _position(change: RowChange) -> bytes:
    position: bytes = change[0]
    return position
