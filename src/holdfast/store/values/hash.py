"""The value of a hash key. Each method that changes it reports the changed rows to its last
argument, the log.

Nothing here knows key names, replies or SQL. Order, random choice and scans are in
insertion_order.py. The keyspace decides when `expire_due` is called.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, final

from holdfast.compiling import mypyc_attr
from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.intents import ADDED
from holdfast.store.change.ops import HASH_FIELDS, hash_field
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.insertion_order import ELEMENT_OVERHEAD, Ordered
from holdfast.store.values.packed_form import (
    LONGEST_PACKED,
    MOST_PACKED,
    lengthened,
    shortened,
)

# Value, ordinal and expires_at_ms. (If the type told the number of elements, compiled code would
# unpack the tuple.)
Row = tuple[Any, ...]

FEWEST_TO_SWEEP = 64  # deadlines; fewer are not swept

NO_DEADLINES: Final[list[tuple[int, bytes]]] = []  # shared by all hashes whose fields do not expire


@final
@mypyc_attr(acyclic=True)
class Field:
    """The row of a field, and `dirty_in_fold`: the pass of the fold for which the field was noted
    last; 0: it was not noted. HSET changes the object of an existing field, because a new object
    for each HSET takes longer. The bytes and numbers in it refer to no other objects, so the
    garbage collector does not look at compiled fields."""

    __slots__ = ("dirty_in_fold", "expires_at_ms", "ordinal", "value")

    def __init__(
        self, value: bytes, ordinal: object, expires_at_ms: object, dirty_in_fold: int
    ) -> None:
        self.value = value
        # An int, and an int or None: objects, so that compiled code makes no new ones for rows.
        self.ordinal: Any = ordinal
        self.expires_at_ms: Any = expires_at_ms
        self.dirty_in_fold = dirty_in_fold

    @property
    def row(self) -> Row:
        return (self.value, self.ordinal, self.expires_at_ms)


class Hash(Ordered[Field]):
    """Fields and their values. `longest` and `most_fields` are maxima since the value came to
    memory. They decide the encoding, because in Redis, too, a large hash keeps its encoding when it
    becomes small.

    `_deadlines` is a heap with stale entries: a field whose expiry changed is pushed again.
    `scheduled_ms` is set by the keyspace: the time when it will look for expired fields.
    """

    table = HASH_FIELDS

    __slots__ = ("_deadlines", "longest", "most_fields", "scheduled_ms")

    def __init__(self, key_id: int) -> None:
        super().__init__(key_id)
        self.longest = 0  # the length of the longest field name or value
        self.most_fields = 0
        self.scheduled_ms: int | None = None
        self._deadlines = NO_DEADLINES

    # -- reading ------------------------------------------------------------------------------

    def get(self, name: bytes) -> bytes | None:
        field = self._elements.get(name)
        return None if field is None else field.value

    def get_many(self, names: Iterable[bytes]) -> Iterator[bytes | None]:
        return map(self.get, names)

    @property
    def items(self) -> dict[bytes, bytes]:
        """A new dict, in the order in which the fields were added."""
        return {name: field.value for name, field in self._in_order().items()}

    @property
    def flat(self) -> tuple[bytes, ...]:
        """All fields and their values, in the same order."""
        words: list[bytes] = []
        for name, field in self._in_order().items():
            words.append(name)
            words.append(field.value)
        return tuple(words)

    @property
    def values(self) -> tuple[bytes, ...]:
        return tuple([field.value for field in self._in_order().values()])

    def expires_at_ms(self, name: bytes) -> int | None:
        """The time when the field expires; None: never. The field must exist."""
        expires_at_ms: int | None = self._elements[name].expires_at_ms
        return expires_at_ms

    # -- changing -----------------------------------------------------------------------------

    def add_to(self, name: bytes, amount: object, total: bytes, log: ChangeLog) -> None:
        """HINCRBY and HINCRBYFLOAT: set the field to a sum. The field keeps its expiry."""
        log.intend(ADDED, 0, amount)
        self.set(name, total, log, keep_expiry=True)

    def set(self, name: bytes, value: bytes, log: ChangeLog, *, keep_expiry: bool = False) -> bool:
        """Set a field. Returns whether it is new."""
        field = self._elements.get(name)
        if field is None:
            ordinal: Any = self._next
            if not log.joins_elements:
                self._change(name, (value, ordinal, None), None, log)
                return True
            fold = log.fold_state.next_fold
            self._add(name, Field(value, ordinal, None, fold), log)
            log.add_field(self, self.id, name, value, ordinal)
            self._note(name, log)
            if log.undo is not None:
                log.undo.append(RowUndo(HASH_FIELDS, self, name, None))
            return True
        expires_at_ms = field.expires_at_ms if keep_expiry else None
        if not log.joins_elements or expires_at_ms is not None:
            self._change(name, (value, field.ordinal, expires_at_ms), field, log)
            return False
        if log.undo is not None:
            log.undo.append(RowUndo(HASH_FIELDS, self, name, field.row))
        self._set_value(field, value, log)
        field.expires_at_ms = None
        log.add_field(self, self.id, name, value, field.ordinal)
        fold = log.fold_state.next_fold
        if field.dirty_in_fold != fold:
            field.dirty_in_fold = fold
            self._note(name, log)
        return False

    def set_expiry(self, name: bytes, expires_at_ms: int | None, log: ChangeLog) -> None:
        """Set the expiry of a field, which must exist."""
        field = self._elements[name]
        self._change(name, (field.value, field.ordinal, expires_at_ms), field, log)

    def remove(self, name: bytes, log: ChangeLog) -> bool:
        """Remove a field. Returns False when it did not exist."""
        old = self._delete(name, log)
        if old is None:
            return False
        self._record(name, None, old.row, log)
        return True

    def copy(self, new_id: int, log: ChangeLog) -> "Hash":
        """See Collection. No undo, and no bytes are counted: the key of the copy does both."""
        new = Hash(new_id)
        for name, field in self._in_order().items():
            row = field.row
            new.apply(name, row)
            log.ops.append(hash_field(new_id, name, row))
        return new

    def rows(self, names: list[bytes]) -> list[Any]:
        fields = [self._elements.get(name) for name in names]
        return [None if field is None else field.row for field in fields]

    def add_columns(self, names: list[bytes], values: list[Any], ordinals: list[int]) -> int:
        if self._deadlines:
            return 0
        elements = self._elements
        if len(elements) == 1:
            for name, field in elements.items():
                names.append(name)
                values.append(field.value)
                ordinals.append(field.ordinal)
            return 1
        for name in self.sorted_names():
            field = elements[name]
            names.append(name)
            values.append(field.value)
            ordinals.append(field.ordinal)
        return len(elements)

    def parts(self) -> list[Any]:
        return [*super().parts(), self._deadlines]

    def fill(self, rows: list[tuple[bytes, bytes, int, int | None]]) -> None:
        """Add rows of the file, many at once, in a third of the time of single ones."""
        fields = self._elements
        nbytes = highest = 0
        longest = self.longest
        for name, value, ordinal, at_ms in rows:
            fields[name] = Field(value, ordinal, at_ms, 0)
            nbytes += len(name) + len(value) + ELEMENT_OVERHEAD
            longest = max(longest, len(name), len(value))
            highest = max(highest, ordinal)
            if at_ms is not None:
                self._push_deadline(at_ms, name)
        self._filled(highest, nbytes)
        self.longest = longest
        self.most_fields = len(fields)

    def apply(self, name: bytes, row: Row | None) -> None:
        """Apply a row of the file or the journal."""
        field = self._elements.get(name)
        if field is not None and (row is None or row[1] != field.ordinal):
            self._delete(name, None)
            field = None
        if row is not None:
            self._put(name, row, field, None)

    # -- packed -------------------------------------------------------------------------------

    def packable(self) -> list[Any] | None:
        """See packed_form.py: the ordinals, and each field with its value."""
        if (
            self.most_fields > MOST_PACKED
            or self.longest > LONGEST_PACKED
            or self._deadlines
            or not self._elements
        ):
            return None
        if len(self._elements) == 1:
            for name, field in self._elements.items():
                return [0 if field.ordinal == 1 else [field.ordinal], name, field.value]
        ordinals: list[int] = []
        words: list[Any] = [0]
        for name, field in self._in_order().items():
            ordinals.append(field.ordinal)
            words.append(name)
            words.append(field.value)
        words[0] = shortened(ordinals)
        return words

    def fill_packed(self, flat: list[Any]) -> None:
        at = 1
        for ordinal in lengthened(flat[0], len(flat) // 2):
            self._add(flat[at], Field(flat[at + 1], ordinal, None, 0), None)
            at += 2

    # -- expiry -------------------------------------------------------------------------------

    @property
    def has_deadlines(self) -> bool:
        """Whether fields expire, or did."""
        return bool(self._deadlines)

    @property
    def next_expiry_ms(self) -> int | None:
        """The time when the next field expires."""
        deadlines = self._deadlines
        while deadlines and not self._is_current(deadlines[0]):
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expire_due(self, now_ms: int, limit: int, log: ChangeLog) -> list[bytes]:
        """Remove expired fields, at most `limit`. Returns their names."""
        names: list[bytes] = []
        deadlines = self._deadlines
        while deadlines and len(names) < limit:
            due_ms, name = deadlines[0]
            if self._is_current(deadlines[0]):
                if due_ms > now_ms:
                    break
                if self.remove(name, log):
                    names.append(name)
            else:
                heappop(deadlines)
        return names

    def _is_current(self, deadline: tuple[int, bytes]) -> bool:
        field = self._elements.get(deadline[1])
        return field is not None and field.expires_at_ms == deadline[0]

    def _push_deadline(self, expires_at_ms: int, name: bytes) -> None:
        if self._deadlines is NO_DEADLINES:
            self._deadlines = []
        heappush(self._deadlines, (expires_at_ms, name))

    def _remember_deadline(self, expires_at_ms: int, name: bytes) -> None:
        self._push_deadline(expires_at_ms, name)
        if len(self._deadlines) > 2 * len(self._elements) + FEWEST_TO_SWEEP:
            self._deadlines = [
                (field.expires_at_ms, name)
                for name, field in self._elements.items()
                if field.expires_at_ms is not None
            ]
            heapify(self._deadlines)

    # -- parts --------------------------------------------------------------------------------

    def _change(self, name: bytes, row: Row, field: Field | None, log: ChangeLog) -> None:
        """Report the field by an operation of its own, not in a run."""
        self._record(name, row, None if field is None else field.row, log)
        self._put(name, row, field, log)

    def _record(self, name: bytes, new: Row | None, old: Row | None, log: ChangeLog) -> None:
        log.ops.append(hash_field(self.id, name, new))
        if log.undo is not None:
            log.undo.append(RowUndo(HASH_FIELDS, self, name, old))

    def _put(self, name: bytes, row: Row, field: Field | None, log: ChangeLog | None) -> None:
        """Give a field this row. A field that exists has the same ordinal."""
        value, expires_at_ms, known_ms = row[0], row[2], None
        if field is None:
            self._add(name, Field(value, row[1], expires_at_ms, 0), log)
        else:
            known_ms = field.expires_at_ms
            self._set_value(field, value, log)
            field.expires_at_ms = expires_at_ms
            field.dirty_in_fold = 0
        if expires_at_ms is not None and expires_at_ms != known_ms:
            self._remember_deadline(expires_at_ms, name)

    def _add(self, name: bytes, field: Field, log: ChangeLog | None) -> None:
        """Store a new field, without its deadline."""
        self._insert(name, field, field.ordinal, self._size(name, field), log)
        if len(name) > self.longest:
            self.longest = len(name)
        if len(field.value) > self.longest:
            self.longest = len(field.value)
        if len(self._elements) > self.most_fields:
            self.most_fields = len(self._elements)

    def _set_value(self, field: Field, value: bytes, log: ChangeLog | None) -> None:
        """Give a field another value."""
        length = len(value)
        self._resize(length - len(field.value), log)
        field.value = value
        if length > self.longest:
            self.longest = length

    def _ordinal(self, element: Field) -> int:
        ordinal: int = element.ordinal
        return ordinal

    def _size(self, name: bytes, element: Field) -> int:
        return len(name) + len(element.value) + ELEMENT_OVERHEAD
