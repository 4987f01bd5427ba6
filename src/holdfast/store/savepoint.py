"""All or nothing: while a script runs, every change can be taken back.

Whatever changes reports its step back to `keyspace.undo`; what the world would hear of (waiters,
notifications, watchers, messages) is kept until it is certain that it happened.
"""

from collections.abc import Callable
from functools import partial

from holdfast.store.database import Database
from holdfast.store.keyspace import Keyspace
from holdfast.store.ops import KEYS, SPACES, WATCHERS, Undo
from holdfast.store.types import revert


def undo(steps: list[Undo], keyspace: Keyspace) -> None:
    """Newest first: of a row that was changed several times, the first change is undone last."""
    while steps:
        step = steps.pop()
        if type(step) is bytes:
            keyspace.put_back(steps.pop(), step)
            continue
        table, subject, sub, was = step
        if table == KEYS:
            keyspace.restore(subject, was)
        elif table == SPACES:
            subject.put_back(was)
        elif table == WATCHERS:
            subject.watch_broken = False
        else:
            revert(table, subject, sub, was, keyspace)


class Savepoint:
    """Begins when it is made, and ends by `keep` or `roll_back`. One at a time."""

    __slots__ = (
        "_dirty",
        "_keyspace",
        "_later",
        "_notify",
        "_open_runs",
        "_ops",
        "_ops_before",
        "_ready",
        "_recorded",
        "_undo",
    )

    def __init__(self, keyspace: Keyspace) -> None:
        assert keyspace.undo is None
        self._keyspace = keyspace
        self._ops = ops = keyspace.ops
        self._ops_before = len(ops)
        self._recorded = keyspace.recorded
        self._open_runs = len(keyspace.open_runs)
        keyspace.end_run()
        steps: list[Undo] = []
        later: list[Callable[[], object]] = []
        self._undo = keyspace.undo = steps
        self._later = keyspace.later = later
        self._ready = len(keyspace.ready)
        self._dirty = keyspace.dirty
        self._notify = keyspace.notify
        if keyspace.notify_kinds:  # scripts cannot change it
            keyspace.notify = self._defer_notification

    @property
    def has_written(self) -> bool:
        return bool(self._undo)

    def let_earlier_go(self, commit: Callable[[], None]) -> None:
        """Commit what was there before, alone."""
        own = self._ops[self._ops_before :]
        del self._ops[self._ops_before :]
        commit()
        self._ops = self._keyspace.ops = own
        self._ops_before = self._recorded = self._open_runs = 0

    def keep(self) -> None:
        """It happened: now everybody may know."""
        self._end()
        for tell in self._later:
            tell()

    def roll_back(self) -> None:
        """It never happened."""
        keyspace = self._keyspace
        self._end()
        if keyspace.ops is not self._ops:
            return  # the keyspace was read again from the file meanwhile
        undo(self._undo, keyspace)
        del self._ops[self._ops_before :]
        del keyspace.open_runs[self._open_runs :]
        keyspace.recorded = self._recorded
        del keyspace.ready[self._ready :]
        keyspace.dirty = self._dirty

    def _end(self) -> None:
        keyspace = self._keyspace
        keyspace.undo = keyspace.later = None
        keyspace.notify = self._notify

    def _defer_notification(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        self._later.append(partial(self._notify, database, name, event, kind))
