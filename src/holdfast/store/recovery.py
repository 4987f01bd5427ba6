"""Recovery: applies the operations of the journal, in order, to the data of the tables."""

from collections.abc import Iterator

import apsw
import msgspec

from holdfast.errors import StorageError
from holdfast.progress import CHANGES, Progress
from holdfast.store.change.fold_state import LARGE
from holdfast.store.change.ops import (
    CRDT_FACTS,
    CRDT_KEYS,
    KEYS,
    REPLICATION,
    SCRIPTS,
    SPACES,
    STRING_PARTS,
    STRINGS,
    Op,
    RowOp,
)
from holdfast.store.file.journal import Batch, Journal, batches
from holdfast.store.file.tables import ROWS, Tables
from holdfast.store.fold.fold import Fold
from holdfast.store.memory.key import Key, Space
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.values.hash import Hash
from holdfast.store.values.registry import APPLY, COLLECTIONS, Value
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ALWAYS_ORDERED, ZSet


def node_of_file(connection: apsw.Connection) -> int:
    """The node id of the active-active server that has this file; 0 if it is a standalone
    server's."""
    identity = Tables(connection).crdt_facts().get(b"identity")
    for _, ops in batches(connection):
        for table, _, sub, value in ops:
            if table == CRDT_FACTS and sub == b"identity":
                identity = value
    return 0 if identity is None else int(msgspec.msgpack.decode(identity)[0])


def recover(keyspace: Keyspace, journal: Journal, fold: Fold, progress: Progress) -> int:
    """Bring memory up to date with the journal. Returns the number of operations."""
    count = 0
    unfolded = list(journal.batches())
    total = sum([len(ops) for _, ops in unfolded])
    for lsn, ops, known in replay(keyspace, unfolded):
        progress("reading the journal", count, total, CHANGES)
        fold.add(lsn, known, sum(len(op[3]) for op in ops if isinstance(op[3], bytes)), len(ops))
        count += len(ops)
    keyspace.recovered(fold.is_clean)
    fold.recovered()
    return count


def replay(keyspace: Keyspace, batches: list[Batch]) -> Iterator[tuple[int, list[RowOp], list[Op]]]:
    """Apply each batch, and yield its number, its operations, and those of its operations that the
    tables may have."""
    replay = _Replay(keyspace)
    replay.load({op[1] for _, ops in batches for op in ops if _is_of_key(op[0])})
    for lsn, ops in batches:
        known: list[Op] = [op for op in ops if replay.apply(op)]
        yield lsn, ops, known
    replay.finish()


def _is_of_key(table: int) -> bool:
    """Whether the rows of a table belong to keys. (Some tables of keys are newer than SCRIPTS, so
    their numbers are higher.)"""
    return KEYS <= table < SCRIPTS or table in APPLY or table == STRING_PARTS


