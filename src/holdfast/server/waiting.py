"""What becomes of a command that waits: it begins to, it is served, its time is up. At most once.

Who waits for what is in waiters.py. Serving is running the waiter's own argv again, in the batch
of whoever made its key ready.
"""

from collections import deque
from typing import TYPE_CHECKING

from holdfast.commands.context import Block, Result
from holdfast.commands.table import Command
from holdfast.errors import INTERNAL, CommandError, HalfDoneError
from holdfast.resp import Reply
from holdfast.server.session import RESTRICTED, SUBSCRIBED, Session
from holdfast.server.waiters import Waiter, Waiters
from holdfast.store.database import Database
from holdfast.store.file import FileError

if TYPE_CHECKING:
    from holdfast.server.engine import Engine


class Waiting:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._waiters = engine.waiters

    def block(self, session: Session, command: Command, argv: list[bytes], block: Block) -> None:
        engine = self._engine
        waiter = Waiter(session, command, block.retry_argv or argv, block)
        self._waiters.add(
            waiter,
            engine.config.blocking_max_waiters_per_key,
            engine.config.blocking_max_total_waiters,
        )
        session.waiter = waiter
        if block.timeout_s:
            waiter.timer = engine.clock.call_later(block.timeout_s, lambda: self._timed_out(waiter))

    def unblock(self, waiter: Waiter, result: Reply) -> bool:
        """Answer a waiter: served, timed out, or told so by CLIENT UNBLOCK. At most once."""
        if not self._waiters.remove(waiter):
            return False
        session = waiter.session
        session.waiter = None
        if session.gate & SUBSCRIBED:
            self._engine.pubsub.flush()
        session.reply(result)
        self._engine.turn.put_first(session)
        self._engine.make_runnable(session)
        return True

    def _timed_out(self, waiter: Waiter) -> None:
        self._engine.refresh_clock()
        self.unblock(waiter, waiter.block.on_timeout)

    def serve_ready(self) -> None:
        """Names that came to hold something: waiters are served, each name in turn."""
        try:
            self._serve_ready()
        except (FileError, HalfDoneError) as error:
            self._engine.take_back(error)  # whoever waits goes on waiting

    def _serve_ready(self) -> None:
        ready = self._engine.keyspace.ready
        names = deque(dict.fromkeys(ready))
        ready.clear()
        while names:
            database, name = names.popleft()
            for _ in range(self._engine.config.blocking_wakeup_batch_size):
                if not self._serve_one(database, name):
                    break
            else:
                names.append((database, name))  # others first, then on
            names.extend(dict.fromkeys(ready))  # a served BLMOVE has pushed somewhere
            ready.clear()

    def _serve_one(self, database: Database, name: bytes) -> bool:
        """The oldest waiter that can be served is, by running its own argv again."""
        queue = Waiters.queue(database, name)
        if queue is None:
            return False
        key = database.find(name)
        value_type = None if key is None else type(key.value)
        in_vain: set[bytes] = set()
        for waiter in queue:
            block = waiter.block
            if block.rivals in in_vain:
                continue
            if block.value_type is value_type or block.even_if_gone:
                waiter.woken_by = name
                result = self._run_again(waiter)
                if not isinstance(result, Block):
                    return self.unblock(waiter, result)
                if block.rivals is not None:
                    in_vain.add(block.rivals)
        return False

    def _run_again(self, waiter: Waiter) -> Result:
        session, command, argv = waiter.session, waiter.command, waiter.argv
        if session.gate & RESTRICTED:  # and rules may have changed since it began to wait
            try:
                self._engine.users.check(session, command, argv)
            except CommandError as error:
                return error.with_traceback(None)
        try:
            return self._engine.run(session, command, argv, again=True)
        except HalfDoneError:
            self.unblock(waiter, INTERNAL)  # it would fail again, and again
            raise
