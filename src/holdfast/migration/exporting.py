"""`holdfast export`: all data of a database file into an RDB file, or into a server that runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.clock import Clock, SystemClock
from holdfast.migration.database_content import database_content
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.live_server import LiveServer
from holdfast.migration.live_target import LiveTarget
from holdfast.migration.rdb_files import new_file
from holdfast.migration.report import Report
from holdfast.migration.selection import Selection
from holdfast.progress import Progress, unseen
from holdfast.server.version import REDIS_VERSION
from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.file_writer import FORMATS, FieldExpiryError, RdbFormat, RdbWriter
from holdfast.store.rdb.records import Entry, Keys, Library, Record, Sizes


@dataclass
class ExportOptions:
    selection: Selection = field(default_factory=Selection)
    rdb_format: RdbFormat = FORMATS["redis7"]
    skips_unknown: bool = False
    replaces: bool = False
    dry_run: bool = False  # for servers: write nothing, and name all that would not fit


def export_to_server(
    source: Path,
    server: LiveServer,
    options: ExportOptions,
    progress: Progress = unseen,
    clock: Clock | None = None,
) -> Report:
    """Raises MigrationError and StorageError; then the server may have some of the keys, and the
    same call goes on."""
    clock = clock or SystemClock()
    report = Report()

    def left_out(sentence: str) -> None:
        if not (options.skips_unknown or options.dry_run):
            raise MigrationError(
                f"{sentence}; --skip-unknown exports the rest, --dry-run names all that does not"
                " fit"
            )
        report.left_out(sentence)

    target = LiveTarget(
        server,
        clock,
        report,
        left_out,
        replaces=options.replaces,
        is_dry=options.dry_run,
    )
    with database_content(source, clock.now_ms(), report.notes.append) as content:
        selection = options.selection
        databases = selection.destinations(content.key_counts(), server.database)
        for record in content.records(progress):
            if isinstance(record, Entry):
                if selection.has(record.name):
                    target.put(record, databases[record.database])
                else:
                    report.unmatched += 1
            elif isinstance(record, Library):
                try:
                    target.library(record.code)
                    report.libraries += 1
                except UnfitError as error:
                    left_out(str(error))
        target.flush()
    return report


def export_file(
    source: Path,
    target: Path,
    options: ExportOptions,
    progress: Progress = unseen,
    clock: Clock | None = None,
) -> Report:
    """Raises MigrationError and StorageError; then there is no new file."""
    now_ms = (clock or SystemClock()).now_ms()
    report = Report()
    with (
        database_content(source, now_ms, report.notes.append) as content,
        new_file(target, replaces=options.replaces) as write,
    ):
        export = _Export(RdbWriter(write, options.rdb_format), options, report)
        export.run(content.records(progress, joins_keys=True), now_ms)
    return report


class _Export:
    def __init__(self, writer: RdbWriter, options: ExportOptions, report: Report) -> None:
        self._writer = writer
        self._options = options
        self._report = report
        self._database = -1  # of the last entry
        self._sizes = Sizes(-1, 0, 0)
        self._origins: dict[int, int] = {}  # of databases, by number in the file

    def run(self, records: Iterator[Record], now_ms: int) -> None:
        self._writer.begin(_remarks(now_ms))
        for record in records:
            if isinstance(record, Library):
                self._writer.library(record.code)
                self._report.libraries += 1
            elif isinstance(record, Sizes):
                self._sizes = record
            elif isinstance(record, Entry):
                self._take(record)
            elif isinstance(record, Keys):
                self._take_keys(record)
        self._writer.end()

    def _take_keys(self, keys: Keys) -> None:
        if self._options.selection.has_patterns:
            for entry in keys.entries():
                self._take(entry)
            return
        database = self._enter(keys.database)
        self._writer.keys(keys)
        self._report.moved(keys.type, database, len(keys.names))

    def _take(self, entry: Entry) -> None:
        selection, report = self._options.selection, self._report
        if not selection.has(entry.name):
            report.unmatched += 1
            return
        database = self._enter(entry.database)
        try:
            self._writer.entry(entry.name, entry.value, entry.expires_at_ms)
        except FieldExpiryError:
            self._refused(entry)
        else:
            report.moved(entry.value.type, database)

    def _enter(self, index: int) -> int:
        """Begin the database into which the next keys go. Returns its number."""
        selection = self._options.selection
        database = selection.database(index)
        origin = self._origins.setdefault(database, index)
        if origin != index:  # a name could come twice, and no server would load the file
            raise MigrationError(
                f"databases {origin} and {index} would both become database {database}"
            )
        if database != self._database:
            # How many keys match is not known before all were read.
            keys = 0 if selection.has_patterns else self._sizes.keys
            self._writer.database(database, keys, self._sizes.expiring)
            self._database = database
        return database

    def _refused(self, entry: Entry) -> None:
        sentence = (
            f"hash {printable(entry.name)} of database {entry.database} has fields that expire,"
            " which Redis 7.0 cannot read"
        )
        if not self._options.skips_unknown:
            raise MigrationError(
                f"{sentence}: choose --format redis8 or valkey9, or leave such hashes out with"
                " --skip-unknown"
            )
        self._report.left_out(sentence)


def _remarks(now_ms: int) -> dict[bytes, bytes]:
    """As Redis writes them; it logs them when it loads the file."""
    return {
        b"redis-ver": REDIS_VERSION.encode(),
        b"redis-bits": b"64",
        b"ctime": b"%d" % (now_ms // 1000),
        b"used-mem": b"0",
        b"aof-base": b"0",
    }
