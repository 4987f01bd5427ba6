"""`holdfast compare`: names every difference between two contents.

It looks up the keys of the first content in the second, and then the names of the second in the
first. So memory has only some keys of both at a time, however many there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, Protocol

from holdfast.clock import Clock
from holdfast.migration.database_content import database_content
from holdfast.migration.differences import difference, is_same_expiry
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.migration.live_content import LiveContent
from holdfast.migration.live_server import LiveServer, is_url
from holdfast.migration.selection import Selection
from holdfast.progress import KEYS, Progress, unseen
from holdfast.server.config.parameters import MOST_DATABASES
from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.records import Entry, Unknown

WORK = "comparing"
SQLITE = b"SQLite format 3\0"

Found = Entry | Unknown | None


class Side(Protocol):
    """A content in which a key can be looked up."""

    is_live: bool  # it may change meanwhile

    @property
    def place(self) -> str:
        """Its name, without a password."""
        ...

    @property
    def only_database(self) -> int | None: ...

    def key_counts(self) -> dict[int, int]: ...

    def libraries(self) -> list[bytes]: ...

    def names(self, database: int) -> Iterator[list[bytes]]: ...

    def read(self, database: int, names: Sequence[bytes]) -> Iterable[Found]: ...

    def has(self, database: int, names: Sequence[bytes]) -> list[bool]: ...


class Difference(NamedTuple):
    """`database` and `name` are those of the first side, if it has the key."""

    kind: Literal["first only", "second only", "type", "value", "expiry", "library", "unread"]
    database: int
    name: bytes
    where: str = ""

    def sentence(self, first: str, second: str) -> str:
        what = "library" if self.kind == "library" else "key"
        key = f"{what} {printable(self.name)}"
        if what == "key":
            key += f" of database {self.database}"
        if self.kind == "library":
            return f"only in {first if self.where == 'first' else second}: {key}"
        if self.kind in ("first only", "second only"):
            return f"only in {first if self.kind == 'first only' else second}: {key}"
        if self.kind == "unread":
            return f"not compared: {key} is of the type {self.where}, which Holdfast does not have"
        return f"{key} has another {self.kind}: {self.where}"


@dataclass
class CompareOptions:
    selection: Selection = field(default_factory=Selection)
    tolerance_ms: int = 1000  # of expiries


@contextmanager
def opened(place: str, clock: Clock, progress: Progress = unseen) -> Iterator[Side]:
    """Open a content: a server by its URL, a database file, or a file of Redis. A file of Redis is
    imported into a temporary database file. Raises MigrationError and StorageError."""
    if is_url(place):
        with LiveServer(place) as server:
            yield LiveContent(server, clock)
        return
    path = Path(place)
    if _is_database(path):
        with database_content(path, clock.now_ms()) as content:
            content.place = place
            yield content
        return
    with TemporaryDirectory(prefix="holdfast-compare-") as folder:
        scratch = Path(folder, "scratch.db")
        options = ImportOptions(databases=MOST_DATABASES)
        import_file(path, scratch, options, progress, clock)
        with database_content(scratch, clock.now_ms()) as content:
            content.place = place
            yield content


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False  # a folder of append-only files, or a mistake that the import names


class Comparison:
    def __init__(
        self,
        first: Side,
        second: Side,
        options: CompareOptions,
        clock: Clock,
        progress: Progress = unseen,
    ) -> None:
        self._first = first
        self._second = second
        self._options = options
        self._clock = clock
        self._progress = progress
        self._done = self._total = 0
        self.keys = 0  # compared, or in one side only

    def differences(self) -> Iterator[Difference]:
        """Raises MigrationError and StorageError."""
        first, second = self._first, self._second
        counts, others = first.key_counts(), second.key_counts()
        self._total = sum(counts.values()) + sum(others.values())
        yield from self._libraries()
        databases = self._options.selection.destinations(counts, second.only_database)
        for database, other in databases.items():
            for names in first.names(database):
                selected = self._selected(names)
                self.keys += len(selected)
                yield from self._compare(database, other, selected)
        origins = {other: database for database, other in databases.items()}
        for other in others:
            origin = origins.get(other)
            for names in second.names(other):
                selected = self._selected(names)
                for name in self._lacking(origin, other, selected):
                    self.keys += 1
                    yield Difference("second only", other, name)

    def _selected(self, names: list[bytes]) -> list[bytes]:
        self._done += len(names)
        self._progress(WORK, self._done, self._total, KEYS)
        return [name for name in names if self._options.selection.has(name)]

    def _libraries(self) -> Iterator[Difference]:
        one, other = set(self._first.libraries()), set(self._second.libraries())
        for codes, where in ((one - other, "first"), (other - one, "second")):
            for code in sorted(codes):
                yield Difference("library", 0, code.partition(b"\n")[0], where)

    # -- keys of both -------------------------------------------------------------------------

    def _compare(self, database: int, other: int, names: list[bytes]) -> Iterator[Difference]:
        found = list(self._compare_once(database, other, names))
        if found and (self._first.is_live or self._second.is_live):
            # A key may have changed between the two looks.
            again = [each.name for each in found]
            found = list(self._compare_once(database, other, again))
        yield from found

    def _compare_once(self, database: int, other: int, names: list[bytes]) -> Iterator[Difference]:
        sides = self._first.read(database, names), self._second.read(other, names)
        for name, one, two in zip(names, *sides, strict=True):
            each = self._difference(database, name, one, two)
            if each is not None:
                yield each

    def _difference(self, database: int, name: bytes, one: Found, two: Found) -> Difference | None:
        if one is None or two is None:
            if self._is_over(one or two):
                return None
            return Difference("second only" if one is None else "first only", database, name)
        if isinstance(one, Unknown) or isinstance(two, Unknown):
            kind = one.kind if isinstance(one, Unknown) else getattr(two, "kind", "")
            return Difference("unread", database, name, kind)
        where = difference(one.value, two.value)
        if where is not None:
            kind_of: Literal["type", "value"] = (
                "type" if one.value.type != two.value.type else "value"
            )
            return Difference(kind_of, database, name, where)
        times = one.expires_at_ms, two.expires_at_ms
        if not is_same_expiry(*times, self._options.tolerance_ms):
            return Difference("expiry", database, name, " and ".join(map(_time, times)))
        return None

    def _is_over(self, entry: Found) -> bool:
        """Whether a key has expired, or expires about now; or does not exist."""
        if not isinstance(entry, Entry):
            return entry is None
        at_ms = entry.expires_at_ms
        return at_ms is not None and at_ms <= self._clock.now_ms() + self._options.tolerance_ms

    # -- keys of the second side only ---------------------------------------------------------

    def _lacking(self, origin: int | None, other: int, names: list[bytes]) -> list[bytes]:
        """The names that the first side does not have."""
        if origin is None or not names:
            suspects = names
        else:
            there = self._first.has(origin, names)
            suspects = [name for name, is_there in zip(names, there, strict=True) if not is_there]
        found = list(self._second.read(other, suspects)) if suspects else []
        lacking = [
            name for name, two in zip(suspects, found, strict=True) if not self._is_over(two)
        ]
        if origin is not None and lacking and self._first.is_live:
            there = self._first.has(origin, lacking)
            lacking = [name for name, is_there in zip(lacking, there, strict=True) if not is_there]
        return lacking


def _time(at_ms: int | None) -> str:
    return "never" if at_ms is None else f"at {at_ms} ms"
