"""The file of the dashboard: buckets of figures, and the audit trail. It is an SQLite file, and
several dashboards may share it.

The number of rows is limited, not their age, so a clock that jumps ahead and back deletes no
history. A file that was deleted is made again, because samples and audit rows must not be lost with
the process.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import apsw

from holdfast.errors import StorageError
from holdfast.web.history.rollup import RESOLUTIONS, Bucket, Range, Stat

log = logging.getLogger(__name__)

SCHEMA = """
create table if not exists buckets (
    step_s integer not null, at_s integer not null, stats text not null,
    primary key (step_s, at_s)
) without rowid;
create table if not exists audit (
    id integer primary key, at_s real not null, user text not null, address text not null,
    action text not null, detail text not null, outcome text not null
);
"""
MOST_AUDITED = 100_000
PATIENCE_S, PAUSE_S = 5.0, 0.02
FORMAT = 1  # in user_version; a file of a later format is not opened


class AuditEntry(NamedTuple):
    id: int
    at_s: float
    user: str
    address: str
    action: str
    detail: str
    outcome: str


class HistoryFile:
    """The open file; ":memory:" keeps nothing. Raises StorageError, which names the file. It may be
    used from any thread, because the poller writes in a thread of its own."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.RLock()
        # Another process may hold the file, so a write can take seconds. Pages do not wait for it:
        # they read with a connection of their own.
        self._reading = self._lock if path is None else threading.RLock()
        self._open()

    def _open(self) -> None:
        path = self.path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = self._connect()
            self._db.transaction_mode = "IMMEDIATE"  # the file is read before it is written
            if path is not None:
                path.chmod(0o600)
            format_found = self._db.pragma("user_version")
            if format_found not in (0, FORMAT):
                self._db.close()
                raise StorageError(f"{path} is of a later version of the dashboard")
            self._db.pragma("journal_mode", "wal")
            self._db.pragma("synchronous", "normal")
            if not format_found:
                self._db.execute(SCHEMA)
                self._db.pragma("user_version", FORMAT)
            self._reader = self._db if path is None else self._connect()
            self._file = None if path is None else _identity(path)
        except apsw.Error as error:
            raise StorageError(f"cannot open {path}: {error}") from None
        except OSError as error:
            raise StorageError(f"cannot open {path}: {error.strerror}") from None

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(":memory:" if self.path is None else str(self.path))
        connection.set_busy_handler(_wait)
        return connection

    def close(self) -> None:
        with self._lock, self._reading:
            self._reader.close()
            self._db.close()

    def _find_file(self) -> None:
        """Open a new file before a write, if the file was deleted or replaced: SQLite would
        continue to write to the old one."""
        if self.path is not None and _identity(self.path) != self._file:
            log.warning("%s was deleted or replaced while it was in use", self.path)
            with self._reading:
                self.close()
                self._open()

    # -- figures ------------------------------------------------------------------------------

    def merge(self, buckets: Iterable[Bucket]) -> None:
        joined = list(_joined(buckets))
        if not joined:
            return
        now_s = joined[-1].at_s
        try:
            with self._lock:
                self._find_file()
                with self._db:
                    for bucket in joined:
                        self._merge(bucket)
                    for step_s, keep in RESOLUTIONS:
                        # Buckets that are furthest from now are deleted. Deleting the oldest ones
                        # would be wrong: after a clock that was ahead, the current ones are the
                        # oldest.
                        self._db.execute(
                            "delete from buckets where step_s = ?1 and at_s in (select at_s from"
                            " buckets where step_s = ?1 order by abs(at_s - ?3)"
                            " limit -1 offset ?2)",
                            (step_s, keep, now_s),
                        )
        except apsw.Error as error:
            raise StorageError(f"cannot write {self.path}: {error}") from None

    def _merge(self, bucket: Bucket) -> None:
        where = bucket.step_s, bucket.at_s
        query = "select stats from buckets where step_s = ? and at_s = ?"
        merged = Bucket(*where)
        for (text,) in self._db.execute(query, where):
            merged.merge(_stats(text))
        merged.merge(bucket.stats)
        text = json.dumps({name: tuple(stat) for name, stat in merged.stats.items()})
        self._db.execute("insert or replace into buckets values (?, ?, ?)", (*where, text))

    def buckets(self, span: Range, now_s: float) -> dict[int, Mapping[str, Stat]]:
        """The buckets of a range, by the time at which each begins."""
        query = "select at_s, stats from buckets where step_s = ? and at_s between ? and ?"
        wanted = span.step_s, int(now_s) - span.seconds - span.step_s, int(now_s)
        try:
            with self._reading:
                rows = list(self._reader.execute(query, wanted))
        except apsw.Error as error:
            raise StorageError(f"cannot read {self.path}: {error}") from None
        return {at_s: _stats(text) for at_s, text in rows}

    def rows(self) -> int:
        with self._lock:
            count = self._db.execute("select count(*) from buckets").get
        return int(count)

    # -- the audit trail ----------------------------------------------------------------------

    def audit(self, at_s: float, user: str, address: str, action: str, detail: str) -> int:
        """Note a change before it is sent. Returns the id for `finished`. Raises StorageError,
        because a change that cannot be noted is not made."""
        row = (at_s, user, address, action, detail, "sent, answer unknown")
        try:
            with self._lock:
                self._find_file()
                with self._db:
                    self._db.execute(
                        "insert into audit (at_s, user, address, action, detail, outcome)"
                        " values (?, ?, ?, ?, ?, ?)",
                        row,
                    )
                    entry: int = self._db.last_insert_rowid()
                    self._db.execute("delete from audit where id <= ?", (entry - MOST_AUDITED,))
        except apsw.Error as error:
            raise StorageError(f"the audit trail cannot be written: {error}") from None
        return entry

    def finished(self, entry: int, outcome: str) -> None:
        try:
            with self._lock:
                self._db.execute("update audit set outcome = ? where id = ?", (outcome, entry))
        except apsw.Error as error:
            raise StorageError(f"the audit trail cannot be written: {error}") from None

    def audited(self, before: int | None, count: int) -> list[AuditEntry]:
        """Entries of the audit trail, newest first."""
        query = (
            "select id, at_s, user, address, action, detail, outcome from audit"
            " where id < ? order by id desc limit ?"
        )
        try:
            with self._reading:
                rows = self._reader.execute(query, (before or 1 << 62, count))
                return [AuditEntry(*row) for row in rows]
        except apsw.Error as error:
            raise StorageError(f"the audit trail cannot be read: {error}") from None


def _wait(tries: int) -> bool:
    """Wait while another process uses the file. SQLite's own wait would keep Python's lock, so all
    pages would wait with it."""
    time.sleep(PAUSE_S)
    return tries * PAUSE_S < PATIENCE_S


def _joined(buckets: Iterable[Bucket]) -> Iterable[Bucket]:
    """Join buckets of the same time, so that the file is asked once for each time."""
    found: dict[tuple[int, int], Bucket] = {}
    for each in buckets:
        where = each.step_s, each.at_s
        found.setdefault(where, Bucket(*where)).merge(each.stats)
    return found.values()


def _stats(text: str) -> dict[str, Stat]:
    try:
        return {name: Stat(*values) for name, values in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageError(f"the history is damaged: {error}") from None


def _identity(path: Path) -> tuple[int, int] | None:
    """The identity of the file at this path; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
