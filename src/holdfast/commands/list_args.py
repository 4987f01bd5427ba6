"""The ends of lists, for the commands in lists.py and list_moves.py."""

from collections.abc import Sequence
from typing import Final, final

from holdfast.commands.context import Context
from holdfast.errors import SYNTAX
from holdfast.store.change.change_log import ChangeLog
from holdfast.store.memory.events import LIST
from holdfast.store.values.list import List


@final
class End:
    """One end of a list: the operations on it, and the names of their events."""

    def __init__(self, pushed: bytes, popped: bytes, *, is_left: bool) -> None:
        self.pushed = pushed
        self.popped = popped
        self._is_left = is_left

    def push(self, value: List, elements: Sequence[bytes], log: ChangeLog) -> None:
        if self._is_left:
            value.push_left(elements, log)
        else:
            value.push_right(elements, log)

    def pop(self, value: List, log: ChangeLog) -> bytes:
        return value.pop_left_one(log) if self._is_left else value.pop_right_one(log)

    def push_block(self, value: List, block: Sequence[bytes], log: ChangeLog) -> None:
        """Push elements so that they stand in this order in the list."""
        self.push(value, block[::-1] if self._is_left else block, log)

    def in_list_order(self, popped: list[bytes]) -> list[bytes]:
        """Elements that were popped from this end one after the other, as they stood in the
        list."""
        return popped if self._is_left else popped[::-1]

    def pop_many(self, value: List, count: int, log: ChangeLog) -> list[bytes]:
        return value.pop_left(count, log) if self._is_left else value.pop_right(count, log)


LEFT: Final = End(b"lpush", b"lpop", is_left=True)
RIGHT: Final = End(b"rpush", b"rpop", is_left=False)
ENDS = {b"LEFT": LEFT, b"RIGHT": RIGHT}


def parse_end(word: bytes) -> End:
    end = ENDS.get(word.upper())
    if end is None:
        raise SYNTAX
    return end


def push(c: Context, name: bytes, value: List, end: End, elements: Sequence[bytes]) -> int:
    end.push(value, elements, c.keyspace)
    c.db.signal(name, end.pushed, LIST)
    return len(value)
