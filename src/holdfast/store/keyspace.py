"""Keys and databases in memory: who is called what, who is alive, who changed.

Commands read and change values through `Database`. Nothing here knows commands, clients or
SQL: what is only in the file comes through `Tables`, what changes leaves as row operations.
"""

import random
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.errors import WRONG_TYPE
from holdfast.store.expiry import ExpiryHeap, fields_scheduled_ms
from holdfast.store.hashes import Hash
from holdfast.store.ops import (
    FIRST_ID,
    KEYS,
    LIBRARY,
    SCRIPT,
    SCRIPTS,
    SPACES,
    STRINGS,
    Op,
    Undo,
)
from holdfast.store.renamed import Renamed
from holdfast.store.streams import Stream
from holdfast.store.types import TYPE_NAMES, Collection, Value

if TYPE_CHECKING:
    from holdfast.store.tables import Tables

Kind = TypeVar("Kind", bound=Collection)

# Bytes that a key costs beyond its name and value: the Key, its id, a dict slot, headers.
KEY_OVERHEAD = 256

MOST_IDS_PASSED = 1000  # by one call of SCAN that finds nothing; about a millisecond

# Kinds of events, as the letters of notify-keyspace-events say them.
GENERIC, STRING, LIST, SET, HASH, ZSET, STREAM, EXPIRED, EVICTED, NEW, MISS = (
    1 << bit for bit in range(11)
)


class Watcher(Protocol):
    """Who asked (WATCH) to learn that a key changed."""

    watch_broken: bool


class Key:
    """A name's value, while it is in memory. `accessed_s` serves OBJECT IDLETIME and eviction."""

    __slots__ = ("accessed_s", "expires_at_ms", "id", "name", "space", "value")

    def __init__(
        self, key_id: int, space: "Space", name: bytes, value: Value, expires_at_ms: int | None
    ) -> None:
        self.id = key_id
        self.space = space
        self.name = name
        self.value = value
        self.expires_at_ms = expires_at_ms
        self.accessed_s = 0

    @property
    def is_attached(self) -> bool:
        return self.space.keys.get(self.name) is self

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[type(self.value)]

    @property
    def nbytes(self) -> int:
        value = self.value
        size = len(value) if isinstance(value, bytes) else value.nbytes
        return KEY_OVERHEAD + len(self.name) + size


class Space:
    """The keys that one database shows. FLUSHDB swaps it for a new one."""

    __slots__ = ("cold", "id", "keys")

    def __init__(self, space_id: int, cold: int = 0) -> None:
        self.id = space_id
        self.keys: dict[bytes, Key] = {}
        self.cold = cold  # how many keys are in the file and not in `keys`

    def __len__(self) -> int:
        return len(self.keys) + self.cold

    @property
    def nbytes(self) -> int:
        """What its keys take in memory, counted."""
        return sum(key.nbytes for key in self.keys.values())


