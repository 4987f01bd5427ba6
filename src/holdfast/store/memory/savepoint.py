"""All or nothing: while a script runs, every change can be undone. Each change adds its undo step
to `keyspace.undo`. Announcements (waiters, notifications, watchers, messages) are kept until it is
certain that the script has succeeded.
"""

from collections.abc import Callable
from functools import partial

from holdfast.store.change.undo import KeyUndo, PartUndo, RowUndo, SpaceUndo, StringUndo, Undo
from holdfast.store.memory.database import Database
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.values.registry import revert


def undo(steps: list[Undo], keyspace: Keyspace) -> None:
    """Newest first: of a row that was changed several times, the first change is undone last."""
    while steps:
        step = steps.pop()
        if isinstance(step, StringUndo):
            keyspace.put_back(step.key, step.was)
        elif isinstance(step, PartUndo):
            keyspace.put_part_back(step.key, step.offset, step.was, step.length)
        elif isinstance(step, RowUndo):
            revert(step, keyspace)
        elif isinstance(step, KeyUndo):
            keyspace.restore(step.key, step.was)
        elif isinstance(step, SpaceUndo):
            step.database.put_back(step.was)
        else:
            step.watcher.watch_broken = False


class Savepoint:
    """Begins when it is made, and ends by `keep` or `roll_back`. One at a time."""

    __slots__ = (
        "_dirty",
        "_intents_before",
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
        self._intents_before = len(keyspace.intents)
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
        """Commit the changes that are older than the savepoint, alone."""
        keyspace = self._keyspace
        own, own_intents = self._ops[self._ops_before :], keyspace.intents[self._intents_before :]
        del self._ops[self._ops_before :], keyspace.intents[self._intents_before :]
        commit()
        self._ops = keyspace.ops = own
        for intent in own_intents:
            intent.before -= self._ops_before
        keyspace.intents = own_intents
        self._ops_before = self._intents_before = self._recorded = self._open_runs = 0

    def keep(self) -> None:
        """The script has succeeded: announce its changes."""
        self._end()
        for tell in self._later:
            tell()

    def roll_back(self) -> None:
        """Undo all changes since the savepoint."""
        keyspace = self._keyspace
        self._end()
        if keyspace.ops is not self._ops:
            return  # the keyspace was read again from the file meanwhile
        undo(self._undo, keyspace)
        del self._ops[self._ops_before :]
        del keyspace.intents[self._intents_before :]
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
