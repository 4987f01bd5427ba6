"""The end of a loop turn: commit the batch, sync it, send the replies.

A reply leaves only after everything that it could have seen is on disk. So while a sync is in
flight, all new commands wait for the next sync: one batch, one commit, one sync, for any number of
clients.

It is one class because it is one sequence: commit, sync, replies, fold, checkpoint. Each step
decides about the next one, and after an error of the disk all of them stop together.
"""

import asyncio
import enum
import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from holdfast.errors import CommandError, StorageError, StoreBusyError
from holdfast.resp import Push
from holdfast.server.features.latency import Histogram
from holdfast.server.sessions.out_of_band import NOTHING, OutOfBand, Output, Published
from holdfast.server.sessions.session import Outgoing, Session, TurnSchedule
from holdfast.store.store import Store

log = logging.getLogger(__name__)

Batch = list[tuple[Session, list[Output]]]
Job = Callable[[], object]
Done = Callable[[Exception | None], object]

# 64 MB of WAL. A page that was written ten times is then copied once, and commits are held back
# four times less often than after 16 MB.
CHECKPOINT_PAGES = 16384

# If no more pages than this came during a round of a checkpoint, the last round may hold back
# commits: it takes as long as one or two syncs.
FEW_PAGES = 256
MOST_ROUNDS = 5  # of a checkpoint: on a slow disk, each round may leave as many pages again

# While turns end early because of short requests, the fold follows after so many operations.
PUT_OFF_OPS = 800

# If the disk usually syncs faster than this, the loop waits for it: to hand the sync to a thread
# and back costs more time than it saves. See decision 3.
SYNC_HERE_BELOW_S = 0.001


