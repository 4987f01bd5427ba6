"""Opening the database file to write: the lock, the schema and its versions, the pragmas."""

import fcntl
import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import apsw

from holdfast.errors import StorageError, StoreInUseError
from holdfast.progress import Progress, unseen
from holdfast.store.file.copying import copy_to, create_private, refuse_unless_utf8
from holdfast.store.file.fsync import sync_path
from holdfast.store.file.mark import DamagedFileError, LostWritesError, read_mark
from holdfast.store.file.migrations import MIGRATIONS, READ_BY_MIGRATION, SCHEMA_VERSION
from holdfast.store.file.verify import Verifier, dropped_frames
from holdfast.store.file.wal import (
    WalFile,
    lacks_pages,
    read_header,
    valid_frames,
    wal_path,
)
from holdfast.store.file.watching import watching

log = logging.getLogger(__name__)

# The errors of SQLite, for modules that must not import apsw.
FileError = apsw.Error
SQLITE_VERSION = apsw.sqlite_lib_version()

KEPT_WAL_BYTES = 64 << 20
# Of pages. The fold writes in the order of rows, so it uses few of them again, and the kernel has
# the others. Measured with 50 clients that write to 100,000 keys that exist: with 4 MB, a write
# takes 0.2–2.6 µs of CPU more; with 16 MB, it takes as long as with 8 MB.
CACHE_KIB = 8 * 1024

SCHEMA = Path(__file__).with_name("schema.sql")
VIEWS = Path(__file__).with_name("views.sql")
ADDITIONS = Path(__file__).with_name("additions.sql")
ADDED_TABLES = (
    "redis_stream_idempotence",
    "redis_stream_iids",
    "redis_sizes",
    "holdfast_replication",
)

# By the rows of settings, which are few: a stream that has other rows has one of these, too.
ORPHANS = """
SELECT key_id FROM redis_stream_idempotence i WHERE
  NOT EXISTS (SELECT 1 FROM redis_keys WHERE id = i.key_id AND type = 'stream') AND
  NOT EXISTS (SELECT 1 FROM redis_graves WHERE id = i.key_id)
"""
DROP_ORPHANS = f"""
DELETE FROM redis_stream_iids WHERE key_id IN ({ORPHANS});
DELETE FROM redis_stream_idempotence WHERE key_id IN ({ORPHANS});
"""

# "Hold" in ASCII: tells `file` and us whose database this is.
APPLICATION_ID = 0x486F6C64


def real(path: Path) -> Path:
    """Without symbolic links, as SQLite names the files beside it; so the lock is beside it too."""
    return Path(os.path.realpath(path))


READERS_S = 0.5  # a reader holds the lock for milliseconds
LOOK_AGAIN_S = 0.01


def lock_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-lock")


