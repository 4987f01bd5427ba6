"""Who waits for which key: first come, first served, per key. Memory only; a restart forgets.

A waiter holds the argv it blocked with. Waking it runs that argv again, so there is no second
code path for a blocked pop.
"""

from collections import OrderedDict
from collections.abc import Iterator

from holdfast.clock import Timer
from holdfast.commands.context import Block
from holdfast.commands.table import Command
from holdfast.errors import CommandError
from holdfast.server.session import Session
from holdfast.store.database import Database

TOO_MANY = CommandError("ERR too many blocked clients")


class Waiter:
    __slots__ = ("argv", "block", "command", "database", "names", "session", "timer", "woken_by")

    def __init__(self, session: Session, command: Command, argv: list[bytes], block: Block) -> None:
        self.session = session
        self.command = command
        self.argv = argv
        self.block = block
        self.database = session.db
        self.names = tuple(dict.fromkeys(block.keys))
        self.timer: Timer | None = None
        self.woken_by: bytes | None = None


Queue = OrderedDict[Waiter, None]  # in order of arrival, and O(1) to leave from anywhere


class Waiters:
    """All waiters, and their place in the queue of every key they wait for."""

    def __init__(self) -> None:
        self._all: OrderedDict[Waiter, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._all)

    def add(self, waiter: Waiter, max_per_key: int, max_total: int) -> None:
        """Queue up behind everybody else. Raises before anything is changed."""
        database = waiter.database
        queues = [self.queue(database, name) for name in waiter.names]
        if len(self._all) >= max_total or any(len(queue or ()) >= max_per_key for queue in queues):
            raise TOO_MANY
        for name, queue in zip(waiter.names, queues, strict=True):
            if queue is None:
                queue = database.awaited[name] = OrderedDict()
            queue[waiter] = None
        self._all[waiter] = None

    def remove(self, waiter: Waiter) -> bool:
        """False when it was not waiting any more: whoever removes it completes it, once."""
        if waiter not in self._all:
            return False
        del self._all[waiter]
        if waiter.timer is not None:
            waiter.timer.cancel()
        for name in waiter.names:
            queue = self.queue(waiter.database, name)
            assert queue is not None
            del queue[waiter]
            if not queue:
                del waiter.database.awaited[name]
        return True

    @staticmethod
    def queue(database: Database, name: bytes) -> Queue | None:
        return database.awaited.get(name)  # type: ignore[return-value]  # `add` puts nothing else there
