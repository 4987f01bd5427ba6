"""The changes of a peer as commands of Redis, for the Redis replicas of this server.

A replica of Redis knows no records. It gets commands that change its keys as the record has changed
the keys that clients see here. A change inside a value is sent as such. Two things are sent as a
whole: a key that is shown from scratch, and a stream into which entries were merged below its last
one.
"""

import os
from collections.abc import Iterable
from typing import Any, final

from holdfast.crdt.effects import RowChange
from holdfast.crdt.replicated_stream import ENTRY, ReplicatedStream
from holdfast.resp import double_text
from holdfast.store.memory.key import Key
from holdfast.store.rdb.plain import Plain, plain_of
from holdfast.store.rdb.value_codec import dump
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import from_row, text_of
from holdfast.store.values.zset import ZSet

Argv = list[bytes]
MARK_BYTES = 24  # the length of a random element, which no list has by chance


@final
class ShownCommands:
    """The commands for one record, or for one key of a snapshot."""

    def __init__(self) -> None:
        self._commands: list[tuple[int, Argv]] = []

    def take(self) -> list[tuple[int, Argv]]:
        taken, self._commands = self._commands, []
        return taken

    # -- keys ---------------------------------------------------------------------------------

    def flushed(self, database: int) -> None:
        self._add(database, b"FLUSHDB")

    def removed(self, database: int, name: bytes) -> None:
        self._add(database, b"DEL", name)

    def whole(self, database: int, key: Key) -> None:
        """Send the key in its current state."""
        expires_at_ms = key.expires_at_ms
        if isinstance(key.value, bytes):
            expiry = [] if expires_at_ms is None else [b"PXAT", b"%d" % expires_at_ms]
            self._add(database, b"SET", key.name, key.value, *expiry)
            return
        plain = plain_of(key.value)
        if plain.type == "hash":  # its fields may expire, and Redis 7 has no times for them
            plain = Plain("hash", [(field, text, None) for field, text, _ in plain.content])
        payload = dump(plain, for_redis_7=True)
        ttl = [b"0"] if expires_at_ms is None else [b"%d" % expires_at_ms]
        absolute = [] if expires_at_ms is None else [b"ABSTTL"]
        self._add(database, b"RESTORE", key.name, *ttl, payload, b"REPLACE", *absolute)

    def expiry(self, database: int, key: Key) -> None:
        if key.expires_at_ms is None:
            self._add(database, b"PERSIST", key.name)
        else:
            self._add(database, b"PEXPIREAT", key.name, b"%d" % key.expires_at_ms)

    # -- parts of values ----------------------------------------------------------------------

    def changed(
        self, database: int, key: Key, part: Any, changes: list[RowChange], last_id: int
    ) -> None:
        """Rows of the value have changed, and the key shows that already. `last_id` is the last id
        of a stream before the change."""
        value = key.value
        if isinstance(value, bytes):
            self.whole(database, key)
        elif isinstance(value, List):
            self._list(database, key.name, value, part, changes)
        elif isinstance(value, Stream):
            self._stream(database, key, part, changes, last_id)
        else:
            self._members(database, key.name, value, changes)

    def pushed(self, database: int, name: bytes, elements: Iterable[bytes]) -> None:
        self._add(database, b"RPUSH", name, *elements)

    def popped(self, database: int, name: bytes, count: int, *, left: bool) -> None:
        self._add(database, b"LPOP" if left else b"RPOP", name, b"%d" % count)

    def _members(self, database: int, name: bytes, value: Any, changes: list[RowChange]) -> None:
        for member in dict.fromkeys(sub[0] for sub, _, _ in changes):
            if isinstance(value, Hash):
                text = value.get(member)
                if text is None:
                    self._add(database, b"HDEL", name, member)
                else:
                    self._add(database, b"HSET", name, member, text)
            elif isinstance(value, Set):
                self._add(database, b"SADD" if member in value else b"SREM", name, member)
            elif isinstance(value, ZSet):
                score = value.score(member)
                if score is None:
                    self._add(database, b"ZREM", name, member)
                else:
                    self._add(database, b"ZADD", name, double_text(score), member)

    def _list(
        self, database: int, name: bytes, value: List, part: Any, changes: list[RowChange]
    ) -> None:
        """One effect either inserts, deletes or replaces, see `ViewUpdater.show_list`. So the
        elements before a change are already in their final state."""
        ordered = sorted(changes, key=_position)
        grown = sum([(new is not None) - (old is not None) for _, new, old in ordered])
        length = len(value) - grown
        for position, new, old in ordered:
            i: int = part.rank(position)
            if new is None:
                self._remove_at(database, name, i, length)
                length -= 1
            elif old is not None:
                self._add(database, b"LSET", name, b"%d" % i, new[0])
            else:
                self._insert_at(database, name, i, length, new[0], value)
                length += 1

    def _remove_at(self, database: int, name: bytes, i: int, length: int) -> None:
        """Redis removes no element by its index. So the element first gets a unique value."""
        if i == 0:
            self._add(database, b"LPOP", name)
        elif i == length - 1:
            self._add(database, b"RPOP", name)
        else:
            mark = os.urandom(MARK_BYTES)
            self._add(database, b"LSET", name, b"%d" % i, mark)
            self._add(database, b"LREM", name, b"1", mark)

    def _insert_at(
        self, database: int, name: bytes, i: int, length: int, element: bytes, value: List
    ) -> None:
        """Redis inserts beside an element, not at an index. So the element before the place has a
        unique value meanwhile."""
        if i == length:
            self._add(database, b"RPUSH", name, element)
        elif i == 0:
            self._add(database, b"LPUSH", name, element)
        else:
            mark, at = os.urandom(MARK_BYTES), b"%d" % (i - 1)
            left = value.range(i - 1, i - 1)[0]
            self._add(database, b"LSET", name, at, mark)
            self._add(database, b"LINSERT", name, b"AFTER", mark, element)
            self._add(database, b"LSET", name, at, left)

    def _stream(
        self,
        database: int,
        key: Key,
        part: ReplicatedStream,
        changes: list[RowChange],
        last_id: int,
    ) -> None:
        """New entries after the last one, and deletions, are sent as commands. Redis has no command
        that adds an entry before others, or that sets all of a consumer group."""
        stream, name = key.value, key.name
        assert isinstance(stream, Stream)
        commands: list[Argv] = []
        if stream.max_deleted_id > stream.last_id:  # possible after servers were apart
            self.whole(database, key)
            return
        for entry in sorted(dict.fromkeys(sub[0] for sub, _, _ in changes)):
            is_entry = entry.startswith(ENTRY)
            entry_id = from_row(entry[1:]) if is_entry else 0
            fields = part.written(entry) if is_entry else None
            if entry[:1] in b"gpcn" or (fields is not None and entry_id <= last_id):
                self.whole(database, key)
                return
            if fields is not None:
                commands.append([b"XADD", name, text_of(entry_id), *fields])
            elif is_entry:
                commands.append([b"XDEL", name, text_of(entry_id)])
        for command in commands:
            self._add(database, *command)
        counts = [b"ENTRIESADDED", b"%d" % stream.entries_added]
        deleted = [b"MAXDELETEDID", text_of(stream.max_deleted_id)]
        self._add(database, b"XSETID", name, text_of(stream.last_id), *counts, *deleted)

    def _add(self, database: int, *argv: bytes) -> None:
        self._commands.append((database, list(argv)))


def _position(change: RowChange) -> bytes:
    position: bytes = change[0]
    return position