class FileLock:
    """Lets one engine at a time use a file. The locks of SQLite would allow two, and each would
    have its own data in memory.

    The lock is on a file beside it: to close any descriptor of the database itself would drop
    SQLite's locks on it. A program that reads the database file holds the lock for a moment, too,
    also after the server died. So a server waits for `patience_s` before it says that the file is
    in use.
    """

    def __init__(self, database: Path, patience_s: float = 0.0) -> None:
        self._path = lock_path(database)
        give_up_s = time.monotonic() + patience_s
        while True:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(self._fd, 32).decode("ascii", "replace").strip()
                os.close(self._fd)
                if time.monotonic() < give_up_s:
                    time.sleep(LOOK_AGAIN_S)
                    continue
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
    """A file and its WAL. Neither may be removed or truncated while the server runs: writes to a
    removed file are lost, and so are truncated bytes."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = path
        self._wal = wal_path(path)
        self._connection = connection
        self._identities = {path: _identity(path) for path in (path, self._wal)}
        self._nbytes = os.stat(path).st_size
        self._frames_seen = (b"", 0)  # salts of the WAL, and how many frames the last check found

    def check(self) -> None:
        """Raises StorageError."""
        for path, identity in self._identities.items():
            if _identity(path) != identity:
                raise StorageError(f"{path} was removed or replaced while it was in use")
        try:
            cut = self._wal if self._is_wal_cut() else self._path if self._is_file_cut() else None
        except (apsw.CorruptError, apsw.NotADBError):
            cut = self._path
        except apsw.Error:
            return  # busy, or out of memory, which says nothing about the files
        if cut is not None:
            raise StorageError(f"{cut} was cut short while it was in use")

    def _is_wal_cut(self) -> bool:
        """Whether the WAL was cut. Other programs may also empty a WAL, and SQLite then knows that
        it has no frames. So the WAL counts as cut only if SQLite gives the same answer twice."""
        before = None
        while True:
            frames = valid_frames(self._connection)
            with closing(WalFile(self._wal)) as wal:
                if frames is None or self._has_frames(wal, frames[0]):
                    return False
            if frames == before:
                return True
            before = frames

    def _has_frames(self, wal: WalFile, count: int) -> bool:
        """Whether the WAL has this number of frames. A write after a cut makes the WAL as long as
        before, with a hole up to that write. So the last frame of the previous check is read, too:
        it is in the hole, unless only newer frames were cut. To read all of those would take too
        long."""
        salts, seen = self._frames_seen
        if wal.frame_count < count:
            return False
        if salts == wal.salts and 0 < seen <= count and not any(wal.pages(seen - 1, seen)):
            return False
        self._frames_seen = wal.salts, count
        return True

    def _is_file_cut(self) -> bool:
        """Whether the file was cut. A file that is smaller may have been vacuumed, so its pages are
        counted."""
        nbytes = os.stat(self._path).st_size
        is_shorter, self._nbytes = nbytes < self._nbytes or not nbytes, nbytes
        return is_shorter and lacks_pages(self._connection, self._path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def look(path: Path, newest: int = SCHEMA_VERSION) -> None:
    """Raise StorageError unless the file is a Holdfast file, or new. Reads only 100 bytes, so that
    a file of another program stays unchanged: SQLite would repair it after a crash of that
    program."""
    refuse_unless_utf8(path)
    try:
        header = read_header(path)
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
    refuse_newer(path, version, newest)


def refuse_newer(path: Path, version: int, newest: int) -> None:
    if version > newest:
        raise StorageError(
            f"{path} has schema version {version}; this Holdfast knows versions up to"
            f" {newest}, so a newer one wrote it"
        )


def other_names(path: Path) -> str:
    """A sentence if the file has more names than this one (hard links). SQLite keeps a WAL for each
    name, and our lock is beside a name, too."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ""
    if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):  # a folder has two links and more
        return ""
    return f"{path} has {found.st_nlink} names (hard links), and each of them a WAL of its own"


def open_verified(
    path: Path,
    vfs: str | None,
    boot: str,
    *,
    accept_data_loss: bool,
    keeps_copy: bool,
    progress: Progress = unseen,
) -> apsw.Connection:
    """The writer's connection to a file that has all that its mark claims. Raises StorageError."""

    def accept(error: LostWritesError) -> None:
        if not accept_data_loss:
            raise error
        log.warning("accepted, as asked: %s", error)

    if names := other_names(path):
        raise StorageError(
            f"{names}: a server of another name could destroy what this one has written. Serve a"
            " copy, or remove the other names; 'find -samefile' finds them"
        )
    claim = None
    try:
        claim = read_mark(path)
        Verifier(path, claim, boot).before_opening()
    except LostWritesError as error:
        accept(error)
        claim = None
    verifier = Verifier(path, claim, boot)
    verifier.not_replaced(vfs)

    def verify(connection: apsw.Connection) -> None:
        try:
            verifier.opened(connection)
        except LostWritesError as error:
            accept(error)
            _refuse_damaged(connection, path)
        if verifier.warning:
            log.warning("%s", verifier.warning)
        if dropped := dropped_frames(connection, path):
            log.warning(
                "%s: %d frames behind the last valid one are dropped", wal_path(path), dropped
            )

    return open_database(path, vfs, verify=verify, keeps_copy=keeps_copy, progress=progress)


def _refuse_damaged(connection: apsw.Connection, path: Path) -> None:
    """Raise DamagedFileError if the pages do not fit together. That happens if a part of the WAL is
    lost of which the file has newer pages. No option accepts that."""
    found = connection.execute("PRAGMA integrity_check(1)").get
    if found != "ok":
        raise DamagedFileError(f"{path} is damaged: {' '.join(found.split())}. Restore a backup")


