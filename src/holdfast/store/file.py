"""Opening the database file: the lock, the schema and its versions, the pragmas."""

import fcntl
import os
from importlib.resources import files
from pathlib import Path

import apsw

from holdfast.errors import StorageError, StoreInUseError

# What SQLite raises, for those who must not know apsw.
FileError = apsw.Error

SCHEMA_VERSION = 1

# What turns a file of version n into n + 1, by n. Runs in one transaction.
MIGRATIONS: dict[int, str] = {}

# "Hold" in ASCII: tells `file` and us whose database this is.
APPLICATION_ID = 0x486F6C64


class FileLock:
    """One engine per file. SQLite's own locks would let two in, and both have it in memory.

    The lock is on a file of its own: closing any descriptor of the database itself would drop
    SQLite's locks on it.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-lock")
        while True:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.read(self._fd, 32).decode("ascii", "replace").strip()
                os.close(self._fd)
                by = f" by process {holder}" if holder else ""
                raise StoreInUseError(f"{database} is already open{by}") from None
            try:
                if os.stat(self._path).st_ino == os.fstat(self._fd).st_ino:
                    break
            except FileNotFoundError:
                pass
            os.close(self._fd)  # the holder before us removed the file after we opened it
        os.ftruncate(self._fd, 0)
        os.write(self._fd, b"%d\n" % os.getpid())

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def connect(path: Path, flags: int, vfs: str | None = None) -> apsw.Connection:
    """A connection with our pragmas. Checks that the file is ours, or new."""
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    connection.set_busy_timeout(5000)
    try:
        (application_id, version, tables) = connection.execute(
            "SELECT (SELECT application_id FROM pragma_application_id),"
            " (SELECT user_version FROM pragma_user_version),"
            " (SELECT count(*) FROM sqlite_master)"
        ).get
    except apsw.Error:
        connection.close()
        raise
    if application_id != APPLICATION_ID and tables:
        connection.close()
        raise StorageError(f"{path} is a SQLite database, but not one of Holdfast's")
    if version > SCHEMA_VERSION:
        connection.close()
        raise StorageError(
            f"{path} has schema version {version}; this Holdfast knows versions up to"
            f" {SCHEMA_VERSION}, so a newer one wrote it"
        )
    return connection


def open_database(path: Path, vfs: str | None = None) -> apsw.Connection:
    """The writer's connection; creates or migrates the file. Raises StorageError."""
    if path.is_dir():
        raise StorageError(f"cannot open {path}: it is a directory")
    try:
        connection = connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs)
    except apsw.NotADBError:
        raise StorageError(f"{path} is not a SQLite database") from None
    except apsw.Error as error:
        raise StorageError(f"cannot open {path}: {error}") from None
    try:
        # NORMAL: a commit writes to the WAL without waiting for the disk; the flusher does that.
        # No automatic checkpoints: one of those inside a commit stalls the loop for 10-20 ms.
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 0"):
            _run(connection, f"PRAGMA {pragma}")
        _migrate(connection)
    except apsw.Error as error:
        connection.close()
        raise StorageError(f"cannot open {path}: {error}") from None
    return connection


def _migrate(connection: apsw.Connection) -> None:
    version = connection.execute("PRAGMA user_version").get
    if version == SCHEMA_VERSION:
        return
    with connection:
        if version == 0:
            _run(connection, files("holdfast.store").joinpath("schema.sql").read_text())
            _run(connection, f"PRAGMA application_id = {APPLICATION_ID}")
        else:
            for step in range(version, SCHEMA_VERSION):
                _run(connection, MIGRATIONS[step])
        _run(connection, f"PRAGMA user_version = {SCHEMA_VERSION}")


def _run(connection: apsw.Connection, script: str) -> None:
    for _ in connection.execute(script):
        pass
