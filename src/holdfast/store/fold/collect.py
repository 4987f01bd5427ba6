"""The rows that a pass of the fold reads from memory: new keys with their strings and small hashes
and sets, and elements of other hashes and sets. (Other strings: `Keyspace.unwritten_rows`.)

FoldState has new keys in the order of their ids. So the fold keeps nothing of the operations that
made them: no tuple and no entry of a dict for each key. It does not have to sort anything either.
"""

from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from holdfast.store.change.fold_state import FoldState
from holdfast.store.change.ops import HASH_FIELDS, SET_MEMBERS, key_row
from holdfast.store.fold.pending_rows import SORTED_ROWS, ChangedRows, in_order
from holdfast.store.memory.key import Key, Space
from holdfast.store.values.insertion_order import MOST_WHOLE, Ordered
from holdfast.store.values.registry import TYPE_NAMES, Value

COLLECTED_ROWS: Final = 500  # in about the time of a slice


def collect_new_keys(
    keys: list[Key],
    rows: ChangedRows,
    first_new_id: int,
    shown: AbstractSet[int] | None,
    shows: Callable[[Space], bool],
) -> Generator[None, None, set[int]]:
    """Take the rows of new keys, of their strings, and of collections that are read whole. Returns
    the ids of keys that are gone, and of keys in a space that no database shows: the pass writes
    nothing of them.

    A database may have a new space since the pass began, and a key may have moved there. The pass
    must write it, because the next one writes only what has changed by then. So `shows` says what
    databases show now.

    The tables have none of the keys from `first_new_id` on. They may have the others: a pass before
    this one has failed.
    """
    dead: set[int] = set()
    part = _Part()
    count = 0
    for key in keys:
        if count >= COLLECTED_ROWS:
            part.hand_to(rows)
            yield
            part, count = _Part(), 0
        count += 1
        key_id = key.id
        is_new = key_id >= first_new_id
        if not key.is_attached:
            if is_new:
                dead.add(key_id)
            else:
                rows.add([key_row(key_id, None)])
            continue
        if not is_new:
            row = (key.space.id, key.name, key.type_name, key.expires_at_ms)
            rows.add([key_row(key_id, row)])
        elif shown is not None and key.space.id not in shown and not shows(key.space):
            dead.add(key_id)
            continue
        else:
            part.add(key)
        value = key.value
        if type(value) is bytes:
            part.string_ids.append(key_id)
            part.strings.append(value)
            continue
        if not isinstance(value, Ordered):
            continue
        elements: Ordered[Any] = value  # (so that compiled code knows its attributes)
        if not elements.is_read_whole:
            continue
        if len(elements) <= MOST_WHOLE:
            added = part.add_elements(key_id, elements)
            if not added:
                names = elements.sorted_names()
                rows.take(elements.table, key_id, names, elements.rows(names))
                added = len(names)
            count += added
        else:  # it has grown since the pass began
            part.hand_to(rows)
            names = elements.sorted_names()
            for start in range(0, len(names), COLLECTED_ROWS):
                some = names[start : start + COLLECTED_ROWS]
                rows.take(elements.table, key_id, some, elements.rows(some))
                yield
            part, count = _Part(), 0
    part.hand_to(rows)
    yield
    return dead


class _Part:
    """Some keys, in columns. Keys of one space and type are together; so are those that expire."""

    def __init__(self) -> None:
        self.string_ids: list[int] = []
        self.strings: list[bytes] = []
        self._groups: dict[tuple[int, str, bool], tuple[list[int], list[bytes], list[int]]] = {}
        # The last group: keys of one kind follow each other.
        self._space: Space | None = None
        self._type: type[Value] | None = None
        self._ids: list[int] = []
        self._names: list[bytes] = []
        self._fields = _Elements()
        self._members = _Elements()

    def add_elements(self, key_id: int, value: Ordered[Any]) -> int:
        """Add the elements of a value. Returns how many; 0 if they need rows with more columns."""
        of_table = self._fields if value.table == HASH_FIELDS else self._members
        count = value.add_columns(of_table.names, of_table.values, of_table.ordinals)
        for _ in range(count):
            of_table.ids.append(key_id)
        return count

    def add(self, key: Key) -> None:
        expires_at_ms = key.expires_at_ms
        if expires_at_ms is not None:
            ids, names, times = self._group(key, do_expire=True)
            ids.append(key.id)
            names.append(key.name)
            times.append(expires_at_ms)
            return
        kind = type(key.value)
        if key.space is not self._space or kind is not self._type:
            self._ids, self._names, _ = self._group(key, do_expire=False)
            self._space, self._type = key.space, kind
        self._ids.append(key.id)
        self._names.append(key.name)

    def _group(self, key: Key, *, do_expire: bool) -> tuple[list[int], list[bytes], list[int]]:
        place = key.space.id, TYPE_NAMES[type(key.value)], do_expire
        found = self._groups.get(place)
        if found is None:
            found = self._groups[place] = ([], [], [])
        return found

    def hand_to(self, rows: ChangedRows) -> None:
        for (space, type_name, _), (ids, names, times) in self._groups.items():
            rows.take_keys(space, type_name, ids, names, times)
        rows.take_strings(self.string_ids, self.strings)
        some = self._fields
        rows.take_elements(HASH_FIELDS, some.ids, some.names, some.values, some.ordinals)
        some = self._members
        rows.take_elements(SET_MEMBERS, some.ids, some.names, some.values, None)


class _Elements:
    """Elements of several hashes, or of several sets, in columns."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.names: list[bytes] = []
        self.values: list[Any] = []
        self.ordinals: list[int] = []


def collect_elements(state: FoldState[Key], rows: ChangedRows) -> Generator[None]:
    """Take the elements of hashes and sets that were noted for this pass, in the order of keys."""
    changed: list[tuple[Ordered[Any], list[bytes]]] = state.elements_in_pass
    read_from_id = state.read_from_id
    by_id: dict[int, tuple[Ordered[Any], list[bytes]]] = {}
    for start in range(0, len(changed), SORTED_ROWS):
        for value, noted in changed[start : start + SORTED_ROWS]:
            value.forget_list(noted)
            if len(value) >= state.large_from:
                state.large[value.id] = value
            known = by_id.get(value.id)  # noted for a pass that failed, and again for this one
            by_id[value.id] = (value, noted if known is None else known[1] + noted)
        yield
    count = 0
    for ids in in_order(by_id) if by_id else ():
        if not ids:
            yield
        for key_id in ids:
            value, noted = by_id[key_id]
            if value.is_read_whole and key_id >= read_from_id:
                continue  # noted for a pass that failed; `collect_new_keys` takes all of it
            if len(noted) == 1:
                rows.take(value.table, key_id, noted, value.rows(noted))
                count += 1
            else:
                for names in in_order(noted):
                    names = list(dict.fromkeys(names))  # an element may be noted twice
                    rows.take(value.table, key_id, names, value.rows(names))
                    count += len(names)
                    if not names or count >= COLLECTED_ROWS:
                        yield
                        count = 0
            if count >= COLLECTED_ROWS:
                yield
                count = 0
