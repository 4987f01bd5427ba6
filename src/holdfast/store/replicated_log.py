"""The log of an active-active server as it is kept: in rows of the file, and the latest records in
memory, too. It is bounded; what is cut away to keep the bound, peers get with a snapshot."""

import sys
from typing import TYPE_CHECKING, Final, NamedTuple, final

from holdfast.crdt.dots import Vector
from holdfast.crdt.log import Log, Record, decode
from holdfast.store.ops import CRDT_LOG, Op

if TYPE_CHECKING:
    from holdfast.store.tables import Tables

# A row of the file has room for less than 1 GB, and a record is as large as what one transaction
# wrote. So it is in rows of this size; most are one row.
PART_BYTES: Final = 32 << 20
# Of the latest records the bodies stay in memory: peers that keep up are sent from there.
MEMORY_BYTES: Final = 8 << 20
# What memory has of a record whose body is in the file only, about. It counts, so that many small
# records are bounded as few large ones are.
ENTRY_BYTES: Final = 200
LIMIT_BYTES: Final = 64 << 20
# A peer that is linked and slower than the writer is waited for, until the log has so many times
# its limit. A snapshot would not make that peer quicker.
LINKED_SHARE: Final = 4
BODIES_AT_ONCE: Final = 4


class Stored(NamedTuple):
    """A record as the log keeps it. `parts`: how many rows it is in the file; `data`: None when
    it is only there."""

    origin: int
    seq: int
    hlc: int
    removals: int
    nbytes: int
    parts: int
    data: bytes | None


@final
class RecordLog(Log[Stored]):
    """`load`, `replay` and `begin` read it from the file; then records are added one by one."""

    def __init__(self, tables: "Tables | None") -> None:
        super().__init__()
        self._tables = tables
        self.part_bytes = PART_BYTES
        self.memory_limit_bytes = MEMORY_BYTES
        self.total_bytes = 0  # of all records
        self.bytes_in_memory = 0  # of bodies
        self._bodies_from = 0  # the number of the first record whose body is in memory
        self._written_end = 0  # records below this number are in the tables
        self._fold_end = 0  # and will be below this one, when the pass of the fold ends
        self._rows: dict[int, dict[int, bytes | None]] = {}  # while reading: by lsn and part
        self._read_part: tuple[int, int, bytes] = (-1, 0, b"")  # the last large one: lsn, part

    # -- the file -----------------------------------------------------------------------------

    def load(self) -> None:
        if self._tables is not None:
            for part, lsn in self._tables.crdt_log():
                self._rows.setdefault(lsn, {})[part] = None

    def replay(self, lsn: int, part: int, data: bytes | None) -> Record | None:
        """A row that the journal has; the record, when all of it is there."""
        if data is None:
            self._rows.pop(lsn, None)
            return None
        parts = self._rows.setdefault(lsn, {})
        parts[part] = data
        return decode(_joined(parts)) if part == 0 else None  # the last to be written

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

    def write(self, record: Record, data: bytes) -> list[Op]:
        """Returns its rows."""
        lsn, size = self.start + len(self), self.part_bytes
        last = (len(data) - 1) // size
        self._add(record, len(data), last + 1, data)
        self._forget_bodies()
        # From the last to the first: recovery knows by the first that it has them all.
        rows: list[Op] = [
            (CRDT_LOG, part, lsn, data[part * size : (part + 1) * size])
            for part in range(last, 0, -1)
        ]
        rows.append((CRDT_LOG, 0, lsn, data[:size] if last else data))
        return rows

    def _add(self, record: Record, nbytes: int, parts: int, data: bytes | None) -> None:
        origin, seq, hlc = record.origin, record.seq, record.hlc
        self.append(Stored(origin, seq, hlc, record.removals, nbytes, parts, data))
        self.total_bytes += nbytes
        if data is not None:
            self.bytes_in_memory += nbytes

    def _forget_bodies(self) -> None:
        """Of a few records that the tables have: as many as come, and some more."""
        for _ in range(BODIES_AT_ONCE):
            number = self._bodies_from
            if self.bytes_in_memory <= self.memory_limit_bytes or number >= self._written_end:
                return
            record = self.at(number)
            self.replace(number, record._replace(data=None))
            self.bytes_in_memory -= record.nbytes
            self._bodies_from = number + 1

    def read(self, number: int, start: int = 0, most_bytes: int = sys.maxsize) -> bytes:
        """So much of a record, or less if it is in several rows."""
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
        """What counts against the limit."""
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
        """Cut it to the limit; returns those records. `linked_from` is the first record that a peer
        needs which is linked."""
        gone: list[Stored] = []
        while len(self) and self.cost_bytes > limit_bytes:
            if self.start >= linked_from and self.cost_bytes <= LINKED_SHARE * limit_bytes:
                break
            gone.append(self.pop())
        return gone


def rows_gone(start: int, records: list[Stored]) -> list[Op]:
    """The rows of records that were cut, of which the first had that number."""
    return [
        (CRDT_LOG, part, lsn, None)
        for lsn, record in enumerate(records, start)
        for part in range(record.parts)
    ]


def _joined(parts: dict[int, bytes | None]) -> bytes:
    return b"".join([parts[part] or b"" for part in range(len(parts))])
