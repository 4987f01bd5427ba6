"""Intents: the meaning of changes whose row operations do not show it.

An increment is more than a new value, and the row of a list element does not tell its index. In
replicated databases values state such meanings beside the operations, and `store/replicated` turns
both into effects. Intents are never written to a file. Standalone servers have none.
"""

from typing import Any, Final, final

# Intents of lists. Those at the ends come as a ListEndIntent for one element, or as a ChangeIntent
# with all elements of a list.
PUSH_LEFT: Final = 0
PUSH_RIGHT: Final = 1
POP_LEFT: Final = 2
POP_RIGHT: Final = 3
INSERT_AT: Final = 4  # index and element
SET_AT: Final = 5  # index and element
REMOVE_AT: Final = 6  # indexes
# Intents of other types.
ADDED: Final = 7  # the amount by which the next operation increments
WRITTEN_AGAIN: Final = 8  # `(table, sub, value)`: no row changed, but the write is a newer one
PERSISTED: Final = 9  # no data


class Intent:
    """The meaning of a change. It belongs before the operation with the number `before` in the
    batch."""

    __slots__ = ("before",)

    def __init__(self, before: int) -> None:
        self.before = before


@final
class ChangeIntent(Intent):
    """An intent of a kind above; the comment there explains `data`."""

    __slots__ = ("data", "key_id", "what")

    def __init__(self, before: int, what: int, key_id: int, data: Any) -> None:
        self.before = before
        self.what = what
        self.key_id = key_id
        self.data = data


@final
class ListEndIntent(Intent):
    """One element that was pushed or popped, and its position. A popped element is None. No row
    operation comes with it: neighbouring elements become a run later."""

    __slots__ = ("element", "key_id", "position", "what")

    def __init__(
        self, before: int, what: int, key_id: int, position: int, element: bytes | None
    ) -> None:
        self.before = before
        self.what = what
        self.key_id = key_id
        self.position = position
        self.element = element


@final
class StringsIntent(Intent):
    """Strings that were written one after the other. Whether their rows have to be written is
    decided later. `changes` has keys, each followed by its new value, or by `(amount, new value)`
    after an increment."""

    __slots__ = ("changes",)

    def __init__(self, before: int) -> None:
        self.before = before
        self.changes: list[Any] = []
