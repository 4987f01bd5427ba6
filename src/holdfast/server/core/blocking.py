"""Commands that wait: which clients wait for which keys, and the one answer that each of them gets.

For each key, the client that came first is served first. A client is served by running its own argv
again, in the batch of the command that made its key ready: there is no second code path for a
blocked pop. The queues are in memory only; a restart ends all waits.
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

# If a waiter cannot be served when its time comes, it is tried again after this time.
PUT_OFF_S = 0.1

Queue = OrderedDict[Waiter, None]  # in order of arrival; to leave takes O(1) at any place


@final
class ChangeWatch:
    """Makes a key ready at each of its changes, for a waiter for which it is not enough that the
    key exists.

    It is kept among the sessions that watch the key (WATCH), which get to know each change. So keys
    without such a waiter cost nothing more.
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
    """All waiters, and their places in the queues of the keys that they wait for."""

    def __init__(self) -> None:
        self._all: OrderedDict[Waiter, None] = OrderedDict()
        self._watches: dict[Waiter, list[tuple[bytes, ChangeWatch]]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._all)

    def add(self, waiter: Waiter, max_per_key: int, max_total: int) -> None:
        """Put a waiter at the end of the queue of each of its keys. Raises TOO_MANY, before
        anything is changed."""
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
        """Remove a waiter. Returns False if it no longer waits. The caller that removes a waiter
        answers it, so a waiter is answered once."""
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
    return database.awaited.get(name)  # type: ignore[return-value]  # only `add` puts values there


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
        """`take_back` loads memory from the file again, after an error."""
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
        """End a wait with its reply: that of the command, of the timeout, or of CLIENT UNBLOCK.
        Returns False if the client no longer waits."""
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
        """End the wait of a client that has left."""
        if session.waiter is not None:
            self.waiters.remove(session.waiter)
            session.waiter = None

    def _timed_out(self, waiter: Waiter) -> None:
        self._host.refresh_clock()
        self.unblock(waiter, waiter.block.on_timeout)

    # -- looking again ------------------------------------------------------------------------

    def _look_again(self, waiter: Waiter, after_s: float) -> None:
        """Run the waiter's command again after this time, or at an earlier time that was set
        before."""
        clock = self._host.clock
        at_s = clock.monotonic_s() + after_s
        if waiter.look_timer is not None:
            if waiter.look_at_s <= at_s:
                return
            waiter.look_timer.cancel()
        waiter.look_at_s = at_s
        waiter.look_timer = clock.call_later(after_s, lambda: self._look(waiter))

    def _look(self, waiter: Waiter) -> None:
        """Run the waiter's command again, because an entry may have become ready by the passing of
        time, in any of its keys."""
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
        """Try to serve all waiters, after a time in which none could be served."""
        ready = self._host.keyspace.ready
        for waiter in self.waiters:
            ready += [(waiter.database, name) for name in waiter.names]
        self.serve_ready()

    def serve_ready(self) -> None:
        """Serve the waiters of keys that have become ready, one key after the other."""
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
                names.append((database, name))  # the other keys first
            names.extend(dict.fromkeys(ready))  # such as the target of a BLMOVE that was served
            ready.clear()

    def _serve_one(self, database: Database, name: bytes) -> bool:
        """Serve the oldest waiter that can be served."""
        queue = queue_of(database, name)
        if queue is None:
            return False
        if database.is_being_loaded(name):
            return False  # it becomes ready again when it is loaded
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
            self.unblock(waiter, INTERNAL)  # otherwise it would fail at each attempt
            raise
        finally:
            self._host.running = None
