"""Commands that wait: which clients wait for which keys, and what becomes of each, at most once.

First come, first served, per key. Memory only; a restart forgets. A client is served by running its
own argv again, in the batch of the command that made its key ready: there is no second code path
for a blocked pop.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import final

from holdfast.commands.context import Block, Result
from holdfast.commands.table import Command
from holdfast.errors import INTERNAL, CommandError, HalfDoneError
from holdfast.resp import Reply
from holdfast.server.core.admission import Admission
from holdfast.server.dispatch.invoke import Invoker
from holdfast.server.dispatch.lookup import Commands
from holdfast.server.features.channels import PubSub
from holdfast.server.features.tracking import Tracking
from holdfast.server.sessions.session import SUBSCRIBED, Session, Waiter
from holdfast.server.sessions.session_host import SessionHost
from holdfast.store.file.opening import FileError
from holdfast.store.memory.database import Database

TOO_MANY = CommandError("ERR too many blocked clients")

# The time until a waiter is looked at again that could not be served when its time came.
PUT_OFF_S = 0.1

Queue = OrderedDict[Waiter, None]  # in order of arrival, and O(1) to leave from anywhere


@final
class ChangeWatch:
    """Makes a key ready at each of its changes, for a waiter that needs more than that it exists.

    It stands among the sessions that watch the key (WATCH), which are told of every change. So a
    key that no such client waits for costs nothing more.
    """

    def __init__(self, database: Database, name: bytes) -> None:
        self._database = database
        self._name = name

    @property
    def watch_broken(self) -> bool:
        return False

    @watch_broken.setter
    def watch_broken(self, is_broken: bool) -> None:
        if is_broken:
            self._database.keyspace.ready.append((self._database, self._name))


@final
class Waiters:
    """All waiters, and their place in the queue of every key they wait for."""

    def __init__(self) -> None:
        self._all: OrderedDict[Waiter, None] = OrderedDict()
        self._watches: dict[Waiter, list[tuple[bytes, ChangeWatch]]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._all)

    def add(self, waiter: Waiter, max_per_key: int, max_total: int) -> None:
        """Queue up behind all others. Raises before anything is changed."""
        database = waiter.database
        queues = [queue_of(database, name) for name in waiter.names]
        if len(self._all) >= max_total or any(len(queue or ()) >= max_per_key for queue in queues):
            raise TOO_MANY
        for name, queue in zip(waiter.names, queues, strict=True):
            if queue is None:
                queue = database.awaited[name] = OrderedDict()
            queue[waiter] = None
        self._all[waiter] = None
        if waiter.block.at_each_change:
            self._watches[waiter] = [(name, ChangeWatch(database, name)) for name in waiter.names]
            for name, watch in self._watches[waiter]:
                database.watched.setdefault(name, set()).add(watch)

    def remove(self, waiter: Waiter) -> bool:
        """False when it was not waiting any more. The caller that removes a waiter answers it, so
        a waiter is answered once."""
        if waiter not in self._all:
            return False
        del self._all[waiter]
        if waiter.timer is not None:
            waiter.timer.cancel()
        if waiter.look_timer is not None:
            waiter.look_timer.cancel()
        for name in waiter.names:
            queue = queue_of(waiter.database, name)
            assert queue is not None
            del queue[waiter]
            if not queue:
                del waiter.database.awaited[name]
        for name, watch in self._watches.pop(waiter, ()):
            watchers = waiter.database.watched[name]
            watchers.discard(watch)
            if not watchers:
                del waiter.database.watched[name]
        return True


def queue_of(database: Database, name: bytes) -> Queue | None:
    return database.awaited.get(name)  # type: ignore[return-value]  # `add` puts nothing else there


@final
class Blocking:
    def __init__(
        self,
        host: SessionHost,
        commands: Commands,
        admission: Admission,
        invoker: Invoker,
        pubsub: PubSub,
        tracking: Tracking,
        take_back: Callable[[Exception], object],
    ) -> None:
        """`take_back`: memory goes back to what the file has, after this error."""
        self._host = host
        self._commands = commands
        self._admission = admission
        self._invoker = invoker
        self._pubsub = pubsub
        self._tracking = tracking
        self._take_back = take_back
        self.waiters = Waiters()

    def block(self, session: Session, command: Command, argv: list[bytes], block: Block) -> None:
        host = self._host
        waiter = Waiter(session, command, block.retry_argv or argv, block)
        self.waiters.add(
            waiter,
            host.config.blocking_max_waiters_per_key,
            host.config.blocking_max_total_waiters,
        )
        session.waiter = waiter
        if block.timeout_s:
            waiter.timer = host.clock.call_later(block.timeout_s, lambda: self._timed_out(waiter))
        if block.look_again_s is not None:
            self._look_again(waiter, block.look_again_s)

    def unblock(self, waiter: Waiter, result: Reply) -> bool:
        """Answer a waiter: served, timed out, or told so by CLIENT UNBLOCK. At most once."""
        if not self.waiters.remove(waiter):
            return False
        session = waiter.session
        session.waiter = None
        if session.modes & SUBSCRIBED:
            self._pubsub.flush()
        session.reply(result)
        self._host.outgoing.put_first(session)
        self._host.make_runnable(session)
        return True

    def forget(self, session: Session) -> None:
        """The client has left."""
        if session.waiter is not None:
            self.waiters.remove(session.waiter)
            session.waiter = None

    def _timed_out(self, waiter: Waiter) -> None:
        self._host.refresh_clock()
        self.unblock(waiter, waiter.block.on_timeout)

    # -- looking again ------------------------------------------------------------------------

    def _look_again(self, waiter: Waiter, after_s: float) -> None:
        """Run the waiter's command after that time, or earlier if that was agreed before."""
        clock = self._host.clock
        at_s = clock.monotonic_s() + after_s
        if waiter.look_timer is not None:
            if waiter.look_at_s <= at_s:
                return
            waiter.look_timer.cancel()
        waiter.look_at_s = at_s
        waiter.look_timer = clock.call_later(after_s, lambda: self._look(waiter))

    def _look(self, waiter: Waiter) -> None:
        """Time alone may have made something ready for this waiter, in any of its keys."""
        waiter.look_timer = None
        self._host.refresh_clock()
        is_served = self._admission.may_serve(waiter.session, waiter.command)
        is_loading = any(waiter.database.is_being_loaded(name) for name in waiter.names)
        if not is_served or is_loading or self._admission.is_paused:
            self._look_again(waiter, PUT_OFF_S)
            return
        waiter.woken_by = None
        try:
            result = self._try_again(waiter)
        except (FileError, HalfDoneError) as error:
            self._take_back(error)
            return
        if not isinstance(result, Block):
            self.unblock(waiter, result)
        elif result.look_again_s is not None:
            self._look_again(waiter, result.look_again_s)

    # -- serving ------------------------------------------------------------------------------

    def wake_all(self) -> None:
        """There may be something for clients that wait, which they could not be given before."""
        ready = self._host.keyspace.ready
        for waiter in self.waiters:
            ready += [(waiter.database, name) for name in waiter.names]
        self.serve_ready()

    def serve_ready(self) -> None:
        """Keys that came to hold something: waiters are served, each key in turn."""
        try:
            self._serve_ready()
        except (FileError, HalfDoneError) as error:
            self._take_back(error)  # clients that wait go on waiting

    def _serve_ready(self) -> None:
        ready = self._host.keyspace.ready
        names = deque(dict.fromkeys(ready))
        ready.clear()
        while names:
            database, name = names.popleft()
            for _ in range(self._host.config.blocking_wakeup_batch_size):
                if not self._serve_one(database, name):
                    break
            else:
                names.append((database, name))  # others first, then on
            names.extend(dict.fromkeys(ready))  # a served BLMOVE has pushed somewhere
            ready.clear()

    def _serve_one(self, database: Database, name: bytes) -> bool:
        """Serve the oldest waiter that can be served."""
        queue = queue_of(database, name)
        if queue is None:
            return False
        if database.is_being_loaded(name):
            return False  # it will be ready again
        key = database.find(name)
        value_type = None if key is None else type(key.value)
        in_vain: set[object] = set()
        for waiter in queue:
            block = waiter.block
            if block.rivals in in_vain:
                continue
            if not self._admission.may_serve(waiter.session, waiter.command):
                continue
            if block.value_type is value_type or block.even_if_gone:
                waiter.woken_by = name
                result = self._try_again(waiter)
                if not isinstance(result, Block):
                    is_served = self.unblock(waiter, result)
                    self._tracking.tell_late(waiter.session)
                    return is_served
                if result.look_again_s is not None:
                    self._look_again(waiter, result.look_again_s)
                if block.rivals is not None:
                    in_vain.add(block.rivals)
        return False

    def _try_again(self, waiter: Waiter) -> Result:
        session, command, argv = waiter.session, waiter.command, waiter.argv
        try:
            self._admission.admit_again(session, command, argv)
        except CommandError as error:
            return error.with_traceback(None)
        stats = self._commands.stats_of(command)
        self._host.running = session
        try:
            return self._invoker.answer(session, command, argv, stats, again=True)
        except HalfDoneError:
            self.unblock(waiter, INTERNAL)  # it would fail again, and again
            raise
        finally:
            self._host.running = None
