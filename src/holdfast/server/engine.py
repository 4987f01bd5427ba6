"""The engine: argv in, reply out. Looks commands up, admits them and runs them.

No sockets and no event loop: connections and embedded databases feed it, `Turn` ends its turns.
"""

import logging
import random
import ssl
from collections import Counter, deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from holdfast.clock import Clock, SystemClock
from holdfast.commands.context import Block, Limits, Result
from holdfast.commands.table import Command
from holdfast.errors import INTERNAL, CommandError, HalfDoneError, StorageError
from holdfast.resp import Reply
from holdfast.server import settings
from holdfast.server.admission import admit, queue, reject
from holdfast.server.config import Config
from holdfast.server.latency import FAST_NS, SHIFT, Spikes, Stats
from holdfast.server.lookup import Commands, wrong_arity
from holdfast.server.meter import Meter
from holdfast.server.monitors import Monitors
from holdfast.server.notifications import Notifications
from holdfast.server.pause import Pause
from holdfast.server.pubsub import PubSub
from holdfast.server.saving import Saving
from holdfast.server.scripts import Scripts
from holdfast.server.session import IN_MULTI, REPLIES_ON, RESTRICTED, TRACKING, Session
from holdfast.server.slowlog import SlowLog
from holdfast.server.tracking import Tracking
from holdfast.server.turn import Turn
from holdfast.server.users import Users
from holdfast.server.waiters import Waiters
from holdfast.server.waiting import Waiting
from holdfast.store.eviction import Deletion
from holdfast.store.file import FileError
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.replication.replicator import Replicator

log = logging.getLogger(__name__)

STALE_NS: Final = 5_000_000  # a command that took longer has made the cached time wrong
# A client runs commands for so long, then the next client has its share; a turn takes so long, then
# replies leave and sockets are read. Why: docs/decisions, "shares of a turn".
SHARE_NS: Final = 1_000_000
TURN_NS: Final = 2_000_000
FEW_COMMANDS: Final = 16  # which have not, and to ask the clock takes half as long as a command


