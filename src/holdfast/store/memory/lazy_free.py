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
    __slots__ = ("_done", "_is_trim_due", "_parts", "_removed", "_spaces", "freed", "let_go")

    def __init__(self) -> None:
        self._removed: list[Key] = []
        self._spaces: list[Space] = []
        self._parts: list[Any] = []  # dicts and lists, of values that are being taken apart
        self._done = 0  # work since memory was given back
        self._is_trim_due = False  # it was put off, because it would have taken long
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
                self.tidy(SLICE - left)
                return False
        self._done += SLICE - left
        return True

    def tidy(self, count: int) -> None:
        """Note that this number of elements or keys has left memory. If there were many, give
        memory back to the system."""
        self._done += count
        if self._done >= MANY and self.is_idle:
            self._done = 0
            self._is_trim_due = not trim(False)

    def rest(self) -> None:
        """No client has sent a command for a while: give memory back, if that was put off
        before."""
        if self._is_trim_due and self.is_idle:
            self._is_trim_due = False
            trim(True)

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
