"""The journal: a batch of row operations becomes one committed row, then lasts.

`append` runs on the loop and never waits for the disk. `sync` does the waiting and is called
from the flusher thread; it touches nothing but a file descriptor.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec

from holdfast.errors import StorageError, StoreBusyError
from holdfast.store.change.ops import Op, RowOp, row_op
from holdfast.store.change.runs import rows_in
from holdfast.store.file.fsync import sync_path
from holdfast.store.file.mark import (
    NOWHERE,
    LostWritesError,
    Mark,
    Position,
    new_file_id,
    read_mark,
)
from holdfast.store.file.sync_file import sync_file
from holdfast.store.file.verify import FILE_ID, LAST_LSN
from holdfast.store.file.wal import SALTS, wal_path

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, int, object, object]]).decode

# SQLite's limit is 1,000,000,000 bytes, and one value may have 512 MB.
LARGEST_ROW = 128 << 20


Batch = tuple[int, list[RowOp]]  # lsn and operations


class Journal:
    """`mark` notes how far the journal is on disk."""

    def __init__(self, connection: apsw.Connection, path: Path, boot: str) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._insert = connection.cursor().execute  # else there would be a new cursor each time
        self.wal_pages = 0
        self.extent = (b"", 0)  # salts and frames of the WAL; together, for other threads
        self._wal_fd = -1
        connection.set_wal_hook(self._after_commit)
        self.lsn: int = self._execute(LAST_LSN).get
        self._noted_lsn = self.lsn  # up to here the mark knows whether it is on disk
        self._copying: Position | None = None  # where a checkpoint began that lacks frames
        self._proven = (NOWHERE, (b"", 0))  # such a position, and the extent behind its proof
        # A second descriptor of the WAL: to sync a file is to sync the writes of all descriptors.
        # (SQLite keeps its locks elsewhere, so closing this one harms nothing.)
        self._touch()  # SQLite creates the WAL at the first commit
        self._wal_fd = os.open(wal_path(path), os.O_RDONLY | os.O_CLOEXEC)
        self.extent = (self._read_salts(), self.wal_pages)
        # The last commits of a server that was killed are in the WAL, but maybe not on the disk,
        # and no client may see it before it is.
        os.fdatasync(self._wal_fd)
        self.mark = Mark(path, boot)
        self._begin_mark(path)

    def _begin_mark(self, path: Path) -> None:
        """From now on the file has an id of its own, also without its WAL. While a reader keeps the
        WAL of earlier starts, it has the ids that the mark names: of the file itself, which may lag
        behind by several starts, no other id is known."""
        self._synced = self.position
        old_id, new_id = self._execute(FILE_ID).get, new_file_id()
        ids, marked_ids = (new_id, old_id or new_id), _marked_ids(path)
        if marked_ids is not None and old_id not in marked_ids:
            marked_ids = None
        self.mark.begin(marked_ids or ids, self._synced)
        sync_path(path.parent)
        if marked_ids is not None:
            if not self.copy_wal():
                return
            self.mark.has_id(ids)
        self._execute("INSERT OR REPLACE INTO holdfast_meta VALUES ('file_id', ?)", (new_id,))
        if self.copy_wal():
            self.mark.has_id((new_id, new_id))
            self._touch()  # begins the WAL anew, so that no client waits for that
        self.sync()

    def copy_wal(self) -> bool:
        """Copy the WAL into the file. Returns whether all of it is copied; a reader may prevent
        that."""
        began_at = self.begin_copy()
        try:
            frames, in_file = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.BusyError, apsw.FullError):
            frames, in_file = 1, 0
        if frames == in_file:
            self.end_copy(began_at, frames)
        else:
            self.note_partial_copy()
        return frames == in_file

    def _touch(self) -> None:
        self._execute("INSERT OR REPLACE INTO holdfast_meta VALUES ('touched', datetime('now'))")

    def probe(self) -> bool:
        """Whether a commit works (again)."""
        try:
            self._touch()
        except apsw.Error:
            return False
        return True

    def _after_commit(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        """(The salts are read each time, because the number of frames does not tell that the WAL
        begins anew: its first batch may be larger than the whole WAL before.)"""
        self.extent = (self._read_salts(), pages)
        self.wal_pages = pages
        return 0

    def _read_salts(self) -> bytes:
        return os.pread(self._wal_fd, 8, SALTS.start) if self._wal_fd >= 0 else b""

    @property
    def position(self) -> Position:
        """The position of the last commit. Thread-safe."""
        lsn = self.lsn
        salts, frames = self.extent
        return Position(lsn, salts, frames)

    def append(self, ops: list[Op]) -> int:
        """Commit a batch; returns its size in bytes. The batch then survives the end of the
        process, but not yet a power cut."""
        lsn = self.lsn + 1
        try:
            batch = _encode(ops)
            nbytes = len(batch)
            if nbytes <= LARGEST_ROW:
                self._insert("INSERT INTO journal VALUES (?, ?)", (lsn, batch))
            else:
                batch = b""  # frees memory: the rows take as much again
                lsn = self._append_rows(lsn, ops)
        except apsw.BusyError:
            raise StoreBusyError("another program holds the database file locked") from None
        except Exception as error:  # of any kind: no client may be told that it was written
            raise StorageError(f"cannot write the journal: {error}") from error
        self.lsn = lsn
        return nbytes

    def _append_rows(self, lsn: int, ops: list[Op]) -> int:
        """Several rows in one transaction, for a batch that is too large for one. Returns the
        number of the last."""
        rows = [row for op in ops for row in rows_in(op)]
        start = size = 0
        with self._connection:
            for end, row in enumerate(rows, 1):
                size += len(_encode(row))
                if size > LARGEST_ROW // 2 or end == len(rows):
                    self._execute(
                        "INSERT INTO journal VALUES (?, ?)", (lsn, _encode(rows[start:end]))
                    )
                    lsn += 1
                    start, size = end, 0
        return lsn - 1

    def sync(self) -> None:
        """Wait until everything committed is on disk. Thread-safe; raises OSError."""
        position = self.position
        os.fdatasync(self._wal_fd)
        self.mark.synced(position)
        self._synced = position
        self._noted_lsn = position.lsn

    def begin_copy(self) -> Position:
        """Note that a checkpoint begins, and with which frames: the ones on the disk, because the
        mark must not claim more. Thread-safe; raises OSError."""
        position = self.position
        os.fdatasync(self._wal_fd)  # SQLite does it, too, and has less to wait for then
        self._copying = position
        self.mark.copying(position)
        return position

    def end_copy(self, began_at: Position, frames: int) -> None:
        """Note that the checkpoint has copied all frames, also those that came after it began.
        SQLite has synced them."""
        self._copying = None
        self.mark.copied(began_at._replace(frames=frames))

    def note_partial_copy(self) -> None:
        """If the last checkpoint, which has ended, has not copied all frames, note that: a start
        then knows when another program has copied the rest. Not thread-safe."""
        began_at, self._copying = self._copying, None
        if began_at is None:
            return
        proven, extent = self._proven
        if extent != self.extent:  # else its proof is still the last frame
            proven = began_at
            try:
                self._execute(
                    "INSERT OR REPLACE INTO holdfast_meta VALUES ('copy', ?)", (proven.proof,)
                )
            except apsw.Error:
                return  # as if the checkpoint had not ended
            self._proven = proven, self.extent
        self.mark.partial(proven)

    def note_committed(self) -> None:
        """Note that clients are about to be told of all commits, perhaps without a sync."""
        if self._noted_lsn != self.lsn:
            self._noted_lsn = self.lsn
            self.mark.committed(self.position)

    def keep_mark(self) -> None:
        """Raises StorageError if the mark is gone and cannot be written again."""
        try:
            self.mark.stay(self._synced)
        except OSError as error:
            raise StorageError(f"cannot write {self.mark.path}: {error.strerror}") from None

    def batches(self) -> Iterator[Batch]:
        return batches(self._connection)

    def close(self, *, is_clean: bool) -> None:
        self._connection.set_wal_hook(None)
        os.close(self._wal_fd)
        self.mark.close(is_clean=is_clean)


def _marked_ids(path: Path) -> tuple[str, str] | None:
    try:
        marked = read_mark(path)
    except LostWritesError:  # the operator has accepted the loss
        return None
    return None if marked is None else marked.file_ids


def batches(connection: apsw.Connection) -> Iterator[Batch]:
    """The batches that are not folded yet, oldest first."""
    for lsn, batch in connection.execute("SELECT lsn, batch FROM journal ORDER BY lsn"):
        yield (
            lsn,
            [
                row_op(table, key_id, _tuple(sub), _tuple(value))
                for op in _decode(batch)
                for table, key_id, sub, value in rows_in(RowOp(op))
            ],
        )


def _tuple(columns: object) -> object:
    """Convert a decoded operation back to tuples, which msgpack does not have."""
    return tuple(columns) if isinstance(columns, list) else columns


class Checkpointer:
    """A second connection for worker threads: one at a time, never the loop."""

    def __init__(self, path: Path, vfs: str | None = None) -> None:
        self._connection = apsw.Connection(str(path), vfs=vfs)
        # A connection learns at its first read that there is a WAL. Before that, a checkpoint does
        # nothing and returns no error.
        _ = self._connection.execute("PRAGMA schema_version").get

    def checkpoint(self) -> int | None:
        """The number of frames in the file now; None when others are not copied yet. Raises OSError
        and StorageError."""
        try:
            frames, in_file = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.IOError as error:
            if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_FSYNC:
                raise OSError(str(error)) from None  # as `Journal.sync`: nothing can be trusted
            raise StorageError(f"cannot checkpoint: {error}") from None
        except apsw.Error as error:
            raise StorageError(f"cannot checkpoint: {error}") from None
        return frames if frames == in_file else None

    def sync(self) -> None:
        """Wait until all that checkpoints have copied is on the disk. SQLite syncs the file only in
        a checkpoint that has copied all frames, so the last one would wait for all of it. Raises
        OSError."""
        sync_file(self._connection)

    def close(self) -> None:
        self._connection.close()
