"""Replicated keys in memory, and their rows in the file.

A row is a piece of a value: a cell with all that was written to it, up to 32 neighbours of a list.
The journal has no such rows for what is in the log, because the records say it all; the tables
get them when the journal is folded, each piece as it is by then. To apply a record again to what
is newer changes nothing in the end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from holdfast.crdt.effects import Change, Effect, frozen
from holdfast.crdt.flush import clearings
from holdfast.crdt.keys import Key
from holdfast.crdt.lists import List, pieces_of_run
from holdfast.store.keys import FollowedKey
from holdfast.store.keys import Key as ShownKey
from holdfast.store.ops import CRDT_FACTS, CRDT_KEYS, CRDT_ROWS, Op
from holdfast.store.tables import FLUSHED_IDS

if TYPE_CHECKING:
    from holdfast.store.replicated_keyspace import ReplicatedKeyspace

# Their places are in files, so for ever.
KINDS = ("string", "list", "hash", "set", "zset", "stream", "hyperloglog", "expiry")
# Added to a kind's number, as the files' first version had a row for each write and element.
PIECES = len(KINDS)
NUMBERS = {kind: number for number, kind in enumerate(KINDS, PIECES)}
COUNTED: Final = [NUMBERS[kind] for kind in ("string", "hash", "zset", "stream")]  # can be
LIST = "list"  # whose places are positions, which are bytes already

Address = tuple[int, bytes]  # number of the database, name of the key
Places = dict[str, set[Any]]  # of pieces, by kind
RowPlace = tuple[int, bytes]  # kind and place, as in the file

pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


_NOTHING: Final[Places] = {}  # shared by many, as is the next one: not to be changed
TEXT_ROW: Final[Places] = {"string": {None}}
NO_CHANGES: Final[list[Change]] = []  # that need to be told: strings have one row


def _joined(places: Places, more: Places) -> Places:
    """What belongs to one of them alone is changed, because there may be much of it."""
    if places is TEXT_ROW:
        places = {"string": {None}}
    for kind, of_kind in more.items():
        if kind in places:
            places[kind] |= of_kind
        else:
            places[kind] = set(of_kind)
    return places


@final
class Slot(Key):
    """A replicated key in memory. `id` is 0 while it has no rows; `unwritten` are pieces that the
    tables do not have as they are. There may be many, so what most have in common they share.
    `shown` is what clients see of it, by which this slot is found as well; None: whoever wants to
    know has to look."""

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

    def show_by(self, key: ShownKey) -> None:
        """That is the key which clients see, and they know each other."""
        assert isinstance(key, FollowedKey)
        if self.shown is not key:
            self.release()
            self.shown = key
            key.slot = self

    def release(self) -> None:
        """Clients see it no longer by the key that they did: it is gone, or elsewhere."""
        if self.shown is not None:
            self.shown.slot = None
            self.shown = None

    def places(self, kind: str, changes: Iterable[Change]) -> Places:
        """Of the pieces that have changed."""
        if kind == "string":
            return TEXT_ROW
        piece_of = self.part(kind).piece_of
        return {kind: {piece_of(sub) for sub, _, _ in changes}}

    def note(self, places: Places) -> None:
        """The tables do not have them as they are."""
        if self.unwritten is _NOTHING:
            self.unwritten = places
        elif self.unwritten is not places:
            self.unwritten = _joined(self.unwritten, places)

    def ops(self, places: Places) -> Iterator[Op]:
        """These pieces, each as it is when it is asked for."""
        for kind, of_kind in places.items():
            piece, number = self.part(kind).piece, NUMBERS[kind]
            for place in of_kind:
                row = piece(place)
                packed = place if kind == LIST else pack(place)
                yield CRDT_ROWS, self.id, (number, packed), None if row is None else pack(row)

    def read(self, place: RowPlace, row: bytes | None) -> bool:
        """A row of the file, or of the journal; False when its format is the old one."""
        number, packed = place
        kind = KINDS[number % PIECES]
        part = self.part(kind)
        sub = packed if kind == LIST else frozen(_unpack(packed))
        value = None if row is None else frozen(_unpack(row))
        if number < PIECES:
            part.apply(sub, value)
            return False
        part.put_piece(sub, value)
        return True


def look_at(slots: list[Any]) -> int:
    """At what is needed of many strings before the first of them is changed. They are all over
    memory, and in a loop that does nothing else a processor waits for several at a time."""
    seen = 0
    for each in slots:
        if each is None:
            continue
        slot: Slot = each
        cell, key = slot.text, slot.shown
        if cell is not None and cell.counter is not None and cell.counter.seq:
            seen += 1
        if key is not None and type(key.value) is bytes:
            seen += 1
    return seen  # of no interest, but what is looked at for nothing may not be looked at


def look_at_changed(run: list[Any]) -> int:
    """Likewise, of those that clients have changed, whose keys are in the caches: see CHANGED."""
    seen = 0
    for at in range(0, len(run), 2):
        key: FollowedKey = run[at]
        slot: Slot | None = key.slot
        if slot is not None:
            cell = slot.text
            if cell is not None and cell.counter is not None and cell.counter.seq:
                seen += 1
    return seen


@final
class Slots:
    """All replicated keys. Those that are not in memory are loaded when they are asked for."""

    def __init__(self, keyspace: "ReplicatedKeyspace") -> None:
        self._keyspace = keyspace
        self._ids: dict[int, dict[bytes, int]] = {}  # by the two parts of their Addresses
        self._places: dict[int, Address] = {}  # by id: while replaying
        self._slots: dict[int, dict[bytes, Slot]] = {}  # likewise
        # By database: ids below this were flushed, and whatever the file has of them is dead.
        self.flushed: dict[int, int] = {}
        # Whether the tables have all that was committed of an id: the fold knows, if there is one.
        self.is_clean: Callable[[int], bool] = lambda key_id: False
        # By database: those of which the tables lack something.
        self._unwritten: dict[int, dict[Slot, None]] = {}
        # What the fold that runs took of it. A key that ends meanwhile has to tell it again.
        self._being_written: dict[Slot, Places] = {}
        self._journaled: list[tuple[Slot, Places]] = []  # since it began
        self._old_rows: dict[int, set[RowPlace]] = {}  # by id: those of the old format
        # Of those that came to memory since `tidy` looked: what may be forgotten one day.
        self.with_residue: set[Address] = set()

    # -- finding ------------------------------------------------------------------------------

    def __contains__(self, address: Address) -> bool:
        """Whether it has an id: whether there is anything to know of it."""
        return address[1] in self._ids_in(address[0])

    def at(self, address: Any) -> Slot:
        """The key of that Address."""
        names = self.names(address[0])
        slot = names.get(address[1])
        if slot is None:
            slot = names[address[1]] = self._loaded(address)
            if slot.id and slot.has_residue:
                self.with_residue.add(address)
        return slot

    def glance(self, address: Address) -> Slot:
        """The key of that Address, to look at: what is only in the file does not stay in memory."""
        return self.names(address[0]).get(address[1]) or self._loaded(address)

    def _loaded(self, address: Address) -> Slot:
        slot = Slot(self._ids_in(address[0]).get(address[1], 0), address[0], address[1])
        tables = self._keyspace.tables
        if slot.id and tables is not None:
            for place, row in tables.crdt_rows(slot.id):
                self._read_row(slot, place, row)
        return slot

    def names(self, database: int) -> dict[bytes, Slot]:
        """Those of a database that are in memory."""
        names = self._slots.get(database)
        if names is None:
            names = self._slots[database] = {}
        return names

    def _ids_in(self, database: int) -> dict[bytes, int]:
        ids = self._ids.get(database)
        if ids is None:
            ids = self._ids[database] = {}
        return ids

    @property
    def addresses(self) -> list[Address]:
        return [(database, name) for database, ids in self._ids.items() for name in ids]

    def names_with_id(self, database: int) -> list[bytes]:
        return list(self._ids_in(database))

    def evict(self, address: Address) -> None:
        """It is loaded again when it is needed, if the tables have all of it."""
        names = self.names(address[0])
        slot = names.get(address[1])
        if slot is None:
            return
        slot.release()
        if (
            slot not in self._unwritten_in(address[0])
            and slot not in self._being_written
            and self.is_clean(slot.id)
        ):
            del names[address[1]]

    # -- changes ------------------------------------------------------------------------------

    def changed(self, slot: Slot, kind: str, changes: list[Change]) -> None:
        """A record says so. The tables have to hear of it, if there are any."""
        if not slot.id:
            self._name(slot)
        self._note(slot, kind, changes)

    def at_end(self, slot: Slot, effect: Effect) -> bool:
        """Integrated, and `changed`, if something is pushed to the right of a list that is there,
        or popped and something is left; False, and nothing has changed, if not."""
        values: List | None = slot.find(LIST)
        if not values or not slot.has_one:
            return False
        keys = values.at_end(effect)
        if keys is None:
            return False
        if self._keyspace.tables is not None:
            slot.note({LIST: pieces_of_run(keys)})
            self._unwritten_in(slot.database)[slot] = None
        return True

    def _note(self, slot: Slot, kind: str, changes: list[Change]) -> None:
        if self._keyspace.tables is not None:
            slot.note(slot.places(kind, changes))
            self._unwritten_in(slot.database)[slot] = None

    def _unwritten_in(self, database: int) -> dict[Slot, None]:
        unwritten = self._unwritten.get(database)
        if unwritten is None:
            unwritten = self._unwritten[database] = {}
        return unwritten

    def write(self, slot: Slot, kind: str, changes: list[Change]) -> None:
        """The journal has to hear of it, because no record tells."""
        if not slot.id:
            self._name(slot)
        places = slot.places(kind, changes)
        self._keyspace.ops += slot.ops(places)
        if self._keyspace.tables is not None:
            self._journaled.append((slot, places))

    def write_all(self, slot: Slot) -> None:
        """Likewise, of all that it is."""
        for kind, part in slot.parts:
            self.write(slot, kind, [(sub, row, None) for sub, row in part.rows()])

    def _name(self, slot: Slot) -> None:
        keyspace = self._keyspace
        address = slot.address
        slot.id = self._ids_in(slot.database)[slot.name] = keyspace.next_id
        keyspace.next_id += 1
        keyspace.ops.append((CRDT_KEYS, slot.id, None, address))

    def drop_empty(self, addresses: Iterable[Address]) -> None:
        ops = self._keyspace.ops
        for address in addresses:
            slot = self.names(address[0]).get(address[1])
            if slot is not None and next(slot.rows(), None) is None:
                if slot.id:
                    for places in (slot.unwritten, self._being_written.get(slot, {})):
                        ops += slot.ops(places)
                    ops.append((CRDT_KEYS, slot.id, None, None))
                self._forget(address)

    def _forget(self, address: Address) -> None:
        """Whatever is known of that name: it has come to its end, or begins anew."""
        self._ids_in(address[0]).pop(address[1], None)
        slot = self.names(address[0]).pop(address[1], None)
        if slot is not None:
            slot.release()
            self._unwritten_in(address[0]).pop(slot, None)

    def flush(self, database: int, kept: list[Slot]) -> None:
        """All keys of a database go but those, of which something is left. How many there are makes
        no difference: ids from here on are new ones, and what has an older one is dead wherever it
        is, in memory, in the journal and in the tables. It leaves them in slices."""
        keyspace = self._keyspace
        self.flushed = {**self.flushed, database: keyspace.next_id}
        keyspace.next_id += 1
        keyspace.ops.append((CRDT_FACTS, 0, FLUSHED_IDS, pack(self.flushed)))
        old: list[Any] = [
            each.pop(database, {}) for each in (self._slots, self._ids, self._unwritten)
        ]
        keyspace.freeing.take_parts(old)
        for slot in kept:
            slot.release()
            slot.id, slot.unwritten = 0, _NOTHING
            self.names(database)[slot.name] = slot
            self.write_all(slot)

    def counted(self, database: int) -> Iterator[tuple[bytes, Slot]]:
        """The keys of a database that have counters, or had."""
        names, ids = self.names(database), self._ids_in(database)
        for name, slot in names.items():
            text = slot.text
            if slot.has_totals if text is None else text.counter is not None:  # most are strings
                yield name, slot
        tables = self._keyspace.tables
        if tables is not None and len(names) < len(ids):
            for key_id, name in tables.crdt_counted(database, COUNTED):
                if name not in names and ids.get(name) == key_id:
                    yield name, self._loaded((database, name))

    def _is_flushed(self, slot: Slot) -> bool:
        return slot.id < self.flushed.get(slot.database, 0)

    # -- the tables ---------------------------------------------------------------------------

    def unwritten_rows(self) -> Iterator[Op]:
        """What the tables lack. While this goes on nothing may be in memory that the journal does
        not have: tables must never know more than the journal has told."""
        journaled, self._journaled = self._journaled, []
        unwritten, self._unwritten = self._unwritten, {}
        for slot, places in journaled:  # what the fold got meanwhile may be older
            if not self._is_flushed(slot):
                yield from self._write_now(slot, places)
        for slot in chain.from_iterable(unwritten.values()):
            if self._is_flushed(slot):
                continue  # since this began
            places, slot.unwritten = slot.unwritten, _NOTHING
            yield from self._write_now(slot, places)

    def _write_now(self, slot: Slot, places: Places) -> Iterator[Op]:
        before = self._being_written.get(slot)  # of this fold, or of one that failed
        self._being_written[slot] = places if before is None else _joined(before, places)
        return slot.ops(places)

    def written(self) -> None:
        self._being_written = {}

    # -- opening the file ---------------------------------------------------------------------

    def load(self, rows: Iterable[tuple[int, Address]]) -> None:
        """What the table of keys has."""
        for key_id, address in rows:
            if key_id >= self.flushed.get(address[0], 0):
                self._ids_in(address[0])[address[1]] = key_id
                self._places[key_id] = address

    def replay_key(self, key_id: int, row: Sequence[Any] | None) -> None:
        """The row of its database and name; None when the key has come to its end."""
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
        """Of what the journal has told so far, and the tables had before."""
        for database, first_id in flushed.items():
            ids = self._ids_in(database)
            for name, key_id in [each for each in ids.items() if each[1] < first_id]:
                self._places.pop(key_id, None)
                self._forget((database, name))
            self._keyspace.next_id = max(self._keyspace.next_id, first_id + 1)
        self.flushed = dict(flushed)

    def replay_flush(self, database: int, effect: Effect) -> None:
        """Of keys that the same record has changed before. (Of others nothing is left to clear.)"""
        for slot in list(self.names(database).values()):
            for kind, clearing in clearings(effect, slot, {}):
                changes = slot.integrate(kind, clearing)
                if changes and slot.id:
                    self._note(slot, kind, changes)

    def replay_row(self, key_id: int, place: RowPlace, row: bytes | None) -> None:
        if key_id in self._places:  # else of a key whose end was folded already
            self._read_row(self.at(self._places[key_id]), place, row)

    def replay_effect(self, address: Address, kind: str, effect: Effect) -> None:
        """A key that has no id comes to its end later in the journal."""
        slot = self.at(address)
        changes = slot.integrate(kind, effect)
        if changes and slot.id:
            self._note(slot, kind, changes)

    def _read_row(self, slot: Slot, place: RowPlace, row: bytes | None) -> None:
        if not slot.read(place, row):
            self._old_rows.setdefault(slot.id, set()).add(place)

    def begin(self) -> None:
        self._places = {}
        for database, names in self._slots.items():
            self.with_residue |= {
                (database, name) for name, slot in names.items() if slot.id and slot.has_residue
            }

    def renew_rows(self) -> None:
        """A file whose rows have the old format gets new ones, all at once."""
        for address in self.addresses:
            slot = self.at(address)
            self.write_all(slot)
            old = self._old_rows.pop(slot.id, ())
            self._keyspace.ops += [(CRDT_ROWS, slot.id, place, None) for place in old]
