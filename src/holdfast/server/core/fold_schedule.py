"""Decides when the fold runs: once the oldest change is old enough, as fast as clients allow.

Rows that change often are cheaper to fold late, because a pass writes each of them once. Programs
that read the file want them early. So a pass begins when its oldest change is old enough
(`fold-age-ms`). A server that has time does the pass at once, slice by slice, and the loop runs
between two slices. A busy server spreads the pass over `PASS_TICKS`, at the ends of its turns
(`Turn.tidy`).
"""

import time
from typing import TYPE_CHECKING, Final

from holdfast.clock import Timer
from holdfast.errors import StorageError
from holdfast.store.store import FileStore

if TYPE_CHECKING:
    from holdfast.server.core.engine import Engine

BREAK_S: Final = 0.004  # between two slices, if commands ran between the last ones
# While clients with short requests wait, a slice has so many parts, of 125 rows instead of 500. The
# WAL then gets nearly twice as many pages.
PARTS: Final = 4
MOST_BUSY: Final = 0.5  # part of the time; a busier server folds at the ends of turns


class FoldSchedule:
    _has_time = True

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._timer: Timer | None = None
        self._calls = 0  # commands, before the last slice
        self._cuts = 0  # of turns, until the last tick
        self._slices_s = 0.0  # the time that slices took since the last tick
        self._wall_s = time.monotonic()
        self._cpu_s = time.thread_time()
        self._syncs = engine.turn.syncs

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def tick(self) -> None:
        """Called ten times a second."""
        engine, store = self._engine, self._engine.store
        if not isinstance(store, FileStore):
            store.fold_step()
            return
        self._measure()
        store.folding.parts_of_slice = 1 if engine.cuts == self._cuts else PARTS
        self._cuts = engine.cuts
        store.folding.grow_older(engine.clock.monotonic_s(), engine.config.fold_age_ms / 1000)
        if self._timer is not None:
            return
        if self._has_time:
            self._step(store)
        elif store.folding.is_behind:
            engine.turn.tidy()  # no turn may end for a while

    def _measure(self) -> None:
        """Whether clients leave time. Waiting for the disk on the loop is work, too."""
        turn = self._engine.turn
        wall_s, cpu_s, syncs = time.monotonic(), time.thread_time(), turn.syncs
        busy_s = cpu_s - self._cpu_s - self._slices_s
        busy_s += (syncs - self._syncs) * turn.usual_sync_s
        self._has_time = busy_s < MOST_BUSY * (wall_s - self._wall_s - self._slices_s)
        self._wall_s, self._cpu_s, self._syncs, self._slices_s = wall_s, cpu_s, syncs, 0.0

    def _go_on(self) -> None:
        self._timer = None
        store = self._engine.store
        assert isinstance(store, FileStore)
        if self._has_time and self._engine.condition.failure is None:
            self._step(store)

    def _step(self, store: FileStore) -> None:
        """Run a slice. If there is more to do, schedule the next one soon."""
        engine, turn = self._engine, self._engine.turn
        if not turn.may_fold or not store.folding.is_due:
            return
        started_s = time.monotonic()
        try:
            is_more = store.fold_step()
        except StorageError as error:
            turn.fold_failed(error)
            return
        self._slices_s += time.monotonic() - started_s
        if is_more:
            calls, self._calls = self._calls, engine.commands.calls
            break_s = BREAK_S if calls != self._calls else 0.0
            self._timer = engine.clock.call_later(break_s, self._go_on)
