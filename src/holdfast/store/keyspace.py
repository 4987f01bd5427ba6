"""All databases together: the batch being built, and what memory knows better than the file.

What is only in the file comes through `Tables`; what changes leaves as row operations.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageError
from holdfast.store.cold_rows import ColdRows
from holdfast.store.database import Database
from holdfast.store.expiry import FROM_THE_START, ExpiryHeap, fields_scheduled_ms
from holdfast.store.freeing import Freeing
from holdfast.store.frequencies import Frequencies
from holdfast.store.hashes import Hash
from holdfast.store.keys import NOT_LOADED, Key, Space, id_of
from holdfast.store.ops import (
    FIRST_ID,
    INTENT,
    KEYS,
    LIBRARY,
    SCRIPT,
    SCRIPTS,
    STRING_RUNS,
    STRINGS,
    ChangeLog,
    Op,
    Rewritten,
    Undo,
)
from holdfast.store.ordered import Ordered
from holdfast.store.renamed import Renamed
from holdfast.store.stream_entries import NODE_BYTES, NODE_ENTRIES
from holdfast.store.types import COLLECTIONS, Value

if TYPE_CHECKING:
    from holdfast.store.tables import Tables


def no_notification(database: Database, name: bytes, event: bytes, kind: int) -> None:
    """Nobody subscribed."""


def no_flush_hook() -> None:
    """Nobody tracks keys."""


class Keyspace(ChangeLog):
    """All databases, the batch of row operations being built, and what only memory knows.

    `created` and `unfolded` say where the tables are behind: keys with `id >= boundary` were
    created since the last complete fold, `unfolded` are older ones whose row changed since.
    While a fold runs, `folding` is the generation it writes and `cut` the boundary it will set.

    Strings are folded from memory: `changed_strings` are the keys whose string changed before the
    fold with the number `next_fold`, the next to begin. So are elements of hashes and sets, unless
    they are replicated. All folds before `_first_fold_due` are complete.
    """

    replica = 0  # which one this is, where there are several
    loads_rows_alone = True  # of cold collections

    @property
    def own_position(self) -> tuple[int, int]:
        """The replica's number and that of its last event, where there are several replicas."""
        return 0, 0

    def __init__(self, tables: "Tables | None" = None, databases: int = 16) -> None:
        super().__init__()
        self.tables = tables
        self.joins_elements = tables is not None and not self.is_replicated
        self.now_ms = 0
        self.now_s = 0
        self.dirty = 0  # changes since the last save
        self.hits = self.misses = self.expired = self.evicted = self.forgotten = 0
        self.frequencies: Frequencies | None = None  # under a policy that asks for them
        self.notify_kinds = 0
        # Of new entries of streams, when a node is full; see Node.
        self.stream_node_entries, self.stream_node_bytes = NODE_ENTRIES, NODE_BYTES
        self.notify: Callable[[Database, bytes, bytes, int], None] = no_notification
        self.on_flush: Callable[[], None] = no_flush_hook
        # What to tell the world once the script that runs has succeeded; see Savepoint.
        self.later: list[Callable[[], object]] | None = None
        self.freeing = Freeing()
        self.databases = [self._database(index) for index in range(databases)]
        self.forget()

    def _database(self, index: int) -> Database:
        return Database(self, index, Space(index))

    @property
    def horizon_ms(self) -> int:
        """Keys that expire until then can go."""
        return self.now_ms

    def forget(self) -> None:
        """Know what the tables say and nothing else. Sessions keep their databases, waiters and
        watches stay where they are; whoever watched anything is told that it changed."""
        self.ops: list[Op] = []
        self.large: dict[int, Rewritten] = {}  # strings that `ops` has, by id of the key
        self.recorded = 0
        self.open_runs.clear()
        self.end_run()
        self.undo: list[Undo] | None = None
        self.used_bytes = 0
        self.next_id = FIRST_ID if self.tables is None else self.tables.next_id()
        self.boundary = self.cut = self.next_id
        self.created: list[Key] = []
        self.unfolded: dict[int, Key] = {}
        self.folding: dict[int, Key] = {}
        self.changed_strings: list[Key] = []
        self._strings_in_fold: list[Key] = []
        self.changed_elements: list[tuple[Ordered[Any], list[bytes]]] = []
        self.elements_in_fold: list[tuple[Ordered[Any], list[bytes]]] = []
        self.changed_element_count = 0
        self.next_fold = self._first_fold_due = 1
        self.ready: list[tuple[Database, bytes]] = []  # names that waiters may now be served from
        self.expiring = ExpiryHeap()
        # How far the file was searched for expired keys, and for hashes with expired fields.
        self.expiry_cursor = self.fields_cursor = FROM_THE_START
        self.expiring_fields = ExpiryHeap(fields_scheduled_ms)
        # Whether `find` must do more: fields expire, or uses are counted.
        self.looks_closer = self.frequencies is not None
        self.renamed = Renamed()
        self.cold_rows = ColdRows(self)
        # Scripts by SHA1 and libraries by name, all of them always in memory.
        tables = self.tables
        self.scripts, self.libraries = (
            {} if tables is None else tables.scripts(kind) for kind in (SCRIPT, LIBRARY)
        )
        for database in self.databases:
            if database.space.has_any_in_memory:
                self.freeing.flushed(database.space)
            database.space = self._first_space(database.index)
            for name in database.watched:
                database.touch(name)

    def _first_space(self, index: int) -> Space:
        """What the file says; a database never flushed or swapped shows the space of its number."""
        if self.tables is None:
            return Space(index)
        space_id = self.tables.space_shown(index)
        return Space(space_id, self.tables.size_of_space(space_id))

    def take_crdt(self, op: Op) -> None:
        """Recovery found an operation of a replicated database."""
        raise StorageError("this is the file of an active-active server")

    def seal(self) -> None:
        """A batch is about to be committed: what is replicated has to be told."""

    def recovered(self, is_clean: Callable[[int], bool]) -> None:
        """Memory has all that the file has; `is_clean` tells of an id whether the tables do."""

    def new_space(self) -> Space:
        self.next_id += 1
        return Space(self.next_id - 1)

    def flushed(self) -> None:
        """Whoever tracks keys has to know, once it is certain."""
        if self.later is None:
            self.on_flush()
        else:
            self.later.append(self.on_flush)

    # -- keys under their names ---------------------------------------------------------------

    def key(
        self, key_id: int, space: Space, name: bytes, value: Value, expires_at_ms: int | None
    ) -> Key:
        return Key(key_id, space, name, value, expires_at_ms)

    def attach(self, key: Key) -> None:
        space = key.space
        if key.is_loaded:
            space.keys[key.name] = key
        else:
            space.unloaded[key.name] = key
            space.cold += 1
        self.used_bytes += key.nbytes

    def detach(self, key: Key) -> None:
        if not key.is_attached:
            return
        space = key.space
        if key.is_loaded:
            del space.keys[key.name]
        else:
            del space.unloaded[key.name]
            space.cold -= 1
        self.used_bytes -= key.nbytes

    def write_row(self, key: Key, *, gone: bool = False) -> None:
        row = None if gone else (key.space.id, key.name, key.type_name, key.expires_at_ms)
        self.ops.append((KEYS, key.id, None, row))
        if key.id < self.cut:
            self.unfolded[key.id] = key

    def string_changed(self, key: Key) -> None:
        if key.changed_in != self.next_fold:
            key.changed_in = self.next_fold
            self.changed_strings.append(key)

    def put_string(self, key: Key, value: bytes, old: bytes) -> None:
        """Another value for the string of a key. The operation that tells it is the caller's."""
        key.value = value
        if key.changed_in != self.next_fold:
            self.string_changed(key)
        self.used_bytes += len(value) - len(old)
        if self.undo is not None:
            self.undo.append(key)
            self.undo.append(old)

    def write_string(self, key_id: int, value: bytes) -> None:
        """A small string of a key that was there before: one more in the run, if the last operation
        is one. To make an operation of each, and to encode it, took as long as all the rest."""
        run = self.run_for(1)
        run.append(key_id)
        run.append(value)

    def run_for(self, count: int) -> list[Any]:
        """For so many strings, which the caller writes into it: id, value, id, value, ..."""
        ops = self.ops
        if ops and ops[-1] is self.run_op and self.run_of is None:
            self.recorded += count
        else:
            self.recorded += count - 1
            self.begin_run(STRING_RUNS, 0, None, [])
        return self.run

    def write_large(self, key_id: int, value: bytes, *, was_large: bool) -> None:
        """A string that is large, or was: clients that append to it or set its bits, all in one
        batch, are written down once. (If it was small, there may be operations not known here.)"""
        row = self.large.get(key_id) if was_large else None
        if row is None:
            row = self.large[key_id] = Rewritten()
        row.write((STRINGS, key_id, None, value), self)

    def intend(self, what: int, key_id: int, data: object) -> None:
        """Say what the next change means, or that there was one which changed nothing. Only
        replicated databases want to know."""
        self.ops.append((INTENT, key_id, what, data))

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
            self.undo.append((KEYS, key, None, (key.space, key.name, key.expires_at_ms)))

    def restore(self, key: Key, was: tuple[Space, bytes, int | None] | None) -> None:
        self.detach(key)
        if was is None:  # there never was such a key, and the fold is not to find its elements
            if isinstance(key.value, Ordered):
                key.value.forget_notes()
        else:
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
        self.looks_closer = True
        if afresh or value.scheduled_ms is None or due < value.scheduled_ms:
            value.scheduled_ms = due
            self.expiring_fields.push(key)

    def put_back(self, key: Key, value: bytes) -> None:
        self.used_bytes += len(value) - len(key.value)
        key.value = value

    # -- the file -----------------------------------------------------------------------------

    def load(self, space: Space, name: bytes, *, only_row: bool = False) -> Key | None:
        """A cold key, made hot. With `only_row` a collection that lives is not loaded, and one
        that has expired never is: it only comes to go."""
        row = self.cold_rows.row(space, name)
        if row is None:
            return None
        key_id, type_name, expires_at_ms = row
        needs_value = self.cold_rows.needs_value(row, only_row)
        key = space.unloaded.get(name)
        if key is not None:
            if needs_value:
                self._fill(key)
            return key
        if needs_value:
            return self.adopt(space, key_id, name, type_name, expires_at_ms)
        return self._adopt_row(space, key_id, name, type_name, expires_at_ms)

    def _adopt_row(
        self, space: Space, key_id: int, name: bytes, type_name: str, expires_at_ms: int | None
    ) -> Key:
        key = self.key(key_id, space, name, COLLECTIONS[type_name].cls(key_id), expires_at_ms)
        key.changed_in = NOT_LOADED
        space.cold -= 1
        self.attach(key)
        if expires_at_ms is not None:
            self.expiring.push(key)
        return key

    def _fill(self, key: Key) -> None:
        """Load what was not. It stays the same key, which the fold or a step back may know."""
        assert self.tables is not None
        value = self.tables.value(key.id, key.type_name, self._loaded)
        self.detach(key)
        key.value, key.changed_in = value, 0
        self.attach(key)
        self.cold_rows.forget(key.id)
        self.watch_fields(key)

    def adopt(
        self, space: Space, key_id: int, name: bytes, type_name: str, expires_at_ms: int | None
    ) -> Key:
        assert self.tables is not None
        value = self.tables.value(key_id, type_name, self._loaded)
        key = self.key(key_id, space, name, value, expires_at_ms)
        self.cold_rows.forget(key_id)
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
        self.freeing.take(key.value)
        key.value = b""
        self.forgotten += 1

    def count_uses(self, frequencies: Frequencies | None) -> None:
        self.frequencies = frequencies
        self.looks_closer = self.looks_closer or frequencies is not None

    def shows(self, space: Space) -> bool:
        """Whether a database does; not, when it was flushed."""
        return any(database.space is space for database in self.databases)

    def is_ahead_of_file(self, key_id: int) -> bool:
        """Whether memory knows more of a key's row than the tables do."""
        return key_id >= self.boundary or key_id in self.unfolded or key_id in self.folding

    def has_unwritten_value(self, key: Key) -> bool:
        """Of which the fold has to ask memory."""
        value = key.value
        changed_in = value.changed_in if isinstance(value, Ordered) else key.changed_in
        return changed_in >= self._first_fold_due

    def unwritten_rows(self) -> Iterator[Op]:
        """What the tables lack, from memory: the last of many changes is the only one to write.
        (Of what else they lack `elements_in_fold` has the names.)

        While this goes on nothing may be in memory that the journal does not have.
        """
        for key in self._strings_in_fold:
            if key.is_attached:  # else it was removed, or never was, because a script failed
                yield STRINGS, key.id, None, key.value

    def begin_fold(self) -> None:
        self.folding, self.unfolded = self.unfolded, {}
        self._strings_in_fold, self.changed_strings = self.changed_strings, []
        self.elements_in_fold, self.changed_elements = self.changed_elements, []
        self.changed_element_count = 0
        self.next_fold += 1
        self.cut = self.next_id

    def end_fold(self) -> None:
        self.folding = {}
        self._strings_in_fold = []
        self.elements_in_fold = []
        self._first_fold_due = self.next_fold
        self.boundary = self.cut
        del self.created[: bisect_left(self.created, self.boundary, key=id_of)]

    def abort_fold(self) -> None:
        self.unfolded = self.folding | self.unfolded
        self.folding = {}
        self.changed_strings = self._strings_in_fold + self.changed_strings
        self._strings_in_fold = []
        self.changed_elements = self.elements_in_fold + self.changed_elements
        self.elements_in_fold = []
        self.changed_element_count = sum([len(names) for _, names in self.changed_elements])
        self.cut = self.boundary

    def forget_dead(self) -> None:
        """`created` keeps dead keys in their place; drop them once they are the most of it."""
        living = sum(len(database.space.keys) for database in self.databases)
        if len(self.created) > 2 * living + 10_000:
            self.created = [key for key in self.created if key.is_attached]
