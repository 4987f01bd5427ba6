"""New files that only their owner can read, and copies of a database through an open connection. A
copy is complete and on disk, or it does not exist.

The copy has its own mark: an active-active server that starts on it has to know that this is not
the file that it left (see life.py).
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import apsw

from holdfast.errors import StorageError
from holdfast.progress import BYTES, Progress, unseen
from holdfast.store.file.fsync import sync_path
from holdfast.store.file.life import new_token
from holdfast.store.file.mark import new_file_id

STEP_PAGES = 1024  # 4 MB between two reports of progress

# The ends of the names of files that SQLite, or a store, has beside a database.
BESIDE = ("-journal", "-wal", "-shm", "-mark", "-lock")


def refuse_unless_utf8(path: Path) -> None:
    """Raise StorageError if the name of the file is not UTF-8: SQLite cannot open such a file."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise StorageError(f"cannot open {str(path)!r}: its name is not UTF-8") from None


def create_private(path: Path) -> None:
    """A new file that only its owner can read. SQLite gives the files beside it the same mode, but
    a file that SQLite itself creates can be read by all users. Raises OSError."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def copy_to(
    connection: apsw.Connection,
    dest: Path,
    *,
    replaces: bool = True,
    finish: Callable[[Path], None] = lambda partial: None,
    progress: Progress = unseen,
) -> None:
    """Copy the database to a new file. `finish` works on the copy before it gets its name. Raises
    StorageError, also if a file of that name exists and must not be replaced."""
    refuse_unless_utf8(dest)
    partial = dest.with_name(f".{dest.name}.{os.getpid()}.partial")
    try:
        _copy(connection, partial, progress)
        finish(partial)
        sync_path(partial)
        (_rename if replaces else _rename_to_new)(partial, dest)
        sync_path(dest.parent)
    except FileExistsError:
        raise StorageError(f"{dest} exists; a backup does not overwrite anything") from None
    except OSError as error:
        raise StorageError(f"cannot write {dest}: {error.strerror}") from None
    except apsw.FullError:  # SQLite has no words for it here
        raise StorageError(f"cannot write {dest}: the disk is full") from None
    except apsw.Error as error:
        raise StorageError(f"cannot copy {connection.filename} to {dest}: {error}") from None
    finally:
        for beside in ("", *BESIDE):
            with suppress(OSError):  # of a read-only folder, which the error above is about
                partial.with_name(f"{partial.name}{beside}").unlink(missing_ok=True)


def _rename(partial: Path, dest: Path) -> None:
    os.rename(partial, dest)


def _rename_to_new(partial: Path, dest: Path) -> None:
    """Rename a file, unless there is one of the new name. Python has no such call, so the file
    gets a second name. Some file systems have no second names: there we look first."""
    try:
        os.link(partial, dest)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(dest):
            raise FileExistsError from None
        os.rename(partial, dest)


def _copy(connection: apsw.Connection, partial: Path, progress: Progress) -> None:
    create_private(partial)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    page_size = int(connection.execute("PRAGMA page_size").get)
    with closing(apsw.Connection(str(partial), flags=flags)) as copy:
        with copy.backup("main", connection, "main") as work:
            while not work.done:
                work.step(STEP_PAGES)
                done = work.page_count - work.remaining
                progress("copying", done * page_size, work.page_count * page_size, BYTES)
        # The WAL that this needs is copied into the file, and removed, when the copy is closed.
        copy.execute("INSERT OR REPLACE INTO holdfast_meta VALUES ('backup', ?)", (new_token(),))
        # A copy is another file, so the mark of the original says nothing about it. (A file without
        # an id gets one when it is opened.)
        copy.execute("UPDATE holdfast_meta SET value = ? WHERE name = 'file_id'", (new_file_id(),))