def open_database(
    path: Path,
    vfs: str | None = None,
    *,
    verify: Callable[[apsw.Connection], None] = lambda _: None,
    keeps_copy: bool = True,
    version: int = SCHEMA_VERSION,
    migrations: Mapping[int, str] = MIGRATIONS,
    progress: Progress = unseen,
) -> apsw.Connection:
    """The writer's connection. Creates the file, or migrates it and keeps a copy. Raises
    StorageError, and the errors of `verify`, which runs before the first write."""
    look(path, version)
    had_wal = wal_path(path).exists()
    try:
        create_private(path)
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}") from None
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    except apsw.Error as error:
        raise StorageError(f"cannot open {path}: {error}") from None
    # Until we know that we may write to it.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(5000)
    try:
        verify(connection)
        _set_up(connection)
        found = int(connection.execute("PRAGMA user_version").get)
        refuse_newer(path, found, version)  # the header may be older than the WAL
        if 0 < found < version and keeps_copy:
            _copy_before_migration(connection, path, found, version, progress)
        _migrate(connection, found, version, migrations, progress)
        _add_tables(connection)
        _renew_views(connection, path)
    except (apsw.Error, StorageError) as error:
        connection.close()
        if not had_wal:
            remove_empty_wal(path)
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"cannot open {path}: {error}") from None
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    return connection


def _set_up(connection: apsw.Connection) -> None:
    # The id comes first, while there is no WAL: `look` must find it in the file itself.
    if connection.execute("PRAGMA application_id").get != APPLICATION_ID:
        _run(connection, f"PRAGMA application_id = {APPLICATION_ID}")
    # NORMAL: a commit writes to the WAL without waiting for the disk; the flusher does that.
    # No automatic checkpoints: one of those inside a commit stalls the loop for 10-20 ms.
    # A huge batch makes a huge WAL; once it is in the file, it need not stay so.
    # A statement of many rows keeps its old pages, to undo itself: in memory, not in a file.
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "wal_autocheckpoint = 0",
        "temp_store = MEMORY",
        f"cache_size = -{CACHE_KIB}",
        f"journal_size_limit = {KEPT_WAL_BYTES}",
    ):
        _run(connection, f"PRAGMA {pragma}")


def _copy_before_migration(
    connection: apsw.Connection, path: Path, found: int, wanted: int, progress: Progress
) -> None:
    """An older Holdfast cannot read what the new one makes of the file."""
    copy = path.with_name(f"{path.name}-version-{found}")
    try:
        copy_to(connection, copy, progress=progress)
    except StorageError as error:
        raise StorageError(
            f"{error}. {path} is of version {found} and becomes version {wanted}; a copy is kept"
            " before that, unless you start with --no-backup"
        ) from None
    log.warning(
        "%s becomes version %d, which an older Holdfast cannot read; as it was, it is kept as %s",
        path,
        wanted,
        copy,
    )


def _migrate(
    connection: apsw.Connection,
    found: int,
    wanted: int,
    migrations: Mapping[int, str],
    progress: Progress,
) -> None:
    if found == wanted:
        return
    work = f"migrating from version {found} to {wanted}"
    tables = [READ_BY_MIGRATION[step] for step in range(found, wanted) if step in READ_BY_MIGRATION]
    with watching(connection, work, progress, tables), connection:
        if found == 0:
            _run(connection, SCHEMA.read_text())
        else:
            for step in range(found, wanted):
                _run(connection, migrations[step])
        _run(connection, f"PRAGMA user_version = {wanted}")


def _add_tables(connection: apsw.Connection) -> None:
    """Add the tables that came after the schema. An older Holdfast does not know them, and may have
    deleted streams since: their rows in these tables are removed."""
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    with connection:
        if found.issuperset(ADDED_TABLES):
            _run(connection, DROP_ORPHANS)
        else:
            _run(connection, ADDITIONS.read_text())


def _renew_views(connection: apsw.Connection, path: Path) -> None:
    """Replace the views if their text has changed. Only other programs use the views."""
    text = VIEWS.read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    if connection.execute("SELECT value FROM holdfast_meta WHERE name = 'views'").get == digest:
        return
    try:
        with connection:
            _run(connection, text)
            connection.execute(
                "INSERT OR REPLACE INTO holdfast_meta VALUES ('views', ?)", (digest,)
            )
    except apsw.SQLError as error:  # a table or an index of that name
        log.warning("the views of %s stay as they are: %s", path, error)


def remove_empty_wal(path: Path) -> None:
    """SQLite makes one even for connections that only read. The caller has the lock."""
    wal = wal_path(path)
    if wal.exists() and wal.stat().st_size == 0:
        wal.unlink()
        path.with_name(path.name + "-shm").unlink(missing_ok=True)


def replace_file(new: Path, target: Path) -> None:
    """Give a complete file the name of another one, which is gone then. Raises OSError."""
    if target.exists():
        os.chmod(new, os.stat(target).st_mode)
    sync_path(new)
    os.rename(new, target)
    sync_path(target.parent)


def _run(connection: apsw.Connection, script: str) -> None:
    for _ in connection.execute(script):
        pass
