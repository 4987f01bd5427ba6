"""Local changes of a replicated database, from row operations to effects.

Commands know nothing of replicas: they change values, which report row operations. What those
mean for everybody is worked out here, once for each batch, before it is committed. Where the
operations do not tell (an increment is more than a new value, a place in a list is not its row),
an `INTENT` does. So a script that is rolled back leaves nothing to undo, and standalone servers
have none of this.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from holdfast.crdt.dots import Author
from holdfast.crdt.effects import Effect
from holdfast.crdt.keys import EXPIRY, Key
from holdfast.crdt.streams import ADDED as ENTRIES_ADDED
from holdfast.crdt.streams import ENTRY, MAX_DELETED_ID, Stream
from holdfast.store import hll
from holdfast.store.ops import (
    ADDED,
    HASH_FIELDS,
    INSERT_AT,
    INTENT,
    KEYS,
    LIST_ITEMS,
    PERSISTED,
    POP_LEFT,
    POP_RIGHT,
    PUSH_LEFT,
    PUSH_RIGHT,
    REMOVE_AT,
    SCRIPTS,
    SET_AT,
    SET_MEMBERS,
    SPACES,
    STREAM_CONSUMERS,
    STREAM_ENTRIES,
    STREAM_GROUPS,
    STREAM_META,
    STREAM_PENDING,
    STRINGS,
    WRITTEN_AGAIN,
    ZSET_MEMBERS,
    Op,
)
from holdfast.store.stream_ids import from_row

Address = tuple[int, bytes]  # number of the database, name of the key
Do = Callable[[Address, str, Effect], None]

_decode_fields = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode

# What is told by its intents, or concerns this server alone.
_SAYS_NOTHING = frozenset({LIST_ITEMS, SCRIPTS, SPACES})


class Changes:
    """Turns the operations of one batch into effects, each of which is applied (`do`) before the
    next operation is looked at. `databases` has their numbers by the ids of the spaces that they
    show, `addresses` where the keys with these ids are, and is kept up to date; `key_at` finds
    the replicated key of an address."""

    def __init__(
        self,
        author: Author,
        databases: dict[int, int],
        addresses: dict[int, Address],
        key_at: Callable[[Address], Key],
        do: Do,
    ) -> None:
        self._author = author
        self._databases = databases
        self._addresses = addresses
        self._key_at = key_at
        self._do = do
        self._added: Any = None  # the amount, when the next operation is an increment

    def take(self, ops: Iterable[Op]) -> None:
        for table, key_id, sub, value in ops:
            if table == INTENT:
                self._intent(key_id, sub, value)
            elif table == KEYS:
                self._key_row(key_id, value)
            elif table not in _SAYS_NOTHING and key_id in self._addresses:
                # Else of a key that died before its rows were told.
                _TABLES[table](self, self._addresses[key_id], sub, value)

    # -- keys ---------------------------------------------------------------------------------

    def _key_row(self, key_id: int, row: tuple[int, bytes, str, int | None] | None) -> None:
        address = self._addresses.get(key_id)
        if row is None:
            if address is not None:
                del self._addresses[key_id]
                self._delete(address)
            return
        space, name, _, expires_at_ms = row
        new_address = (self._databases[space], name)
        self._addresses[key_id] = new_address
        if address is not None and address != new_address:
            self._recreate(address, new_address)
            self._delete(address)
        key = self._key_at(new_address)
        if key.expires_at_ms != expires_at_ms:
            expiry, author = key.part(EXPIRY), self._author
            # No expiry: what was seen goes, and what somebody else sets meanwhile stays. PERSIST
            # means more than that, and says so.
            effect = (
                expiry.remove(None, author)
                if expires_at_ms is None
                else expiry.write(None, expires_at_ms, author)
            )
            self._do(new_address, EXPIRY, effect)

    def _delete(self, address: Address) -> None:
        for kind, effect in self._key_at(address).delete(self._author):
            self._do(address, kind, effect)

    def _recreate(self, address: Address, new_address: Address) -> None:
        """RENAME and MOVE: what is seen under one name is written anew under another."""
        old, new = self._key_at(address), self._key_at(new_address)
        kind = old.type
        if kind is None:
            return
        for effect in _written_anew(kind, old.part(kind), new.part(kind), self._author):
            self._do(new_address, kind, effect)
        if kind == "hash" and EXPIRY in old.parts:
            expiry = old.part(EXPIRY)
            for field in [name for name in expiry.names() if name is not None]:
                effect = new.part(EXPIRY).write(field, expiry.written(field), self._author)
                self._do(new_address, EXPIRY, effect)

    def _change(self, address: Address, kind: str, effect: Effect) -> None:
        """What is of another type, and therefore not seen, goes."""
        key = self._key_at(address)
        if len(key.parts) > 1:
            for other, clearing in key.supersede(kind, self._author):
                self._do(address, other, clearing)
        self._do(address, kind, effect)

    def _part(self, address: Address, kind: str) -> Any:
        return self._key_at(address).part(kind)

    # -- intents ------------------------------------------------------------------------------

    def _intent(self, key_id: int, what: int, data: Any) -> None:
        if what == ADDED:
            self._added = data
            return
        address = self._addresses.get(key_id)
        if address is None:
            return
        if what == PERSISTED:
            effect = self._part(address, EXPIRY).write(None, None, self._author)
            self._do(address, EXPIRY, effect)
        elif what == WRITTEN_AGAIN:
            table, sub, value = data
            kind = "set" if table == SET_MEMBERS else "zset"
            self._change(address, kind, self._part(address, kind).write(sub, value, self._author))
        else:
            value = self._part(address, "list")
            self._change(address, "list", _LIST_INTENTS[what](value, data, self._author))

    def _take_added(self) -> Any:
        added, self._added = self._added, None
        return added

    # -- strings ------------------------------------------------------------------------------

    def take_string(self, address: Address, _: None, value: bytes) -> None:
        added = self._take_added()
        author = self._author
        if value.startswith(hll.MAGIC) and (held := registers(value)) is not None:
            self._sketch(address, held)
            return
        part = self._part(address, "string")
        effect = (
            part.write(None, value, author)
            if added is None
            else part.increment(None, added, value, author)
        )
        self._change(address, "string", effect)

    def _sketch(self, address: Address, held: bytes) -> None:
        """PFADD and PFMERGE raise registers. Whatever else wrote this is a new sketch."""
        part, author = self._part(address, "hyperloglog"), self._author
        seen = part.view() or bytes(len(held))
        if any(map(int.__lt__, held, seen)):
            self._do(address, "hyperloglog", part.clear(author))
        elif part and held == seen:
            return  # PFCOUNT noted what it had found
        ranks = [(register, rank) for register, rank in enumerate(held) if rank]
        self._change(address, "hyperloglog", part.add(ranks, author))

    # -- hashes, sets, sorted sets ------------------------------------------------------------

    def take_field(self, address: Address, field: bytes, row: Any) -> None:
        added = self._take_added()
        part, author = self._part(address, "hash"), self._author
        expiry = self._part(address, EXPIRY)
        expires_at_ms = expiry.written(field)
        if row is None:
            self._change(address, "hash", part.remove(field, author))
            if field in expiry:
                self._do(address, EXPIRY, expiry.remove(field, author))
            return
        value, _, new_expires_at_ms = row
        if added is not None:
            self._change(address, "hash", part.increment(field, added, value, author))
        elif new_expires_at_ms == expires_at_ms or part.get(field) != value:
            self._change(address, "hash", part.write(field, value, author))
        if new_expires_at_ms != expires_at_ms:
            effect = (
                expiry.remove(field, author)
                if new_expires_at_ms is None
                else expiry.write(field, new_expires_at_ms, author)
            )
            self._do(address, EXPIRY, effect)

    def take_member(self, address: Address, member: bytes, ordinal: int | None) -> None:
        part, author = self._part(address, "set"), self._author
        effect = (
            part.remove(member, author) if ordinal is None else part.write(member, None, author)
        )
        self._change(address, "set", effect)

    def take_scored(self, address: Address, member: bytes, score: float | None) -> None:
        added = self._take_added()
        part, author = self._part(address, "zset"), self._author
        if score is None:
            effect = part.remove(member, author)
        elif added is None:
            effect = part.write(member, score, author)
        else:
            effect = part.increment(member, added, author)
        self._change(address, "zset", effect)

    # -- streams ------------------------------------------------------------------------------

    def take_stream_entry(self, address: Address, sub: bytes, row: bytes | None) -> None:
        part: Stream = self._part(address, "stream")
        if row is None:
            effect = part.remove(ENTRY + sub, self._author)
        elif from_row(sub) > part.last_id:
            effect = part.enter(from_row(sub), _decode_fields(row), self._author)
        else:  # COPY has told before what was counted
            effect = part.write(ENTRY + sub, _decode_fields(row), self._author)
        self._change(address, "stream", effect)

    def take_stream_meta(self, address: Address, _: None, row: tuple[bytes, bytes, int]) -> None:
        """Adding an entry has said all of it already."""
        part: Stream = self._part(address, "stream")
        author = self._author
        last_id, max_deleted_id, entries_added = row
        if not part:
            self._change(address, "stream", part.create(author))
        if from_row(last_id) != part.last_id:
            self._change(address, "stream", part.set_last_id(from_row(last_id), author))
        if from_row(max_deleted_id) != part.max_deleted_id:
            self._change(address, "stream", part.write(MAX_DELETED_ID, max_deleted_id, author))
        if entries_added != part.entries_added:
            more = entries_added - part.entries_added
            self._change(address, "stream", part.add(ENTRIES_ADDED, more, author))

    def take_stream_group(self, address: Address, name: bytes, row: Any) -> None:
        part: Stream = self._part(address, "stream")
        author = self._author
        dots = part.dots_of(name)
        if row is None:
            self._change(address, "stream", part.destroy_group(name, author))
            return
        last_id, entries_read = from_row(row[0]), row[1]
        if not dots:
            effect = part.create_group(name, last_id, entries_read, author)
            self._change(address, "stream", effect)
        for dot in dots:
            goes_on = last_id > part.position_of(dot)
            move = part.pass_to if goes_on else part.seek
            self._change(address, "stream", move(dot, last_id, entries_read, author))

    def take_stream_consumer(
        self, address: Address, sub: tuple[bytes, bytes], seen_at_ms: int | None
    ) -> None:
        part: Stream = self._part(address, "stream")
        dots = part.dots_of(sub[0])
        if seen_at_ms is None:
            effect = part.delete_consumer(dots, sub[1], (), self._author)
        else:
            effect = part.see_consumer(dots[0], sub[1], seen_at_ms, self._author)
        self._change(address, "stream", effect)

    def take_stream_pending(self, address: Address, sub: tuple[bytes, bytes], row: Any) -> None:
        part: Stream = self._part(address, "stream")
        dots = part.dots_of(sub[0])
        entry_id = from_row(sub[1])
        if row is None:
            effect = part.release(dots, [entry_id], self._author)
        else:
            effect = part.assign(dots[0], entry_id, tuple(row), self._author)
        self._change(address, "stream", effect)


_TABLES: dict[int, Callable[[Changes, Address, Any, Any], None]] = {
    STRINGS: Changes.take_string,
    HASH_FIELDS: Changes.take_field,
    SET_MEMBERS: Changes.take_member,
    ZSET_MEMBERS: Changes.take_scored,
    STREAM_META: Changes.take_stream_meta,
    STREAM_ENTRIES: Changes.take_stream_entry,
    STREAM_GROUPS: Changes.take_stream_group,
    STREAM_CONSUMERS: Changes.take_stream_consumer,
    STREAM_PENDING: Changes.take_stream_pending,
}

_LIST_INTENTS: dict[int, Callable[[Any, Any, Author], Effect]] = {
    PUSH_LEFT: lambda value, data, author: value.push_left(data, author),
    PUSH_RIGHT: lambda value, data, author: value.push_right(data, author),
    POP_LEFT: lambda value, data, author: value.pop_left(),
    POP_RIGHT: lambda value, data, author: value.pop_right(),
    INSERT_AT: lambda value, data, author: value.insert(*data, author),
    SET_AT: lambda value, data, author: value.set(*data, author),
    REMOVE_AT: lambda value, data, author: value.delete(data),
}


def registers(value: bytes) -> bytes | None:
    """None when it only looks like a HyperLogLog."""
    try:
        return hll.registers(value) if hll.is_valid(value) else None
    except hll.CorruptError:
        return None


def _written_anew(kind: str, old: Any, new: Any, author: Author) -> Iterator[Effect]:
    """The effects that give one value what another one shows. Each is to be applied before the
    next is asked for."""
    if kind == "list":
        yield new.push_right(old.range(0, -1), author)
    elif kind == "hyperloglog":
        yield new.add([(at, rank) for at, rank in enumerate(old.view()) if rank], author)
    elif kind == "stream":
        yield from _stream_anew(old, new, author)
    elif kind == "string":
        yield new.write(None, old.view(), author)
    else:
        shown = {"hash": "get", "zset": "score"}.get(kind)
        for name in list(old.names()):
            value = None if shown is None else getattr(old, shown)(name)
            yield new.write(name, value, author)


def _stream_anew(old: Stream, new: Stream, author: Author) -> Iterator[Effect]:
    yield new.create(author)
    for entry_id, fields in old.view():
        yield new.enter(entry_id, fields, author)
    yield new.set_last_id(old.last_id, author)
    if old.max_deleted_id:
        yield new.write(MAX_DELETED_ID, old.written(MAX_DELETED_ID), author)
    if old.entries_added != new.entries_added:
        yield new.add(ENTRIES_ADDED, old.entries_added - new.entries_added, author)
    for name, group in old.groups().items():
        yield new.create_group(name, group.last_id, group.entries_read, author)
        dot = new.dots_of(name)[0]
        for consumer, seen_at_ms in group.consumers.items():
            yield new.see_consumer(dot, consumer, seen_at_ms, author)
        for entry_id, row in group.pending.items():
            yield new.assign(dot, entry_id, row, author)
