"""One database: how commands find keys, change their values, and announce changes.

Nothing here knows commands, clients or SQL. The keyspace has cold keys, row operations and
everything that belongs to all databases together.

The file is long because it is one class: every command uses it, and compiled code reaches the
attributes of one object faster than those of several.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from holdfast.errors import WRONG_TYPE
from holdfast.store.change.ops import SPACES, row_op, string_row
from holdfast.store.change.undo import KeyUndo, SpaceUndo, WatchUndo
from holdfast.store.memory.events import (
    EXPIRED,
    GENERIC,
    HASH,
    MISS,
    NEW,
    OVERWRITTEN,
    STRING,
    SUBKEYS,
    TYPE_CHANGED,
)
from holdfast.store.memory.key import Key, Space
from holdfast.store.memory.liveness import is_live
from holdfast.store.memory.packed_keys import LONGEST
from holdfast.store.memory.packed_keys import STRING as KIND_STRING
from holdfast.store.memory.packing import LONGEST_STRING
from holdfast.store.memory.string_parts import SHORTEST_IN_PARTS, with_part
from holdfast.store.values.hash import Hash
from holdfast.store.values.registry import TYPE_NAMES, Collection, Value
from holdfast.store.values.stream import Stream

if TYPE_CHECKING:
    from holdfast.store.memory.keyspace import Keyspace

Kind = TypeVar("Kind", bound=Collection)

LARGE_STRING: Final = 4096  # bytes; to journal one takes longer than all the rest of a command


class Watcher(Protocol):
    """A client that asked (WATCH) to learn that a key changed."""

    watch_broken: bool


def use_plain(key: Key | None, keyspace: "Keyspace") -> Key | None:
    """Use a key for which `find` would have nothing to decide: it is in memory and never expires,
    and the keyspace needs no slow find. Otherwise None, and the caller must call `find`.

    It is a function, because compiled code calls a function directly, while `find` takes two calls
    more.
    """
    if key is None or key.expires_at_ms is not None or keyspace.needs_slow_find:
        return None
    key.accessed_s = keyspace.now_s
    return key


class Database:
    """One of the sixteen. Stays when its space is flushed or swapped."""

    __slots__ = ("awaited", "index", "keyspace", "space", "watched")

    def __init__(self, keyspace: "Keyspace", index: int, space: Space) -> None:
        self.keyspace = keyspace
        self.index = index
        self.space = space
        self.watched: dict[bytes, set[Watcher]] = {}
        # Names that clients block on. The engine owns the content.
        self.awaited: dict[bytes, object] = {}

    def __len__(self) -> int:
        return len(self.space)

    # -- finding ------------------------------------------------------------------------------

    def find(self, name: bytes) -> Key | None:
        """The live key of that name, from memory or the file. A key that has expired is removed."""
        space = self.space
        key = space.keys.get(name)
        keyspace = self.keyspace
        if key is None and (not space.cold or (key := keyspace.load(space, name)) is None):
            return None
        # Most keys never expire, and need no call.
        if (
            key.expires_at_ms is not None
            and not is_live(key.expires_at_ms, keyspace.now_ms)
            and self.expire(key)
        ):
            return None
        if keyspace.needs_slow_find and not self._find_slowly(key):
            return None
        key.accessed_s = keyspace.now_s
        return key

    def find_row(self, name: bytes) -> Key | None:
        """`find` for commands that need no elements: they remove the key, rename it, change its
        expiry or ask whether it exists. A cold collection is not loaded."""
        keyspace, space = self.keyspace, self.space
        if not space.cold or name in space.keys:
            return self.find(name)
        key = keyspace.load(space, name, only_row=True)
        if key is None:
            return None
        if key.is_loaded:
            return self.find(name)
        if not is_live(key.expires_at_ms, keyspace.now_ms) and self.expire(key):
            return None
        key.accessed_s = keyspace.now_s
        return key

    def peek(self, name: bytes) -> Key | None:
        """`find` for OBJECT, TYPE and TTL: it does not count as a use of the key."""
        keyspace, space = self.keyspace, self.space
        hot = space.keys.get(name)
        if hot is None and space.packed is not None:
            hot = keyspace.unpack(space, name)
        if hot is None:
            if not space.cold:
                return None
        elif not keyspace.needs_slow_find and is_live(hot.expires_at_ms, keyspace.now_ms):
            return hot
        accessed_s = keyspace.now_s if hot is None else hot.accessed_s
        frequencies, keyspace.frequencies = keyspace.frequencies, None
        try:
            key = self.find(name)
        finally:
            keyspace.frequencies = frequencies
        if key is not None:
            key.accessed_s = accessed_s
        return key

    def _find_slowly(self, key: Key) -> bool:
        """The rest of `find`, where fields expire or uses are counted; False when the key has
        lost its last field."""
        if type(key.value) is Hash:
            self.expire_fields(key, sys.maxsize)
            if not key.value:
                return False
        if self.keyspace.frequencies is not None:
            self.keyspace.frequencies.used(key)
        return True

    def read(self, name: bytes, *, is_use: bool = True) -> Key | None:
        """`find` or `peek`, for commands that read: counts hits and misses."""
        key = self.find(name) if is_use else self.peek(name)
        if key is not None:
            self.keyspace.hits += 1
        else:
            self.keyspace.misses += 1
            self.notify(name, b"keymiss", MISS)
        return key

    def is_cold(self, name: bytes) -> bool:
        """Whether the key lives in the file only."""
        space = self.space
        if not space.cold or name in space.keys:
            return False
        return self.keyspace.cold_rows.living(space, name) is not None

    def is_being_loaded(self, name: bytes) -> bool:
        """Whether the key is a large collection that is not in memory yet: its load goes on, or
        begins now. A small one is loaded."""
        keyspace, space = self.keyspace, self.space
        if not space.cold or name in space.keys:
            return False
        load = keyspace.begin_load(space, name)
        if load is None:
            return False
        load.is_wanted = True
        return load.value is not None or keyspace.loads.step(load)

    def read_row(self, name: bytes, *, is_use: bool = False) -> tuple[str, int | None] | None:
        """Type and expiry, for commands that need no more than these two: a cold key stays cold, so
        its size does not matter."""
        space, keyspace = self.space, self.keyspace
        if space.cold and name not in space.keys:
            row = keyspace.cold_rows.living(space, name)
            if row is not None:
                keyspace.hits += 1
                return row[1], row[2]
        key = self.read(name, is_use=is_use)
        return None if key is None else (key.type_name, key.expires_at_ms)

    def read_size(self, name: bytes, kind: type[bytes] | type[Collection]) -> int:
        """The size of a value of this type, 0 when missing; WRONGTYPE when it is another type. A
        cold key stays cold."""
        space, keyspace = self.space, self.keyspace
        if space.cold and name not in space.keys:
            row = keyspace.cold_rows.living(space, name)
            if row is not None:
                keyspace.hits += 1
                if row[1] != TYPE_NAMES[kind]:
                    raise WRONG_TYPE
                return keyspace.cold_rows.size(row)
        key = self.read(name)
        if key is None:
            return 0
        value = key.value
        if type(value) is kind:
            return len(value)
        raise WRONG_TYPE

    def read_string(self, name: bytes) -> bytes | None:
        """None when missing; WRONGTYPE when it is something else."""
        keyspace = self.keyspace
        key = use_plain(self.space.keys.get(name), keyspace)
        if key is not None:
            keyspace.hits += 1
        else:
            if (packed := self._packed_string(name)) is not None:
                return packed
            if (key := self.read(name)) is None:
                return None
        value = key.value
        if type(value) is bytes:
            return value
        raise WRONG_TYPE

    def read_strings(self, names: list[bytes]) -> list[bytes | None]:
        """The strings of these names, None where there is no key or no string. All keys are found
        before the first is read; see `set_strings`."""
        keyspace, hot = self.keyspace, self.space.keys
        values: list[bytes | None] = []
        found = [hot.get(name) for name in names]
        for number, hot_key in enumerate(found):
            key = use_plain(hot_key, keyspace)
            if key is not None:
                keyspace.hits += 1
            else:
                if (packed := self._packed_string(names[number])) is not None:
                    values.append(packed)
                    continue
                key = self.read(names[number])
            value = None if key is None else key.value
            values.append(value if type(value) is bytes else None)
        return values

    def _packed_string(self, name: bytes) -> bytes | None:
        """The string of a packed key, which stays packed; it must not be among those in `keys`."""
        packed, keyspace = self.space.packed, self.keyspace
        if packed is None or name in self.space.keys or keyspace.frequencies is not None:
            return None
        value: bytes | None = packed.string(name, keyspace.now_ms, keyspace.now_s)
        if value is not None:
            keyspace.hits += 1
        return value

    def read_as(self, name: bytes, kind: type[Kind]) -> Kind | None:
        """`read_string`, for collections."""
        key = self.read(name)
        if key is None:
            return None
        value = key.value
        if isinstance(value, kind):
            return value
        raise WRONG_TYPE

    def find_string(self, name: bytes) -> tuple[Key, bytes] | None:
        """For commands that change the string and keep its expiry."""
        key = self.find(name)
        if key is None:
            return None
        value = key.value
        if type(value) is bytes:
            return key, value
        raise WRONG_TYPE

    def find_string_key(self, name: bytes) -> Key | None:
        """For commands that change a part of the string: see `write_part`."""
        key = self.find(name)
        if key is None or type(key.value) is bytes:
            return key
        raise WRONG_TYPE

    def find_as(self, name: bytes, kind: type[Kind]) -> tuple[Key, Kind] | None:
        """For commands that change a collection and then need its key."""
        key = self.find(name)
        if key is None:
            return None
        value = key.value
        if isinstance(value, kind):
            return key, value
        raise WRONG_TYPE

    # -- changing -----------------------------------------------------------------------------

    def find_or_create_as(self, name: bytes, kind: type[Kind]) -> Kind:
        """For commands that add to a collection, whether or not it is there, and add something."""
        value = self.find_value(name, kind)
        return self.create_as(name, kind)[1] if value is None else value

    def find_value(self, name: bytes, kind: type[Kind]) -> Kind | None:
        """For commands that change a collection and do not need its key."""
        key = use_plain(self.space.keys.get(name), self.keyspace)
        if key is None and (key := self.find(name)) is None:
            return None
        value = key.value
        if isinstance(value, kind):
            return value
        raise WRONG_TYPE

    def put_string(self, name: bytes, value: bytes) -> None:
        """`set_string` without expiry, for callers that do not need the key."""
        key = use_plain(self.space.keys.get(name), self.keyspace)
        if key is None and (key := self.find_row(name)) is None:
            self.add_string(name, value)
            return
        old = key.value
        if type(old) is bytes and key.expires_at_ms is None and not self.keyspace.notify_kinds:
            self.replace(key, value, old)
        else:
            self._set_over(key, name, value, None, keep_ttl=False)

    def set_string(
        self, name: bytes, value: bytes, expires_at_ms: int | None = None, *, keep_ttl: bool = False
    ) -> Key:
        """Set a string, in place of any value that the name had."""
        key = use_plain(self.space.keys.get(name), self.keyspace)
        if key is None and (key := self.find_row(name)) is None:
            return self.create(name, value, expires_at_ms)
        return self._set_over(key, name, value, expires_at_ms, keep_ttl=keep_ttl)

    def _set_over(
        self, key: Key, name: bytes, value: bytes, expires_at_ms: int | None, *, keep_ttl: bool
    ) -> Key:
        old = key.value
        if type(old) is not bytes:
            if keep_ttl:
                expires_at_ms = key.expires_at_ms
            self.remove(key)
            new = self.create(name, value, expires_at_ms, is_new=False)
            self.tell_overwritten(name, key, new)
            return new
        self.replace(key, value, old)
        if self.keyspace.notify_kinds & OVERWRITTEN:
            self.tell_overwritten(name, key, key)
        if key.expires_at_ms is expires_at_ms:
            return key  # neither has one; to compare them takes longer
        if not keep_ttl and key.expires_at_ms != expires_at_ms:
            self.set_expiry(key, expires_at_ms)
        return key

    def set_strings(self, argv: list[bytes]) -> None:
        """`set_string` and `signal` for names and values in turn, which follow the name of the
        command.

        If no key needs special work, this is done in loops that do one thing each. Nearly all of
        the time goes into waiting for memory, and in such loops the processor waits for several
        keys at a time.
        """
        keyspace = self.keyspace
        found: list[Key] = []
        olds: list[bytes] = []
        if self._look_at(argv, found, olds):
            now_s, next_fold = keyspace.now_s, keyspace.fold_state.next_fold
            run = keyspace.add_strings(len(found))
            grown = 0
            at = 2
            for key in found:
                value = argv[at]
                grown += len(value) - len(cast("bytes", key.value))  # a name may come twice
                key.value = value
                key.accessed_s = now_s
                if key.dirty_in_fold != next_fold:
                    keyspace.string_changed(key)
                run.append(key.id)
                run.append(value)
                at += 2
            keyspace.used_bytes += grown
            keyspace.dirty += len(olds)  # the old values are freed here, all together
            return
        for at in range(1, len(argv), 2):
            name = argv[at]
            self.put_string(name, argv[at + 1])
            self.signal(name, b"set", STRING)

    def _look_at(self, argv: list[bytes], found: list[Key], olds: list[bytes]) -> bool:
        """Find the keys and their values. False if there is more to do than to write the journal,
        or if one of the strings, old or new, is large or expires."""
        keyspace = self.keyspace
        if (
            keyspace.needs_slow_find
            or keyspace.states_intents
            or keyspace.notify_kinds
            or keyspace.undo is not None
            or self.watched
        ):
            return False
        hot = self.space.keys
        for at in range(1, len(argv), 2):
            key = hot.get(argv[at])
            if key is None:
                return False
            found.append(key)
        at = 2
        for key in found:
            old = key.value
            if (
                key.expires_at_ms is not None
                or type(old) is not bytes
                or len(old) >= LARGE_STRING
                or len(argv[at]) >= LARGE_STRING
            ):
                return False
            olds.append(old)
            at += 2
        return True

    def replace(self, key: Key, value: bytes, old: bytes, added: object = None) -> None:
        """Another value for the string that the key holds; its expiry stays. `added` is the amount,
        if the value is a sum: a replicated database needs it."""
        keyspace = self.keyspace
        keyspace.put_string(key, value, old)
        old_length = len(old)
        if len(value) < LARGE_STRING and old_length < LARGE_STRING:
            keyspace.write_string(key.id, value)
        else:
            keyspace.write_large(key.id, value, was_large=old_length >= LARGE_STRING)

    def write_part(self, key: Key, offset: int, part: bytes) -> int:
        """Put bytes into the string that the key holds, from an offset on, with zeros before them
        if needed. Returns its length. The caller must not keep the value, which may be changed in
        place."""
        end = offset + len(part)
        length = max(len(cast("bytes", key.value)), end)
        if self.keyspace.states_intents or length < SHORTEST_IN_PARTS or 2 * len(part) > length:
            old = cast("bytes", key.value)
            self.replace(key, with_part(old, offset, part, length), old)
        else:
            self.keyspace.put_part(key, offset, part)
        return length

    def add_string(self, name: bytes, value: bytes, added: object = None) -> None:
        """`create` without expiry, for callers that do not need the key: a small one is packed at
        once. A client that waits for the name needs a key."""
        keyspace, space = self.keyspace, self.space
        key_id: Any = keyspace.next_id  # (an object, so that compiled code makes one)
        if (
            not keyspace.packs_at_once(key_id)
            or self.awaited
            or len(value) > LONGEST_STRING
            or len(name) > LONGEST
        ):
            self.create(name, value, added=added)
            return
        size: int = space.packed_keys().put(name, key_id, KIND_STRING, keyspace.now_s, None, value)
        keyspace.added_packed(space, key_id, name, size)
        keyspace.add_new_string(space, space.id, key_id, name, value)
        self.notify(name, b"new", NEW)

    def add_hash(self, argv: list[bytes]) -> int:
        """A new hash, packed at once, with the fields and values that follow its name in the
        arguments of HSET. Returns the number of fields; 0 if the hash is not small, or a client
        waits for the name: then nothing was done."""
        keyspace, space, name = self.keyspace, self.space, argv[1]
        key_id: Any = keyspace.next_id
        if not keyspace.packs_at_once(key_id) or self.awaited:
            return 0
        size: int = space.packed_keys().put_hash(argv, key_id, keyspace.now_s)
        if not size:
            return 0
        keyspace.added_packed(space, key_id, name, size)
        keyspace.add_new_key(space, space.id, "hash", key_id, name)
        keyspace.add_new_fields(key_id, argv)
        self.notify(name, b"new", NEW)
        return (len(argv) - 2) // 2

    def create(
        self,
        name: bytes,
        value: bytes,
        expires_at_ms: int | None = None,
        *,
        is_new: bool = True,
        added: object = None,
    ) -> Key:
        """A new string key; the name must be free, and `is_new` says whether it was before."""
        keyspace = self.keyspace
        if expires_at_ms is not None or len(value) >= LARGE_STRING or keyspace.states_intents:
            key = self.new_string(name, value, expires_at_ms, is_new=is_new)
            keyspace.ops.append(string_row(key.id, value))
            return key
        key = self._add(name, value, None)
        key.dirty_in_fold = keyspace.fold_state.next_fold
        space = self.space
        keyspace.add_new_string(space, space.id, key.id, name, value)
        if is_new:
            self.notify(name, b"new", NEW)
        return key

    def new_string(
        self, name: bytes, value: bytes, expires_at_ms: int | None, *, is_new: bool
    ) -> Key:
        """`create`, but the caller must append the operation of the string."""
        key = self._new(name, value, expires_at_ms)
        # The next pass of the fold reads it with its key, so it is not noted for that.
        key.dirty_in_fold = self.keyspace.fold_state.next_fold
        if is_new:
            self.notify(name, b"new", NEW)
        return key

    def create_as(self, name: bytes, kind: type[Kind], *, is_new: bool = True) -> tuple[Key, Kind]:
        """A new, empty collection; the caller fills it at once. See `create`."""
        key_id = self.keyspace.next_id
        # (Compiled code makes an object of a class that it knows in two thirds of the time.)
        value = cast("Kind", Hash(key_id)) if kind is Hash else kind(key_id)
        key = self._new(name, value, None)
        if is_new:
            self.notify(name, b"new", NEW)
        return key, value

    def replace_as(self, name: bytes, kind: type[Kind]) -> Kind:
        """A new, empty collection in place of any value that the name had; the caller fills it at
        once."""
        old = self.find_row(name)
        if old is None:
            return self.create_as(name, kind)[1]
        self.remove(old)
        key, value = self.create_as(name, kind, is_new=False)
        self.tell_overwritten(name, old, key)
        return value

    def discard(self, name: bytes) -> None:
        """Remove the key of that name, if there is one, as DEL does."""
        key = self.find_row(name)
        if key is not None:
            self.remove(key)
            self.signal(name, b"del", GENERIC)

    def copy(self, key: Key, name: bytes) -> Key:
        """A new key here with the same value and expiry; the name must be free."""
        keyspace = self.keyspace
        if isinstance(key.value, bytes):
            return self.create(name, key.value, key.expires_at_ms)
        # First the key, without elements: recovery has to hear of a key before its elements.
        twin = self._new(name, type(key.value)(keyspace.next_id), key.expires_at_ms)
        empty_bytes = twin.nbytes
        twin.value = key.value.copy(twin.id, keyspace)
        keyspace.used_bytes += twin.nbytes - empty_bytes
        keyspace.watch_fields(twin)
        self.notify(name, b"new", NEW)
        return twin

    def set_expiry(self, key: Key, expires_at_ms: int | None) -> None:
        keyspace = self.keyspace
        was_ms = key.expires_at_ms
        keyspace.remember(key)
        key.expires_at_ms = expires_at_ms
        keyspace.write_row(key)
        # The heap moves an entry to a later time by itself.
        if expires_at_ms is not None and (was_ms is None or expires_at_ms < was_ms):
            keyspace.expiring.push(key)

    def persist(self, key: Key) -> bool:
        """PERSIST; False when the key had no expiry."""
        if key.expires_at_ms is None:
            return False
        self.set_expiry(key, None)
        return True

    def remove(self, key: Key) -> None:
        keyspace = self.keyspace
        keyspace.remember(key)
        keyspace.detach(key)
        keyspace.write_row(key, gone=True)
        keyspace.freeing.removed(key)
        self.wake_readers(key)

    def move(self, key: Key, target: "Database", name: bytes) -> None:
        """RENAME and MOVE: the key keeps its id, so this is one row. The name must be free."""
        keyspace = self.keyspace
        keyspace.remember(key)
        keyspace.detach(key)
        self.wake_readers(key)
        key.space, key.name = target.space, name
        target.attach(key)
        keyspace.write_row(key)
        target.notify(name, b"new", NEW)

    def flush(self) -> int:
        """Remove all keys, as one row operation. Returns their number."""
        count = len(self)
        for name in list(self.watched):
            if self.find_row(name) is not None:
                self.touch(name)
        for name in list(self.awaited):
            key = self.find_row(name)
            if key is not None:
                self.wake_readers(key)
        if count:
            keyspace = self.keyspace
            if any(each.space.has_any_in_memory for each in keyspace.databases if each is not self):
                keyspace.used_bytes -= self.space.nbytes
            else:
                keyspace.used_bytes = 0  # nothing but these, so they need not be counted
            keyspace.freeing.flushed(self.space)
            self.show(keyspace.new_space())
            keyspace.dirty += count
        return count

    def swap(self, other: "Database") -> None:
        mine, theirs = self.space, other.space
        for database in (self, other):
            for name in list(database.watched):
                if self.find_row(name) is not None or other.find_row(name) is not None:
                    database.touch(name)
        self.show(theirs)
        other.show(mine)
        for database in (self, other):
            for name in list(database.awaited):
                self.keyspace.ready.append((database, name))

    # -- telling ------------------------------------------------------------------------------

    def signal(self, name: bytes, event: bytes, kind: int) -> None:
        """Every change of a key ends here: watchers, the change counter, notifications."""
        keyspace = self.keyspace
        keyspace.dirty += 1
        if self.watched:
            self.touch(name)
        if keyspace.notify_kinds & kind:
            keyspace.notify(self, name, event, kind)

    def signal_quietly(self, name: bytes, event: bytes, kind: int) -> None:
        """`signal` for a change that Redis does not tell watchers of: the entries of a stream are
        as they were."""
        self.keyspace.dirty += 1
        self.notify(name, event, kind)

    def shrunk(self, key: Key, event: bytes, kind: int, fields: Sequence[bytes] = ()) -> None:
        """`signal` for commands that take elements away: an empty collection is no key. `fields`
        are those of a hash that went, if `tells_fields`."""
        self.signal(key.name, event, kind)
        if fields:
            self.tell_fields(key.name, event, fields)
        if not key.value:
            self.remove(key)
            self.notify(key.name, b"del", GENERIC)

    @property
    def tells_fields(self) -> bool:
        """Whether a client may want to know which fields of a hash have changed. If so, a change
        ends with `tell_fields` after `signal`."""
        return bool(self.keyspace.notify_kinds & SUBKEYS)

    def tell_fields(self, name: bytes, event: bytes, fields: Sequence[bytes]) -> None:
        keyspace = self.keyspace
        if keyspace.later is None:
            keyspace.notify_fields(self, name, event, fields)
        else:
            keyspace.later.append(partial(keyspace.notify_fields, self, name, event, fields))

    def tell_overwritten(self, name: bytes, old: Key, new: Key) -> None:
        """Announce that the value of `new` took the place of another value, as a whole."""
        self.notify(name, b"overwritten", OVERWRITTEN)
        if type(old.value) is not type(new.value):
            self.notify(name, b"type_changed", TYPE_CHANGED)

    def touch(self, name: bytes) -> None:
        undo = self.keyspace.undo
        for watcher in self.watched.get(name, ()):
            if undo is not None and not watcher.watch_broken:
                undo.append(WatchUndo(watcher))
            watcher.watch_broken = True

    def expire(self, key: Key) -> bool:
        """Remove a key whose time has come. From now on no client sees it, also if it stays in
        memory. False if the command must see it nevertheless, because the primary of this replica
        has sent the command."""
        keyspace = self.keyspace
        if keyspace.obeys_primary:
            return False
        if keyspace.keeps_expired or keyspace.is_replica:
            return True
        self.remove(key)
        keyspace.expired += 1
        if keyspace.on_removed is not None:
            keyspace.on_removed(self.index, key.name, [])
        self.notify(key.name, b"expired", EXPIRED)
        return True

    def expire_fields(self, key: Key, limit: int) -> int:
        """Remove fields of a hash whose time has come, and the hash if none is left; how many."""
        keyspace = self.keyspace
        value = key.value
        if type(value) is not Hash or (due := value.next_expiry_ms) is None:
            return 0
        horizon_ms = keyspace.fields_horizon_ms
        if due > horizon_ms:
            return 0
        names = value.expire_due(horizon_ms, limit, keyspace)
        if keyspace.on_removed is not None and names:
            keyspace.on_removed(self.index, key.name, names)
        self.shrunk(key, b"hexpired", HASH, names if self.tells_fields else ())
        return len(names)

    def notify(self, name: bytes, event: bytes, kind: int) -> None:
        keyspace = self.keyspace
        if keyspace.notify_kinds & kind:
            keyspace.notify(self, name, event, kind)

    # -- parts --------------------------------------------------------------------------------

    def _new(self, name: bytes, value: Value, expires_at_ms: int | None) -> Key:
        keyspace = self.keyspace
        key = self._add(name, value, expires_at_ms)
        if expires_at_ms is not None:
            keyspace.write_row(key)
            keyspace.expiring.push(key)
        elif keyspace.states_intents or type(value) is bytes:
            keyspace.write_row(key)
        else:
            space = self.space
            keyspace.add_new_key(space, space.id, TYPE_NAMES[type(value)], key.id, name)
        return key

    def _add(self, name: bytes, value: Value, expires_at_ms: int | None) -> Key:
        """A new key, whose row the caller must report."""
        keyspace = self.keyspace
        key = keyspace.key(keyspace.next_id, self.space, name, value, expires_at_ms)
        keyspace.next_id += 1
        key.accessed_s = keyspace.now_s
        keyspace.fold_state.created.append(key)
        if keyspace.undo is not None:
            keyspace.undo.append(KeyUndo(key, None))
        self.attach(key)
        return key

    def attach(self, key: Key) -> None:
        """The only place where a name gets a value."""
        self.keyspace.attach(key)
        self.wake_waiters(key)

    def wake_waiters(self, key: Key) -> None:
        """Called when a name got a value, and when a stream got an entry or lost a group, which may
        happen at any time. Waiters that need other events have a `ChangeWatch` or a timer
        (server/core/blocking.py)."""
        if self.awaited and key.name in self.awaited:
            self.keyspace.ready.append((self, key.name))

    def wake_readers(self, key: Key) -> None:
        """A stream goes away: wake clients that wait for it as consumers of a group."""
        if isinstance(key.value, Stream):
            self.wake_waiters(key)

    def show(self, space: Space) -> None:
        keyspace = self.keyspace
        if keyspace.undo is not None:
            keyspace.undo.append(SpaceUndo(self, self.space))
        self.space = space
        keyspace.ops.append(row_op(SPACES, self.index, None, space.id))

    def put_back(self, space: Space) -> None:
        """Undo `show`."""
        self.keyspace.used_bytes += space.nbytes - self.space.nbytes
        self.keyspace.freeing.keep(space)
        self.space = space
