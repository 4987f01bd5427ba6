"""Opens a database file for reading: while a server writes to it, after a server was killed, and
where nothing can be written. Nothing in it is changed.

To read a file that has a WAL, SQLite needs shared memory (`x.db-shm`), and creates it. In a folder
that cannot be written it cannot. If there is no `-shm` in such a folder, no other program has the
file open, so it is read without locks: see `_connect`.
"""

import fcntl
import os
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import apsw

from holdfast.errors import StorageError, StoreInUseError
from holdfast.store.file.mark import DamagedFileError, MarkContent, read_mark, this_boot
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.file.opening import (
    FileLock,
    lock_path,
    look,
    other_names,
    real,
    refuse_newer,
    remove_empty_wal,
)
from holdfast.store.file.verify import Verifier, dropped_frames
from holdfast.store.file.wal import has_wal, valid_frames, wal_path

BUSY_MS = 5000
MOST_LOOKS = 5


@contextmanager
def reading(
    path: Path, note: Callable[[str], None] = lambda sentence: None
) -> Iterator[apsw.Connection]:
    """A connection that sees the file as it is at one moment. `note` gets a sentence for each part
    that could not be checked. Raises StorageError."""
    path = real(path)
    with ExitStack() as stack:
        yield _verified(path, note, stack)


def _verified(path: Path, note: Callable[[str], None], stack: ExitStack) -> apsw.Connection:
    """A server may stop between the reads of the mark and of the WAL, and then these two do not
    fit. So a file counts as damaged only if its mark has not changed meanwhile."""
    claim = read_mark(path)
    for _ in range(MOST_LOOKS - 1):
        try:
            return stack.enter_context(_opened(path, claim, note))
        except DamagedFileError:
            before, claim = claim, read_mark(path)
            if claim == before:
                raise
    return stack.enter_context(_opened(path, claim, note))


@contextmanager
def _opened(
    path: Path, claim: MarkContent | None, note: Callable[[str], None]
) -> Iterator[apsw.Connection]:
    """`claim` was read before: a server that writes meanwhile can then only have more than that."""
    verifier = Verifier(path, claim, this_boot())
    verifier.before_opening()
    with _locked(path) as is_unused:
        if is_unused:
            verifier.not_replaced()
    look(path)
    if not path.stat().st_size and not has_wal(path):
        raise StorageError(f"{path} is empty: it has no database")
    had_wal = wal_path(path).exists()
    before = _state(path)
    try:
        connection, is_alone = _connect(path)
        with closing(connection):
            connection.set_busy_timeout(BUSY_MS)
            with _asking(path) as asking:
                verifier.opened(asking)
                if names := other_names(path):
                    note(f"{names}: changes in the WAL of another name are not seen")
                if has_wal(path) and valid_frames(asking) is None:
                    note(_not_counted(path))
            connection.execute("BEGIN")
            refuse_newer(path, int(connection.execute("PRAGMA user_version").get), SCHEMA_VERSION)
            yield connection
            if is_alone and _state(path) != before:
                raise StorageError(f"{path} was changed while it was read without locks; try again")
    except apsw.Error as error:
        raise StorageError(f"cannot read {path}: {error}") from None
    finally:
        if not had_wal:
            with _locked(path) as is_unused:
                if is_unused:
                    remove_empty_wal(path)


def dropped_by_next_start(path: Path) -> int:
    """How many frames of the WAL follow the last valid one. 0 while a server has the file, and
    where SQLite does not say. Raises StorageError."""
    path = real(path)
    if not has_wal(path):
        return 0
    try:
        with _locked(path) as is_unused, _asking(path) as asking:
            return dropped_frames(asking, path) if is_unused else 0
    except apsw.Error as error:
        raise StorageError(f"cannot read {path}: {error}") from None


def _not_counted(path: Path) -> str:
    return (
        f"{wal_path(path).name} was read, but its valid frames were not counted, because it cannot"
        " be written: a write that was cut off at its end is not reported"
    )


def _connect(path: Path) -> tuple[apsw.Connection, bool]:
    """A connection that only reads, and whether it takes no locks."""
    flags = apsw.SQLITE_OPEN_READONLY
    if _can_write(path.parent) or path.with_name(f"{path.name}-shm").exists():
        return apsw.Connection(str(path), flags=flags), False
    if wal_path(path).exists():
        # The index of the WAL is in our own memory if no other connection may use the file. That
        # takes a lock for writing, which we cannot have, so locks are left out.
        connection = apsw.Connection(str(path), flags=flags, vfs="unix-none")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return connection, True
    name = f"file:{urllib.parse.quote(str(path))}?immutable=1"
    return apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI), True


def _can_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


@contextmanager
def _asking(path: Path) -> Iterator[apsw.Connection]:
    """A connection that could write, because SQLite tells no other about the WAL. It does not
    write. Where nothing can be written it is one that reads."""
    connection, is_alone = _connect(path)
    if not is_alone:
        connection.close()
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(BUSY_MS)
    with closing(connection):
        yield connection


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether no server has the file meanwhile."""
    try:
        lock = FileLock(path)
    except StoreInUseError:
        yield False
        return
    except OSError:
        with _locked_to_read(path) as is_unused:
            yield is_unused
        return
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def _locked_to_read(path: Path) -> Iterator[bool]:
    """The same where no lock file can be made. If a server has the file, it has made one."""
    try:
        fd = os.open(lock_path(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        yield isinstance(error, FileNotFoundError)
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _state(path: Path) -> list[tuple[int, int] | None]:
    """A value that changes when a program writes to the file or its WAL."""
    found: list[tuple[int, int] | None] = []
    for each in (path, wal_path(path)):
        try:
            status = os.stat(each)
            found.append((status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            found.append(None)
    return found