class Database:
    """One of the sixteen. Stays when its space is flushed or swapped."""

    __slots__ = ("awaited", "index", "keyspace", "space", "watched")

    def __init__(self, keyspace: "Keyspace", index: int, space: Space) -> None:
        self.keyspace = keyspace
        self.index = index
        self.space = space
        self.watched: dict[bytes, set[Watcher]] = {}
        # Names that somebody blocks on; the engine owns the content.
        self.awaited: dict[bytes, object] = {}

    def __len__(self) -> int:
        return len(self.space)

    # -- finding ------------------------------------------------------------------------------

    def find(self, name: bytes) -> Key | None:
        """The living key of that name, from memory or the file. The one judge of liveness."""
        space = self.space
        key = space.keys.get(name)
        keyspace = self.keyspace
        if key is None and (not space.cold or (key := keyspace.load(space, name)) is None):
            return None
        if key.expires_at_ms is not None and key.expires_at_ms <= keyspace.now_ms:
            self.expire(key)
            return None
        if keyspace.has_expiring_fields and type(key.value) is Hash:
            self.expire_fields(key, sys.maxsize)
            if not key.value:
                return None
        key.accessed_s = keyspace.now_s
        return key

    def peek(self, name: bytes) -> Key | None:
        """`find`, but looking at a key this way is no use of it: OBJECT, TYPE, TTL."""
        hot = self.space.keys.get(name)
        accessed_s = self.keyspace.now_s if hot is None else hot.accessed_s
        key = self.find(name)
        if key is not None:
            key.accessed_s = accessed_s
        return key

    def read(self, name: bytes, *, is_use: bool = True) -> Key | None:
        """`find` or `peek`, for commands that read: counts hits and misses."""
        key = self.find(name) if is_use else self.peek(name)
        if key is not None:
            self.keyspace.hits += 1
        else:
            self.keyspace.misses += 1
            self.notify(name, b"keymiss", MISS)
        return key

    def read_string(self, name: bytes) -> bytes | None:
        """None when missing; WRONGTYPE when it is something else."""
        key = self.read(name)
        if key is None:
            return None
        value = key.value
        if type(value) is bytes:
            return value
        raise WRONG_TYPE

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

    def set_string(
        self, name: bytes, value: bytes, expires_at_ms: int | None = None, *, keep_ttl: bool = False
    ) -> Key:
        """Whatever the name held before, it is this string now."""
        key = self.find(name)
        if key is None:
            return self.create(name, value, expires_at_ms)
        old = key.value
        if type(old) is not bytes:
            if keep_ttl:
                expires_at_ms = key.expires_at_ms
            self.remove(key)
            return self.create(name, value, expires_at_ms, is_new=False)
        self.replace(key, value, old)
        if not keep_ttl and key.expires_at_ms != expires_at_ms:
            self.set_expiry(key, expires_at_ms)
        return key

    def replace(self, key: Key, value: bytes, old: bytes) -> None:
        """Another value for the string that the key holds; its expiry stays."""
        keyspace = self.keyspace
        key.value = value
        keyspace.ops.append((STRINGS, key.id, None, value))
        keyspace.used_bytes += len(value) - len(old)
        if keyspace.undo is not None:
            keyspace.undo.append((keyspace.put_back, key, old))

    def create(
        self, name: bytes, value: bytes, expires_at_ms: int | None = None, *, is_new: bool = True
    ) -> Key:
        """A new string key; the name must be free, and `is_new` says whether it was before."""
        key = self._new(name, value, expires_at_ms)
        self.keyspace.ops.append((STRINGS, key.id, None, value))
        if is_new:
            self.notify(name, b"new", NEW)
        return key

    def create_as(self, name: bytes, kind: type[Kind], *, is_new: bool = True) -> tuple[Key, Kind]:
        """A new, empty collection; the caller fills it at once. See `create`."""
        value = kind(self.keyspace.next_id)
        key = self._new(name, value, None)
        if is_new:
            self.notify(name, b"new", NEW)
        return key, value

    def copy(self, key: Key, name: bytes) -> Key:
        """A new key here with the same value and expiry; the name must be free."""
        keyspace = self.keyspace
        if isinstance(key.value, bytes):
            return self.create(name, key.value, key.expires_at_ms)
        ops, row_at = keyspace.ops, len(keyspace.ops)
        value = key.value.copy(keyspace.next_id, keyspace)
        twin = self._new(name, value, key.expires_at_ms)
        ops.insert(row_at, ops.pop())  # recovery has to hear of a key before its elements
        keyspace.watch_fields(twin)
        self.notify(name, b"new", NEW)
        return twin

    def set_expiry(self, key: Key, expires_at_ms: int | None) -> None:
        keyspace = self.keyspace
        keyspace.remember(key)
        key.expires_at_ms = expires_at_ms
        keyspace.write_row(key)
        if expires_at_ms is not None:
            keyspace.expiring.push(key)

    def remove(self, key: Key) -> None:
        keyspace = self.keyspace
        keyspace.remember(key)
        keyspace.detach(key)
        keyspace.write_row(key, gone=True)
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
        """All keys gone, as one row operation. Returns how many there were."""
        count = len(self)
        for name in list(self.watched):
            if self.find(name) is not None:
                self.touch(name)
        for name in list(self.awaited):
            key = self.find(name)
            if key is not None:
                self.wake_readers(key)
        if count:
            keyspace = self.keyspace
            keyspace.used_bytes -= self.space.nbytes
            self.show(keyspace.new_space())
            keyspace.dirty += count
        return count

    def swap(self, other: "Database") -> None:
        mine, theirs = self.space, other.space
        for database in (self, other):
            for name in list(database.watched):
                if self.find(name) is not None or other.find(name) is not None:
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

    def shrunk(self, key: Key, event: bytes, kind: int) -> None:
        """`signal` for commands that take elements away: an empty collection is no key."""
        self.signal(key.name, event, kind)
        if not key.value:
            self.remove(key)
            self.notify(key.name, b"del", GENERIC)

    def touch(self, name: bytes) -> None:
        undo = self.keyspace.undo
        for watcher in self.watched.get(name, ()):
            if undo is not None and not watcher.watch_broken:
                undo.append((_mend_watch, watcher, None))
            watcher.watch_broken = True

    def expire(self, key: Key) -> None:
        self.remove(key)
        self.keyspace.expired += 1
        self.notify(key.name, b"expired", EXPIRED)

    def expire_fields(self, key: Key, limit: int) -> int:
        """Remove fields of a hash whose time has come, and the hash if none is left; how many."""
        keyspace = self.keyspace
        value = key.value
        if type(value) is not Hash or (due := value.next_expiry_ms) is None:
            return 0
        if due > keyspace.now_ms:
            return 0
        count = value.expire_due(keyspace.now_ms, limit, keyspace)
        self.shrunk(key, b"hexpired", HASH)
        return count

    def notify(self, name: bytes, event: bytes, kind: int) -> None:
        keyspace = self.keyspace
        if keyspace.notify_kinds & kind:
            keyspace.notify(self, name, event, kind)

    # -- parts --------------------------------------------------------------------------------

    def _new(self, name: bytes, value: Value, expires_at_ms: int | None) -> Key:
        keyspace = self.keyspace
        key = Key(keyspace.next_id, self.space, name, value, expires_at_ms)
        keyspace.next_id += 1
        key.accessed_s = keyspace.now_s
        keyspace.created.append(key)
        if keyspace.undo is not None:
            keyspace.undo.append((keyspace.restore, key, None))
        self.attach(key)
        keyspace.write_row(key)
        if expires_at_ms is not None:
            keyspace.expiring.push(key)
        return key

    def attach(self, key: Key) -> None:
        """The one place where a name comes to hold something."""
        self.keyspace.attach(key)
        self.wake_waiters(key)

    def wake_waiters(self, key: Key) -> None:
        """The one place where waiters wake: a name came to hold something, or there is news of a
        stream, which may get entries and lose groups long after that."""
        if key.name in self.awaited:
            self.keyspace.ready.append((self, key.name))

    def wake_readers(self, key: Key) -> None:
        """Whoever waits for a stream that goes away does so no longer, if he reads for a group."""
        if isinstance(key.value, Stream):
            self.wake_waiters(key)

    def show(self, space: Space) -> None:
        keyspace = self.keyspace
        if keyspace.undo is not None:
            keyspace.undo.append((_put_space, self, self.space))
        self.space = space
        keyspace.ops.append((SPACES, self.index, None, space.id))


