"""The store: file, journal, keyspace and fold as one thing that can be opened and closed.

The file is long because it has two stores with the same methods: one in memory, one in a file.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

import apsw

from holdfast.errors import StorageError, StoreBusyError
from holdfast.progress import Progress, unseen
from holdfast.store.file.journal import Checkpointer, Journal
from holdfast.store.file.life import Life
from holdfast.store.file.mark import this_boot
from holdfast.store.file.opening import (
    READERS_S,
    FileLock,
    Place,
    open_verified,
    real,
    remove_empty_wal,
    replace_file,
)
from holdfast.store.file.tables import Tables
from holdfast.store.file.wal import wal_path
from holdfast.store.fold.fold import Fold
from holdfast.store.memory.eviction import Eviction
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.recovery import recover

if TYPE_CHECKING:
    from holdfast.store.fold.new_keys import NewKeys
    from holdfast.store.replicated.adoption import Adoption

log = logging.getLogger(__name__)

MEMORY = ":memory:"

# How long SQLite waits for another program that writes to the file. The event loop stops for this
# time, and the turn tries again later. Where no loop waits, the time is longer.
BUSY_ON_LOOP_MS = 5
BUSY_MS = 5000
BUSY_AT_END_MS = 200  # for other programs that read. Some, such as Litestream, never stop reading

# A slice folds 500 rows, so the fold is twice as fast as new operations.
OPS_PER_SLICE = 250

# One slice, of eviction or of the fold, for so many new bytes. A new key needs both before it can
# leave memory, and small keys are the most work.
BYTES_PER_SLICE = 8192

# The fold delays a turn by no more slices than this: about 30 ms. The turns that follow do the
# rest. So no client waits for all the work that a checkpoint has put off, or that a command on a
# million keys has made.
MOST_SLICES = 16

# The slices of one turn end after so much CPU time. The more slices are left over from earlier
# turns, the longer they may take, so that the work of a steady load is spread evenly over its
# turns.
SLICES_S = 0.001
FOREVER_S = 1e9
OWED_SLICES = 16  # each time so many are left over, a turn may take `SLICES_S` longer

CHECKPOINT_PAGES = 16384  # 64 MB of WAL

# Making room may take more slices, because memory must not run out under a steady load.
MOST_ROOM_SLICES = 64

# From so many left-over slices on, each turn folds as much as it adds. So the journal does not grow
# without end under a load that is too fast for the fold.
MOST_OWED_SLICES = 4000


def never() -> bool:
    """For `is_awaited`: no client waits."""
    return False


class MemoryStore:
    """A store without a file: no journal, and no sync to wait for. Its data ends with the
    process."""

    is_durable = False
    is_broken = False
    path: Path | None = None
    lsn = 0
    folded_lsn = 0

    def __init__(self, databases: int = 16, node: int = 0) -> None:
        self.keyspace = _keyspace(None, databases, node)

    def commit(self) -> int:
        """End the batch. Returns the number of operations that need a sync."""
        keyspace = self.keyspace
        keyspace.seal()
        keyspace.end_batch()
        keyspace.open_runs.clear()
        keyspace.end_run()
        keyspace.fold_state.dirty_strings.clear()
        return 0

    wal_pages = 0
    wal_extent = (b"", 0)
    may_fold = True
    max_bytes = 0
    owed_slices = 0

    def sync(self) -> None: ...

    def note_committed(self) -> None: ...

    def checkpoint(self) -> None: ...

    def sync_and_checkpoint(self) -> None: ...

    def note_partial_copy(self) -> None: ...

    def fold_step(self) -> bool:
        self.keyspace.forget_dead()
        return False

    def fold(self) -> None: ...

    def forget_lingering(self, limit: int) -> int:
        return 0

    has_work_waiting = False

    def keep_up(self, new_ops: int, is_awaited: Callable[[], bool] = never) -> bool:
        return False

    def make_room(self) -> bool:
        return False

    def reload(self) -> None: ...

    def adopt_step(self) -> bool:
        return False

    def probe(self) -> bool:
        return True

    def check_in_place(self) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class FileStore:
    is_durable = True
    is_broken = False  # a sync failed, so nothing may be written any more
    max_bytes = 0  # of values in memory; 0: no limit
    life: Life | None = None  # of an active-active server
    _used_bytes_before = 0  # when `make_room` last ran
    _owed_slices = 0  # slices of the fold that earlier turns did not do
    _parts = 0  # of the slice that is done next
    # What `keep_up` has left while it pauses: parts of slices, and CPU time for them.
    _paused = (0, 0.0)

    def __init__(
        self,
        path: Path,
        databases: int = 16,
        vfs: str | None = None,
        node: int = 0,
        *,
        accept_data_loss: bool = False,
        keeps_copy: bool = True,
        boot: str | None = None,
        progress: Progress = unseen,
    ) -> None:
        """Raises LostWritesError if the files lack writes that were acknowledged, unless the loss
        is accepted. `keeps_copy`: keep a copy of a file that is migrated. `boot` is the id of this
        run of the kernel."""
        self.path = path
        self._progress = progress
        self._vfs = vfs
        self._boot = this_boot() if boot is None else boot
        try:
            self._lock = FileLock(path, READERS_S)
        except OSError as error:
            raise StorageError(f"cannot open {path}: {error.strerror}") from None
        try:
            self._connection = open_verified(
                path,
                vfs,
                self._boot,
                accept_data_loss=accept_data_loss,
                keeps_copy=keeps_copy,
                progress=progress,
            )
            try:
                self._open(databases, node)
            except BaseException:
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close()
                raise
        except (apsw.Error, OSError) as error:
            self._lock.release()
            raise StorageError(f"cannot open {path}: {error}") from None
        except BaseException:
            self._lock.release()
            raise

    def _open(self, databases: int, node: int) -> None:
        tables = Tables(self._connection)
        if not node and tables.crdt_facts():
            raise StorageError(f"{self.path} is the file of an active-active server")
        self._attach(_keyspace(tables, databases, node), tables)
        self._adoption = _adoption(self, self.keyspace, node, self._progress)

    def _attach(self, keyspace: Keyspace, tables: Tables) -> None:
        """Show the content of the file that was opened."""
        self.journal = Journal(self._connection, self.path, self._boot)
        self.keyspace = keyspace
        if keyspace.tables is not tables:  # the keyspace showed another file before
            keyspace.tables = tables
            keyspace.forget()
        self.folding = Fold(self._connection, self.journal, keyspace)
        self._owed_slices = 0
        self._eviction = Eviction(keyspace, self.folding)
        self._checkpointer = Checkpointer(self.path, self._vfs)
        self._place = Place(self.path, self._connection)
        self.recovered_ops = recover(keyspace, self.journal, self.folding, self._progress)
        self._connection.set_busy_timeout(BUSY_ON_LOOP_MS)

    def adopt_step(self) -> bool:
        """Do one step of an adoption (see adoption.py). Call it before all other methods, until it
        returns False."""
        if self._adoption is not None and not self._adoption.step():
            self._adoption = None
        return self._adoption is not None

    def commit(self) -> int:
        """Write the batch to the journal. Returns the number of operations that need a sync."""
        keyspace = self.keyspace
        ops = keyspace.seal()
        if ops:
            keyspace.close_runs()
            nbytes = self.journal.append(ops)
            if self.life is not None:
                self.life.reached = keyspace.own_position
            count = len(ops) + keyspace.recorded
            self.folding.add(self.journal.lsn, ops, nbytes, count)
            keyspace.end_batch()
            return count
        return 0

    @property
    def backup_mark(self) -> bytes:
        """The mark of the backup that this file was restored from; empty if it is no backup."""
        mark = self._connection.execute("SELECT value FROM holdfast_meta WHERE name = 'backup'").get
        return mark if isinstance(mark, bytes) else b""

    @property
    def lsn(self) -> int:
        """The number of the last batch."""
        return self.journal.lsn

    @property
    def folded_lsn(self) -> int:
        """The number of the last batch that the tables have in full."""
        return self.folding.folded_lsn

    @property
    def wal_pages(self) -> int:
        return self.journal.wal_pages

    @property
    def wal_extent(self) -> tuple[bytes, int]:
        """The generation of the WAL, and the number of its pages."""
        return self.journal.extent

    def sync(self) -> None:
        """Sync the journal. Thread-safe, as are `checkpoint` and `sync_and_checkpoint`. Raises
        OSError."""
        life = self.life
        if life is None:
            self.journal.sync()
        else:
            reached = life.reached
            self.journal.sync()
            life.note(reached)

    def note_committed(self) -> None:
        """Note that the last commit is about to be acknowledged, although it is not synced."""
        self.journal.note_committed()

    def checkpoint(self) -> None:
        """Copy the WAL into the file, as far as that does not delay a commit."""
        journal = self.journal
        began_at = journal.begin_copy()
        journal.mark.sync()  # sometimes, and here no client waits for it
        copied_frames = self._checkpointer.checkpoint()
        self._checkpointer.sync()
        if copied_frames is not None:
            journal.end_copy(began_at, copied_frames)

    def sync_and_checkpoint(self) -> None:
        """Empties the WAL, if no batch is committed meanwhile."""
        self.sync()
        began_at = self.journal.begin_copy()
        copied_frames = self._checkpointer.checkpoint()
        if copied_frames is not None:
            self.journal.end_copy(began_at, copied_frames)

    def note_partial_copy(self) -> None:
        """Called on the loop when a checkpoint has ended or failed, and no other follows at
        once."""
        self.journal.note_partial_copy()

    @property
    def has_work_waiting(self) -> bool:
        """Whether `keep_up` or `make_room` would do something."""
        return self.folding.is_behind or 0 < self.max_bytes < self.keyspace.used_bytes

    @property
    def owed_slices(self) -> int:
        """How many slices of the fold earlier turns did not do. They may be done meanwhile: an idle
        server folds without `keep_up`."""
        return self._owed_slices if self.folding.is_behind else 0

    def keep_up(self, new_ops: int, is_awaited: Callable[[], bool] = never) -> bool:
        """If the fold is behind, do some slices, in proportion to the operations of this turn.
        Returns True if it pauses because a client waits; the next call goes on."""
        folding = self.folding
        parts, left_s = self._paused
        if parts:
            if new_ops:
                self._owed_slices += (1 + new_ops // OPS_PER_SLICE) * folding.urgency
        else:
            due = (1 + new_ops // OPS_PER_SLICE) * folding.urgency
            is_flooded = due > MOST_SLICES and self._owed_slices > MOST_OWED_SLICES
            self._owed_slices += due
            slices = min(due if is_flooded else MOST_SLICES, self._owed_slices)
            parts = slices * folding.parts_of_slice
            left_s = SLICES_S * (1 + self._owed_slices / OWED_SLICES)
            if is_flooded:
                left_s = FOREVER_S
        self._paused = (0, 0.0)
        until_s = thread_time() + left_s
        while parts > 0:
            parts -= 1
            if not folding.is_behind:
                self._owed_slices = 0
                return False
            folding.step()
            self._parts += 1
            if self._parts >= folding.parts_of_slice:
                self._parts = 0
                self._owed_slices -= 1
            left_s = until_s - thread_time()
            if left_s <= 0:
                return False
            if is_awaited():
                self._paused = (parts, left_s)
                return parts > 0
        return False

    @property
    def may_fold(self) -> bool:
        """Whether `fold_step` is allowed now."""
        return self.folding.may_step

    def fold_step(self) -> bool:
        return self.folding.step()

    def fold(self) -> None:
        self.folding.run()

    def write_new(self, keys: "NewKeys", *, is_last: bool = False) -> None:
        """Write new keys to the tables, in a file that no server uses, and after the last ones the
        names of all; `reload` shows them. Raises StorageError: after that the store can only be
        closed by `abandon`."""
        try:
            keys.write(self._connection)
            if is_last:
                keys.write_names(self._connection)
        except apsw.Error as error:
            raise StorageError(f"cannot write the tables: {error}") from None

    def doubled_name(self) -> tuple[int, bytes] | None:
        """The space and the name of two keys with the same name, which only `write_new` can create.
        Raises StorageError."""
        from holdfast.store.fold.new_keys import doubled_name

        try:
            return doubled_name(self._connection)
        except apsw.Error as error:
            raise StorageError(f"cannot read {self.path}: {error}") from None

    def make_room(self) -> bool:
        """Keep memory near `max_bytes`: forget clean keys, or fold so that more keys become clean,
        in proportion to the new bytes since the last call. Returns whether there is more to forget.

        Does nothing while a batch is open, because the file lacks its changes.
        """
        keyspace = self.keyspace
        if keyspace.open_ops:
            return False
        used_bytes = keyspace.used_bytes
        grown = max(min(used_bytes - self._used_bytes_before, used_bytes - self.max_bytes), 0)
        more = True
        slices = 1 + grown // BYTES_PER_SLICE
        for _ in range(min(slices, MOST_ROOM_SLICES)):
            more = keyspace.used_bytes > self.max_bytes > 0 and (
                self._eviction.step(self.max_bytes) > 0 or self.folding.step()
            )
            if not more:
                break
        left_over = max(slices - MOST_ROOM_SLICES, 0) * BYTES_PER_SLICE
        self._used_bytes_before = keyspace.used_bytes - left_over
        return more

    def forget_lingering(self, limit: int) -> int:
        """Evict expired keys that replication keeps. Does nothing while a batch is open, either."""
        return 0 if self.keyspace.open_ops else self._eviction.forget_lingering(limit)

    def reload(self) -> None:
        """Forget memory and read the file again, so that no client sees the changes of a failed
        commit."""
        try:
            self.keyspace.forget()
            self.folding = Fold(self._connection, self.journal, self.keyspace)
            self._owed_slices = 0
            recover(self.keyspace, self.journal, self.folding, unseen)
        except apsw.Error as error:
            raise StorageError(f"cannot read {self.path}: {error}") from error
        self._eviction = Eviction(self.keyspace, self.folding)

    def take_over(self, path: Path) -> None:
        """Replace this file by another, complete one, and show that. No batch may be open, and no
        sync may be running. A crash leaves the old file or the new one. Raises StoreBusyError,
        without any change, if another program reads the file or the disk is full. Raises
        StorageError."""
        assert not self.keyspace.open_ops
        self._empty_wal_or_wait()
        try:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self.journal.close(is_clean=True)
            self._connection.close()
            # The WAL is empty, and its name belongs to the WAL of the new file.
            remove_empty_wal(self.path)
            replace_file(path, self.path)
            self._connection = open_verified(
                self.path, self._vfs, self._boot, accept_data_loss=False, keeps_copy=False
            )
            self._attach(self.keyspace, Tables(self._connection))
        except (apsw.Error, OSError) as error:
            raise StorageError(f"cannot replace {self.path}: {error}") from None

    def _empty_wal_or_wait(self) -> None:
        reason = f"another program reads {self.path}"
        try:
            if self._empty_wal(BUSY_ON_LOOP_MS):
                return
        except apsw.IOError as error:
            if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_FSYNC:
                raise StorageError(f"cannot sync {self.path}: {error}") from None
            reason = f"cannot write {self.path}: {error}"
        except OSError as error:
            raise StorageError(f"cannot sync {self.path}: {error.strerror}") from None
        except apsw.Error as error:
            reason = f"cannot write {self.path}: {error}"
        self._checkpointer = Checkpointer(self.path, self._vfs)
        raise StoreBusyError(reason)

    def probe(self) -> bool:
        """Whether the file can be written again after a failure."""
        return self.journal.probe()

    def check_in_place(self) -> None:
        """Raises StorageError if the file was removed or truncated, because new writes would be
        lost."""
        self._place.check()
        self.journal.keep_mark()

    def close(self) -> None:
        """Commit the batch, and leave a complete file without journal and WAL. If another program
        uses the file, the WAL stays, and so does the mark.

        Raises StorageError if that fails; earlier commits are in the file all the same.
        """
        keep_wal = True
        self._connection.set_busy_timeout(BUSY_MS)
        try:
            if not self.is_broken:
                self.commit()
                keep_wal = not (self._fold_at_end() and self._empty_wal_at_end())
                if keep_wal:
                    self.sync()  # and note it in the mark
                elif self.life is not None:
                    self.life.note(self.life.reached)
        except (apsw.Error, OSError) as error:
            raise StorageError(f"cannot write the tables: {error}") from None
        finally:
            self._shut(keep_wal=keep_wal)

    def _fold_at_end(self) -> bool:
        """Fold everything, and copy the WAL now and then. The slices that delete the rows of a
        flushed database change the same pages again and again: 240,000 small keys, 18 MB in the
        file, made a WAL of 3 GB."""
        copied_pages = 0
        try:
            while self.folding.step():
                copied_pages = min(copied_pages, self.wal_pages)  # the WAL may begin anew
                if self.wal_pages - copied_pages >= CHECKPOINT_PAGES:
                    with suppress(StorageError):  # another program makes a checkpoint
                        self.sync_and_checkpoint()
                    copied_pages = self.wal_pages
        except StoreBusyError:
            log.warning("another program writes to %s; the next start folds its journal", self.path)
            return False
        return True

    def _empty_wal_at_end(self) -> bool:
        is_empty = self._empty_wal(BUSY_AT_END_MS)
        if not is_empty:
            wal = wal_path(self.path)
            log.info("another program reads %s, so %s stays and belongs to it", self.path, wal.name)
        return is_empty

    def _empty_wal(self, patience_ms: int) -> bool:
        """Truncate the WAL. False if another program reads it."""
        self._checkpointer.close()  # a checkpoint that truncates needs the WAL for itself
        self._connection.set_busy_timeout(patience_ms)
        self.journal.copy_wal()  # first, so that the mark does not require a WAL that is gone
        self.journal.mark.sync()
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        return True

    def abandon(self) -> None:
        """Close without writing: the next start finds the state of the last commit."""
        self._shut(keep_wal=True)

    def _shut(self, *, keep_wal: bool) -> None:
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_wal))
        self.journal.close(is_clean=not keep_wal)
        self._checkpointer.close()
        self._connection.close()
        if self.life is not None:
            self.life.close()
        self._lock.release()


Store = MemoryStore | FileStore


def open_store(
    path: str,
    databases: int = 16,
    node: int = 0,
    *,
    accept_data_loss: bool = False,
    keeps_copy: bool = True,
    progress: Progress = unseen,
) -> Store:
    """`node` is the node id of this server in an active-active database; 0: a standalone server."""
    if path == MEMORY:
        return MemoryStore(databases, node)
    return FileStore(
        real(Path(path)),
        databases,
        node=node,
        accept_data_loss=accept_data_loss,
        keeps_copy=keeps_copy,
        progress=progress,
    )


def _adoption(
    store: FileStore, keyspace: Keyspace, node: int, progress: Progress
) -> "Adoption | None":
    """The adoption, if the file is a standalone server's and this server is an active-active
    one."""
    if not node:
        return None
    from holdfast.store.replicated.adoption import Adoption
    from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace

    if isinstance(keyspace, ReplicatedKeyspace) and keyspace.stage.is_adopting:
        return Adoption(store, keyspace, progress)
    return None


def _keyspace(tables: Tables | None, databases: int, node: int) -> Keyspace:
    """The keyspace of a replicated or a standalone server. Most servers are standalone, and do not
    import the code of replication."""
    if not node:
        return Keyspace(tables, databases)
    from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace

    return ReplicatedKeyspace(tables, databases, node)
