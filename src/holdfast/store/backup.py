"""`holdfast backup`: a copy of a database file, also while a server uses the file.

A copy is folded: its tables, and so its views, have everything, and its journal is empty. The fold
runs on the copy, as in a server that stops. The source is only read. Decision 25 has the reasons.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from holdfast.errors import StorageError
from holdfast.progress import CHANGES, Progress, unseen
from holdfast.store.file.copying import BESIDE, copy_to
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.file.reading import reading
from holdfast.store.file.tables import Tables
from holdfast.store.recovery import node_of_file
from holdfast.store.store import FileStore

CHECKPOINT_PAGES = 16384  # 64 MB of WAL


class Backup(NamedTuple):
    """The result of a backup."""

    schema_version: int
    is_folded: bool  # the tables have everything


def backup(
    source: Path,
    dest: Path,
    *,
    folds: bool = True,
    progress: Progress = unseen,
    note: Callable[[str], None] = lambda sentence: None,
) -> Backup:
    """Copy `source` to `dest`, which must be new. Raises StorageError.

    `dest` appears complete and on disk, or not at all. A file of an older version is not folded,
    because that would migrate it: the Holdfast that wrote it can still serve such a copy. `note`
    gets a sentence for each part of the source that could not be checked.
    """
    _refuse_taken(dest)
    # The read transaction is held open all the time: without it every commit of the server would
    # start the copy anew.
    with reading(source, note) as connection:
        version = int(connection.execute("PRAGMA user_version").get)
        is_folded = folds and version == SCHEMA_VERSION

        def finish(partial: Path) -> None:
            try:
                _fold(partial, progress)
            except StorageError as error:
                raise StorageError(f"cannot fold {dest}: {error}") from None

        if is_folded:
            copy_to(connection, dest, replaces=False, finish=finish, progress=progress)
        else:
            copy_to(connection, dest, replaces=False, progress=progress)
            is_folded = not _has_journal(connection)
    return Backup(version, is_folded)


def _refuse_taken(dest: Path) -> None:
    """Refuse a name that is taken, by the copy or by a WAL beside it: SQLite would take that WAL
    for the copy's own, and apply it to the copy."""
    if os.path.lexists(dest):
        raise StorageError(f"{dest} exists; a backup does not overwrite anything")
    for end in BESIDE:
        beside = dest.with_name(f"{dest.name}{end}")
        if os.path.lexists(beside):
            raise StorageError(
                f"{beside} exists, and belongs to another file than the backup: remove it, or"
                " choose another name"
            )


def _has_journal(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM journal)").get)


def _fold(path: Path, progress: Progress) -> None:
    """Move all that the journal of a file has into its tables. Raises StorageError."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        if not _has_journal(connection):
            return
        tables = Tables(connection)
        node = node_of_file(connection)
        databases = 1 + max(tables.spaces_shown())
    store = FileStore(path, databases, node=node, progress=progress)
    try:
        store.commit()  # an active-active server adds facts about itself at the start
        while store.fold_step():
            progress("folding", *store.folding.ops_of_pass, CHANGES)
            if store.wal_pages >= CHECKPOINT_PAGES:
                store.sync_and_checkpoint()
    except BaseException:
        store.abandon()
        raise
    store.close()
    wal = path.with_name(f"{path.name}-wal")
    # the WAL has rows of the tables, and is not a part of the backup
    if wal.exists() and wal.stat().st_size:
        raise StorageError("another program reads the copy; try again")
