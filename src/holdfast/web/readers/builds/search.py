"""Search for finished builds by words, in a file of the dashboard: SQLite with full text.

The queue's indexes know states and jobs, but no words in reasons, workers or annotations. So the
dashboard reads each finished build once, and keeps these words as long as the queue keeps the
build. The index may be deleted at any time: it is filled again from the queue.
"""

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from holdfast.builds import BuildRecord, State
from holdfast.errors import StorageError

MOST_FOUND = 200
MOST_DROPPED = 1000  # builds in one step
_VERSION = 3  # of the tables; a file of another version is made again
_MOST_TEXT = 2000  # characters of annotations that are indexed
_MOST_WORDS = 10
_LEAST_BEGINNING = 2  # letters
_PLACES_PER_MS = 1 << 20
_WORD = re.compile(r"\w+")
_QUEUES = """
CREATE TABLE IF NOT EXISTS finished_queues(
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, builds INTEGER NOT NULL DEFAULT 0);
"""
# Each queue has its own tables, so that no search reads the builds of another queue. `place` is the
# order in which builds ended. `kept_until_ms` is the time when the queue deletes the build.
_TABLES = """
CREATE TABLE IF NOT EXISTS builds_{n}(
    place INTEGER PRIMARY KEY, build INTEGER NOT NULL UNIQUE, job TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, worker TEXT NOT NULL, attempt INTEGER NOT NULL,
    enqueued_at_ms INTEGER NOT NULL, started_at_ms INTEGER, ended_at_ms INTEGER,
    annotations TEXT NOT NULL, kept_until_ms INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS builds_{n}_by_job ON builds_{n}(job);
CREATE INDEX IF NOT EXISTS builds_{n}_by_state ON builds_{n}(state);
CREATE INDEX IF NOT EXISTS builds_{n}_by_both ON builds_{n}(job, state);
CREATE INDEX IF NOT EXISTS builds_{n}_by_end ON builds_{n}(kept_until_ms, build);
CREATE VIRTUAL TABLE IF NOT EXISTS words_{n}
    USING fts5(words, content='', detail=none, columnsize=0, prefix='2 3 4 5');
"""
_COLUMNS = (
    "place, build, job, state, reason, worker, attempt, enqueued_at_ms, started_at_ms, ended_at_ms"
)


@dataclass(frozen=True, slots=True)
class FoundBuild:
    """A build that has ended, from the index. `place` as the argument `before` finds builds that
    ended earlier."""

    place: int
    build: int
    job: str
    state: State
    reason: str
    worker: str
    attempt: int
    enqueued_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None