def _put_space(database: Database, space: Space) -> None:
    database.keyspace.used_bytes += space.nbytes - database.space.nbytes
    database.space = space


def _mend_watch(watcher: Watcher, _: None) -> None:
    watcher.watch_broken = False


def no_notification(database: Database, name: bytes, event: bytes, kind: int) -> None:
    """Nobody subscribed."""


def no_flush_hook() -> None:
    """Nobody tracks keys."""


class Keyspace:
    """All databases, the batch of row operations being built, and what only memory knows.

    `created` and `unfolded` say where the tables are behind: keys with `id >= boundary` were
    created since the last complete fold, `unfolded` are older ones whose row changed since.
    While a fold runs, `folding` is the generation it writes and `cut` the boundary it will set.
    """

    def __init__(self, tables: "Tables | None" = None, databases: int = 16) -> None:
        self.tables = tables
        self.now_ms = 0
        self.now_s = 0
        self.dirty = 0  # changes since the last save
        self.hits = self.misses = self.expired = self.evicted = 0
        self.notify_kinds = 0
        self.notify: Callable[[Database, bytes, bytes, int], None] = no_notification
        self.on_flush: Callable[[], None] = no_flush_hook
        # What to tell the world once the script that runs has succeeded; see Savepoint.
        self.later: list[Callable[[], object]] | None = None
        self.databases = [Database(self, index, Space(index)) for index in range(databases)]
        self.forget()

    def forget(self) -> None:
        """Know what the tables say and nothing else. Sessions keep their databases, waiters and
        watches stay where they are; whoever watched anything is told that it changed."""
        self.ops: list[Op] = []
        self.undo: list[Undo] | None = None
        self.used_bytes = 0
        self.next_id = FIRST_ID if self.tables is None else self.tables.next_id()
        self.boundary = self.cut = self.next_id
        self.created: list[Key] = []
        self.unfolded: dict[int, Key] = {}
        self.folding: dict[int, Key] = {}
        self.ready: list[tuple[Database, bytes]] = []  # names that waiters may now be served from
        self.expiring = ExpiryHeap()
        self.expiring_fields = ExpiryHeap(fields_scheduled_ms)
        self.has_expiring_fields = False  # whether there ever were any
        self.renamed = Renamed()
        # Scripts by SHA1 and libraries by name, all of them always in memory.
        tables = self.tables
        self.scripts, self.libraries = (
            {} if tables is None else tables.scripts(kind) for kind in (SCRIPT, LIBRARY)
        )
        for database in self.databases:
            database.space = self._first_space(database.index)
            for name in database.watched:
                database.touch(name)

    def _first_space(self, index: int) -> Space:
        """What the file says; a database never flushed or swapped shows the space of its number."""
        if self.tables is None:
            return Space(index)
        space_id = self.tables.space_shown(index)
        return Space(space_id, self.tables.size_of_space(space_id))

    def new_space(self) -> Space:
        self.next_id += 1
        return Space(self.next_id - 1)

    # -- keys under their names ---------------------------------------------------------------

    def attach(self, key: Key) -> None:
        key.space.keys[key.name] = key
        self.used_bytes += key.nbytes

    def detach(self, key: Key) -> None:
        if key.is_attached:
            del key.space.keys[key.name]
            self.used_bytes -= key.nbytes

    def write_row(self, key: Key, *, gone: bool = False) -> None:
        row = None if gone else (key.space.id, key.name, key.type_name, key.expires_at_ms)
        self.ops.append((KEYS, key.id, None, row))
        if key.id < self.cut:
            self.unfolded[key.id] = key

    def write_script(self, kind: int, name: bytes, body: bytes | None) -> None:
        self.set_script(kind, name, body)
        self.ops.append((SCRIPTS, kind, name, body))
        self.dirty += 1

    def set_script(self, kind: int, name: bytes, body: bytes | None) -> None:
        bodies = self.libraries if kind == LIBRARY else self.scripts
        if body is None:
            bodies.pop(name, None)
        else:
            bodies[name] = body

    # -- rolling back -------------------------------------------------------------------------

    def remember(self, key: Key) -> None:
        if self.undo is not None:
            self.undo.append((self.restore, key, (key.space, key.name, key.expires_at_ms)))

    def restore(self, key: Key, was: tuple[Space, bytes, int | None] | None) -> None:
        self.detach(key)
        if was is not None:
            key.space, key.name, key.expires_at_ms = was
            self.attach(key)
            if key.expires_at_ms is not None:
                self.expiring.push(key)
            self.watch_fields(key, afresh=True)

    def watch_fields(self, key: Key, afresh: bool = False) -> None:
        """Have a hash looked at when the first of its fields expires. `afresh`: a look that was
        planned before is over, or lost."""
        value = key.value
        if type(value) is not Hash or (due := value.next_expiry_ms) is None:
            return
        self.has_expiring_fields = True
        if afresh or value.scheduled_ms is None or due < value.scheduled_ms:
            value.scheduled_ms = due
            self.expiring_fields.push(key)

    def put_back(self, key: Key, value: bytes) -> None:
        self.used_bytes += len(value) - len(key.value)
        key.value = value

    # -- the file -----------------------------------------------------------------------------

    def load(self, space: Space, name: bytes) -> Key | None:
        """A cold key, made hot. Rows that memory knows better than the file are not believed."""
        assert self.tables is not None
        for key_id, type_name, expires_at_ms in self.tables.rows_named(space.id, name):
            if not self.is_ahead_of_file(key_id):
                return self.adopt(space, key_id, name, type_name, expires_at_ms)
        return None

    def adopt(
        self, space: Space, key_id: int, name: bytes, type_name: str, expires_at_ms: int | None
    ) -> Key:
        assert self.tables is not None
        value = self.tables.value(key_id, type_name, self._loaded)
        key = Key(key_id, space, name, value, expires_at_ms)
        space.cold -= 1
        self.attach(key)
        if expires_at_ms is not None:
            self.expiring.push(key)
        self.watch_fields(key)
        return key

    def _loaded(self, nbytes: int) -> None:
        self.used_bytes += nbytes

    def evict(self, key: Key) -> None:
        """Forget a key that the file has. The object may live on in a heap: empty it."""
        self.detach(key)
        key.space.cold += 1
        key.value = b""
        self.evicted += 1

    def is_ahead_of_file(self, key_id: int) -> bool:
        return key_id >= self.boundary or key_id in self.unfolded or key_id in self.folding

    def begin_fold(self) -> None:
        self.folding, self.unfolded = self.unfolded, {}
        self.cut = self.next_id

    def end_fold(self) -> None:
        self.folding = {}
        self.boundary = self.cut
        del self.created[: bisect_left(self.created, self.boundary, key=_id_of)]

    def abort_fold(self) -> None:
        self.unfolded = self.folding | self.unfolded
        self.folding = {}
        self.cut = self.boundary

    # -- walking all keys ---------------------------------------------------------------------

    def scan(self, space: Space, after_id: int, limit: int) -> tuple[int, list[tuple[bytes, str]]]:
        """`walk` for walks during which keys change: a name that is there throughout is seen,
        maybe more than once. Ids of other spaces and of the dead are passed over, some at a
        time, so that it takes not many more calls than the space has keys for."""
        if not space.cold and len(space.keys) <= limit:
            found = [(key.name, key.type_name) for key in space.keys.values() if self._lives(key)]
            return 0, found
        last_id, found = self.walk(space, after_id, limit)
        for _ in range(MOST_IDS_PASSED // limit):
            if found or not last_id:
                break
            last_id, found = self.walk(space, last_id, limit)
        for name in self.renamed.between(after_id, last_id or self.next_id, space):
            key = space.keys.get(name) or (self.load(space, name) if space.cold else None)
            if key is not None and key.id <= after_id:
                self._add_if_living(key, space, found)
        return last_id, found

    def walk(self, space: Space, after_id: int, limit: int) -> tuple[int, list[tuple[bytes, str]]]:
        """Names and types of living keys in order of id, from memory and file.

        Looks at no more than `limit` ids. Returns the id to go on after, 0 at the end. A key
        keeps its id for life, so one that is there throughout is seen; one that is created
        meanwhile has a higher id and comes later.
        """
        found: list[tuple[bytes, str]] = []
        if self.tables is not None and after_id < self.boundary:
            rows = self.tables.rows_after(after_id, self.boundary, limit)
            for key_id, space_id, name, type_name, expires_at_ms in rows:
                after_id = key_id
                key = self.unfolded.get(key_id) or self.folding.get(key_id)
                if key is not None:
                    self._add_if_living(key, space, found)
                elif space_id == space.id and (
                    expires_at_ms is None or expires_at_ms > self.now_ms
                ):
                    found.append((name, type_name))
            limit -= len(rows)
        if limit > 0:
            start = bisect_right(self.created, after_id, key=_id_of)
            for key in self.created[start : start + limit]:
                after_id = key.id
                self._add_if_living(key, space, found)
            if start + limit >= len(self.created):
                after_id = 0
        return after_id, found

    def _add_if_living(self, key: Key, space: Space, found: list[tuple[bytes, str]]) -> None:
        if key.space is space and key.is_attached and self._lives(key):
            found.append((key.name, key.type_name))

    def _lives(self, key: Key) -> bool:
        return key.expires_at_ms is None or key.expires_at_ms > self.now_ms

    def names(self, space: Space) -> Iterator[bytes]:
        cursor = 0
        while len(space):
            cursor, found = self.walk(space, cursor, 1000)
            for name, _ in found:
                yield name
            if not cursor:
                return

    def random_name(self, space: Space, rng: random.Random) -> bytes | None:
        """A living key from a random place, or None when there is none."""
        for _ in range(32 if len(space) else 0):
            _, found = self.walk(space, rng.randrange(FIRST_ID - 1, self.next_id), 16)
            if found:
                return rng.choice(found)[0]
        return next(self.names(space), None)

    def forget_dead(self) -> None:
        """`created` keeps dead keys in their place; drop them once they are the most of it."""
        living = sum(len(database.space.keys) for database in self.databases)
        if len(self.created) > 2 * living + 10_000:
            self.created = [key for key in self.created if key.is_attached]


def _id_of(key: Key) -> int:
    return key.id
