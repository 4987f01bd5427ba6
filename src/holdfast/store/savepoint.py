"""All or nothing: while a script runs, every change can be taken back.

Values report their steps back to `keyspace.undo`; what the world would hear of (waiters,
notifications, watchers, messages) is kept until it is certain that it happened.
"""

from collections.abc import Callable
from functools import partial

from holdfast.store.database import Database
from holdfast.store.keyspace import Keyspace


class Savepoint:
    """Begins when it is made, and ends by `keep` or `roll_back`. One at a time."""

    __slots__ = ("_dirty", "_keyspace", "_later", "_notify", "_on_flush", "_ops", "_ready", "_undo")

    def __init__(self, keyspace: Keyspace) -> None:
        assert keyspace.undo is None
        self._keyspace = keyspace
        self._ops = keyspace.ops
        self._undo = keyspace.undo = []
        self._later = keyspace.later = []
        self._ready, self._dirty = len(keyspace.ready), keyspace.dirty
        self._notify, self._on_flush = keyspace.notify, keyspace.on_flush
        # The number of operations there were is the first step back, so that it is the last.
        self._undo.append((_truncate, self._ops, len(self._ops)))
        if keyspace.notify_kinds:  # scripts cannot change it
            keyspace.notify = self._defer_notification
        keyspace.on_flush = self._defer_flush

    @property
    def has_written(self) -> bool:
        return len(self._undo) > 1

    def let_earlier_go(self, commit: Callable[[], None]) -> None:
        """Commit what was there before, alone."""
        keyspace = self._keyspace
        own = self._ops[self._undo[0][2] :]
        del self._ops[self._undo[0][2] :]
        commit()
        self._ops = keyspace.ops = own
        self._undo[0] = (_truncate, own, 0)

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
        for step_back, subject, was in reversed(self._undo):
            step_back(subject, was)
        del keyspace.ready[self._ready :]
        keyspace.dirty = self._dirty

    def _end(self) -> None:
        keyspace = self._keyspace
        keyspace.undo = keyspace.later = None
        keyspace.notify, keyspace.on_flush = self._notify, self._on_flush

    def _defer_flush(self) -> None:
        self._later.append(self._on_flush)

    def _defer_notification(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        self._later.append(partial(self._notify, database, name, event, kind))


def _truncate(items: list[object], length: int) -> None:
    del items[length:]
