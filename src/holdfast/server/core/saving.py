"""SAVE and BGSAVE: they move everything from the journal into the tables now.

A write is safe without them, because it is in the journal. After a save, other programs see it in
the tables.
"""

import enum
import logging
import time

from holdfast.clock import Clock
from holdfast.errors import StorageError
from holdfast.server.core.turn import Turn
from holdfast.store.store import Store

log = logging.getLogger(__name__)

BUDGET_S = 0.002  # of each loop turn
BREAK_S = 0.0005


class SaveKind(enum.Enum):
    """The command that has begun the save. Both commands do the same."""

    SAVE = enum.auto()
    REWRITE = enum.auto()


class Saving:
    def __init__(self, store: Store, turn: Turn, clock: Clock) -> None:
        self._store = store
        self._turn = turn
        self._clock = clock
        self.running: SaveKind | None = None
        self.count = 0
        self.last_s = clock.now_ms() // 1000
        self.last_worked = True
        self.last_took_s = -1
        self._started_s = 0.0
        self._until_lsn = 0
        self._dirty = 0

    @property
    def running_for_s(self) -> int:
        return int(self._clock.monotonic_s() - self._started_s) if self.running else -1

    def now(self) -> None:
        """Save, and return when that is done. Raises StorageError."""
        self._begin()
        self._turn.commit_early()
        try:
            self._store.fold()
        except StorageError as error:
            self._failed(error)
            raise
        self._done()

    def in_background(self, kind: SaveKind) -> None:
        self._begin()
        self.running = kind
        self._clock.call_later(0, self._step)

    def _begin(self) -> None:
        if self._turn.refuses_writes:
            raise StorageError("the database file cannot be written at the moment")
        self._started_s = self._clock.monotonic_s()
        # The save includes the open batch, but must not commit it here: it may be half of an EXEC.
        self._until_lsn = self._store.lsn + bool(self._store.keyspace.open_ops)
        self._dirty = self._store.keyspace.dirty

    def _step(self) -> None:
        store = self._store
        if self._turn.is_dead:
            self._failed(StorageError("the database file must not be written any more"))
            return
        deadline_s = time.monotonic() + BUDGET_S
        try:
            while self._turn.may_fold and time.monotonic() < deadline_s:
                if store.folded_lsn >= self._until_lsn or not store.fold_step():
                    self._done()
                    return
        except StorageError as error:
            self._failed(error)
            self._turn.fold_failed(error)
            return
        self._clock.call_later(BREAK_S, self._step)

    def _done(self) -> None:
        self.running = None
        self.count += 1
        self.last_worked = True
        self.last_s = self._clock.now_ms() // 1000
        self.last_took_s = int(self._clock.monotonic_s() - self._started_s)
        self._store.keyspace.dirty -= self._dirty
        self._turn.schedule()

    def _failed(self, error: StorageError) -> None:
        log.error("saving failed: %s", error)
        self.running = None
        self.last_worked = False
