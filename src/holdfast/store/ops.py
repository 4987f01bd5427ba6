"""Row operations: the one language of change.

An operation is `(table, key_id, sub, value)`; `value None` means that the row is gone. It says
what a row is, never how it changed, so applying it twice is applying it once.
"""

from typing import Any, Final

from holdfast.store.stream_blocks import close_run

# In files, so for ever: new tables go to the end. (Each by itself, so that compiled code has the
# number where it else had to look for the name.)
SPACES: Final = 0
KEYS: Final = 1
STRINGS: Final = 2
LIST_ITEMS: Final = 3
HASH_FIELDS: Final = 4
SET_MEMBERS: Final = 5
ZSET_MEMBERS: Final = 6
STREAM_META: Final = 7
STREAM_ENTRIES: Final = 8
STREAM_GROUPS: Final = 9
STREAM_CONSUMERS: Final = 10
STREAM_PENDING: Final = 11
SCRIPTS: Final = 12
CRDT_KEYS: Final = 13
CRDT_ROWS: Final = 14
CRDT_LOG: Final = 15
CRDT_FACTS: Final = 16
LIST_RUNS: Final = 17  # no table: many LIST_ITEMS, a step of the grid apart; see below
STRING_RUNS: Final = 18  # no table: STRINGS that were written one after the other; likewise
STREAM_RUNS: Final = 19  # no table: STREAM_ENTRIES that were added, and STREAM_META; likewise
FIELD_RUNS: Final = 20  # no table: HASH_FIELDS that were set, without expiry; likewise
MEMBER_RUNS: Final = 21  # no table: SET_MEMBERS that were added; likewise

# The key ids of SCRIPTS rows: what a row is, its name being the sub key.
SCRIPT, LIBRARY = range(2)

# The table and the key id are integers. Nothing is said of that here, because compiled code takes
# a tuple apart whose types it knows, and makes a new one wherever it is put.
Op = tuple[Any, ...]

# `(LIST_RUNS, key_id, position, values)`: elements from that position on; with a count in place of
# the values: so many are gone. Journals have them; whoever reads one is given LIST_ITEMS.
# `(STRING_RUNS, 0, None, [key_id, value, key_id, value, ...])`: the same of strings.
# `(STREAM_RUNS, key_id, None, [max_deleted_id, entries_added, last_id, count, piece, ...])`: new
# entries of a stream, so many to a piece (stream_blocks.py), and what its counters are now. Until
# it is closed there is `id, fields, id, fields, ...` instead of what follows the counters.
# `(FIELD_RUNS, key_id, None, [name, value, ordinal, name, value, ordinal, ...])`: fields of a hash.
# `(MEMBER_RUNS, key_id, None, [member, ordinal, member, ordinal, ...])`: members of a set.
# (A version that knows no runs takes them for operations of active-active servers that it does not
# understand either, and opens no file whose journal has one.)

# In replicated databases only, and never in files: what the operations around it mean, where
# they do not tell. `sub` says which, and `key_id` whose; see replicated_changes.py.
INTENT: Final = 99
# Of lists, as are those until REMOVE_AT. The first four say of one element what it is (a push) and,
# in fifth place, its position: no row operation goes with them. Without position they are of many.
PUSH_LEFT: Final = 0
PUSH_RIGHT: Final = 1
POP_LEFT: Final = 2
POP_RIGHT: Final = 3
INSERT_AT: Final = 4
SET_AT: Final = 5
REMOVE_AT: Final = 6
ADDED: Final = 7
WRITTEN_AGAIN: Final = 8
PERSISTED: Final = 9

# Likewise: strings of a replicated database, until it is known whether rows have to be written. The
# value is a list of Keys, each before what was written to it, or before what was added and the sum.
CHANGED: Final = 98

# Ids below this are database numbers (SPACES rows); ids of keys and spaces start here.
FIRST_ID = 1024

# One step back: the table, whose row, which one, and what it was. Like an operation, but for whose
# it is: a Key (KEYS), a Database (SPACES), a Watcher, or a collection, which has `apply`. Nothing
# has to be made for it but the tuple, because hardly ever does anybody need it; for a string not
# even that: its Key and, behind it, what it held.
Undo = Any
WATCHERS: Final = -1  # no table: a watcher was told that something changed


class ChangeLog:
    """Where a value reports its changes. (No Protocol: compiled code would have to look for each
    attribute by its name.)"""

    is_replicated = False  # whether to state intents

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.undo: list[Undo] | None = None  # a list while a script runs, which may fail
        self.used_bytes = 0
        self.replaced = 0  # operations that took the place of another
        self.recorded = 0  # changes that `ops` has in records or runs only
        self.open_runs: list[list[Any]] = []  # of streams
        self.settled = 0  # so many operations stay as they are: what follows may have to go again
        # Whether elements of hashes and sets are told as runs. Then they are folded from memory:
        # what changed before the fold with the number `next_fold`, the next to begin, is noted.
        self.joins_elements = False
        self.next_fold = 1
        self.changed_elements: list[tuple[Any, list[bytes]]] = []  # whose, and names
        self.changed_element_count = 0
        self.end_run()

    def end_run(self) -> None:
        """What is in `ops` stays as it is: it is taken away now, or what follows may have to be."""
        self.run: list[Any] = []
        self.run_op: Op | None = None  # to which one may add, as long as it is the last of `ops`
        self.run_of: object = None  # the stream, hash or set, or None of strings

    def begin_run(self, table: int, key_id: Any, whose: object, run: list[Any]) -> None:
        op: Op = (table, key_id, None, run)
        self.run, self.run_op, self.run_of = run, op, whose
        self.ops.append(op)

    def close_runs(self) -> None:
        """Before `ops` are written: what is in them stays as it is."""
        for run in self.open_runs:
            close_run(run)
        self.open_runs = []
        self.end_run()

    @property
    def changes(self) -> int:
        """Has grown if anything was reported since."""
        return len(self.ops) + self.replaced + self.recorded


class Rewritten:
    """A row that most commands on a key change, such as the counters of a stream. An operation on
    it takes the place of the one before in the batch being built: the last one says it all.

    Not while a script runs, because what was there before it must stay; and not in replicated
    databases, to which every step means something.
    """

    __slots__ = ("_at", "_op")

    def __init__(self) -> None:
        self._at = 0
        self._op: Op | None = None

    def leave(self) -> None:
        """The one before stays: an operation of another kind tells of the row, too."""
        self._op = None

    def write(self, op: Op, log: ChangeLog) -> None:
        """All operations on the row, in order, must come through here."""
        ops = log.ops
        at = self._at
        if (
            log.settled <= at < len(ops)
            and ops[at] is self._op
            and log.undo is None
            and not log.is_replicated
        ):
            ops[at] = op
            log.replaced += 1
        else:
            self._at = len(ops)
            ops.append(op)
        self._op = op
