"""Values that no client can see any more leave memory a little at a time.

To free a million elements at once takes a quarter of a second, in which no client is served. So
large values that were removed, and the keys of a database that was flushed, wait here to be taken
apart.

This also breaks up circles of references: keys and the space they are in, pending entries and their
consumers. The server has Python look for circles only rarely (see `_collect_rarely`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from holdfast.store.memory.packed_keys import trim
from holdfast.store.values.stream import Stream

if TYPE_CHECKING:
    from holdfast.store.memory.key import Key, Space
    from holdfast.store.values.registry import Collection, Value

FEW: Final = 64  # elements: so few are freed at once, as in Redis
MANY: Final = 50_000  # elements and keys: after so many, free memory goes back to the system
SLICE: Final = 2000  # elements, or keys: less than a millisecond
PACKED_CHUNKS: Final = 4  # of packed keys, 256 KB each: less than a millisecond, too
CHUNK: Final = 250  # elements that one of a list's items may have, about


class Freeing:
    __slots__ = (
        *("_done", "_most_bytes", "_parts", "_removed", "_spaces", "_trimmed_bytes"),
        *("freed", "let_go", "trims"),
    )

    def __init__(self) -> None:
        self._removed: list[Key] = []
        self._spaces: list[Space] = []
        self._parts: list[Any] = []  # dicts and lists, of values that are being taken apart
        self._done = 0  # work since memory was given back
        self._trimmed_bytes = 0  # that were used when memory was given back
        self._most_bytes = 0  # that were used since then
        self.trims = 0  # how often memory was given back
        self.freed = 0  # keys that were removed with large values, or flushed
        # Called for each flushed key: other objects may refer to it.
        self.let_go: Callable[[Key], None] | None = None

    @property
    def is_idle(self) -> bool:
        return not (self._parts or self._removed or self._spaces)

    @property
    def pending(self) -> int:
        """Keys and large values that wait."""
        flushed = sum(
            [len(each.keys) + len(each.unloaded) + each.packed_count for each in self._spaces]
        )
        return flushed + len(self._removed) + bool(self._parts)

    def removed(self, key: "Key") -> None:
        self._done += 1
        if _is_worth_waiting(key.value):
            self._removed.append(key)

    def flushed(self, space: "Space") -> None:
        self._spaces.append(space)

    def keep(self, space: "Space") -> None:
        """Keep a space: the script that flushed it has failed."""
        if space in self._spaces:
            self._spaces.remove(space)

    def take_parts(self, parts: list[Any]) -> None:
        """Dicts and lists that are not needed any more."""
        self._parts += parts

    def take(self, value: "Value") -> None:
        """A value that is certain not to be needed."""
        if _is_worth_waiting(value):
            self._parts += value.parts()

    def step(self) -> bool:
        """Take a slice apart; False when nothing is left. Not while a script runs:
        if the script fails, the values that it removed come back."""
        left = SLICE
        while left > 0:
            if self._parts:
                left -= self._shrink(self._parts[-1], left)
            elif self._removed:
                key = self._removed.pop()
                if not key.is_attached:
                    self.take(key.value)
                    self.freed += len(key.value) > FEW  # else Redis would not have waited
            elif self._spaces:
                left -= self._empty(self._spaces[-1], left)
            else:
                self.note_done(SLICE - left)
                return False
        self._done += SLICE - left
        return True

    def note_done(self, count: int) -> None:
        """Note that this number of elements or keys has left memory, or was rearranged in it."""
        self._done += count

    def give_back(self, used_bytes: int, *, is_at_rest: bool) -> None:
        """Called at each tick: give free memory back to the system, if it pays. A server is at rest
        if no client has sent a command for a while.

        Free memory that is used again soon is kept: to give it back costs time, and it breaks large
        pages of memory into small ones. So the bytes in use must have changed by a quarter. While
        clients send commands, only a server that needs less memory gives some back.
        """
        self._most_bytes = max(self._most_bytes, used_bytes)
        if self._done < MANY or not self.is_idle:
            return
        has_shrunk = used_bytes < self._most_bytes * 3 // 4
        has_grown = is_at_rest and used_bytes > self._trimmed_bytes * 5 // 4
        if (has_shrunk or has_grown) and trim(is_at_rest):
            self._done = 0
            self._most_bytes = self._trimmed_bytes = used_bytes
            self.trims += 1

    def _shrink(self, part: Any, most: int) -> int:
        """Returns how much work it was."""
        if not part:
            self._parts.pop()
            return 1
        if isinstance(part, dict):
            count = min(most, len(part))
            for _ in range(count):
                part.popitem()
            return count
        count = 1 + most // CHUNK
        del part[-count:]
        return count * CHUNK

    def _empty(self, space: "Space", most: int) -> int:
        if space.packed is not None:
            self.freed += len(space.packed)
            if space.packed.dissolve(PACKED_CHUNKS):
                return most
            space.packed = None
        keys = space.keys or space.unloaded
        count = min(most, len(keys))
        for _ in range(count):
            _, key = keys.popitem()
            if self.let_go is not None:
                self.let_go(key)
            self.take(key.value)
            self.freed += 1
        if not space.has_any_in_memory:
            self._spaces.remove(space)
        return count + 1


def _is_worth_waiting(value: "Value") -> "TypeGuard[Collection]":
    return not isinstance(value, bytes) and (len(value) > FEW or type(value) is Stream)
