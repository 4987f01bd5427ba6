"""Replica keys in memory, and their rows in the file.

A row is a piece of a replicated value: a cell with all its writes, or up to 32 neighbours of a
list. The journal has such rows only for changes that no record tells. The tables get all rows when
the journal is folded, each piece in its state at that time. Recovery may therefore apply a record
to a piece that is newer; this is harmless, because the result is the same.

It is one file because a key notes its changed pieces, and all keys together load, write and forget
these pieces.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, final

import msgspec

from holdfast.crdt.effects import Effect, RowChange, frozen
from holdfast.crdt.flush import clearings
from holdfast.crdt.replicated_key import EXPIRY, ReplicatedKey
from holdfast.crdt.replicated_list import ReplicatedList, pieces_of_run
from holdfast.store.change.ops import CRDT_FACTS, CRDT_KEYS, CRDT_ROWS, Op, RowOp, row_op
from holdfast.store.file.tables import FLUSHED_IDS
from holdfast.store.memory.key import FollowedKey, Key
from holdfast.store.memory.keyspace import Keyspace

# Files have the index of each kind in this tuple, so the order never changes: a new kind goes to
# the end.
KINDS = ("string", "list", "hash", "set", "zset", "stream", "hyperloglog", "expiry")
# Added to the index of a row with a piece. Rows of the first version of files, one for each write
# and element, have the plain index. That version had eight kinds; this number does not grow with
# new ones.
PIECES: Final = 8
NUMBERS = {kind: number for number, kind in enumerate(KINDS, PIECES)}
# Kinds that may have counters.
COUNTED: Final = [NUMBERS[kind] for kind in ("string", "hash", "zset", "stream")]
LIST = "list"  # its places are positions, so they are bytes already

Address = tuple[int, bytes]  # number of the database, name of the key
Places = dict[str, set[Any]]  # by kind: the places of pieces
RowPlace = tuple[int, bytes]  # number of the kind and place, as in the file

pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


# Shared by many replica keys, so they must not be changed.
_NOTHING: Final[Places] = {}
TEXT_ROW: Final[Places] = {"string": {None}}
# the expiry of a key; expiries of fields have other places
_EXPIRY_ROW: Final[Places] = {EXPIRY: {None}}
_TEXT_AND_EXPIRY: Final[Places] = {**TEXT_ROW, **_EXPIRY_ROW}
NO_CHANGES: Final[list[RowChange]] = []  # enough for strings, which have one row


def _joined(places: Places, more: Places) -> Places:
    """Both together. `places` is changed in place, because it may be large, unless it is shared."""
    if places is TEXT_ROW or places is _EXPIRY_ROW or places is _TEXT_AND_EXPIRY:
        if more is TEXT_ROW or more is _EXPIRY_ROW or more is _TEXT_AND_EXPIRY:
            return places if more is places else _TEXT_AND_EXPIRY
        places = {kind: set(of_kind) for kind, of_kind in places.items()}
    for kind, of_kind in more.items():
        if kind in places:
            places[kind] |= of_kind
        else:
            places[kind] = set(of_kind)
    return places


@final
class ReplicaKey(ReplicatedKey):
    """A replicated key of this server. `id` is 0 as long as it has no rows. `unwritten` has the
    places of pieces whose current state is not in the tables. `shown` is the key that clients see,
    which also refers to this one; None until it is looked up."""

    __slots__ = ("database", "id", "name", "shown", "unwritten")

    def __init__(self, key_id: int, database: int, name: bytes) -> None:
        super().__init__()
        self.shown: FollowedKey | None = None
        self.unwritten = _NOTHING
        self.database = database
        self.name = name
        self.id = key_id

    @property
    def address(self) -> Address:
        return self.database, self.name

    def show_by(self, key: Key) -> None:
        """Note that clients see this key: both refer to each other."""
        assert isinstance(key, FollowedKey)
        if self.shown is not key:
            self.release()
            self.shown = key
            key.replica_key = self

    def release(self) -> None:
        """Note that clients see another key or none: the key is gone, or has another name."""
        if self.shown is not None:
            self.shown.replica_key = None
            self.shown = None

    def places(self, kind: str, changes: Iterable[RowChange]) -> Places:
        """The places of the changed pieces."""
        if kind == "string":
            return TEXT_ROW
        piece_of = self.part(kind).piece_of
        places = {piece_of(sub) for sub, _, _ in changes}
        return _EXPIRY_ROW if kind == EXPIRY and places == {None} else {kind: places}

    def note(self, places: Places) -> None:
        """Note that the tables lack the current state of these pieces."""
        if self.unwritten is _NOTHING:
            self.unwritten = places
        elif self.unwritten is not places:
            self.unwritten = _joined(self.unwritten, places)

    def ops(self, places: Places) -> Iterator[RowOp]:
        """The rows of these pieces, each in its state at the time when the iterator reaches it."""
        for kind, of_kind in places.items():
            piece, number = self.part(kind).piece, NUMBERS[kind]
            for place in of_kind:
                row = piece(place)
                packed = place if kind == LIST else pack(place)
                value = None if row is None else pack(row)
                yield row_op(CRDT_ROWS, self.id, (number, packed), value)

    def read(self, place: RowPlace, row: bytes | None) -> bool:
        """Take a row of the file or the journal; False if it has the old format."""
        number, packed = place
        kind = KINDS[number - PIECES if number >= PIECES else number]
        part = self.part(kind)
        sub = packed if kind == LIST else frozen(_unpack(packed))
        value = None if row is None else frozen(_unpack(row))
        if number < PIECES:
            part.apply(sub, value)
            return False
        part.put_piece(sub, value)
        return True


def look_at(replica_keys: list[Any]) -> int:
    """Touch the objects for a run of strings before the first of them is changed. The objects are
    spread over memory, and in a loop without other work the processor waits for several of them at
    a time."""
    seen = 0
    for each in replica_keys:
        if each is None:
            continue
        replica_key: ReplicaKey = each
        cell, key = replica_key.text, replica_key.shown
        if cell is not None and cell.counter is not None and cell.counter.seq:
            seen += 1
        if key is not None and type(key.value) is bytes:
            seen += 1
    return seen  # without a result, compiled code might leave out the loop


def look_at_changed(run: list[Any]) -> int:
    """`look_at` for strings that clients have changed (see StringsIntent): the keys themselves are
    in the caches already."""
    seen = 0
    for at in range(0, len(run), 2):
        key: FollowedKey = run[at]
        replica_key: ReplicaKey | None = key.replica_key
        if replica_key is not None:
            cell = replica_key.text
            if cell is not None and cell.counter is not None and cell.counter.seq:
                seen += 1
    return seen


@final
class ReplicaKeys:
    """All replica keys. A key that is only in the file is loaded at its first use. `rows` gets the
    rows that the journal needs."""

    def __init__(self, keyspace: Keyspace, rows: list[Op]) -> None:
        self._keyspace = keyspace
        self._journal = rows
        self._ids: dict[int, dict[bytes, int]] = {}  # by the two parts of an Address
        self._places: dict[int, Address] = {}  # by id; only during recovery
        self._keys: dict[int, dict[bytes, ReplicaKey]] = {}  # likewise
        # By database: keys with lower ids were flushed, and their rows in the file are dead.
        self.flushed: dict[int, int] = {}
        # Whether the tables have all that was committed for the key with this id. The fold knows
        # it.
        self.is_clean: Callable[[int], bool] = lambda key_id: False
        # By database: keys whose current state the tables lack.
        self._unwritten: dict[int, dict[ReplicaKey, None]] = {}
        # Pieces that the running fold has taken. A key that ends meanwhile has to remove them
        # again.
        self._being_written: dict[ReplicaKey, Places] = {}
        # pieces whose rows were journaled since then
        self._journaled: list[tuple[ReplicaKey, Places]] = []
        self._old_rows: dict[int, set[RowPlace]] = {}  # by id: rows of the old format
        # Keys with residue that were loaded since `Residue.forget`.
        self.with_residue: set[Address] = set()

    # -- finding ------------------------------------------------------------------------------

    def __contains__(self, address: Address) -> bool:
        """Whether the key exists, that is, whether the name has an id."""
        return address[1] in self._ids_in(address[0])

    def at(self, address: Any) -> ReplicaKey:
        """The key of that Address; an empty one if it does not exist."""
        names = self.names(address[0])
        replica_key = names.get(address[1])
        if replica_key is None:
            replica_key = names[address[1]] = self._loaded(address)
            if replica_key.id and replica_key.has_residue:
                self.with_residue.add(address)
        return replica_key

    def glance(self, address: Address) -> ReplicaKey:
        """`at`, for reading only: a key that is only in the file does not stay in memory."""
        return self.names(address[0]).get(address[1]) or self._loaded(address)

    def _loaded(self, address: Address) -> ReplicaKey:
        replica_key = ReplicaKey(
            self._ids_in(address[0]).get(address[1], 0), address[0], address[1]
        )
        tables = self._keyspace.tables
        if replica_key.id and tables is not None:
            for place, row in tables.crdt_rows(replica_key.id):
                self._read_row(replica_key, place, row)
        return replica_key

    def names(self, database: int) -> dict[bytes, ReplicaKey]:
        """The keys of a database that are in memory, by name."""
        names = self._keys.get(database)
        if names is None:
            names = self._keys[database] = {}
        return names

    def _ids_in(self, database: int) -> dict[bytes, int]:
        ids = self._ids.get(database)
        if ids is None:
            ids = self._ids[database] = {}
        return ids

    @property
    def addresses(self) -> list[Address]:
        return list(self.walk())

    def walk(self) -> Iterator[Address]:
        """The addresses of all keys that exist when the iterator reaches their database. Each
        address is made when it is needed, because a list of a million addresses takes 130–230 ms,
        and a list of a million names 15 ms."""
        for database in list(self._ids):
            for name in self.names_with_id(database):
                yield database, name

    def is_older(self, address: Address, first_id: int) -> bool:
        """Whether the key exists and has a lower id than that."""
        return 0 < self._ids_in(address[0]).get(address[1], 0) < first_id

    def dicts_by_key(self) -> "Iterator[dict[Any, Any]]":
        """The dicts with an entry for each key."""
        yield from self._keys.values()
        yield from self._ids.values()

    def names_with_id(self, database: int) -> list[bytes]:
        return list(self._ids_in(database))

    def evict(self, address: Address) -> None:
        """Drop a key from memory, if the tables have all of it."""
        names = self.names(address[0])
        replica_key = names.get(address[1])
        if replica_key is None:
            return
        replica_key.release()
        if (
            replica_key not in self._unwritten_in(address[0])
            and replica_key not in self._being_written
            and self.is_clean(replica_key.id)
        ):
            del names[address[1]]
            if not names:
                names.clear()  # an empty dict keeps its table otherwise

    # -- changes ------------------------------------------------------------------------------

    def changed(self, replica_key: ReplicaKey, kind: str, changes: list[RowChange]) -> None:
        """Note that a record has changed the key. The fold has to write the changed pieces."""
        if not replica_key.id:
            self._name(replica_key)
        self._note(replica_key, kind, changes)

    def at_end(self, replica_key: ReplicaKey, effect: Effect) -> bool:
        """Integrate, in less time, a push to the right of an existing list, or a pop that does not
        empty the list. False for any other effect, and then nothing has changed."""
        values: ReplicatedList | None = replica_key.find(LIST)
        if not values or not replica_key.has_one:
            return False
        keys = values.at_end(effect)
        if keys is None:
            return False
        if self._keyspace.tables is not None:
            replica_key.note({LIST: pieces_of_run(keys)})
            self._unwritten_in(replica_key.database)[replica_key] = None
        return True

    def _note(self, replica_key: ReplicaKey, kind: str, changes: list[RowChange]) -> None:
        if self._keyspace.tables is not None:
            replica_key.note(replica_key.places(kind, changes))
            self._unwritten_in(replica_key.database)[replica_key] = None

    def _unwritten_in(self, database: int) -> dict[ReplicaKey, None]:
        unwritten = self._unwritten.get(database)
        if unwritten is None:
            unwritten = self._unwritten[database] = {}
        return unwritten

    def write(self, replica_key: ReplicaKey, kind: str, changes: list[RowChange]) -> None:
        """Write a change that no record tells: its rows go to the journal."""
        if not replica_key.id:
            self._name(replica_key)
        places = replica_key.places(kind, changes)
        self._journal += replica_key.ops(places)
        if self._keyspace.tables is not None:
            self._journaled.append((replica_key, places))

    def write_all(self, replica_key: ReplicaKey) -> None:
        """Write the whole key in the same way."""
        for kind, part in replica_key.parts:
            self.write(replica_key, kind, [(sub, row, None) for sub, row in part.rows()])

    def _name(self, replica_key: ReplicaKey) -> None:
        keyspace = self._keyspace
        address = replica_key.address
        replica_key.id = self._ids_in(replica_key.database)[replica_key.name] = keyspace.next_id
        keyspace.next_id += 1
        self._journal.append(row_op(CRDT_KEYS, replica_key.id, None, address))

    def drop_empty(self, addresses: Iterable[Address]) -> None:
        ops = self._journal
        for address in addresses:
            replica_key = self.names(address[0]).get(address[1])
            if replica_key is not None and next(replica_key.rows(), None) is None:
                if replica_key.id:
                    for places in (replica_key.unwritten, self._being_written.get(replica_key, {})):
                        ops += replica_key.ops(places)
                    ops.append(row_op(CRDT_KEYS, replica_key.id, None, None))
                self._forget(address)

    def _forget(self, address: Address) -> None:
        """Drop all that is known about the name: the key has ended, or is created again."""
        self._ids_in(address[0]).pop(address[1], None)
        replica_key = self.names(address[0]).pop(address[1], None)
        if replica_key is not None:
            replica_key.release()
            self._unwritten_in(address[0]).pop(replica_key, None)

    def flush(self, database: int, kept: list[ReplicaKey]) -> None:
        """Remove all keys of a database except `kept`, of which a part remains. The time does not
        depend on the number of keys: from now on a key with an id below the next one is dead, in
        memory, in the journal and in the tables. Dead keys are freed in slices."""
        keyspace = self._keyspace
        self.flushed = {**self.flushed, database: keyspace.next_id}
        keyspace.next_id += 1
        self._journal.append(row_op(CRDT_FACTS, 0, FLUSHED_IDS, pack(self.flushed)))
        old: list[Any] = [
            each.pop(database, {}) for each in (self._keys, self._ids, self._unwritten)
        ]
        keyspace.freeing.take_parts(old)
        for replica_key in kept:
            replica_key.release()
            replica_key.id, replica_key.unwritten = 0, _NOTHING
            self.names(database)[replica_key.name] = replica_key
            self.write_all(replica_key)

    def counted(self, database: int) -> Iterator[tuple[bytes, ReplicaKey]]:
        """The keys of a database that have counters, or had counters."""
        names, ids = self.names(database), self._ids_in(database)
        for name, replica_key in names.items():
            text = replica_key.text
            if (
                replica_key.has_totals if text is None else text.counter is not None
            ):  # most are strings
                yield name, replica_key
        tables = self._keyspace.tables
        if tables is not None and len(names) < len(ids):
            for key_id, name in tables.crdt_counted(database, COUNTED):
                if name not in names and ids.get(name) == key_id:
                    yield name, self._loaded((database, name))

    def _is_flushed(self, replica_key: ReplicaKey) -> bool:
        return replica_key.id < self.flushed.get(replica_key.database, 0)

    # -- the tables ---------------------------------------------------------------------------

    def unwritten_rows(self) -> Iterator[RowOp]:
        """The rows that the tables lack. While the iterator runs, memory must have no changes that
        the journal lacks; otherwise the tables would get them first."""
        journaled, self._journaled = self._journaled, []
        unwritten, self._unwritten = self._unwritten, {}
        for replica_key, places in journaled:  # the fold may have written an older state
            if not self._is_flushed(replica_key):
                yield from self._write_now(replica_key, places)
        for replica_key in chain.from_iterable(unwritten.values()):
            if self._is_flushed(replica_key):
                continue  # it was flushed since the iterator began
            places, replica_key.unwritten = replica_key.unwritten, _NOTHING
            yield from self._write_now(replica_key, places)

    def _write_now(self, replica_key: ReplicaKey, places: Places) -> Iterator[RowOp]:
        before = self._being_written.get(replica_key)  # from this fold, or from one that failed
        self._being_written[replica_key] = places if before is None else _joined(before, places)
        return replica_key.ops(places)

    def written(self) -> None:
        self._being_written = {}

    # -- opening the file ---------------------------------------------------------------------

    def load(self, rows: Iterable[tuple[int, Address]]) -> None:
        """Take the rows of the table of keys."""
        for key_id, address in rows:
            if key_id >= self.flushed.get(address[0], 0):
                self._ids_in(address[0])[address[1]] = key_id
                self._places[key_id] = address

    def replay_key(self, key_id: int, row: Sequence[Any] | None) -> None:
        """Take a row of a key: its database and name; None if the key has ended."""
        address = self._places.pop(key_id, None)
        if address is not None and self._ids_in(address[0]).get(address[1]) == key_id:
            self._forget(address)
        if row is not None:
            database, name = row
            address = (database, name)
            self._forget(address)
            self._places[key_id] = address
            self._ids_in(database)[name] = key_id

    def replay_flushed(self, flushed: dict[int, int]) -> None:
        """FLUSHDB: keys with lower ids are dead, in the tables and in the journal so far."""
        for database, first_id in flushed.items():
            ids = self._ids_in(database)
            for name, key_id in [each for each in ids.items() if each[1] < first_id]:
                self._places.pop(key_id, None)
                self._forget((database, name))
            self._keyspace.next_id = max(self._keyspace.next_id, first_id + 1)
        self.flushed = dict(flushed)

    def replay_flush(self, database: int, effect: Effect) -> None:
        """Take the record of a flush. The only keys that still exist here are keys that the same
        record has changed before."""
        for replica_key in list(self.names(database).values()):
            for kind, clearing in clearings(effect, replica_key, {}):
                changes = replica_key.integrate(kind, clearing)
                if changes and replica_key.id:
                    self._note(replica_key, kind, changes)

    def replay_row(self, key_id: int, place: RowPlace, row: bytes | None) -> None:
        if key_id in self._places:  # otherwise the tables have the end of the key already
            self._read_row(self.at(self._places[key_id]), place, row)

    def replay_effect(self, address: Address, kind: str, effect: Effect) -> None:
        """Take an effect of a record. If the key has no id, the journal removes it later."""
        replica_key = self.at(address)
        changes = replica_key.integrate(kind, effect)
        if changes and replica_key.id:
            self._note(replica_key, kind, changes)

    def _read_row(self, replica_key: ReplicaKey, place: RowPlace, row: bytes | None) -> None:
        if not replica_key.read(place, row):
            self._old_rows.setdefault(replica_key.id, set()).add(place)

    def begin(self) -> None:
        self._places = {}
        for database, names in self._keys.items():
            self.with_residue |= {
                (database, name)
                for name, replica_key in names.items()
                if replica_key.id and replica_key.has_residue
            }

    def renew_rows(self) -> None:
        """Write new rows for all keys with rows of the old format, at once."""
        for address in self.addresses:
            replica_key = self.at(address)
            self.write_all(replica_key)
            old = self._old_rows.pop(replica_key.id, ())
            self._journal += [row_op(CRDT_ROWS, replica_key.id, place, None) for place in old]
