"""`holdfast import`: all data of a file of Redis into a database file.

The data goes into a new file beside the target, which takes its place when it is complete. So a
server finds the old data or the new data, whatever ends the import. An import that was interrupted
begins again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.clock import Clock, SystemClock
from holdfast.errors import StorageError
from holdfast.migration.append_only import append_only_files
from holdfast.migration.database_content import database_content
from holdfast.migration.database_target import DatabaseTarget, load_library, refuse_unfit
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.rdb_files import RdbFile
from holdfast.migration.replay import Replay
from holdfast.migration.report import Report, about_unknown
from holdfast.migration.selection import Selection
from holdfast.progress import Progress, unseen
from holdfast.store.backup import backup
from holdfast.store.file.copying import BESIDE, refuse_unless_utf8
from holdfast.store.file.fsync import sync_path
from holdfast.store.file.mark import mark_path
from holdfast.store.file.opening import FileLock, look, real, remove_empty_wal
from holdfast.store.file.wal import wal_path
from holdfast.store.memory.key import is_live
from holdfast.store.rdb.records import Entry, Library, Record, Unknown
from holdfast.store.store import FileStore, MemoryStore

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


def import_file(
    source: Path,
    target: Path,
    options: ImportOptions,
    progress: Progress = unseen,
    clock: Clock | None = None,
) -> Report:
    """Raises MigrationError and StorageError; then the target is as it was."""
    refuse_unless_utf8(target)
    target = real(target)
    look(target)
    if not options.dry_run:
        _settle(target)
    job = _Import(source, target, options, progress, clock or SystemClock())
    with _locked(target):
        if not options.merges and not options.replaces:
            _refuse_filled(target)
        if options.dry_run:
            job.run(None)
        else:
            with _beside(target, "importing") as partial:
                if options.merges and _has_content(target):
                    with database_content(target, 0):
                        pass  # else it is of an older version, and would be converted unasked
                    backup(target, partial, progress=progress)
                job.run_into(partial)
                _take_place(partial, target)
    return job.report


class _Import:
    def __init__(
        self, source: Path, target: Path, options: ImportOptions, progress: Progress, clock: Clock
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._progress = progress
        self._clock = clock
        self._now_ms = clock.now_ms()
        self.report = Report()
        self._unused = MemoryStore()  # for libraries, if there is no target

    def run_into(self, path: Path) -> None:
        """Write a database file, or add to one."""
        into = DatabaseTarget(path, self._options.databases, self._clock)
        try:
            self.run(into)
        except BaseException:
            into.abandon()
            raise
        into.close()

    def run(self, into: DatabaseTarget | None) -> None:
        """Put all records into the target, or only look whether they would fit."""
        for record in self._records():
            self._take(record, into)

    def _records(self) -> Iterator[Record]:
        files = append_only_files(self._source)
        if files is None:
            yield from RdbFile(self._source, self._progress).records()
            return
        with _beside(self._target, "replaying") as scratch:
            Replay(
                files,
                scratch,
                self._options.databases,
                left_out=self._left_out,
                note=self.report.notes.append,
                progress=self._progress,
            ).run()
            with database_content(scratch, self._now_ms) as content:
                yield from content.records(self._progress, "importing")

    def _take(self, record: Record, into: DatabaseTarget | None) -> None:
        try:
            if isinstance(record, Entry):
                self._take_entry(record, into)
            elif isinstance(record, Library):
                load_library(record.code, self._unused if into is None else into.store, self._clock)
                self.report.libraries += 1
            elif isinstance(record, Unknown) and self._options.selection.has(record.name):
                raise UnfitError(about_unknown(record))
        except UnfitError as error:
            self._left_out(str(error))

    def _take_entry(self, entry: Entry, into: DatabaseTarget | None) -> None:
        selection, report = self._options.selection, self.report
        if not selection.has(entry.name):
            report.unmatched += 1
            return
        if not is_live(entry.expires_at_ms, self._now_ms):
            report.expired += 1
            return
        database = selection.database(entry.database)
        if into is None:
            refuse_unfit(entry, database, self._options.databases)
        else:
            into.put(entry, database)
        report.moved(entry, database)

    def _left_out(self, sentence: str) -> None:
        if not (self._options.skips_unknown or self._options.dry_run):
            raise MigrationError(
                f"{sentence}; --skip-unknown imports the rest, --dry-run names all that does not"
                " fit"
            )
        self.report.left_out(sentence)


# -- the target -------------------------------------------------------------------------------


def _settle(target: Path) -> None:
    """Bring a file that a killed server left into order: its WAL must not be laid over the file
    that takes its place. Raises StorageError, also if a server has the file."""
    wal = wal_path(target)
    if mark_path(target).exists() or (wal.exists() and wal.stat().st_size):
        FileStore(target).close()


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    try:
        lock = FileLock(target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            remove_empty_wal(target)  # which is there because we have read the file
        lock.release()


def _has_content(target: Path) -> bool:
    return target.exists() and target.stat().st_size > 0


def _refuse_filled(target: Path) -> None:
    if not _has_content(target):
        return
    with database_content(target, 0) as content:
        if not content.is_empty:
            raise MigrationError(
                f"{target} has {content.key_count:,} keys: --merge adds the imported keys and"
                " replaces those of the same name, --replace removes all others"
            )


@contextmanager
def _beside(target: Path, work: str) -> Iterator[Path]:
    """The name of a new file beside the target. It is removed at the end, and before: an import
    that was killed could not remove its own. (The lock on the target is ours.)"""
    path = target.with_name(f".{target.name}.{work}")
    _remove(path)
    try:
        yield path
    finally:
        with suppress(OSError):  # of a read-only folder, which the error is about
            _remove(path)


def _remove(path: Path) -> None:
    for end in ("", *BESIDE):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


def _take_place(partial: Path, target: Path) -> None:
    if wal_path(partial).exists() or mark_path(partial).exists():
        raise StorageError("another program reads the new file; try again")
    try:
        remove_empty_wal(target)
        sync_path(partial)
        os.rename(partial, target)
        sync_path(target.parent)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from None
