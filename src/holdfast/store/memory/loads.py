"""Large collections on their way from the file into memory, a slice at a time (decision 24).

The key is in memory from the beginning, without its elements: it may be renamed, removed, or
expire. If the key goes away, its load ends. If a command cannot wait, the rest is loaded at once.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final, final

from holdfast.store.values.registry import COLLECTIONS, Value

if TYPE_CHECKING:
    from holdfast.store.memory.key import Key
    from holdfast.store.memory.keyspace import Keyspace

# So many loads go on in turn. A small collection does not wait for a huge one before it, and memory
# has few collections that are loaded in part.
ABREAST: Final = 4


class NotLoadedError(Exception):
    """A command needs collections that are being loaded. It has changed nothing, so it can run
    again when they are in memory."""

    def __init__(self, loads: "list[Load]") -> None:
        super().__init__("a command needs a collection that is being loaded")
        self.loads = loads


@final
class Load:
    """`users` counts commands that wait for the load, and commands that could run now and have not
    run yet. Memory does not forget the key before they have run. With `is_wanted` the load goes on
    also without users."""

    __slots__ = ("is_over", "is_wanted", "key", "rest", "steps", "users", "value")

    def __init__(self, key: "Key") -> None:
        self.key = key
        self.value: Value | None = None  # with the elements so far
        self.rest: Iterator[None] | None = None  # slices of rows that are left
        self.steps: Generator[None] | None = None
        self.users = 0
        self.is_wanted = False
        self.is_over = False


@final
class Loads:
    __slots__ = ("_by_id", "_keyspace", "_turn", "pending")

    def __init__(self, keyspace: "Keyspace") -> None:
        self._keyspace = keyspace
        self._by_id: dict[int, Load] = {}  # until they are over and have no users
        self.pending: deque[Load] = deque()  # until they are over
        self._turn = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def holds(self, key: "Key") -> bool:
        """Whether memory may not forget this key now: it is being loaded, or a command has waited
        for it and has not run yet. Otherwise a limit of memory could make the command wait for
        ever."""
        return key.id in self._by_id

    def begin(self, key: "Key") -> Load:
        """The load of a key that is not loaded. It may be under way already."""
        load = self._by_id.get(key.id)
        if load is None:
            load = self._by_id[key.id] = Load(key)
            self.pending.append(load)
        return load

    def release(self, load: Load) -> None:
        """A command that used the load has run, or will not run."""
        load.users -= 1
        if load.users <= 0 and (load.is_over or not load.is_wanted):
            self._end(load)

    def clear(self) -> None:
        """Memory forgets all keys."""
        for load in list(self._by_id.values()):
            self._end(load)

    # -- going on -----------------------------------------------------------------------------

    def run(self, now_ns: Callable[[], int], until_ns: int) -> None:
        """Load slices until that time. A load that fails has ended."""
        pending = self.pending
        while pending:
            self._turn += 1
            load = pending[self._turn % min(ABREAST, len(pending))]
            try:
                self.step(load)
            except Exception:
                self._end(load)
                raise
            if now_ns() >= until_ns:
                break

    def step(self, load: Load) -> bool:
        """Load a slice. Returns whether there are more."""
        if load.is_over or self._has_lost_key(load):
            return False
        if load.steps is None:
            load.steps = self._steps(load)
        for _ in load.steps:
            return True
        self._complete(load)
        return False

    def finish(self, load: Load) -> None:
        """Load the rest at once. The collection then makes its order when a command needs it, so
        the load takes half as long."""
        if load.value is None:
            self._begin_value(load)
        for _ in load.rest or ():
            pass
        self._complete(load)

    def _steps(self, load: Load) -> Generator[None]:
        if load.value is None:
            self._begin_value(load)
            if load.rest is None:
                return
            yield
        for _ in load.rest or ():
            yield
        settle = COLLECTIONS[load.key.type_name].settle
        if settle is not None:
            for _ in settle(load.value):
                yield

    def _begin_value(self, load: Load) -> None:
        tables, key = self._keyspace.tables, load.key
        assert tables is not None
        load.value, load.rest = tables.value(key.id, key.type_name, self._keyspace.loaded)

    def _has_lost_key(self, load: Load) -> bool:
        """Whether the key was removed or flushed. Then the load ends."""
        key = load.key
        if key.is_attached and self._keyspace.shows(key.space):
            return False
        self._end(load)
        return True

    def _complete(self, load: Load) -> None:
        assert load.value is not None
        self._keyspace.give_value(load.key, load.value)
        load.value = None
        if load.users > 0:
            self._is_over(load)
        else:
            self._end(load)

    def _end(self, load: Load) -> None:
        """Nothing needs it any more. Elements that no key has got are freed in slices."""
        if load.value is not None:
            self._keyspace.freeing.take(load.value)
        self._by_id.pop(load.key.id, None)
        self._is_over(load)

    def _is_over(self, load: Load) -> None:
        if not load.is_over:
            load.is_over = True
            self.pending.remove(load)
        load.value = load.rest = load.steps = None