class _Replay:
    """Applies operations to keys, which only recovery looks up by id."""

    def __init__(self, keyspace: Keyspace) -> None:
        assert keyspace.tables is not None
        self._keyspace = keyspace
        self._tables: Tables = keyspace.tables
        self._keys: dict[int, Key | None] = {}
        self._created: list[int] = []
        # Strings that the journal changes in parts, by key id: as one object that changes, until
        # the end.
        self._parts: dict[int, bytearray] = {}
        self._spaces = {database.space.id: database.space for database in keyspace.databases}
        self._shown = self._tables.spaces_shown()

    def load(self, key_ids: set[int]) -> None:
        """Load these keys from the tables, ordered by id. In the order of the journal it would take
        four times as long."""
        unknown_id = self._keyspace.next_id
        for key_id in sorted(key_ids):
            self._keys[key_id] = None
            if key_id < unknown_id and (row := self._tables.row(key_id)) is not None:
                space_id, name, type_name, expires_at_ms = row
                self._keys[key_id] = self._keyspace.adopt(
                    self._space(space_id), key_id, name, type_name, expires_at_ms
                )

    def apply(self, op: RowOp) -> bool:
        """Apply an operation to a loaded key. False if the tables must not have the operation."""
        table, key_id, sub, value = op
        keyspace = self._keyspace
        if table == SCRIPTS:
            keyspace.set_script(key_id, sub, value)
            return True
        if table == REPLICATION:
            keyspace.replication_position = value
            return True
        if table not in ROWS and table != STRING_PARTS:
            raise StorageError(
                "the journal of this file is of a newer Holdfast: start that one, and stop it"
                " cleanly before this one opens the file"
            )
        if CRDT_KEYS <= table <= CRDT_FACTS:
            keyspace.next_id = max(keyspace.next_id, key_id + 1)
            keyspace.take_crdt(op)
            return True
        if table == SPACES:
            keyspace.next_id = max(keyspace.next_id, value + 1)
            self._shown[key_id] = value
            # the server may have had more databases at that time
            if key_id < len(keyspace.databases):
                keyspace.databases[key_id].space = self._space(value)
            return True
        keyspace.next_id = max(keyspace.next_id, key_id + 1)
        key = self._keys[key_id]
        if table == KEYS:
            self._apply_row(key_id, key, value)
        elif key is None:
            # This element belongs to a key that was removed or flushed before it ever was in the
            # tables. The batch that created the key is folded. In the tables the element would stay
            # for ever.
            return False
        elif table == STRINGS:
            self._parts.pop(key_id, None)
            key.value = value
            keyspace.string_changed(key)
        elif table == STRING_PARTS:
            self._put_part(key, sub, value)
        else:
            APPLY[table](key.value, sub, value)
        return True

    def _put_part(self, key: Key, offset: int, part: bytes) -> None:
        if key.id not in self._parts:
            assert isinstance(key.value, bytes)
            self._parts[key.id] = bytearray(key.value)
            key.value = b""  # frees memory; `finish` sets it
            self._keyspace.string_changed(key)
        string = self._parts[key.id]
        if offset > len(string):
            string.extend(bytes(offset - len(string)))
        string[offset : offset + len(part)] = part

    def finish(self) -> None:
        """Tell FoldState what the tables lack.

        Every key above the lowest living key that the tables lack is in the journal too, so from
        that id on memory has all keys. (Dead keys prove nothing: their rows may be missing because
        the fold had deleted them. Flushed keys prove nothing either: the fold does not write them.)
        """
        keyspace = self._keyspace
        while self._parts:
            key_id, string = self._parts.popitem()
            if (changed := self._keys[key_id]) is not None:
                changed.value = bytes(string)
        shown = {*self._shown.values()}
        for space_id, space in self._spaces.items():
            if space_id not in shown:
                keyspace.freeing.flushed(space)
        first_created_id = min(
            [
                key_id
                for key_id in self._created
                if (key := self._keys[key_id]) is not None and key.space.id in shown
            ],
            default=keyspace.next_id,
        )
        created = [
            key
            for key_id, key in sorted(self._keys.items())
            if key is not None and key_id >= first_created_id
        ]
        keyspace.fold_state.recovered(first_created_id, created)
        for key in self._keys.values():
            if key is not None:
                keyspace.watch_fields(key, afresh=True)
                _settle(key.value)
                if isinstance(key.value, Hash | Set | ZSet) and len(key.value) >= LARGE:
                    keyspace.fold_state.large[key.id] = key.value
        # Values changed while their keys were attached, and two keys had the same name for a while.
        keyspace.used_bytes = sum(database.space.nbytes for database in keyspace.databases)

    def _apply_row(
        self, key_id: int, key: Key | None, row: tuple[int, bytes, str, int | None] | None
    ) -> None:
        keyspace = self._keyspace
        if key is not None:
            keyspace.detach(key)
        if row is None:
            self._keys[key_id] = None
            self._parts.pop(key_id, None)
            if key is not None:
                keyspace.fold_state.unfolded[key_id] = key
            return
        space_id, name, type_name, expires_at_ms = row
        if key is None:
            value: Value = b"" if type_name == "string" else COLLECTIONS[type_name].cls(key_id)
            key = keyspace.key(key_id, self._space(space_id), name, value, None)
            self._keys[key_id] = key
            self._created.append(key_id)
        key.space, key.name, key.expires_at_ms = self._space(space_id), name, expires_at_ms
        keyspace.attach(key)
        keyspace.fold_state.unfolded[key_id] = key
        if expires_at_ms is not None:
            keyspace.expiring.push(key)

    def _space(self, space_id: int) -> Space:
        space = self._spaces.get(space_id)
        if space is None:
            space = Space(space_id, self._tables.size_of_space(space_id))
            self._spaces[space_id] = space
        return space


def _settle(value: Value) -> None:
    """Build the order of a large collection now, while there are no clients. Otherwise the first
    command that needs it would delay all clients."""
    if isinstance(value, Hash | Set | ZSet) and len(value) >= ALWAYS_ORDERED:
        for _ in value.settle():
            pass
