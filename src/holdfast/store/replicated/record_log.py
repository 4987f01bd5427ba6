"""The stored log of an active-active server: in rows of the file, and the latest records also in
memory. It is bounded. A peer that needs records which were cut takes a snapshot instead.
"""

import sys
from typing import TYPE_CHECKING, Final, NamedTuple, final

from holdfast.crdt.causal_log import CausalLog, Record, decode
from holdfast.crdt.dots import Vector
from holdfast.store.change.ops import CRDT_LOG, RowOp, row_op

if TYPE_CHECKING:
    from holdfast.store.file.tables import Tables

# A row of the file has room for less than 1 GB, and a record is as large as the changes of its
# transaction. So a record is stored in rows of this size; most records are one row.
PART_BYTES: Final = 32 << 20
# The bodies of the latest records stay in memory, for peers that keep up.
MEMORY_BYTES: Final = 8 << 20
# About the memory of a record whose body is only in the file. It counts against the limit, so that
# many small records are limited like few large ones.
ENTRY_BYTES: Final = 200
LIMIT_BYTES: Final = 64 << 20
# For a linked peer that is slower than the writer, the log may grow to so many times its limit,
# because a snapshot would not make that peer faster.
LINKED_SHARE: Final = 4
BODIES_AT_ONCE: Final = 4
BODIES_IN_BEAT: Final = 2_000


class Stored(NamedTuple):
    """A record in the log. `parts` is the number of its rows in the file. `data` is None if the
    body is only in the file."""

    origin: int
    seq: int
    hlc: int
    removals: int
    nbytes: int
    parts: int
    data: bytes | None