class Worker(threading.Thread):
    """A thread that waits for the disk, so that the loop need not wait. It does nothing else: every
    Python instruction here competes with the loop for the interpreter."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._jobs: queue.SimpleQueue[tuple[Job, Done] | None] = queue.SimpleQueue()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def stop(self) -> None:
        self._jobs.put(None)
        self.join()

    def run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                job()
            except Exception as error:  # noqa: BLE001 - the loop waits for the answer
                done(error)
            else:
                done(None)


QUIET_RETRIES = 60  # a sentence is logged again after so many calls of `retry`, one a second
BUSY_PATIENCE_S = 5.0  # how long a commit waits for another program that writes to the file


class Checkpoint(enum.Enum):
    """The states of a checkpoint, which copies the WAL into the file. It takes two steps, so that
    no commit waits long. First there are rounds beside the commits: each round copies the frames
    that came during the round before. Then commits are held back, while the few remaining frames
    are copied."""

    NOT_DUE = enum.auto()
    PUT_OFF = enum.auto()  # until `retry`, because it failed or cannot succeed now
    BESIDE_COMMITS = enum.auto()
    REST_IS_DUE = enum.auto()
    EMPTYING_WAL = enum.auto()


class Turn(TurnSchedule):
    def __init__(self, store: Store, outgoing: Outgoing, appendfsync: str = "always") -> None:
        self._store = store
        self._outgoing = outgoing
        outgoing.turn = self
        self._always = appendfsync == "always"
        self._in_flight = False  # a sync runs
        self._holding = False  # … and until it ends, nothing is committed and no reply leaves
        self._unsynced = False
        self.patience_s = BUSY_PATIENCE_S
        self._busy_since_s = 0.0  # since when another program writes to the file; 0: none does
        self._is_tidying = False  # a call of `tidy` is scheduled
        self._new_ops = 0  # operations that were committed since the last call of `keep_up`
        self._checkpoint = Checkpoint.NOT_DUE
        self._rounds = 0  # of the checkpoint beside commits
        self._pages_before = 0  # of the WAL, when the last round began
        self._copied = (b"", 0)  # the state of the WAL after the last complete checkpoint
        self._kept = (b"", 0)  # the WAL that a reader keeps, as it was when this was last logged
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers: tuple[Worker, ...] = ()
        self.usual_sync_s = 0.0  # a running average
        self._landed: asyncio.Future[None] | None = None
        self._flying: Batch = []  # replies that wait for the sync that runs
        self.sync_times = Histogram()
        self.checkpoints = 0
        # The engine ended this turn early, so that a short request need not wait for it.
        self.is_cut = False
        # Short requests run before `tidy` begins, or between two of its slices. Other commands wait
        # until it ends: else the fold would fall behind.
        self.is_paused = False
        self.must_sync = False  # a client wants to know that this turn's writes are on disk
        self.refuses_writes = False  # the engine refuses writes: nothing can be committed
        self._fold_error = ""  # while it is set, the fold waits
        self._complaints: dict[str, int] = {}  # by sentence: for how many retries it is not logged
        self._fatal: CommandError | None = None  # after a failed sync: the answer to everything
        # The engine, which is built after the turn, sets these.
        self.is_awaited: Callable[[], bool] = lambda: False  # a short request waits
        self.run_commands: Callable[[], bool] = lambda: False  # whether commands are left
        self.on_commit: Callable[[], None] | None = None  # before the replies of the batch leave
        self.on_batch: Callable[[], None] | None = None  # the same, also in the middle of a turn
        self.on_failure: Callable[[StorageError, bool], tuple[CommandError, bool]] = _no_engine

    # -- life ---------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        if self._store.is_durable:
            self._workers = (Worker("holdfast-flusher"), Worker("holdfast-checkpoint"))
            for worker in self._workers:
                worker.start()

    async def drain(self) -> None:
        """Wait until all commands that have arrived have run, and all replies that wait for the
        disk have left."""
        self.is_paused = False  # nothing waits for `tidy` here
        while self._end():
            pass
        while self._in_flight or self._busy_since_s:
            assert self._loop is not None
            if not self._in_flight:
                await asyncio.sleep(0)
                continue
            self._landed = self._loop.create_future()
            await self._landed

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._loop = None

    def set_appendfsync(self, policy: str) -> None:
        self._always = policy == "always"
        self.schedule()

    @property
    def may_fold(self) -> bool:
        return (
            self._checkpoint is not Checkpoint.EMPTYING_WAL
            and not self._fold_error
            and not self.is_dead
            and self._store.may_fold
        )

    @property
    def owes_checkpoint(self) -> bool:
        return (
            self._store.wal_pages >= CHECKPOINT_PAGES
            and self._checkpoint is Checkpoint.NOT_DUE
            and self._store.wal_extent != self._copied  # else the next commit begins a new WAL
        )

    @property
    def is_quiet(self) -> bool:
        """Whether no other thread works on the file, and nothing waits to be committed."""
        return (
            not self._in_flight
            and self._checkpoint in (Checkpoint.NOT_DUE, Checkpoint.PUT_OFF)
            and not self._store.keyspace.open_ops
        )

    def file_replaced(self) -> None:
        """Forget the state of the WAL, because the store has another file now."""
        self._unsynced = False
        self._copied = self._kept = (b"", 0)

    @property
    def syncs(self) -> int:
        return self.sync_times.calls

    @property
    def is_dead(self) -> bool:
        return self._fatal is not None

    # -- during the turn ----------------------------------------------------------------------

    def end_early(self) -> Batch:
        """Commit and sync all changes so far, in the middle of a turn that does not end for a long
        time. Returns the replies that may leave then, also those that waited for a sync."""
        self.commit_early()
        self._store.sync()
        batch = _taken(self._outgoing.take())
        in_flight = list(self._flying)
        self._flying.clear()
        return in_flight + batch

    def take(self, session: Session) -> list[Output]:
        """Take the output of a session, for a client that is answered in the middle of a turn."""
        if session.out:
            self._outgoing.sessions.remove(session)
        out, session.out = session.out, []
        return out

    def schedule(self) -> None:
        if not self._outgoing.is_scheduled and self._loop is not None:
            self._outgoing.is_scheduled = True
            self._loop.call_soon(self.end)

    # -- its end ------------------------------------------------------------------------------

    def end(self) -> None:
        """End the turn. Commands that are left run in the next turn, after sockets were read;
        without a loop they run now."""
        while self._end():
            if self._loop is not None:
                self.schedule()
                return

    def _end(self) -> bool:
        self.is_cut = False
        try:
            is_more = self.run_commands()
        finally:
            self._outgoing.is_scheduled = False  # the output of these commands is part of this turn
        waits_for_disk = self._always or self.must_sync
        if not (self._holding or (waits_for_disk and self._in_flight)):  # else see `_synced`
            self._commit()
        if not self._store.has_work_waiting:
            self._new_ops = 0
        elif self._loop is None:
            self.tidy()
        elif not self._is_tidying and not (self.is_cut and self._new_ops < PUT_OFF_OPS):
            # After the loop has sent the replies, so that clients can continue.
            self._is_tidying = True
            self._loop.call_soon(self.tidy)
        return is_more

    def tidy(self) -> None:
        if self._loop is not None and not self.is_paused and self.is_awaited():
            self._pause()
            return
        self._is_tidying = self.is_paused = False
        if self.may_fold:
            try:
                if self._store.keep_up(self._new_ops, self.is_awaited) and self._loop is not None:
                    self._pause()
                self._new_ops = 0
                self._store.make_room()
            except StorageError as error:
                self.fold_failed(error)

    def _pause(self) -> None:
        """Let `tidy` go on when sockets were read and short requests have run."""
        assert self._loop is not None
        self.is_paused = self._is_tidying = True
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """The loop has read sockets before this. It runs what they brought before `tidy`."""
        if self._loop is not None:
            self._loop.call_soon(self.tidy)

    def commit_early(self) -> None:
        """Commit the changes of this turn so far. Raises StorageError."""
        try:
            while not self._try_to_commit():
                pass
        except StorageError as error:
            self.fail(error)
            raise

    def _try_to_commit(self) -> bool:
        """Commit the batch. Returns False if another program writes to the file, which may take a
        while: the batch then stays open, and all its replies wait. Raises StorageError."""
        try:
            # While writes are refused, keys still expire. No reply depends on that, so it can wait.
            if not self.refuses_writes and (count := self._store.commit()):
                self._unsynced = True
                self._new_ops += count
            if self.on_batch is not None and not self.refuses_writes:
                self.on_batch()
        except StoreBusyError:
            now_s = time.monotonic()
            if not self._busy_since_s:
                self._busy_since_s = now_s
            if now_s < self._busy_since_s + self.patience_s:
                return False
            self._busy_since_s = 0.0
            raise
        self._busy_since_s = 0.0
        return True

    def _commit(self) -> None:
        store = self._store
        if self._fatal is not None:
            store.keyspace.end_batch()
            self._busy_since_s = 0.0
            self._refuse(self._fatal)
        else:
            try:
                while not self._try_to_commit():
                    if self._loop is not None:
                        self.schedule()  # the loop runs meanwhile
                        return
                if self.on_commit is not None and not self.refuses_writes:
                    self.on_commit()
            except StorageError as error:
                self.fail(error)
        sessions = self._outgoing.take()
        waits_for_disk, self.must_sync = self._always or self.must_sync, False
        if self._fatal is None and (
            (self._unsynced and waits_for_disk)
            or (self._checkpoint is Checkpoint.REST_IS_DUE and not self._in_flight)
        ):
            self._sync(_taken(sessions))
        else:
            if self._fatal is None:
                store.note_committed()
            for session in sessions:
                out, session.out = session.out, []
                _deliver(session, out)
        if self._fatal is not None:
            return
        if self.owes_checkpoint:
            self._begin_checkpoint()

    def _begin_checkpoint(self) -> None:
        """Begin a checkpoint, unless a reader keeps the WAL: then a checkpoint cannot empty it."""
        salts, pages = self._store.wal_extent
        if salts == self._copied[0]:
            self._checkpoint = Checkpoint.PUT_OFF
            if pages >= 2 * self._kept[1]:
                self._kept = (salts, pages)
                log.warning(
                    "another program has been reading %s for a while: the WAL cannot be emptied"
                    " and has %d MB",
                    self._store.path,
                    pages * 4096 >> 20,
                )
            return
        if salts != self._kept[0] != b"":
            self._kept = (b"", 0)
            log.info("the WAL of %s was emptied again", self._store.path)
        self._checkpoint = Checkpoint.BESIDE_COMMITS
        self._rounds = 0
        self._checkpoint_beside()

    def _checkpoint_beside(self) -> None:
        self._rounds += 1
        self._pages_before = self._store.wal_pages
        self._submit(1, self._store.checkpoint, self._checkpointed)

    def sync_beside(self) -> None:
        """Sync without holding back replies. Called once a second under `everysec`."""
        if self._unsynced and not self._in_flight:
            self._in_flight = True
            self._unsynced = False
            self._submit(0, partial(self._measure, self._store.sync), partial(self._synced, []))

    def _sync(self, batch: Batch) -> None:
        self._in_flight = self._holding = True
        self._unsynced = False
        if self._checkpoint is Checkpoint.REST_IS_DUE:
            self._checkpoint = Checkpoint.EMPTYING_WAL
            self._flying = batch
            job = partial(self._measure, self._store.sync_and_checkpoint)
            self._submit(0, job, partial(self._synced, batch))
        elif self.usual_sync_s < SYNC_HERE_BELOW_S:
            error: Exception | None = None
            try:
                self._timed_sync()
            except OSError as failed:
                error = failed
            self._synced(batch, error)
        else:
            self._flying = batch
            self._submit(0, self._timed_sync, partial(self._synced, batch))

    def _timed_sync(self) -> None:
        elapsed_ns = self._measure(self._store.sync)
        self.usual_sync_s += (elapsed_ns / 1e9 - self.usual_sync_s) / 8

    def _measure(self, sync: Job) -> int:
        """Run a sync; return how many ns it took. (It runs in the flusher's thread or on the loop,
        but never in both: there is one sync at a time.)"""
        started_ns = time.perf_counter_ns()
        try:
            sync()
        finally:
            elapsed_ns = time.perf_counter_ns() - started_ns
            self.sync_times.record(elapsed_ns)
        return elapsed_ns

    def _synced(self, batch: Batch, error: Exception | None) -> None:
        self._in_flight = self._holding = False
        self._flying = []
        if self._checkpoint is Checkpoint.EMPTYING_WAL:
            self._checkpoint = Checkpoint.NOT_DUE
            if error is None:
                self._store.note_partial_copy()
            self._copied = self._store.wal_extent
        if error is None or isinstance(error, StorageError):
            if error is not None:
                self._checkpoint_failed(error)
            _release(batch)
        else:
            self._put_back(batch)
            self.fail(StorageError(f"cannot sync the journal: {error}"), is_fatal=True)
        if self._outgoing.sessions or self._store.keyspace.open_ops:
            self.end()
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)

    def _put_back(self, batch: Batch) -> None:
        """Let the replies of a batch that is not on disk wait again, in front of newer ones."""
        for session, out in batch:
            if not session.out:
                self._outgoing.sessions.append(session)
            session.out[:0] = out

    def _checkpointed(self, error: Exception | None) -> None:
        if self._loop is None:
            return  # the server has stopped meanwhile: the close of the store copies the rest
        if error is None:
            new_pages = self._store.wal_pages - self._pages_before
            if new_pages > FEW_PAGES and self._rounds < MOST_ROUNDS:
                self._checkpoint_beside()
                return
            self.checkpoints += 1
            self._checkpoint = Checkpoint.REST_IS_DUE
            self.schedule()
        elif isinstance(error, StorageError):
            self._checkpoint_failed(error)
        else:
            self.fail(StorageError(f"cannot sync the database file: {error}"), is_fatal=True)
            self.schedule()

    def _submit(self, worker: int, job: Job, done: Done) -> None:
        loop = self._loop
        assert loop is not None

        def back_on_loop(error: Exception | None) -> None:
            loop.call_soon_threadsafe(done, error)

        self._workers[worker].submit(job, back_on_loop)

    # -- when the disk fails ------------------------------------------------------------------

    def fail(self, error: StorageError, *, is_fatal: bool = False) -> None:
        """Replace each reply that waits by the error, because none of them may claim success."""
        if self._fatal is not None:
            return
        refusal, is_fatal = self.on_failure(error, is_fatal)
        if is_fatal:
            self._fatal = refusal
        self._refuse(refusal)

    def _refuse(self, refusal: CommandError) -> None:
        for session in self._outgoing.sessions:
            answer = session.encode(refusal)
            session.out = [
                item if type(item) is OutOfBand else answer
                for item in session.out
                if not isinstance(item, (Published, Push))
            ] or [NOTHING]
            if session.multi is not None and answer in session.out:
                session.multi_failed = True  # a command may not have been queued

    def fold_failed(self, error: StorageError) -> None:
        """Put the fold off until `retry`. No data is in danger, because the journal has
        everything."""
        self._complain(f"{error}; the journal keeps growing")
        self._fold_error = str(error)

    def _checkpoint_failed(self, error: StorageError) -> None:
        self._complain(f"{error}; the WAL keeps growing")
        self._store.note_partial_copy()
        self._checkpoint = Checkpoint.PUT_OFF

    def _complain(self, sentence: str) -> None:
        """Log a sentence, but not again for a while: a disk may stay full for hours, and the log
        may be on it."""
        if sentence not in self._complaints:
            log.error("%s", sentence)
            self._complaints[sentence] = QUIET_RETRIES

    def retry(self) -> None:
        """Let failed work be tried again. Called once a second."""
        self._fold_error = ""
        self._complaints = {said: left - 1 for said, left in self._complaints.items() if left > 1}
        if self._checkpoint is Checkpoint.PUT_OFF:
            self._checkpoint = Checkpoint.NOT_DUE
            self._copied = (b"", 0)


def _taken(sessions: list[Session]) -> Batch:
    batch = []
    for session in sessions:
        batch.append((session, session.out))
        session.out = []
    return batch


def _release(batch: Batch) -> None:
    for session, out in batch:
        _deliver(session, out)


def _deliver(session: Session, out: list[Output]) -> None:
    try:
        session.deliver(out)
    except Exception as error:  # an error of one client must not keep replies from the others
        log.error("a client is cut off", exc_info=error)
        session.abort()


def _no_engine(error: StorageError, is_fatal: bool) -> tuple[CommandError, bool]:
    raise error
