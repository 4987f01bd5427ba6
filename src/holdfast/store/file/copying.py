"""New files, which only their owner can read; and a copy of a database through an open connection,
complete and on disk or not there at all.

The copy carries a mark of its own: an active-active server that starts on it has to know that it is
not on the file that it left (see life.py).
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from holdfast.errors import StorageError
from holdfast.store.file.fsync import sync_path
from holdfast.store.file.life import new_token
from holdfast.store.file.mark import new_file_id

STEP_PAGES = 1024  # 4 MB between two reports of progress


def create_private(path: Path) -> None:
    """A new file that only its owner can read. SQLite gives the files beside it the same mode, but
    a file that SQLite itself creates can be read by all users. Raises StorageError."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}") from None


def copy_to(
    connection: apsw.Connection, dest: Path, progress: Callable[[int, int], None] | None = None
) -> None:
    """Replaces what is there; raises StorageError. `progress` hears pages done and in all."""
    partial = dest.with_name(f".{dest.name}.{os.getpid()}.partial")
    try:
        _copy(connection, partial, progress)
        sync_path(partial)
        os.rename(partial, dest)
        sync_path(dest.parent)
    except OSError as error:
        raise StorageError(f"cannot write {dest}: {error.strerror}") from None
    except apsw.Error as error:
        raise StorageError(f"cannot copy {connection.filename} to {dest}: {error}") from None
    finally:
        for leftover in (partial, *(Path(f"{partial}-{end}") for end in ("journal", "wal", "shm"))):
            leftover.unlink(missing_ok=True)


def _copy(
    connection: apsw.Connection, partial: Path, progress: Callable[[int, int], None] | None
) -> None:
    create_private(partial)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with closing(apsw.Connection(str(partial), flags=flags)) as copy:
        with copy.backup("main", connection, "main") as work:
            while not work.done:
                work.step(STEP_PAGES)
                if progress is not None:
                    progress(work.page_count - work.remaining, work.page_count)
        # The WAL that this needs goes into the file, and goes, when the copy is closed.
        copy.execute("INSERT OR REPLACE INTO holdfast_meta VALUES ('backup', ?)", (new_token(),))
        # A copy is another file, so the mark of the original says nothing about it. (A file without
        # an id gets one when it is opened.)
        copy.execute("UPDATE holdfast_meta SET value = ? WHERE name = 'file_id'", (new_file_id(),))