class BuildIndex:
    """The index. It may be used by several threads and several dashboards. Close it at the end.
    Raises StorageError; a damaged file is made again."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._lock = Lock()
        with self._using():
            try:
                self._open()
            except sqlite3.OperationalError:
                raise  # another dashboard writes, or the disk is full: the file is not damaged
            except sqlite3.DatabaseError:
                self._renew()

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Only one thread at a time uses the file."""
        with self._lock:
            try:
                yield
            except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
                raise StorageError(f"the index of builds cannot be used: {error}") from None
            except sqlite3.DatabaseError as error:
                self._renew()
                text = f"the index of builds was damaged and is filled anew: {error}"
                raise StorageError(text) from None
            except OSError as error:
                raise StorageError(f"cannot open {self._path}: {error.strerror}") from None

    def _renew(self) -> None:
        self._db.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._open()

    def _open(self) -> None:
        path = self._path
        if path != ":memory:":
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level="IMMEDIATE")
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version != _VERSION and self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise sqlite3.DatabaseError(f"version {version}")
        self._db.executescript(f"{_QUEUES} PRAGMA user_version = {_VERSION};")
        self._numbers: dict[str, int] = {}  # numbers of queues whose tables exist

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # -- filling ------------------------------------------------------------------------------

    def count(self, queue: str) -> int:
        """The number of builds in the index."""
        sql = "SELECT builds FROM finished_queues WHERE name = ?"
        with self._using():
            found = self._db.execute(sql, (queue,)).fetchone()
        return found[0] if found else 0

    def count_between(self, queue: str, after_ms: int, until_ms: int) -> int:
        """The number of builds that the queue deletes in this range of times."""
        return int(self._between(queue, "count(*)", after_ms, until_ms)[0][0])

    def kept_between(self, queue: str, after_ms: int, until_ms: int) -> dict[int, int]:
        """The builds that the queue deletes in this range of times, and the time of each."""
        found = self._between(queue, "build, kept_until_ms", after_ms, until_ms)
        return {row[0]: row[1] for row in found}

    def latest_ms(self, queue: str) -> int:
        """The time when the queue deletes the last of its builds; 0: there is no build."""
        return self._between(queue, "max(kept_until_ms)", -1, 1 << 62)[0][0] or 0

    def _between(
        self, queue: str, what: str, after_ms: int, until_ms: int
    ) -> list[tuple[int, ...]]:
        with self._using():
            n = self._number(queue)
            sql = f"SELECT {what} FROM builds_{n} WHERE kept_until_ms > ? AND kept_until_ms <= ?"
            return self._db.execute(sql, (after_ms, until_ms)).fetchall()

    def add(self, queue: str, records: Iterable[tuple[BuildRecord, int]]) -> int:
        """Add builds that have ended, each with the time when the queue deletes it. Returns the
        number of builds."""
        count = 0
        with self._using():
            n = self._number(queue)
            with self._db:
                for record, kept_until_ms in records:
                    self._drop(n, [record.id])  # from a queue that was deleted and created again
                    self._insert(n, record, kept_until_ms)
                    count += 1
                self._counted(n, count)
        return count

    def _counted(self, n: int, change: int) -> None:
        sql = "UPDATE finished_queues SET builds = builds + ? WHERE number = ?"
        self._db.execute(sql, (change, n))

    def _insert(self, n: int, record: BuildRecord, kept_until_ms: int) -> None:
        place = (record.ended_at_ms or 0) * _PLACES_PER_MS + record.id % _PLACES_PER_MS
        taken = f"SELECT 1 FROM builds_{n} WHERE place = ?"
        while self._db.execute(taken, (place,)).fetchone():
            place += 1
        annotations = json.dumps(record.annotations, ensure_ascii=False)[:_MOST_TEXT]
        words = (record.id, record.job_id, record.state.name, record.reason, record.worker)
        values = (
            *(place, *words, record.attempt),
            *(record.enqueued_at_ms, record.started_at_ms, record.ended_at_ms),
            *(annotations, kept_until_ms),
        )
        row = f"INSERT INTO builds_{n} VALUES ({', '.join('?' * len(values))})"
        self._db.execute(row, values)
        text = f"INSERT INTO words_{n}(rowid, words) VALUES (?, ?)"
        self._db.execute(text, (place, _words(*words, annotations)))

    def drop(self, queue: str, builds: Iterable[int]) -> None:
        """Drop builds that the queue does not have any more."""
        with self._using():
            n = self._number(queue)
            with self._db:
                self._drop(n, builds)

    def drop_old(self, now_ms: int) -> bool:
        """Drop some builds that their queues have deleted. True if there may be more."""
        is_more = False
        with self._using():
            names = self._db.execute("SELECT name FROM finished_queues").fetchall()
            for n in [self._number(name) for (name,) in names]:
                sql = f"SELECT build FROM builds_{n} WHERE kept_until_ms <= ? LIMIT ?"
                old = [row[0] for row in self._db.execute(sql, (now_ms, MOST_DROPPED))]
                with self._db:
                    self._drop(n, old)
                is_more = is_more or len(old) == MOST_DROPPED
        return is_more

    def _drop(self, n: int, builds: Iterable[int]) -> None:
        """The table of words does not store the words, so it must be told which words to remove."""
        columns = "place, build, job, state, reason, worker, annotations"
        for build in builds:
            sql = f"DELETE FROM builds_{n} WHERE build = ? RETURNING {columns}"
            for place, *texts in self._db.execute(sql, (build,)).fetchall():
                forget = f"INSERT INTO words_{n}(words_{n}, rowid, words) VALUES ('delete', ?, ?)"
                self._db.execute(forget, (place, _words(*texts)))
                self._counted(n, -1)

    def _number(self, queue: str) -> int:
        if queue not in self._numbers:
            with self._db:
                sql = "INSERT OR IGNORE INTO finished_queues(name) VALUES (?)"
                self._db.execute(sql, (queue,))
            sql = "SELECT number FROM finished_queues WHERE name = ?"
            number = self._db.execute(sql, (queue,)).fetchone()[0]
            self._db.executescript(_TABLES.format(n=number))
            self._numbers[queue] = number
        return self._numbers[queue]

    # -- searching ----------------------------------------------------------------------------

    def search(
        self,
        queue: str,
        text: str = "",
        *,
        state: State | None = None,
        job: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[FoundBuild]:
        """Builds that have all words; those that ended last come first.

        If few builds have the last word as it is, builds with words that begin with it are found,
        too, because the user may still be typing. `before`: only builds before this place, for the
        next page.
        """
        limit = max(1, min(limit, MOST_FOUND))
        words = [word.lower() for word in _WORD.findall(text)][:_MOST_WORDS]
        with self._using():
            n = self._number(queue)
        if not words:
            return self._rows(f"builds_{n}", "place", *_having(state, job), before, limit)
        table, place = f"words_{n} JOIN builds_{n} ON place = words_{n}.rowid", f"words_{n}.rowid"
        # A search for a beginning collects all matches before it returns the first one; a search
        # for a word does not. So the word as it is is searched first, which is fast for a frequent
        # word.
        for is_beginning in (False, True):
            match = _matching(n, words, state, job, is_beginning)
            found = self._rows(table, place, *match, before, limit)
            if len(found) == limit or _is_whole(words[-1]):
                break
        return found

    def _rows(
        self,
        table: str,
        place: str,
        conditions: list[str],
        values: list[object],
        before: int | None,
        limit: int,
    ) -> list[FoundBuild]:
        if before is not None:
            conditions.append(f"{place} < ?")
            values.append(before)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {_COLUMNS} FROM {table} {where} ORDER BY {place} DESC LIMIT ?"
        with self._using():
            rows = self._db.execute(sql, (*values, limit)).fetchall()
        return [FoundBuild(row[0], row[1], row[2], State[row[3]], *row[4:]) for row in rows]


def _is_whole(word: str) -> bool:
    """Whether a search for words with this beginning is useless: most builds would match, or the
    word is a state."""
    return len(word) < _LEAST_BEGINNING or word.upper() in State.__members__


def _matching(
    n: int, words: list[str], state: State | None, job: str | None, is_beginning: bool
) -> tuple[list[str], list[object]]:
    """The query for the table of words. State and job are words of the index, too, so that no match
    has to be read and dropped."""
    wanted = [f'"{word}"' for word in words]
    wanted[-1] += "*" if is_beginning else ""
    if state is not None:
        wanted.append(f'"{_tag("state", state.name)}"')
    if job is not None:
        wanted.append(f'"{_tag("job", job)}"')
    return [f"words_{n} MATCH ?"], [" AND ".join(wanted)]


def _having(state: State | None, job: str | None) -> tuple[list[str], list[object]]:
    conditions: list[str] = []
    values: list[object] = []
    for column, value in (("state", state.name if state is not None else None), ("job", job)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    return conditions, values


def _words(build: int, job: str, state: str, reason: str, worker: str, annotations: str) -> str:
    tags = (_tag("job", job), _tag("state", state))
    return " ".join((str(build), job, state, reason, worker, annotations, *tags))


def _tag(kind: str, value: str) -> str:
    """A word that no text contains by chance."""
    return f"z{kind}z{value.encode().hex()}"
