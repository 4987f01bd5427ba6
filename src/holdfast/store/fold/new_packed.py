"""How the fold writes keys that were packed when they were made (decision 48): straight from their
records, a slice at a time. Nothing of them is kept for the pass but their names.

A client may use such a key meanwhile. It is an object from then on, a revived key, and the pass
writes it as it writes other new keys (collect.py).
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import apsw

from holdfast.store.change.fold_state import PackedNames
from holdfast.store.change.ops import key_row
from holdfast.store.file.tables import put_columns, put_fields_sql, put_strings_sql
from holdfast.store.fold.pending_rows import ChangedRows, in_order
from holdfast.store.fold.write_keys import KeyRows
from holdfast.store.memory.key import Key, Space
from holdfast.store.memory.keyspace import Keyspace

SLICE_ENTRIES: Final = 10_000  # that are looked at in one slice, without their values
ROWS_OF_KEY: Final = 2  # of a small key: one, and one for its string or each of its fields
SLICE_BYTES: Final = 256 * 1024
NO_TIMES: Final[list[int]] = []


class NewPackedKeys:
    """Those of one pass. `count` is their number, `revived` has those that became objects after
    `begin`. `slice_rows` tells the size of the next slice: it is smaller while a client waits."""

    def __init__(
        self,
        connection: apsw.Connection,
        keys: KeyRows,
        keyspace: Keyspace,
        first_new_id: int,
        slice_rows: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute
        self._keys = keys
        self._keyspace = keyspace
        self._first_new_id = first_new_id
        self._slice_rows = slice_rows
        self._runs: dict[int, list[PackedNames]] = {}  # by space
        self._known: dict[int, Key] = {}  # revived before, by id
        self.count = 0
        self.revived: list[Key] = []

    def begin(self, rows: ChangedRows) -> Generator[None, None, list[Key]]:
        """Returns the new keys that are objects: those that always were, then revived ones, both in
        the order of their ids. No batch may be open."""
        state = self._keyspace.fold_state
        keys: list[Key] = []
        created = state.created_in_pass()
        for start in range(0, len(created), SLICE_ENTRIES):
            for entry in created[start : start + SLICE_ENTRIES]:
                if isinstance(entry, Key):
                    keys.append(entry)
                elif entry.id >= self._first_new_id:
                    self._runs.setdefault(entry.space.id, []).append(entry)
                    self.count += len(entry.names)
                else:
                    self._unpack(entry, rows)
                    yield
            yield
        known = self._known = state.revived_in_pass.copy()
        for ids in in_order(known) if known else ():
            keys += [known[key_id] for key_id in ids]
            yield
        return keys

    def _unpack(self, run: PackedNames, rows: ChangedRows) -> None:
        """A pass before this one has failed, and the tables may have some of these keys. So they
        are written as old keys are. (This is rare, and needs no speed.)"""
        keyspace, space = self._keyspace, run.space
        is_shown = keyspace.shows(space)
        for key_id, name in enumerate(run.names, run.id):
            if keyspace.fold_state.revived_key(key_id) is not None:
                continue
            row = space.packed.row(name) if is_shown and space.packed is not None else None
            if row is not None and row[0] == key_id:
                keyspace.unpack(space, name)
            else:
                rows.add([key_row(key_id, None)])

    def write(self, shown: set[int] | None, never_lived: set[int]) -> Iterator[int]:
        """Write the keys, their strings and fields. Yields after each slice how many rows it had.
        `never_lived` gets the ids of keys that are gone. `shown` are the spaces that databases have
        after the pass, if it changes them: keys of other spaces are not written."""
        for space_id, runs in self._runs.items():
            if shown is None or space_id in shown or self._keyspace.shows(runs[0].space):
                yield from self._write_runs(runs, never_lived)

    def _write_runs(self, runs: list[PackedNames], never_lived: set[int]) -> Iterator[int]:
        space: Space = runs[0].space
        columns: list[list[Any]] = []  # of the slice: those of NewRows
        seen = 0
        for run in runs:
            at, count = 0, len(run.names)
            while at < count:
                packed = space.packed
                if packed is None:  # the space was flushed, and its memory is free
                    never_lived.update(range(run.id + at, run.id + count))
                    break
                most_keys = self._slice_rows()
                most_rows = ROWS_OF_KEY * most_keys
                end, *read = packed.read_new(run.names, run.id, at, most_rows, SLICE_BYTES)
                self._note_missing(read.pop(), never_lived)
                if seen:
                    for column, more in zip(columns, read, strict=True):
                        column += more
                else:
                    columns = read
                seen += end - at
                at = end
                if seen >= most_keys or at < count:
                    yield self._write_slice(space.id, columns)
                    seen = 0
        if seen:
            yield self._write_slice(space.id, columns)

    def _note_missing(self, ids: list[int], never_lived: set[int]) -> None:
        revived = self._keyspace.fold_state.revived_in_pass
        for key_id in ids:
            if key_id not in self._known:
                key = revived.get(key_id)
                if key is None:
                    never_lived.add(key_id)
                else:
                    self.revived.append(key)

    def _write_slice(self, space_id: int, columns: list[list[Any]]) -> int:
        """Returns the number of rows."""
        string_ids, string_names, strings, hash_ids, hash_names, *elements = columns
        with self._connection:
            if string_ids:
                self._keys.write_new(space_id, "string", string_ids, string_names, NO_TIMES)
                put_columns(self._execute, put_strings_sql, [], [string_ids, strings])
            if hash_ids:
                self._keys.write_new(space_id, "hash", hash_ids, hash_names, NO_TIMES)
                put_columns(self._execute, put_fields_sql, [], elements)
        return 2 * len(string_ids) + len(hash_ids) + len(elements[0])
