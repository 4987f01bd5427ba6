"""The regular work of the server, ten times a second, in pieces that do not hold up the loop."""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.clock import Timer
from holdfast.errors import StorageError
from holdfast.server.core.fold_schedule import FoldSchedule
from holdfast.store.file.opening import FileError
from holdfast.store.memory.expiry import expire_due, is_searching

if TYPE_CHECKING:
    from holdfast.server.core.engine import Engine

log = logging.getLogger(__name__)

PERIOD_S = 0.1
EXPIRE_SLICE = 500  # keys; about a millisecond
EXPIRE_BREAK_S = 0.003  # between two slices, for the commands of clients
FREE_BREAK_S = 0.002
FREE_SHARE = 1 / 3  # of the time that turns of clients take
ROOM_BUDGET_S = 0.004


class Cron:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._timer: Timer | None = None
        self._expiry: Timer | None = None
        self._freeing: Timer | None = None
        self._free_at_s = 0.0
        self._ticks = 0
        self._calls = 0  # of commands, until the last tick
        self._folding = FoldSchedule(engine)

    def start(self) -> None:
        self._timer = self._engine.clock.call_later(PERIOD_S, self._tick)

    def stop(self) -> None:
        for timer in (self._timer, self._expiry, self._freeing):
            if timer is not None:
                timer.cancel()
        self._folding.stop()

    def _tick(self) -> None:
        self._try(self.tick)
        self.start()

    def _try(self, job: Callable[[], None]) -> None:
        try:
            job()
        except (StorageError, FileError) as error:
            self._engine.turn.fail(StorageError(f"cannot read the tables: {error}"))

    def tick(self) -> None:
        """The work of one tick. There are ten ticks in a second."""
        engine = self._engine
        if not engine.runs_cron:
            return
        self._ticks += 1
        engine.has_long_turns, engine.had_long_turn = engine.had_long_turn, False
        engine.refresh_clock()
        engine.now_s = engine.clock.monotonic_s()
        once_a_second = self._ticks % 10 == 0
        calls = engine.commands.calls
        is_busy, self._calls = calls != self._calls, calls
        engine.meter.sample(calls, engine.keyspace.used_bytes, engine.primary.sent_bytes)
        if once_a_second:
            for session in list(engine.sessions.values()):
                session.look_after()
            self._check_place()
            engine.check_room()
        if engine.config.maxmemory_clients:
            self._evict_clients()
        if self._freeing is None:
            self._free()
        engine.keyspace.freeing.give_back(engine.keyspace.used_bytes, is_at_rest=not is_busy)
        if engine.turn.is_dead:
            return
        if engine.condition.failure is None:
            if self._expiry is None:
                self._expire()
            self._make_room()
            self._folding.tick()
            if engine.loading.is_busy:  # also for a load that no client has begun
                engine.turn.schedule()
            if engine.turn.owes_checkpoint:  # also if only the fold writes, and no turn ends
                engine.turn.schedule()
        if once_a_second:
            engine.turn.retry()
            if engine.config.appendfsync == "everysec":
                engine.turn.sync_beside()
            if engine.condition.failure is not None and engine.store.probe():
                engine.storage_recovered()

    def _evict_clients(self) -> None:
        """Cut off clients while the memory of all clients is above `maxmemory-clients` (a size, or
        a part of `maxmemory`); those that take most come first."""
        engine = self._engine
        limit = engine.config.maxmemory_clients
        if limit < 0:
            limit = engine.config.maxmemory * -limit // 100
        sizes = [(each.memory_bytes, each) for each in engine.sessions.values()]
        total = sum([nbytes for nbytes, _ in sizes])
        if not 0 < limit < total:
            return
        evictable = [size for size in sizes if size[1].may_be_evicted]
        for nbytes, session in sorted(evictable, key=lambda size: size[0], reverse=True):
            if total <= limit:
                return
            log.info("evicting client %s, which takes %d bytes", session.address, nbytes)
            engine.meter.evicted_clients += 1
            session.abort()
            total -= nbytes

    def _check_place(self) -> None:
        try:
            self._engine.store.check_in_place()
        except StorageError as error:
            self._engine.turn.fail(error, is_fatal=True)

    def _expire(self) -> None:
        """Expire a slice of the keys that are due; if more are due, schedule the next slice
        soon."""
        engine, keyspace = self._engine, self._engine.keyspace
        self._expiry = None
        may_expire = (
            engine.expires_actively and not engine.condition.is_paused and not keyspace.is_replica
        )
        if not may_expire or engine.condition.failure is not None:
            return
        started_ns = time.perf_counter_ns()
        count = expire_due(keyspace, EXPIRE_SLICE)
        forgotten = engine.store.forget_lingering(EXPIRE_SLICE)
        elapsed_ns = time.perf_counter_ns() - started_ns
        engine.meter.expiry_ns += elapsed_ns
        engine.spikes.add(b"expire-cycle", keyspace.now_s, elapsed_ns // 1_000_000)
        if count:
            engine.blocking.serve_ready()  # readers of a group whose stream is gone
            engine.turn.schedule()
        if max(count, forgotten) >= EXPIRE_SLICE or is_searching(keyspace):
            engine.meter.expiry_slices_put_off += 1
            self._expiry = engine.clock.call_later(EXPIRE_BREAK_S, lambda: self._try(self._expire))

    def _free(self) -> None:
        """Free a slice of the removed values; if there are more, schedule the next slice soon. A
        long turn may remove many values, so after a long turn more slices are freed."""
        clock, keyspace = self._engine.clock, self._engine.keyspace
        late_s = 0.0 if self._freeing is None else clock.monotonic_s() - self._free_at_s
        self._freeing = None
        if keyspace.freeing.is_idle or keyspace.undo is not None:
            return
        deadline_s = time.monotonic() + late_s * FREE_SHARE
        while is_more := keyspace.freeing.step():
            if time.monotonic() >= deadline_s:
                break
        if is_more:
            self._free_at_s = clock.monotonic_s() + FREE_BREAK_S
            self._freeing = clock.call_later(FREE_BREAK_S, self._free)

    def _make_room(self) -> None:
        """Continue to evict while memory is above maxmemory, also when no turn ends."""
        engine = self._engine
        turn, store = engine.turn, engine.store
        is_evicting = not (engine.condition.is_paused or engine.keyspace.is_replica)
        if engine.condition.deletion is not None and is_evicting:
            engine.condition.deletion.load_some()
            if engine.condition.deletion.is_above_limit:
                started_ns = time.perf_counter_ns()
                engine.condition.deletion.make_room()
                took_ms = (time.perf_counter_ns() - started_ns) // 1_000_000
                engine.spikes.add(b"eviction-cycle", engine.keyspace.now_s, took_ms)
                engine.blocking.serve_ready()  # readers of a group whose stream is gone
                turn.schedule()
        deadline_s = time.monotonic() + ROOM_BUDGET_S
        try:
            while turn.may_fold and store.make_room() and time.monotonic() < deadline_s:
                pass
        except StorageError as error:
            turn.fold_failed(error)
