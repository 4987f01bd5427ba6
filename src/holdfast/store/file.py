"""Opening the database file: the lock, the schema and its versions, the pragmas."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

import apsw

from holdfast.errors import StorageError, StoreInUseError
from holdfast.store.migrations import MIGRATIONS, SCHEMA_VERSION

# What SQLite raises, for those who must not know apsw.
FileError = apsw.Error

KEPT_WAL_BYTES = 64 << 20
CACHE_KIB = 16 * 1024  # of pages: what a pass of the fold or a recovery comes back to

# "Hold" in ASCII: tells `file` and us whose database this is.
APPLICATION_ID = 0x486F6C64


def real(path: Path) -> Path:
    """Without symbolic links, as SQLite names the files beside it; so the lock is beside it too."""
    return Path(os.path.realpath(path))


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
            except BlockingIOError:
                holder = os.read(self._fd, 32).decode("ascii", "replace").strip()
                os.close(self._fd)
                by = f" by process {holder}" if holder else ""
                raise StoreInUseError(f"{database} is already open{by}") from None
            except OSError:
                os.close(self._fd)
                raise
            try:
                if os.stat(self._path).st_ino == os.fstat(self._fd).st_ino:
                    break
            except FileNotFoundError:
                pass
            os.close(self._fd)  # the holder before us removed the file after we opened it
        try:
            os.ftruncate(self._fd, 0)
            os.write(self._fd, b"%d\n" % os.getpid())
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


class Place:
    """Files that must stay where they are: what is written to one that was removed is lost."""

    def __init__(self, *paths: Path) -> None:
        self._identities = {path: _identity(path) for path in paths}

    def check(self) -> None:
        """Raises StorageError."""
        for path, identity in self._identities.items():
            if _identity(path) != identity:
                raise StorageError(f"{path} was removed or replaced while it was in use")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def look(path: Path, newest: int = SCHEMA_VERSION) -> None:
    """Raise StorageError unless the file is ours, or new. Reads 100 bytes, so that whatever
    else it is stays as it was: SQLite would tidy up behind a crashed program."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}") from None
    if not header:
        return
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise StorageError(f"{path} is not a SQLite database")
    version, application_id = (int.from_bytes(header[at : at + 4]) for at in (60, 68))
    if application_id != APPLICATION_ID:
        raise StorageError(f"{path} is a SQLite database, but not one of Holdfast's")
    _refuse_newer(path, version, newest)


def _refuse_newer(path: Path, version: int, newest: int) -> None:
    if version > newest:
        raise StorageError(
            f"{path} has schema version {version}; this Holdfast knows versions up to"
            f" {newest}, so a newer one wrote it"
        )


def open_database(
    path: Path,
    vfs: str | None = None,
    *,
    version: int = SCHEMA_VERSION,
    migrations: Mapping[int, str] = MIGRATIONS,
) -> apsw.Connection:
    """The writer's connection; creates or migrates the file. Raises StorageError."""
    look(path, version)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    except apsw.Error as error:
        raise StorageError(f"cannot open {path}: {error}") from None
    except UnicodeEncodeError:
        raise StorageError(f"cannot open {str(path)!r}: its name is not UTF-8") from None
    # Until we know that we may write to it.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(5000)
    try:
        _set_up(connection)
        found = int(connection.execute("PRAGMA user_version").get)
        _refuse_newer(path, found, version)  # the header may be older than the WAL
        _migrate(connection, found, version, migrations)
    except apsw.Error as error:
        connection.close()
        raise StorageError(f"cannot open {path}: {error}") from None
    except StorageError:
        connection.close()
        raise
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    return connection


def _set_up(connection: apsw.Connection) -> None:
    # The id first, while there is no WAL: `look` has to find it in the file itself.
    if connection.execute("PRAGMA application_id").get != APPLICATION_ID:
        _run(connection, f"PRAGMA application_id = {APPLICATION_ID}")
    # NORMAL: a commit writes to the WAL without waiting for the disk; the flusher does that.
    # No automatic checkpoints: one of those inside a commit stalls the loop for 10-20 ms.
    # A huge batch makes a huge WAL; once it is in the file, it need not stay so.
    # A statement of many rows keeps what it would undo: in memory, not in a file of its own.
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "wal_autocheckpoint = 0",
        "temp_store = MEMORY",
        f"cache_size = -{CACHE_KIB}",
        f"journal_size_limit = {KEPT_WAL_BYTES}",
    ):
        _run(connection, f"PRAGMA {pragma}")


def _migrate(
    connection: apsw.Connection, found: int, wanted: int, migrations: Mapping[int, str]
) -> None:
    if found == wanted:
        return
    with connection:
        if found == 0:
            _run(connection, files("holdfast.store").joinpath("schema.sql").read_text())
        else:
            for step in range(found, wanted):
                _run(connection, migrations[step])
        _run(connection, f"PRAGMA user_version = {wanted}")


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """For those who only look, also while a server writes. They see the file as it is at one
    moment. Raises StorageError."""
    path = real(path)
    look(path)
    wal = path.with_name(path.name + "-wal")
    had_wal = wal.exists()
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(5000)
            connection.execute("BEGIN")
            _refuse_newer(path, int(connection.execute("PRAGMA user_version").get), SCHEMA_VERSION)
            yield connection
    except apsw.Error as error:
        raise StorageError(f"cannot read {path}: {error}") from None
    finally:
        if not had_wal:
            _remove_empty_wal(path, wal)


def _remove_empty_wal(path: Path, wal: Path) -> None:
    """SQLite makes one even for readers. It goes again, unless a server has come meanwhile."""
    try:
        lock = FileLock(path)
    except (OSError, StoreInUseError):
        return
    try:
        if wal.exists() and wal.stat().st_size == 0:
            wal.unlink()
            path.with_name(path.name + "-shm").unlink(missing_ok=True)
    finally:
        lock.release()


def _run(connection: apsw.Connection, script: str) -> None:
    for _ in connection.execute(script):
        pass
