"""`holdfast import`: all data of a file of Redis into a database file.

The data goes into a new file beside the target, which takes the target's place when it is complete.
So a server finds the old data or the new data, however the import ends. An import that was
interrupted begins again.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holdfast.clock import Clock, SystemClock
from holdfast.migration.append_only import append_only_files
from holdfast.migration.database_content import database_content, refuse_older
from holdfast.migration.database_target import DatabaseTarget, load_library, refuse_unfit
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.placing import (
    beside,
    has_content,
    locked,
    refuse_filled,
    settle,
    take_place,
)
from holdfast.migration.rdb_files import RdbFile
from holdfast.migration.replay import Replay
from holdfast.migration.report import Report, about_unknown
from holdfast.migration.selection import Selection
from holdfast.progress import Progress, unseen
from holdfast.store.backup import backup
from holdfast.store.file.copying import refuse_unless_utf8
from holdfast.store.file.opening import look, real
from holdfast.store.memory.liveness import is_live
from holdfast.store.rdb.records import Entry, Keys, Library, Record, Unknown
from holdfast.store.store import MemoryStore

DATABASES = 16


@dataclass
class ImportOptions:
    """`dry_run` writes nothing, and names all that would not fit."""

    selection: Selection = field(default_factory=Selection)
    databases: int = DATABASES
    skips_unknown: bool = False
    merges: bool = False
    replaces: bool = False
    dry_run: bool = False


class Again(NamedTuple):
    """A key that may have come as an earlier record: this one replaces it. None: the key is
    gone."""

    database: int
    name: bytes
    entry: Entry | None


def import_file(
    source: Path,
    target: Path,
    options: ImportOptions,
    progress: Progress = unseen,
    clock: Clock | None = None,
) -> Report:
    """Raises MigrationError and StorageError; then the target is as it was."""
    job = Import(options, progress, clock or SystemClock())
    with job.ready(target) as path:
        job.run(path, job.records_of_file(source, path))
    return job.report


class Import:
    """Puts records into a database file. Without a target, only checks whether they can be
    imported."""

    def __init__(self, options: ImportOptions, progress: Progress, clock: Clock) -> None:
        self.options = options
        self.progress = progress
        self.clock = clock
        self._now_ms = clock.now_ms()
        self.report = Report()
        self.into: DatabaseTarget | None = None
        self._unused = MemoryStore()  # for libraries, if there is no target

    @contextmanager
    def ready(self, target: Path) -> Iterator[Path]:
        """The target, if it may be written, and no server can open it meanwhile."""
        options = self.options
        refuse_unless_utf8(target)
        target = real(target)
        look(target)
        if not options.dry_run:
            settle(target)
        with locked(target):
            if not options.merges and not options.replaces:
                refuse_filled(target)
            yield target

    def run(self, target: Path, records: Iterable[Record | Again]) -> None:
        if self.options.dry_run:
            for record in records:
                self._take(record, None)
            return
        with beside(target, "importing") as partial:
            if self.options.merges and has_content(target):
                refuse_older(target)  # an import must not convert a file without being asked
                backup(target, partial, progress=self.progress)
            self._run_into(partial, records)
            take_place(partial, target)

    def _run_into(self, path: Path, records: Iterable[Record | Again]) -> None:
        """Write a database file, or add to one."""
        self.into = into = DatabaseTarget(path, self.options.databases, self.clock)
        try:
            for record in records:
                self._take(record, into)
        except BaseException:
            into.abandon()
            raise
        into.close()

    def records_of_file(self, source: Path, target: Path) -> Iterator[Record]:
        files = append_only_files(source)
        if files is None:
            yield from RdbFile(source, self.progress).records(joins_keys=True)
            return
        with beside(target, "replaying") as scratch:
            Replay(
                files,
                scratch,
                self.options.databases,
                left_out=self.left_out,
                note=self.report.notes.append,
                progress=self.progress,
            ).run()
            with database_content(scratch, self._now_ms) as content:
                yield from content.records(self.progress, "importing")

    def _take(self, record: Record | Again, into: DatabaseTarget | None) -> None:
        try:
            if isinstance(record, Entry):
                self._take_entry(record, into)
            elif isinstance(record, Keys):
                if not self._takes_keys(record, into):
                    for entry in record.entries():
                        self._take(entry, into)
            elif isinstance(record, Again):
                self._take_again(record, into)
            elif isinstance(record, Library):
                load_library(record.code, self._unused if into is None else into.store, self.clock)
                self.report.libraries += 1
            elif isinstance(record, Unknown) and self.options.selection.has(record.name):
                raise UnfitError(about_unknown(record))
        except UnfitError as error:
            self.left_out(str(error))

    def _takes_keys(self, keys: Keys, into: DatabaseTarget | None) -> bool:
        """Take all of them at once. False if each key has to be looked at."""
        selection = self.options.selection
        may_expire = keys.times.count(None) < len(keys.times)
        if into is None or selection.has_patterns or may_expire:
            return False
        database = selection.database(keys.database)
        if not into.puts_keys(keys, database):
            return False
        self.report.moved(keys.type, database, len(keys.names))
        return True

    def _take_entry(self, entry: Entry, into: DatabaseTarget | None) -> None:
        selection, report = self.options.selection, self.report
        if not selection.has(entry.name):
            report.unmatched += 1
            return
        if not is_live(entry.expires_at_ms, self._now_ms):
            report.expired += 1
            return
        database = selection.database(entry.database)
        if into is None:
            refuse_unfit(entry, database, self.options.databases)
        else:
            into.put(entry, database)
        report.moved(entry.value.type, database)

    def _take_again(self, record: Again, into: DatabaseTarget | None) -> None:
        """Replace a key that this import has created before. Keys of the target that did not come
        from the source stay, also if they have that name."""
        if into is None:
            return
        database = self.options.selection.database(record.database)
        old_type = into.remove(record.name, database)
        if old_type is not None:
            self.report.keys[old_type] -= 1
        if record.entry is not None and is_live(record.entry.expires_at_ms, self._now_ms):
            into.put(record.entry, database)
            self.report.moved(record.entry.value.type, database)

    def left_out(self, sentence: str) -> None:
        if not (self.options.skips_unknown or self.options.dry_run):
            raise MigrationError(
                f"{sentence}; --skip-unknown imports the rest, --dry-run names all that does not"
                " fit"
            )
        self.report.left_out(sentence)
