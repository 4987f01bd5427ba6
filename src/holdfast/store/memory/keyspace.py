"""All databases together: the open batch, and the facts in which memory is ahead of the file.

Keys that only the file has are read through `Tables`. Changes leave as row operations. The file is
long for the same reason as database.py.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import StorageError
from holdfast.store.change.change_log import ChangeLog, RewrittenRow
from holdfast.store.change.fold_state import FoldState
from holdfast.store.change.intents import Intent
from holdfast.store.change.ops import (
    FIRST_ID,
    LIBRARY,
    POSITION,
    REPLICATION,
    SCRIPT,
    SCRIPTS,
    Op,
    RowOp,
    key_row,
    row_op,
    string_part,
    string_row,
)
from holdfast.store.change.undo import KeyUndo, PartUndo, StringUndo, Undo
from holdfast.store.memory.cold_rows import ColdRows
from holdfast.store.memory.database import Database
from holdfast.store.memory.expiry import FROM_THE_START, ExpiryHeap, fields_scheduled_ms
from holdfast.store.memory.key import NOT_LOADED, Key, Space
from holdfast.store.memory.lazy_free import Freeing
from holdfast.store.memory.lfu import Frequencies
from holdfast.store.memory.loads import Load, Loads, NotLoadedError
from holdfast.store.memory.packed_keys import LONGEST, SLOT_BYTES, Packed
from holdfast.store.memory.packing import body_of, value_of
from holdfast.store.memory.renamed import Renamed
from holdfast.store.memory.string_parts import edit
from holdfast.store.values.hash import Hash
from holdfast.store.values.insertion_order import Ordered
from holdfast.store.values.registry import COLLECTIONS, Value
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_entries import NODE_BYTES, NODE_ENTRIES
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_idempotence import DURATION_S, MAXSIZE

if TYPE_CHECKING:
    from holdfast.store.file.tables import Tables


LONGEST_EMBEDDED: Final = 44  # bytes: Redis keeps longer strings as it keeps those that were edited
MOST_EDITED: Final = 1024
MOST_COPIED: Final = 10_000  # keys of a dict, in less than a millisecond
NEVER: Final = -1  # see Keyspace.may_wait_at
# Database, name of the key, event, fields of the hash.
FieldNotification = Callable[[Database, bytes, bytes, Sequence[bytes]], None]


def no_notification(database: Database, name: bytes, event: bytes, kind: int) -> None:
    """No client wants notifications."""


def no_field_notification(
    database: Database, name: bytes, event: bytes, fields: Sequence[bytes]
) -> None:
    """No client wants to know which fields changed."""


def no_flush_hook() -> None:
    """No client tracks keys."""


class Keyspace(ChangeLog):
    """All databases, and the batch being built. `fold_state` says where the tables are behind."""

    is_active_active = False  # scripts may ask
    takes_entry_ids = True  # whether clients may choose the ids of the entries that they add
    loads_rows_alone = True  # of cold collections
    may_pack = True  # small keys, once the file has them; not where rows are not loaded alone

    @property
    def own_position(self) -> tuple[int, int]:
        """The replica's number and that of its last event, where there are several replicas."""
        return 0, 0

    def __init__(self, tables: "Tables | None" = None, databases: int = 16) -> None:
        super().__init__()
        self.tables = tables
        self.joins_elements = tables is not None and not self.states_intents
        self.now_ms = 0
        self.now_s = 0
        self.dirty = 0  # changes since the last save
        self.hits = self.misses = self.expired = self.evicted = self.forgotten = 0
        self.frequencies: Frequencies | None = None  # under a policy that asks for them
        self.notify_kinds = 0
        # When a node of a stream is full, for new entries; see Node.
        self.stream_node_entries, self.stream_node_bytes = NODE_ENTRIES, NODE_BYTES
        # How long a stream keeps idempotent ids, and how many, unless XCFGSET says it.
        self.stream_idmp_duration_s, self.stream_idmp_maxsize = DURATION_S, MAXSIZE
        self.notify: Callable[[Database, bytes, bytes, int], None] = no_notification
        self.notify_fields: FieldNotification = no_field_notification
        self.on_flush: Callable[[], None] = no_flush_hook
        # Called when a key has expired or was evicted, or fields of a hash have expired: with the
        # index of the database, the name of the key, the fields. None while there are no replicas.
        self.on_removed: Callable[[int, bytes, list[bytes]], None] | None = None
        # Called when a record of a peer has changed keys: with the index of the database, and a
        # command with the same effect. None while there are no replicas.
        self.on_shown: Callable[[list[tuple[int, list[bytes]]]], None] | None = None
        # Calls that wait until the running script has succeeded; see Savepoint.
        self.later: list[Callable[[], object]] | None = None
        self.freeing = Freeing()
        self.loads = Loads(self)
        # The value that `changes` had when the running command began, if that command may wait
        # until a large collection is loaded; else NEVER. After a change it may not wait any more.
        self.may_wait_at = NEVER
        # Keys stay when their time has come: nothing may change, see server/features/pause.py. No
        # command that writes may run meanwhile, because it would take an expired key for a free
        # name.
        self.keeps_expired = False
        # Another server decides which keys have expired. They stay until it deletes them, and no
        # client sees them meanwhile.
        self.is_replica = False
        # The command that runs comes from that server. It sees expired keys, because they were
        # there when that server ran it.
        self.obeys_primary = False
        # Short strings that a command has changed in part, by id of the key; the last ones.
        self.edited: dict[int, bytes] = {}
        self.databases = [self._database(index) for index in range(databases)]
        self.forget()

    def note_edited(self, key: Key) -> None:
        """A command has changed a part of the string. Redis remembers that in its encoding, as long
        as the string is not replaced."""
        value = key.value
        if type(value) is bytes and len(value) <= LONGEST_EMBEDDED:
            edited = self.edited
            edited[key.id] = value
            if len(edited) > MOST_EDITED:
                del edited[next(iter(edited))]

    def is_edited(self, key: Key) -> bool:
        return self.edited.get(key.id) is key.value

    def _database(self, index: int) -> Database:
        return Database(self, index, Space(index))

    def is_past(self, expires_at_ms: int) -> bool:
        """Whether a key or field with this expiry is deleted at once. Not if the command comes from
        the primary of this replica, which also sends the deletion."""
        return expires_at_ms <= self.now_ms and not self.obeys_primary

    @property
    def horizon_ms(self) -> int:
        """Keys that expire until then can go."""
        return self.now_ms

    @property
    def fields_horizon_ms(self) -> int:
        """Fields of hashes that expire until then can go."""
        return 0 if self.is_replica else self.now_ms

    def forget(self) -> None:
        """Forget everything that the tables do not have. Sessions keep their databases; waiters and
        watches stay. Every watched name counts as changed."""
        self.ops: list[Op] = []
        self.intents: list[Intent] = []
        self.large: dict[int, RewrittenRow] = {}  # strings that `ops` has, by id of the key
        self.recorded = 0
        self.open_runs.clear()
        self.end_run()
        self.undo: list[Undo] | None = None
        self.used_bytes = 0
        self.next_id = FIRST_ID if self.tables is None else self.tables.next_id()
        self.fold_state: FoldState[Key] = FoldState(self.next_id)
        self.ready: list[tuple[Database, bytes]] = []  # names that waiters may now be served from
        self.expiring = ExpiryHeap()
        # How far the file was searched for expired keys, and for hashes with expired fields.
        self.expiry_cursor = self.fields_cursor = FROM_THE_START
        self.is_search_over = True  # of the search for keys
        self.searched_at_ms = 0  # when it last began at the start
        self.expiring_fields = ExpiryHeap(fields_scheduled_ms, moves_later=False)
        # Whether `find` must do more: fields expire, or uses are counted.
        self.needs_slow_find = self.frequencies is not None
        self.renamed = Renamed()
        self.cold_rows = ColdRows(self)
        self.loads.clear()
        # Scripts by SHA1 and libraries by name, all of them always in memory.
        tables = self.tables
        self.scripts, self.libraries = (
            {} if tables is None else tables.scripts(kind) for kind in (SCRIPT, LIBRARY)
        )
        self.replication_position = None if tables is None else tables.replication_position()
        for database in self.databases:
            if database.space.has_any_in_memory:
                self.freeing.flushed(database.space)
            database.space = self._first_space(database.index)
            for name in database.watched:
                database.touch(name)

    def _first_space(self, index: int) -> Space:
        """The space that the file names for a database; at first it has the number of the
        database."""
        if self.tables is None:
            return Space(index)
        space_id = self.tables.space_shown(index)
        return Space(space_id, self.tables.size_of_space(space_id))

    def take_crdt(self, op: RowOp) -> None:
        """Recovery found an operation of a replicated database."""
        raise StorageError("this is the file of an active-active server")

    @property
    def open_ops(self) -> int:
        """How many operations the open batch has: memory is ahead of the journal by these."""
        return len(self.ops)

    def seal(self) -> list[Op]:
        """The open batch, as the journal takes it."""
        return self.ops

    def end_batch(self) -> None:
        """The batch is committed, or nothing can be committed any more."""
        self.ops = []
        if self.intents:
            self.intents = []
        self.recorded = 0
        self.large.clear()

    def recovered(self, is_clean: Callable[[int], bool]) -> None:
        """Recovery is complete. `is_clean` says whether the tables have all changes of a key id."""

    def next_entry_id(self, stream: Stream) -> tuple[int, int]:
        """The parts of the id for a new entry."""
        return stream.next_parts(self.now_ms)

    def group_lag(self, stream: Stream, group: Group) -> int | None:
        """How many entries the group was not given yet; None when that is not known."""
        return stream.lag_of(group)

    def new_space(self) -> Space:
        self.next_id += 1
        return Space(self.next_id - 1)

    def flushed(self) -> None:
        """Tell the clients that track keys, once it is certain."""
        self.fold_state.large.clear()  # it may have values of flushed keys
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
        if self.fold_state.large:
            self.fold_state.large.pop(key.id, None)  # its value may be taken apart
        space = key.space
        if key.is_loaded:
            del space.keys[key.name]
        else:
            del space.unloaded[key.name]
            space.cold -= 1
        self.used_bytes -= key.nbytes

    def write_row(self, key: Key, *, gone: bool = False) -> None:
        row = None if gone else (key.space.id, key.name, key.type_name, key.expires_at_ms)
        self.end_new_keys()
        self.ops.append(key_row(key.id, row))
        state = self.fold_state
        if key.id < state.pass_below_id:
            state.unfolded[key.id] = key

    def string_changed(self, key: Key) -> None:
        """The next pass of the fold must write it."""
        state = self.fold_state
        if key.dirty_in_fold != state.next_fold:
            key.dirty_in_fold = state.next_fold
            state.dirty_strings.append(key)

    def put_string(self, key: Key, value: bytes, old: bytes) -> None:
        """Another value for the string of a key. The caller must append the row operation."""
        key.value = value
        if key.dirty_in_fold != self.fold_state.next_fold:
            self.string_changed(key)
        self.used_bytes += len(value) - len(old)
        if self.undo is not None:
            self.undo.append(StringUndo(key, old))

    def put_part(self, key: Key, offset: int, part: bytes) -> None:
        """Bytes from an offset on, in the string of a key; the journal gets these alone."""
        length = len(key.value)
        end = offset + len(part)
        if self.undo is not None:
            value = key.value
            assert type(value) is bytes
            self.undo.append(PartUndo(key, offset, value[offset:end], length))
            value = b""  # else the string would be copied
        self.large.pop(key.id, None)  # a whole string that follows must stand behind this one
        # Before the string is edited: if there is no memory for it, it may be gone, and a command
        # that has failed without a change would leave it so.
        self.ops.append(string_part(key.id, offset, part))
        edit(key, offset, part, max(length, end))
        if key.dirty_in_fold != self.fold_state.next_fold:
            self.string_changed(key)
        if end > length:
            self.used_bytes += end - length

    def write_string(self, key_id: int, value: bytes) -> None:
        """A small string of a key that existed before: one more in a run."""
        run = self.add_strings(1)
        run.append(key_id)
        run.append(value)

    def write_large(self, key_id: int, value: bytes, *, was_large: bool) -> None:
        """A string that is large, or was: clients that append to it or set its bits, all in one
        batch, are written down once. (If it was small, there may be operations not known here.)"""
        row = self.large.get(key_id) if was_large else None
        if row is None:
            row = self.large[key_id] = RewrittenRow()
        row.write(string_row(key_id, value), self)

    def write_script(self, kind: int, name: bytes, body: bytes | None) -> None:
        self.set_script(kind, name, body)
        self.ops.append(row_op(SCRIPTS, kind, name, body))
        self.dirty += 1

    def set_script(self, kind: int, name: bytes, body: bytes | None) -> None:
        bodies = self.libraries if kind == LIBRARY else self.scripts
        if body is None:
            bodies.pop(name, None)
        else:
            bodies[name] = body

    def set_position(self, position: bytes | None) -> None:
        """How far this server follows another one, with the open batch. None: it does not."""
        self.replication_position = position
        self.ops.append(row_op(REPLICATION, 0, POSITION, position))

    # -- rolling back -------------------------------------------------------------------------

    def remember(self, key: Key) -> None:
        if self.undo is not None:
            self.undo.append(KeyUndo(key, (key.space, key.name, key.expires_at_ms)))

    def restore(self, key: Key, was: tuple[Space, bytes, int | None] | None) -> None:
        self.detach(key)
        if was is None:  # there was no such key before, so the fold must not find its elements
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
        self.needs_slow_find = True
        if afresh or value.scheduled_ms is None or due < value.scheduled_ms:
            value.scheduled_ms = due
            self.expiring_fields.push(key)

    def put_back(self, key: Key, value: bytes) -> None:
        self.used_bytes += len(value) - len(key.value)
        key.value = value

    def put_part_back(self, key: Key, offset: int, was: bytes, length: int) -> None:
        self.used_bytes += length - len(key.value)
        edit(key, min(offset, length), was, length)

    # -- the file -----------------------------------------------------------------------------

    def load(self, space: Space, name: bytes, *, only_row: bool = False) -> Key | None:
        """Make a cold key hot. With `only_row` a living collection is not loaded. A collection that
        has expired is never loaded, because it is removed next."""
        packed = space.packed
        if packed is not None:
            if name in packed:
                return self.unpack(space, name)
            if len(packed) >= space.cold:
                return None  # memory has all of them, so the file need not be asked
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

    def begin_load(self, space: Space, name: bytes) -> Load | None:
        """The load of a cold collection, which may be under way already. None when there is nothing
        to load: of a list only the elements that a command needs are loaded."""
        if space.packed is not None and self.unpack(space, name) is not None:
            return None
        row = self.cold_rows.row(space, name) if self.loads_rows_alone else None
        if row is None or row[1] in ("string", "list"):
            return None
        if not self.cold_rows.needs_value(row, False):
            return None
        key = space.unloaded.get(name)
        if key is None:
            key = self._adopt_row(space, row[0], name, row[1], row[2])
        return self.loads.begin(key)

    @property
    def _may_wait(self) -> bool:
        return self.loads_rows_alone and self.may_wait_at == self.changes

    def _adopt_row(
        self, space: Space, key_id: int, name: bytes, type_name: str, expires_at_ms: int | None
    ) -> Key:
        key = self.key(key_id, space, name, COLLECTIONS[type_name].cls(key_id), expires_at_ms)
        key.dirty_in_fold = NOT_LOADED
        space.cold -= 1
        self.attach(key)
        if expires_at_ms is not None:
            self.expiring.push(key)
        return key

    def _fill(self, key: Key) -> None:
        """Load the elements of a key that has none yet."""
        load = self.loads.begin(key)
        if not self._may_wait:
            self.loads.finish(load)
        elif load.value is not None or self.loads.step(load):
            raise NotLoadedError([load])

    def give_value(self, key: Key, value: Value) -> None:
        """A key is loaded. It stays the same object, because the fold or an undo step may refer to
        it."""
        self.detach(key)
        key.value, key.dirty_in_fold = value, 0
        self.attach(key)
        self.cold_rows.forget(key.id)
        self.watch_fields(key)
        for database in self.databases:
            if database.awaited and database.space is key.space:
                database.wake_waiters(key)  # they could not be served from a key without elements

    def adopt(
        self, space: Space, key_id: int, name: bytes, type_name: str, expires_at_ms: int | None
    ) -> Key:
        """Make a cold key hot. Raises NotLoadedError if it is a large collection, which is loaded
        in slices."""
        assert self.tables is not None
        value, rest = self.tables.value(key_id, type_name, self.loaded)
        if rest is not None:
            if self._may_wait:
                key = self._adopt_row(space, key_id, name, type_name, expires_at_ms)
                load = self.loads.begin(key)
                load.value, load.rest = value, rest
                raise NotLoadedError([load])
            for _ in rest:
                pass
        key = self.key(key_id, space, name, value, expires_at_ms)
        self.cold_rows.forget(key_id)
        space.cold -= 1
        self.attach(key)
        if expires_at_ms is not None:
            self.expiring.push(key)
        self.watch_fields(key)
        return key

    def loaded(self, nbytes: int) -> None:
        """A list has loaded so many bytes more."""
        self.used_bytes += nbytes

    def evict(self, key: Key) -> None:
        """Forget a key that the file has. The object may live on in a heap: empty it."""
        self.cold_rows.note(key)
        self.detach(key)
        key.space.cold += 1
        self.freeing.take(key.value)
        key.value = b""
        self.forgotten += 1

    # -- packed keys --------------------------------------------------------------------------

    def packs_at_once(self, key_id: int) -> bool:
        """Whether a new key is packed at once, if it is small. Not while a script runs, because the
        undo steps of a script have keys. Not where no fold reads the keys."""
        return (
            self.may_pack
            and self.joins_elements
            and self.undo is None
            and self.fold_state.packs(key_id)
        )

    def added_packed(self, space: Space, key_id: int, name: bytes, size: int) -> None:
        """A new key was packed, in a record of this size."""
        self.next_id = key_id + 1
        self.used_bytes += size + SLOT_BYTES
        space.cold += 1
        self.fold_state.note_packed(key_id, space, name)

    def pack(self, key: Key) -> None:
        """Keep a key that the file has, and that is small, as bytes. It must be in memory."""
        body = body_of(key.value)
        name = key.name
        if body is None or len(name) > LONGEST:
            return
        space, expires_at_ms = key.space, key.expires_at_ms
        size: int = space.packed_keys().put(
            name, key.id, body[0], key.accessed_s, expires_at_ms, body[1]
        )
        nbytes = key.nbytes
        del space.keys[name]
        self.used_bytes += size + SLOT_BYTES - nbytes
        space.cold += 1
        if expires_at_ms is not None:
            key.value = b""  # the object lives on in the heap of expiries

    def tidy(self, packed: int) -> None:
        """A pass of the fold has ended, and has packed about this number of keys. A dict does not
        shrink by itself, so the dict of a space that has few keys left is replaced."""
        for database in self.databases:
            space = database.space
            if space.packed is not None and len(space.keys) < min(packed // 8, MOST_COPIED):
                space.keys = dict(space.keys)

    def unpack(self, space: Space, name: bytes) -> Key | None:
        """Make a packed key hot. None if there is no packed key of that name."""
        packed = space.packed
        if packed is None:
            return None
        before: int = packed.nbytes
        taken: Packed | None = packed.take(name)
        if taken is None:
            return None
        key_id, kind, accessed_s, expires_at_ms, body = taken
        key = self.key(key_id, space, name, value_of(kind, key_id, body), expires_at_ms)
        key.accessed_s = accessed_s
        self.used_bytes -= before - packed.nbytes + SLOT_BYTES
        space.cold -= 1
        self.attach(key)
        if key_id >= self.fold_state.folded_below_id:
            self._revive(key)
        if expires_at_ms is not None:
            self.expiring.push(key)
        return key

    def _revive(self, key: Key) -> None:
        """A key that was packed when it was made is an object from now on, and the tables lack it.
        The running pass or the next one reads the object."""
        state, value = self.fold_state, key.value
        if isinstance(value, Ordered):
            elements: Ordered[Any] = value  # (so that compiled code knows its attributes)
            elements.is_read_whole = True
        else:
            is_next = key.id >= state.whole_from_id
            key.dirty_in_fold = state.next_fold if is_next else state.next_fold - 1
        state.revive(key.id, key)

    def forget_packed(self, most: int, samples: int, before_s: int) -> int:
        """Forget packed keys that the file has, and that were not used since a time (see
        PackedKeys); how many."""
        count, below_id = 0, self.fold_state.folded_below_id
        for database in self.databases:
            space = database.space
            if space.packed is not None and count < most:
                before = space.packed_bytes
                count += space.packed.forget(most - count, samples, before_s, below_id)
                self.used_bytes -= before - space.packed_bytes
        self.forgotten += count
        return count

    def count_uses(self, frequencies: Frequencies | None) -> None:
        self.frequencies = frequencies
        self.needs_slow_find = self.needs_slow_find or frequencies is not None

    def shows(self, space: Space) -> bool:
        """Whether a database shows this space. A space that was flushed is not shown."""
        return any(database.space is space for database in self.databases)

    def has_unwritten_value(self, key: Key) -> bool:
        """Whether the fold still has to read the value from memory."""
        value, state = key.value, self.fold_state
        if not isinstance(value, Ordered):
            return state.is_due(key.dirty_in_fold)
        elements: Ordered[Any] = value  # (so that compiled code knows its attributes)
        is_whole = elements.is_read_whole and key.id >= state.folded_below_id
        return is_whole or state.is_due(elements.dirty_in_fold)

    def unwritten_rows(self) -> Iterator[RowOp]:
        """Rows that the running pass reads from memory, except elements of hashes and sets.

        Of many changes of a row only the last is written. While this goes on, memory must hold
        nothing that the journal lacks.
        """
        for key in self.fold_state.strings_in_pass:
            if key.is_attached:  # else it was removed, or never was, because a script failed
                assert isinstance(key.value, bytes)
                yield string_row(key.id, key.value)

    def begin_fold(self) -> None:
        self.fold_state.begin_pass(self.next_id)

    def end_fold(self) -> None:
        self.fold_state.end_pass()

    def abort_fold(self) -> None:
        self.fold_state.abort_pass()

    def forget_dead(self) -> None:
        """For stores without a file, which never fold: `created` keeps dead keys. Drop them when
        most of its keys are dead."""
        state = self.fold_state
        living = sum(len(database.space.keys) for database in self.databases)
        if len(state.created) > 2 * living + 10_000:
            keys = [key for key in state.created if isinstance(key, Key)]  # all are
            state.created = [key for key in keys if key.is_attached]
