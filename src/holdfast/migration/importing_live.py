"""`holdfast import redis://…`: all data of a server that runs into a database file.

By PSYNC nothing is lost, and the file has the state of the server at one moment. Where a provider
forbids PSYNC, SCAN is used: scanning.py says what that cannot promise.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from holdfast.clock import Clock, SystemClock
from holdfast.migration.database_content import database_content
from holdfast.migration.errors import MigrationError
from holdfast.migration.following import Following, PsyncRefusedError
from holdfast.migration.importing import Import, ImportOptions
from holdfast.migration.live_server import LiveServer
from holdfast.migration.placing import has_content, remove_database, take_place
from holdfast.migration.report import Report
from holdfast.migration.scanning import Scan
from holdfast.progress import Progress, unseen
from holdfast.server.config.parameters import MOST_DATABASES
from holdfast.store.rdb.records import Entry, Record, Unknown

Via = Literal["auto", "psync", "scan"]


def import_server(
    server: LiveServer,
    target: Path,
    options: ImportOptions,
    *,
    via: Via = "auto",
    follows: bool = False,
    progress: Progress = unseen,
    clock: Clock | None = None,
) -> Report:
    """Raises MigrationError and StorageError; then the target is as it was. If the import used
    PSYNC and the snapshot was complete, the same call goes on from there."""
    if options.databases == MOST_DATABASES:
        raise MigrationError(f"--databases is at most {MOST_DATABASES - 1:,} for servers")
    job = Import(options, progress, clock or SystemClock())
    with job.ready(target) as path:
        if options.dry_run:
            job.run(path, _scan(server, job).once())
        elif via == "scan" or (via == "auto" and not server.is_single):
            _by_scan(server, path, job)
        elif not server.is_single:
            raise MigrationError("--via psync needs one server: redis://, rediss:// or unix://")
        else:
            try:
                _by_psync(server, path, job, follows)
            except PsyncRefusedError as error:
                if via == "psync" or follows:
                    raise
                job.report.notes.append(f"without PSYNC, which was refused: {error}")
                _by_scan(server, path, job)
    return job.report


def _by_scan(server: LiveServer, target: Path, job: Import) -> None:
    scan = _scan(server, job)

    def own_names(database: int) -> Iterable[list[bytes]]:
        index = job.options.selection.database(database)
        return () if job.into is None else job.into.names(index)

    job.options.selection.destinations(server.key_counts())  # raises, if two become one
    job.run(target, scan.records(own_names))
    job.report.unmatched = scan.unmatched


def _scan(server: LiveServer, job: Import) -> Scan:
    selection = job.options.selection
    return Scan(server, job.clock, selection, job.report.notes.append, job.progress)


def _by_psync(server: LiveServer, target: Path, job: Import, follows: bool) -> None:
    options, report = job.options, job.report
    path = target.with_name(f".{target.name}.following")
    Following(
        server,
        path,
        options.databases,
        left_out=job.left_out,
        note=report.notes.append,
        progress=job.progress,
        follows=follows,
    ).run()
    selection = options.selection
    is_whole = not (selection.is_choice or server.database is not None)
    if is_whole and not (options.merges and has_content(target)):
        with database_content(path, job.clock.now_ms()) as content:
            for database, kind, count in content.type_counts():
                report.keys[kind] += count
                report.databases.add(database)
            report.libraries = len(content.libraries())
        take_place(path, target)
    else:
        with database_content(path, job.clock.now_ms()) as content:
            selection.destinations(content.key_counts())
            job.run(target, _of_database(content.records(job.progress), server.database))
        remove_database(path)


def _of_database(records: Iterator[Record], only: int | None) -> Iterator[Record]:
    for record in records:
        if only is None or not isinstance(record, Entry | Unknown) or record.database == only:
            yield record
