"""The value of a set key. Every mutator reports the rows it changes to the log it is given last.

Nothing here knows key names, replies or SQL. Order, random choice and scans are in ordered.py.
"""

from collections.abc import Iterable
from typing import Any

from holdfast.store.ops import INTENT, MEMBER_RUNS, SET_MEMBERS, WRITTEN_AGAIN, ChangeLog
from holdfast.store.ordered import ELEMENT_OVERHEAD, Ordered


class Set(Ordered[int]):
    """Members and their ordinals. `has_only_integers` and `most_members` are about all that it
    was since it came to memory: Redis too keeps a large set's form when it has become small."""

    table = SET_MEMBERS

    __slots__ = ("has_only_integers", "most_members")

    def __init__(self, key_id: int) -> None:
        super().__init__(key_id)
        self.has_only_integers = True
        self.most_members = 0

    def add(self, member: bytes, log: ChangeLog) -> bool:
        """False when it was there."""
        if member in self._elements:
            if log.is_replicated:
                log.ops.append((INTENT, self.id, WRITTEN_AGAIN, (SET_MEMBERS, member, None)))
            return False
        ordinal: Any = self._next  # one object for the dict and the operation
        self._come(member, ordinal, log)
        if not log.joins_elements:
            self._record(member, ordinal, None, log)
            return True
        run = self._run(MEMBER_RUNS, log)
        run.append(member)
        run.append(ordinal)
        self._note(member, log)
        if log.undo is not None:
            log.undo.append((SET_MEMBERS, self, member, None))
        return True

    def remove(self, member: bytes, log: ChangeLog) -> bool:
        """False when it was not there."""
        ordinal = self._delete(member, log)
        if ordinal is None:
            return False
        self._record(member, None, ordinal, log)
        return True

    def copy(self, new_id: int, log: ChangeLog) -> "Set":
        """See Collection. No undo, and the bytes are counted by whoever attaches it."""
        new = Set(new_id)
        for member, ordinal in self._in_order().items():
            new._come(member, ordinal, None)
            log.ops.append((SET_MEMBERS, new_id, member, ordinal))
        return new

    def rows(self, names: list[bytes]) -> list[Any]:
        return [self._elements.get(name) for name in names]

    def fill(self, rows: Iterable[tuple[bytes, int]]) -> None:
        """All rows of the file at once."""
        members = dict(rows)
        nbytes = sum(map(len, members)) + ELEMENT_OVERHEAD * len(members)
        self._fill(members, max(members.values(), default=0), nbytes)
        self.has_only_integers = all(map(_is_integer, members))
        self.most_members = len(members)

    def apply(self, member: bytes, ordinal: int | None) -> None:
        """A row as the file or the journal has it."""
        if ordinal != self._elements.get(member):
            self._delete(member, None)
            if ordinal is not None:
                self._come(member, ordinal, None)

    # -- parts --------------------------------------------------------------------------------

    def _record(self, member: bytes, new: Any, old: int | None, log: ChangeLog) -> None:
        log.ops.append((SET_MEMBERS, self.id, member, new))
        if log.undo is not None:
            log.undo.append((SET_MEMBERS, self, member, old))

    def _come(self, name: bytes, ordinal: Any, log: ChangeLog | None) -> None:
        """A member that was not there."""
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
    """Whether it is how a 64-bit integer is written, and no other way to write it."""
    if len(text) > 20:
        return False
    try:
        number = int(text)
    except ValueError:
        return False
    return -(1 << 63) <= number < 1 << 63 and b"%d" % number == text
