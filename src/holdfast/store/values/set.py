"""The value of a set key. Each method that changes it reports the changed rows to its last
argument, the log.

Nothing here knows key names, replies or SQL. Order, random choice and scans are in
insertion_order.py.
"""

from typing import Any

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.intents import WRITTEN_AGAIN
from holdfast.store.change.ops import SET_MEMBERS, set_member
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.insertion_order import ELEMENT_OVERHEAD, Ordered
from holdfast.store.values.packed_form import (
    LONGEST_PACKED,
    MOST_PACKED,
    lengthened,
    shortened,
)


class Set(Ordered[int]):
    """Members and their ordinals. `has_only_integers` and `most_members` are about the time since
    the value came to memory. They decide the encoding, because in Redis, too, a large set keeps its
    encoding when it becomes small."""

    table = SET_MEMBERS

    __slots__ = ("has_only_integers", "most_members")

    def __init__(self, key_id: int) -> None:
        super().__init__(key_id)
        self.has_only_integers = True
        self.most_members = 0

    def add(self, member: bytes, log: ChangeLog) -> bool:
        """Add a member. Returns False if it existed."""
        if member in self._elements:
            if log.states_intents:
                log.intend(WRITTEN_AGAIN, self.id, (SET_MEMBERS, member, None))
            return False
        ordinal: Any = self._next  # one object for the dict and the operation
        self._come(member, ordinal, log)
        if not log.joins_elements:
            self._record(member, ordinal, None, log)
            return True
        log.add_member(self, self.id, member, ordinal)
        self._note(member, log)
        if log.undo is not None:
            log.undo.append(RowUndo(SET_MEMBERS, self, member, None))
        return True

    def remove(self, member: bytes, log: ChangeLog) -> bool:
        """Remove a member. Returns False if it did not exist."""
        ordinal = self._delete(member, log)
        if ordinal is None:
            return False
        self._record(member, None, ordinal, log)
        return True

    def copy(self, new_id: int, log: ChangeLog) -> "Set":
        """See Collection. No undo, and no bytes are counted: the key of the copy does both."""
        new = Set(new_id)
        for member, ordinal in self._in_order().items():
            new._come(member, ordinal, None)
            log.ops.append(set_member(new_id, member, ordinal))
        return new

    def rows(self, names: list[bytes]) -> list[Any]:
        return [self._elements.get(name) for name in names]

    def add_columns(self, names: list[bytes], values: list[Any], ordinals: list[int]) -> int:
        elements = self._elements
        for name in elements if len(elements) == 1 else self.sorted_names():
            names.append(name)
            values.append(elements[name])
        return len(elements)

    def fill(self, rows: list[tuple[bytes, int]]) -> None:
        """Add rows of the file, many at once."""
        self._elements.update(rows)
        nbytes = highest = 0
        for member, ordinal in rows:
            nbytes += len(member) + ELEMENT_OVERHEAD
            highest = max(highest, ordinal)
            if self.has_only_integers and not _is_integer(member):
                self.has_only_integers = False
        self._filled(highest, nbytes)
        self.most_members = len(self._elements)

    def apply(self, member: bytes, ordinal: int | None) -> None:
        """Apply a row of the file or the journal."""
        if ordinal != self._elements.get(member):
            self._delete(member, None)
            if ordinal is not None:
                self._come(member, ordinal, None)

    # -- packed -------------------------------------------------------------------------------

    def packable(self) -> list[Any] | None:
        """See packed_form.py: the ordinals, `has_only_integers`, and the members."""
        members = self._elements
        if self.most_members > MOST_PACKED or not members:
            return None
        if max([len(member) for member in members]) > LONGEST_PACKED:
            return None
        members = self._in_order()
        return [shortened(list(members.values())), self.has_only_integers, *members]

    def fill_packed(self, flat: list[Any]) -> None:
        at = 2
        for ordinal in lengthened(flat[0], len(flat) - 2):
            self._come(flat[at], ordinal, None)
            at += 1
        self.has_only_integers = flat[1]

    # -- parts --------------------------------------------------------------------------------

    def _record(self, member: bytes, new: Any, old: int | None, log: ChangeLog) -> None:
        log.ops.append(set_member(self.id, member, new))
        if log.undo is not None:
            log.undo.append(RowUndo(SET_MEMBERS, self, member, old))

    def _come(self, name: bytes, ordinal: Any, log: ChangeLog | None) -> None:
        """Store a member that did not exist."""
        self._insert(name, ordinal, ordinal, len(name) + ELEMENT_OVERHEAD, log)
        if self.has_only_integers and not _is_integer(name):
            self.has_only_integers = False
        if len(self._elements) > self.most_members:
            self.most_members = len(self._elements)

    def _ordinal(self, element: int) -> int:
        return element

    def _size(self, name: bytes, element: int) -> int:
        return len(name) + ELEMENT_OVERHEAD


def _is_integer(text: bytes) -> bool:
    """Whether the text is a 64-bit integer in its normal form."""
    if len(text) > 20:
        return False
    try:
        number = int(text)
    except ValueError:
        return False
    return -(1 << 63) <= number < 1 << 63 and b"%d" % number == text
