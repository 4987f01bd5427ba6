"""The database file that an import replaces: locks it, checks it, and replaces it as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.migration.database_content import database_content, refuse_older
from holdfast.migration.errors import MigrationError
from holdfast.store.file.copying import BESIDE
from holdfast.store.file.mark import mark_path
from holdfast.store.file.opening import FileLock, remove_empty_wal, replace_file
from holdfast.store.file.wal import wal_path
from holdfast.store.store import FileStore


def settle(target: Path) -> None:
    """Recover a file that a killed server left: its WAL must not be applied to the file that takes
    its place. Raises StorageError, also if a server uses the file."""
    wal = wal_path(target)
    if mark_path(target).exists() or (wal.exists() and wal.stat().st_size):
        refuse_older(target)  # the import may fail, and must not have converted it
        FileStore(target).close()


@contextmanager
def locked(target: Path) -> Iterator[None]:
    try:
        lock = FileLock(target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            remove_empty_wal(target)  # which is there because we have read the file
        lock.release()


def has_content(target: Path) -> bool:
    return target.exists() and target.stat().st_size > 0


def refuse_filled(target: Path) -> None:
    if not has_content(target):
        return
    with database_content(target, 0) as content:
        if not content.is_empty:
            raise MigrationError(
                f"{target} has {content.key_count:,} keys: --merge adds the imported keys and"
                " replaces those of the same name, --replace removes all others"
            )


@contextmanager
def beside(target: Path, work: str) -> Iterator[Path]:
    """The name of a new file beside the target. It is removed at the end, and before: an import
    that was killed could not remove its own. (The lock on the target is ours.)"""
    path = target.with_name(f".{target.name}.{work}")
    remove_database(path)
    try:
        yield path
    finally:
        with suppress(OSError):  # of a read-only folder, which the error is about
            remove_database(path)


def remove_database(path: Path) -> None:
    for end in ("", *BESIDE):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


def take_place(partial: Path, target: Path) -> None:
    if wal_path(partial).exists() or mark_path(partial).exists():
        raise StorageError("another program reads the new file; try again")
    try:
        remove_empty_wal(target)
        replace_file(partial, target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from None
