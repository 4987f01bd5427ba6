"""The log to which values report their changes: the batch that is being built."""

from typing import Any, Final

from holdfast.store.change.fold_state import FoldState
from holdfast.store.change.intents import ChangeIntent, Intent, ListEndIntent, StringsIntent
from holdfast.store.change.ops import FIRST_ID, KeyId, Op, RowOp, Run, list_item
from holdfast.store.change.runs import (
    FIELD_RUNS,
    LIST_RUNS,
    LIST_RUNS_DOWN,
    MANY_FIELD_RUNS,
    MANY_MEMBER_RUNS,
    MEMBER_RUNS,
    STREAM_RUNS,
    STRING_RUNS,
    list_run,
    list_run_gone,
    new_keys_run,
    new_strings_run,
    run_of_rows,
)
from holdfast.store.change.stream_blocks import close_run
from holdfast.store.change.undo import Undo

NO_BODY: Final[list[Any]] = []  # of a run that is not open, or has one row so far


class ChangeLog:
    """The operations of the current batch, its intents, and its undo steps while a script runs. (It
    is no Protocol, because compiled code would have to look up each attribute by its name.)"""

    states_intents = False  # whether values also state intents: see intents.py

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.intents: list[Intent] = []  # empty, unless intents are stated
        # the open run of strings; it ends when another change follows
        self._strings: StringsIntent | None = None
        self.undo: list[Undo] | None = None  # a list while a script runs, which may fail
        self.used_bytes = 0
        self.replaced = 0  # operations that replaced another one
        self.recorded = 0  # changes that have no operation of their own in `ops`, but a part of one
        self.open_runs: list[list[Any]] = []  # of streams
        # Whether elements of hashes and sets are reported as runs. The fold then reads them from
        # memory, and `fold_state` notes their names.
        self.joins_elements = False
        self.fold_state: FoldState[Any] = FoldState(FIRST_ID)
        self.end_run()

    @property
    def changes(self) -> int:
        """A number that grows with each reported change."""
        return len(self.ops) + len(self.intents) + self.replaced + self.recorded

    # -- intents ------------------------------------------------------------------------------

    def intend(self, what: int, key_id: KeyId, data: object) -> None:
        """State what the next operation means, or that a write changed no row."""
        if self.states_intents:
            self.intents.append(ChangeIntent(len(self.ops), what, key_id, data))

    def intend_at_end(self, what: int, key_id: KeyId, position: int, element: bytes | None) -> None:
        """State, instead of a row operation, that one element was pushed to a list or popped."""
        self.intents.append(ListEndIntent(len(self.ops), what, key_id, position, element))

    def intend_string(self, key: object, value: bytes, added: object) -> None:
        """State, instead of a row operation, that a key has a new string. `added` is the amount of
        an increment, or None."""
        intents, strings, number = self.intents, self._strings, len(self.ops)
        if strings is not None and strings.before == number and intents and intents[-1] is strings:
            self.recorded += 1
        else:
            strings = self._strings = StringsIntent(number)
            intents.append(strings)
        strings.changes.append(key)
        strings.changes.append(value if added is None else (added, value))

    # -- runs ---------------------------------------------------------------------------------

    def end_run(self) -> None:
        """Close the last run, because `ops` are taken away now, or because the operations that
        follow may be undone."""
        self._run: list[Any] = NO_BODY  # the body of the open run
        self._run_op: Op | None = None  # it stays open as long as it is the last of `ops`
        # The owner is a stream, list, hash or set; or None for strings of existing keys; or a space
        # for new keys in it; or the log itself for elements of several hashes or sets.
        self._run_owner: object = None
        # The id that a new key, or the position that an element of a list, must have to be a part
        # of the run.
        self._run_next = 0
        self._run_step = 0  # from one element of a list to the next
        # A run of new keys stays open as long as their ids follow each other, also if operations on
        # elements come between. The row of another key ends it, because that key may have had the
        # name of a new key for a while.
        self._new_keys: list[Any] = NO_BODY
        self._new_keys_op: Run | None = None
        self._new_keys_at = 0  # the index in `ops`
        self._new_keys_space: object = None
        self._new_keys_type = ""
        self._new_keys_next_id = 0
        self._strings = None

    def end_new_keys(self) -> None:
        """Called before the row of a key is reported: a new key that follows may get the name of
        that key."""
        self._new_keys_op = None

    def close_runs(self) -> None:
        """Complete all runs, before `ops` are written."""
        for run in self.open_runs:
            close_run(run)
        self.open_runs = []
        self.end_run()

    def add_strings(self, count: int) -> list[Any]:
        """Begin a run for so many strings of existing keys, and return its body. The caller must
        add them: key id, value, key id, value, …"""
        ops = self.ops
        if ops and ops[-1] is self._run_op and self._run_owner is None:
            self.recorded += count
        else:
            self.recorded += count - 1
            self._begin_run(STRING_RUNS, 0, None, [])
        return self._run

    def add_new_string(
        self, owner: object, space_id: KeyId, key_id: int, name: bytes, value: bytes
    ) -> None:
        """Report a new key that holds a string and does not expire. `owner` is its space."""
        ops = self.ops
        if (
            ops
            and ops[-1] is self._run_op
            and self._run_owner is owner
            and self._run_next == key_id
        ):
            self.recorded += 2  # its row, and that of its string
            run = self._run
        else:
            self.recorded += 1
            run = []
            op = new_strings_run(key_id, space_id, run)
            self._run, self._run_op, self._run_owner = run, op, owner
            ops.append(op)
        run.append(name)
        run.append(value)
        self._run_next = key_id + 1

    def add_new_key(
        self, owner: object, space_id: int, type_name: str, key_id: int, name: bytes
    ) -> None:
        """Report a new key that does not expire; its elements follow. `owner` is its space."""
        ops, at = self.ops, self._new_keys_at
        if (
            self._new_keys_next_id == key_id
            and self._new_keys_space is owner
            and self._new_keys_type == type_name
            and at < len(ops)
            and ops[at] is self._new_keys_op  # otherwise the run has ended, or was undone
        ):
            self.recorded += 1
        else:
            self._new_keys = []
            self._new_keys_op = new_keys_run(key_id, space_id, type_name, self._new_keys)
            self._new_keys_at = len(ops)
            self._new_keys_space, self._new_keys_type = owner, type_name
            ops.append(self._new_keys_op)
        self._new_keys.append(name)
        self._new_keys_next_id = key_id + 1

    def add_field(
        self, owner: object, key_id: KeyId, name: bytes, value: bytes, ordinal: object
    ) -> None:
        """Report a field of a hash that was set. (The ordinal is an int; it is passed as an object
        so that compiled code need not make another.)"""
        run = self._run_for(FIELD_RUNS, MANY_FIELD_RUNS, key_id, owner)
        run.append(name)
        run.append(value)
        run.append(ordinal)

    def add_new_fields(self, key_id: KeyId, argv: list[bytes]) -> None:
        """Report the fields of a new hash, as HSET has them in its arguments."""
        ops, last = self.ops, self._run_op
        if last is None or not ops or ops[-1] is not last or last[0] != MANY_FIELD_RUNS:
            self._begin_run(MANY_FIELD_RUNS, 0, self, [])
            self.recorded -= 1
        run = self._run
        ordinal = 1
        at = 2
        while at < len(argv):
            run.append(key_id)
            run.append(argv[at])
            run.append(argv[at + 1])
            run.append(ordinal)
            ordinal += 1
            at += 2
        self.recorded += ordinal - 1

    def add_member(self, owner: object, key_id: KeyId, member: bytes, ordinal: object) -> None:
        """Report a new member of a set. (The ordinal: as in `add_field`.)"""
        run = self._run_for(MEMBER_RUNS, MANY_MEMBER_RUNS, key_id, owner)
        run.append(member)
        run.append(ordinal)

    def add_entry(
        self, owner: object, entry_id: bytes, fields: object, entries_added: object
    ) -> bool:
        """Report a new entry of a stream. False when no run of that stream is open: the caller must
        call `begin_entries`."""
        ops = self.ops
        if not ops or ops[-1] is not self._run_op or self._run_owner is not owner:
            return False
        run = self._run
        run[1] = entries_added
        run.append(entry_id)
        run.append(fields)
        self.recorded += 1
        return True

    def begin_entries(
        self,
        owner: object,
        key_id: KeyId,
        max_deleted_id: bytes,
        entry_id: bytes,
        fields: object,
        entries_added: object,
    ) -> None:
        run: list[Any] = [max_deleted_id, entries_added, entry_id, fields]
        self._begin_run(STREAM_RUNS, key_id, owner, run)
        self.open_runs.append(run)

    def add_at_end(
        self, owner: object, key_id: KeyId, position: int, element: bytes | None, step: int
    ) -> None:
        """Report an element that was pushed to a list or popped (None). The next one of its kind is
        a `step` further on: a run of pushes at one end, or of pops, is one operation. (The first is
        a row, because pushes and pops in turn are no runs.)"""
        ops = self.ops
        if (
            ops
            and ops[-1] is self._run_op
            and self._run_owner is owner
            and self._run_next == position
            and self._run_step == step
        ):
            run = self._run
            if run is NO_BODY:
                first = ops[-1]
                self._run = run = [first[3]]
                table = LIST_RUNS if step > 0 else LIST_RUNS_DOWN
                self._run_op = ops[-1] = Run((table, key_id, first[2], run))
            run.append(element)
            self.recorded += 1
        else:
            row = list_item(key_id, position, element)
            self._run, self._run_op, self._run_owner = NO_BODY, row, owner
            self._run_step = step
            ops.append(row)
        self._run_next = position + step

    def add_elements(self, key_id: KeyId, position: int, elements: list[bytes]) -> None:
        """Report elements of a list, from that position on."""
        self.ops.append(list_run(key_id, position, elements))
        self.recorded += len(elements) - 1

    def remove_elements(self, key_id: KeyId, position: int, count: int) -> None:
        """Report that so many elements of a list are gone, from that position on."""
        self.ops.append(list_run_gone(key_id, position, count))
        self.recorded += count - 1

    def _run_for(self, table: int, many: int, key_id: KeyId, owner: object) -> list[Any]:
        """The body of the run that takes the next element of this hash or set. If clients make many
        small collections, one run has the elements of all of them, instead of two objects for each
        collection."""
        ops = self.ops
        last = self._run_op
        if last is not None and ops and ops[-1] is last:
            run = self._run
            if self._run_owner is owner:
                self.recorded += 1
                return run
            if last[0] == many:
                self.recorded += 1
                run.append(key_id)
                return run
            if last[0] == table and len(run) == (3 if table == FIELD_RUNS else 2):
                # The run has one element, of another hash or set.
                self.recorded += 1
                ops.pop()
                self._begin_run(many, 0, self, [last[1], *run, key_id])
                return self._run
        self._begin_run(table, key_id, owner, [])
        return self._run

    def _begin_run(self, table: int, key_id: KeyId, owner: object, body: list[Any]) -> None:
        op = run_of_rows(table, key_id, body)
        self._run, self._run_op, self._run_owner = body, op, owner
        self.ops.append(op)


class RewrittenRow:
    """A row that most commands on a key change, such as the counters of a stream.

    In the current batch, an operation on it replaces the one before, because the last one has the
    whole row. This does not hold while a script runs, because the operations before the script must
    stay. It does not hold if intents are stated, because then each step has a meaning.
    """

    __slots__ = ("_at", "_op")

    def __init__(self) -> None:
        self._at = 0
        self._op: Op | None = None

    def leave(self) -> None:
        """Keep the operation before, because an operation of another kind also has the row."""
        self._op = None

    def write(self, op: RowOp, log: ChangeLog) -> None:
        """All operations on the row, in order, must come through here."""
        ops = log.ops
        at = self._at
        if at < len(ops) and ops[at] is self._op and log.undo is None and not log.states_intents:
            ops[at] = op
            log.replaced += 1
        else:
            self._at = len(ops)
            ops.append(op)
        self._op = op