class Engine:
    def __init__(
        self,
        store: Store,
        config: Config | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        stopwatch_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.store = store
        self.keyspace = store.keyspace
        self.config = config or Config()
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.limits: Limits = self.config
        self.users = Users(self)
        self.turn = Turn(store, self.config.appendfsync)
        self.turn.before_end = self._before_end
        self.turn.on_failure = self._storage_failed
        self.waiters = Waiters()
        self.waiting = Waiting(self)
        self.sessions: dict[int, Session] = {}
        self.monitors = Monitors(self.clock)
        self._monitoring = self.monitors.sessions
        self.pubsub = PubSub()
        self.tracking = Tracking(self)
        self.notifications = Notifications(self)
        self.running: Session | None = None  # if it is a gated one: who changes the keys
        self.failure: CommandError | None = None  # of the disk
        self.read_only: CommandError | None = None  # of an active-active server that is none yet
        self.refusal: CommandError | None = None  # why writes are refused: one of these
        self.last_storage_error = ""
        self.on_fatal: Callable[[StorageError], None] = lambda error: None
        self.on_shutdown: Callable[[bool], None] | None = None  # whether to fold before
        self.meter = Meter(self.clock)
        self.saving = Saving(store, self.turn, self.clock)
        self.slowlog = SlowLog(self.config.slowlog_max_len)
        self.fast_ns = self.slowlog_ns = 0  # see settings.py
        self.spikes = Spikes()
        self.tls: ssl.SSLContext | None = None  # of the listener, if there is one
        self.deletion: Deletion | None = None  # what keeps memory below maxmemory, likewise
        self.is_out_of_memory = False  # was, before the command that runs
        self.expires_actively = True  # DEBUG SET-ACTIVE-EXPIRE
        self.pause = Pause(self)
        self.scripts = Scripts(self)
        self.replicator: Replicator | None = None  # of an active-active server
        self._gated = False  # `admit` looks at every command, not only at gated sessions'
        self.runnable: deque[Session] = deque()  # with commands to run, the next one first
        self._is_running = False
        self._session_ids = 0
        self.now_s = self.clock.monotonic_s()  # as of the last tick: good enough for idleness
        self.error_stats: Counter[bytes] = Counter()
        self.commands = Commands(self.config)
        self._spellings = self.commands.spellings
        self._last_name, self._last_found = self.commands.any()  # most say the same again
        self._now_ns = stopwatch_ns  # compiled code is at an attribute sooner than at a global
        self.refresh_clock()
        settings.follow(self)

    # -- commands coming in -------------------------------------------------------------------

    def refresh_clock(self) -> None:
        now_ms = self.clock.now_ms()
        self.keyspace.now_ms = now_ms
        self.keyspace.now_s = now_ms // 1000

    def make_runnable(self, session: Session) -> None:
        """Its commands run at the end of the turn, after those of sessions that came before."""
        if not session.is_runnable:
            session.is_runnable = True
            self.runnable.append(session)
            self.turn.schedule()

    def run_some(self) -> bool:
        """Run commands of all sessions, a share of each in turn, for as long as a turn may take.
        Returns whether some are left."""
        runnable = self.runnable
        if self._is_running or not runnable:
            return False
        self._is_running = True
        try:
            self.refresh_clock()
            until_ns = self._now_ns() + TURN_NS
            while runnable:
                session = runnable.popleft()
                session.is_runnable = False
                try:
                    if session.proceed():
                        self.make_runnable(session)
                except Exception as error:  # a bug must not take the server down
                    log.error("a client is cut off", exc_info=error)
                    session.abort()
                if runnable and self._now_ns() >= until_ns:
                    return True
        finally:
            self._is_running = False
        return False

    def receive(self, session: Session, argvs: list[list[bytes]]) -> None:
        """Run commands in order, for as long as the share of a session. The rest is kept, and so
        are commands behind one that waits."""
        turn = self.turn
        if len(argvs) > FEW_COMMANDS or not turn.is_scheduled:
            if self.scripts.running is None:  # else time stands still, as in Redis
                self.refresh_clock()
            turn.schedule()
        if session.backlog or session.is_waiting:
            session.backlog.extend(argvs)
            return
        now_ns = self._now_ns()
        until_ns = now_ns + SHARE_NS
        for number, argv in enumerate(argvs):
            now_ns = self.execute(session, argv, now_ns) or self._now_ns()
            if session.waiter is not None or session.parked:
                session.backlog.extend(argvs[number + 1 :])
                return
            if session.closing:
                return
            if now_ns >= until_ns and number + 1 < len(argvs):
                session.backlog.extend(argvs[number + 1 :])
                self.make_runnable(session)
                return

    def work_off(self, session: Session) -> None:
        """Run commands that were kept, for as long as the share of a session."""
        backlog = session.backlog
        now_ns = self._now_ns()
        until_ns = now_ns + SHARE_NS
        while backlog and now_ns < until_ns and not (session.is_waiting or session.closing):
            now_ns = self.execute(session, backlog.popleft(), now_ns) or self._now_ns()

    def execute(self, session: Session, argv: list[bytes], now_ns: int = 0) -> int:
        """Run a command and answer it. `now_ns` is what the one before has returned: to ask the
        clock once for each, not twice, is a twentieth of a pipelined GET. 0 means ask it."""
        started_ns = now_ns or self._now_ns()
        name = argv[0]
        if name == self._last_name:  # a tenth of the time of looking it up
            found = self._last_found
        elif (spelled := self._spellings.get(name)) is not None:
            found = self._last_found = spelled
            self._last_name = name
        else:
            try:
                found = self.commands.find(argv)
            except CommandError as error:
                reject(self, session, error.with_traceback(None), None, argv)
                return 0
        command, stats = found
        session.last_command = command.name
        if not command.min_args <= len(argv) <= command.max_args:
            stats.rejected += 1
            reject(self, session, wrong_arity(command), command, argv)
            return 0
        is_gated = session.gate or self._gated
        if is_gated:
            if session.gate == IN_MULTI and not self._gated and command.is_allowed_in_multi:
                if command.is_queued:
                    queue(session, command, argv)
                    return started_ns  # that took no time of its own
                self.running = session  # nothing else to admit
            else:
                try:
                    if not admit(self, session, command, argv):
                        return 0
                except CommandError as error:
                    stats.rejected += 1
                    reject(self, session, error.with_traceback(None), command, argv)
                    return 0
        changes_before = self.keyspace.changes
        result: Reply | Block
        try:
            result = command.handler(session, argv)
            if type(result) is Block:
                self.waiting.block(session, command, argv, result)
        except CommandError as error:
            result = error.with_traceback(None)  # see CommandError
            stats.failed += 1
            if not error.is_counted:
                self.error_stats[error.counted_as] += 1
        except Exception as error:  # noqa: BLE001 - a bug must not take the server down
            result = self._broke(command, error, changes_before)
            stats.failed += 1
        if type(result) is not Block:
            if session.reply_mode == REPLIES_ON:
                session.send(result)
            else:
                session.reply(result)
        now_ns = self._now_ns()
        elapsed_ns = now_ns - started_ns
        stats.ns += elapsed_ns
        if elapsed_ns < self.fast_ns:
            stats.fast[elapsed_ns >> SHIFT] += 1
        else:
            self._was_slow(session, command, argv, stats, elapsed_ns)
        if is_gated:
            self._ran(session, command, argv)
        if self._monitoring:
            self.monitors.feed(session, command, argv)
        if self.keyspace.ready:
            self.waiting.serve_ready()
            return 0
        return now_ns

    def _ran(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """A gated session's command is answered."""
        self.running = None
        if session.gate & TRACKING:
            self.tracking.remember(session, command, argv)
            self.tracking.said(session, command)
        self.tracking.tell_late(session)

    def call(self, session: Session, command: Command, argv: list[bytes]) -> Reply:
        """Run a command inside another one (EXEC, a script): no admission, no waiting."""
        if session.gate & RESTRICTED:
            try:
                self.users.check_in_exec(session, command, argv)
            except CommandError as error:
                self.error_stats[error.counted_as] += 1
                return error.with_traceback(None)
        result = self.run(session, command, argv)
        if session.gate & TRACKING:
            self.tracking.remember(session, command, argv)
        if self._monitoring:
            self.monitors.feed(session, command, argv)
        return result.when_denied if isinstance(result, Block) else result

    def run(
        self, session: Session, command: Command, argv: list[bytes], *, again: bool = False
    ) -> Result:
        """What `execute` does inline: whatever the handler raises is its reply. But what has to be
        taken back concerns all of EXEC, not one command in it."""
        stats = self.commands.stats_of(command)
        changes_before = self.keyspace.changes
        started_ns = self._now_ns()
        try:
            return command.handler(session, argv)
        except CommandError as error:
            if not error.is_counted:
                self.error_stats[error.counted_as] += 1
            stats.failed += 1
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - a bug must not take the server down
            stats.failed += 1
            return self._internal(command, error, changes_before)
        finally:
            elapsed_ns = self._now_ns() - started_ns
            if again:
                stats.ns += elapsed_ns
            else:
                stats.record(elapsed_ns)
            if elapsed_ns >= self.slowlog_ns:
                self._log_slow(session, command, argv, elapsed_ns)

    def _broke(self, command: Command, error: Exception, changes_before: int) -> CommandError:
        """A handler could not read the file, or has a bug."""
        try:
            return self._internal(command, error, changes_before)
        except (FileError, HalfDoneError) as serious:
            return self.take_back(serious)

    def _internal(self, command: Command, error: Exception, changes_before: int) -> CommandError:
        """The reply to a command with a bug, unless there is something to take back: then this
        raises. (Of a store in memory only, nothing can be.)"""
        if isinstance(error, (FileError, HalfDoneError)):
            raise error
        log.error("%s failed", command.name, exc_info=error)
        if self.keyspace.changes > changes_before and self.store.is_durable:
            raise HalfDoneError(f"{command.name} failed half way, see the log") from error
        return INTERNAL

    def take_back(self, error: Exception) -> CommandError:
        """Somebody may have changed half of what he meant to: back to what the file has."""
        is_bug = isinstance(error, HalfDoneError)
        self.turn.fail(StorageError(str(error) if is_bug else f"cannot read the tables: {error}"))
        assert self.failure is not None
        return self.failure

    def _was_slow(
        self, session: Session, command: Command, argv: list[bytes], stats: Stats, elapsed_ns: int
    ) -> None:
        """Or not so quick: these are few, and somebody may want to hear of them."""
        if elapsed_ns < FAST_NS:
            stats.fast[elapsed_ns >> SHIFT] += 1
        else:
            stats.record_slow(elapsed_ns)
        if elapsed_ns >= STALE_NS and self.scripts.running is None:
            self.refresh_clock()  # so much time has passed that the rest of the turn must know
        if elapsed_ns >= self.slowlog_ns:
            self._log_slow(session, command, argv, elapsed_ns)
        event = b"fast-command" if "fast" in command.flags else b"command"
        self.spikes.add(event, self.keyspace.now_s, elapsed_ns // 1_000_000)

    def _log_slow(
        self, session: Session, command: Command, argv: list[bytes], elapsed_ns: int
    ) -> None:
        if "skip_slowlog" not in command.flags:
            now_s, took_us = self.keyspace.now_s, elapsed_ns // 1000
            self.slowlog.add(command.name, argv, now_s, took_us, session.address, session.name)

    # -- going on ----------------------------------------------------------------------------

    def check_permission(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """For what a script calls in the name of `session`, its caller. Raises CommandError."""
        if not session.user.is_unrestricted:
            self.users.check_in_script(session, command, argv)

    def _before_end(self) -> bool:
        """Run what fits into the turn. Returns whether commands are left for the next one."""
        self.run_some()
        if self.pubsub.topic is not None:
            self.pubsub.flush()
        if self.tracking.has_news:
            self.tracking.broadcast()
        if self.replicator is not None:
            try:
                self.replicator.before_commit()
            except Exception as error:  # what peers are not told may not be answered either
                log.error("what was done cannot be told to peers", exc_info=error)
                self.turn.fail(StorageError(f"cannot tell peers: {error}"))
        return bool(self.runnable)

    def reset_stats(self) -> None:
        """CONFIG RESETSTAT."""
        self.commands.reset_stats()
        self.error_stats.clear()
        self.meter.reset()
        keyspace = self.keyspace
        keyspace.hits = keyspace.misses = keyspace.expired = 0
        keyspace.evicted = keyspace.forgotten = 0

    # -- sessions -----------------------------------------------------------------------------

    def next_session_id(self) -> int:
        self._session_ids += 1
        return self._session_ids

    def connected(self, session: Session) -> None:
        self.sessions[session.id] = session
        self.users.welcome(session)

    def disconnected(self, session: Session, why: str = "cut off here") -> None:
        """The client is gone: it waits for nothing and watches nothing any more."""
        if self.sessions.pop(session.id, None) is None:
            return
        if self.replicator is not None:
            self.replicator.followers.lost(session, why)
        self.monitors.remove(session)
        self.pubsub.forget(session)
        self.tracking.forget(session)
        self.pause.forget(session)
        session.closing = True
        session.backlog.clear()
        if session.waiter is not None:
            self.waiters.remove(session.waiter)
            session.waiter = None
        session.reset_transaction()

    # -- being held up ------------------------------------------------------------------------

    def update_gate(self) -> None:
        self.refusal = self.failure or self.read_only
        self._gated = (
            self.refusal is not None
            or self.deletion is not None
            or self.pause.is_on
            or self.scripts.is_busy
        )

    def _storage_failed(self, error: StorageError, is_fatal: bool) -> tuple[CommandError, bool]:
        """Nothing that is not on disk may be seen or built upon: memory goes back to the file.

        After a failed sync nobody knows what the disk has, so there is no going on (and never a
        second try: the kernel may have dropped the pages and would report success). Nor is there
        when the file cannot be read.
        """
        log.critical("%s", error)
        self.pubsub.drop()
        self.last_storage_error = str(error)
        self.failure = CommandError(f"MISCONF Errors writing to the database file: {error}")
        self.turn.refuses_writes = True
        self.update_gate()
        if not is_fatal:
            try:
                self.store.reload()
            except StorageError as also:
                log.critical("%s", also)
                is_fatal = True
        if is_fatal:
            self.store.is_broken = True
            self.on_fatal(error)
        return self.failure, is_fatal

    def take_back_half(self, error: HalfDoneError) -> None:
        """Of what a peer sent something failed half way. Nothing of it stays; what came before it,
        from clients and peers, does. (Of a store in memory only, nothing can be taken back.)"""
        log.error("%s", error, exc_info=error.__cause__)
        try:
            self.turn.commit_early()
        except StorageError:
            return  # memory is what the file has, already
        self.reload()
        self._wake_all()

    def reload(self) -> None:
        """DEBUG RELOAD: as after a restart, but for the clients."""
        try:
            self.store.reload()
        except StorageError as error:
            self.turn.fail(error, is_fatal=True)

    def storage_recovered(self) -> None:
        log.warning("writing to the database file works again")
        self.failure = None
        self.turn.refuses_writes = False
        self.update_gate()
        self._wake_all()  # pops that never happened may have left lists that somebody waits for

    def _wake_all(self) -> None:
        for waiter in self.waiters:
            self.keyspace.ready += [(waiter.database, name) for name in waiter.names]
        self.waiting.serve_ready()