@final
class RecordLog(CausalLog[Stored]):
    """The log. `load`, `replay` and `begin` read it from the file; after that, records are added
    one by one."""

    def __init__(self, tables: "Tables | None") -> None:
        super().__init__()
        self._tables = tables
        self.part_bytes = PART_BYTES
        self.memory_limit_bytes = MEMORY_BYTES
        self.total_bytes = 0  # of all records
        self.bytes_in_memory = 0  # of bodies
        self._bodies_from = 0  # the number of the first record whose body is in memory
        self._written_end = 0  # the tables have the records below this number
        self._fold_end = 0  # and will have those below this one when the fold's pass ends
        # while reading: the data by lsn and part
        self._rows: dict[int, dict[int, bytes | None]] = {}
        # the last row that was read of a large record: lsn, part
        self._read_part: tuple[int, int, bytes] = (-1, 0, b"")

    # -- the file -----------------------------------------------------------------------------

    def load(self) -> None:
        if self._tables is not None:
            for part, lsn in self._tables.crdt_log():
                self._rows.setdefault(lsn, {})[part] = None

    def replay(self, lsn: int, part: int, data: bytes | None) -> Record | None:
        """Take a row of the journal. Returns the record when its last row was read."""
        if data is None:
            self._rows.pop(lsn, None)
            return None
        parts = self._rows.setdefault(lsn, {})
        parts[part] = data
        return decode(_joined(parts)) if part == 0 else None  # part 0 is written last

    def begin(self, base: Vector, start: int) -> None:
        self.base, self.start = dict(base), start
        self._written_end = self._bodies_from = start
        for lsn in sorted(self._rows):
            parts = self._rows[lsn]
            is_in_tables = None in parts.values()
            data = self._from_tables(lsn, len(parts)) if is_in_tables else _joined(parts)
            record = decode(data)
            if is_in_tables:
                self._written_end = self._bodies_from = lsn + 1
            self._add(record, len(data), len(parts), None if is_in_tables else data)
        self._rows = {}

    def fold_begins(self) -> None:
        self._fold_end = self.start + len(self)

    def fold_ended(self) -> None:
        self._written_end = self._fold_end

    # -- records ------------------------------------------------------------------------------

    def write(self, record: Record, data: bytes) -> list[RowOp]:
        """Add a record. Returns its rows."""
        lsn, size = self.start + len(self), self.part_bytes
        last = (len(data) - 1) // size
        self._add(record, len(data), last + 1, data)
        self._forget_bodies(BODIES_AT_ONCE)
        # Part 0 comes last: it tells recovery that the record is complete.
        rows: list[RowOp] = [
            row_op(CRDT_LOG, part, lsn, data[part * size : (part + 1) * size])
            for part in range(last, 0, -1)
        ]
        rows.append(row_op(CRDT_LOG, 0, lsn, data[:size] if last else data))
        return rows

    def _add(self, record: Record, nbytes: int, parts: int, data: bytes | None) -> None:
        origin, seq, hlc = record.origin, record.seq, record.hlc
        self.append(Stored(origin, seq, hlc, record.removals, nbytes, parts, data))
        self.total_bytes += nbytes
        if data is not None:
            self.bytes_in_memory += nbytes

    def limit_memory(self) -> None:
        """Called from time to time, because the fold may have written bodies since the last
        record."""
        self._forget_bodies(BODIES_IN_BEAT)

    def _forget_bodies(self, most: int) -> None:
        """Drop bodies that the tables have: a few for each new record, so that memory shrinks."""
        for _ in range(most):
            number = self._bodies_from
            if self.bytes_in_memory <= self.memory_limit_bytes or number >= self._written_end:
                return
            record = self.at(number)
            self.replace(number, record._replace(data=None))
            self.bytes_in_memory -= record.nbytes
            self._bodies_from = number + 1

    def read(self, number: int, start: int = 0, most_bytes: int = sys.maxsize) -> bytes:
        """Up to `most_bytes` of a record from `start` on. Fewer if a row of the file ends
        before."""
        record = self.at(number)
        data = record.data
        if data is None:
            if record.nbytes > most_bytes:
                return self._piece(number, start, most_bytes)
            return self._from_tables(number, record.parts)
        return data if len(data) <= most_bytes else data[start : start + most_bytes]

    def _from_tables(self, lsn: int, parts: int) -> bytes:
        tables = self._tables
        assert tables is not None
        return b"".join([tables.crdt_record(lsn, part) for part in range(parts)])

    def _piece(self, lsn: int, start: int, most_bytes: int) -> bytes:
        tables = self._tables
        assert tables is not None
        part, start = divmod(start, tables.crdt_record_bytes(lsn))
        if self._read_part[:2] != (lsn, part):
            self._read_part = (lsn, part, tables.crdt_record(lsn, part))
        return self._read_part[2][start : start + most_bytes]

    # -- the bound ----------------------------------------------------------------------------

    @property
    def cost_bytes(self) -> int:
        """The size that counts against the limit."""
        return self.total_bytes + ENTRY_BYTES * len(self)

    def pop(self) -> Stored:
        record = super().pop()
        self.total_bytes -= record.nbytes
        if record.data is not None:
            self.bytes_in_memory -= record.nbytes
        self._bodies_from = max(self._bodies_from, self.start)
        self._written_end = max(self._written_end, self.start)
        return record

    def shrink(self, limit_bytes: int, linked_from: int) -> list[Stored]:
        """Cut the log to the limit. Returns the records that were cut. `linked_from` is the number
        of the first record that a linked peer needs."""
        gone: list[Stored] = []
        while len(self) and self.cost_bytes > limit_bytes:
            if self.start >= linked_from and self.cost_bytes <= LINKED_SHARE * limit_bytes:
                break
            gone.append(self.pop())
        return gone


def rows_gone(start: int, records: list[Stored]) -> list[RowOp]:
    """The operations that remove the rows of cut records. `start` is the number of the first
    one."""
    return [
        row_op(CRDT_LOG, part, lsn, None)
        for lsn, record in enumerate(records, start)
        for part in range(record.parts)
    ]


def _joined(parts: dict[int, bytes | None]) -> bytes:
    return b"".join([parts[part] or b"" for part in range(len(parts))])
