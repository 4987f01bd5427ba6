"""The engine: argv in, reply out. It looks commands up, admits them and runs them.

It has no sockets and no event loop: connections and embedded databases pass commands to it, and
`Turn` ends its turns. It is one class because every command passes through it, and compiled code
finds the attributes of one object at fixed places.
"""

import logging
import random
import ssl
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from holdfast.clock import Clock, SystemClock
from holdfast.commands.context import Block
from holdfast.commands.table import Command
from holdfast.errors import CommandError, HalfDoneError, StorageError
from holdfast.log_lines import VERBOSE
from holdfast.resp import Reply
from holdfast.server.config.config import Config
from holdfast.server.core import live_settings
from holdfast.server.core.admission import Admission, queue
from holdfast.server.core.blocking import Blocking
from holdfast.server.core.loading import Loading
from holdfast.server.core.saving import Saving
from holdfast.server.core.short_requests import ShortRequests
from holdfast.server.core.shutdown import Shutdown
from holdfast.server.core.turn import Turn
from holdfast.server.core.users import Users
from holdfast.server.dispatch.invoke import Invoker, Observer
from holdfast.server.dispatch.lookup import Commands, wrong_arity
from holdfast.server.features.channels import PubSub
from holdfast.server.features.command_sizes import CommandSizes
from holdfast.server.features.condition import Condition
from holdfast.server.features.following import Following
from holdfast.server.features.hotkeys import HotKeys
from holdfast.server.features.latency import FAST_NS, SHIFT, Spikes, Stats
from holdfast.server.features.meter import Meter
from holdfast.server.features.monitors import Monitors
from holdfast.server.features.notifications import Notifications
from holdfast.server.features.pause import Pause
from holdfast.server.features.peers import Peers
from holdfast.server.features.slowlog import SlowLog
from holdfast.server.features.tracking import Tracking
from holdfast.server.primary.effect_log import EffectLog
from holdfast.server.primary.primary import Primary
from holdfast.server.scripts.scripts import Scripts
from holdfast.server.sessions.session import (
    IN_MULTI,
    IS_LOADED,
    REPLIES_ON,
    TRACKING,
    Session,
    Waiter,
)
from holdfast.server.sessions.session_host import SessionHost
from holdfast.store.file.opening import FileError
from holdfast.store.memory.keyspace import NEVER
from holdfast.store.memory.loads import NotLoadedError
from holdfast.store.store import Store

log = logging.getLogger(__name__)

STALE_NS: Final = 5_000_000  # after a longer command, the cached time is too old
# A client runs commands for SHARE_NS, then the next client has its share. After TURN_NS a turn
# ends: replies leave and sockets are read. But in a round each client has one share, and a turn
# does not end within a round before ROUND_NS. Decision 17 has the reasons.
SHARE_NS: Final = 1_000_000
TURN_NS: Final = 2_000_000
ROUND_NS: Final = 10_000_000
# So few commands take too little time to make the cached time wrong. (To read the clock takes half
# as long as a command.)
FEW_COMMANDS: Final = 16
# While a client with a short request waits, a turn ends after this time. So often it is asked
# whether one does; and after this time a turn counts as long.
LOOK_NS: Final = 250_000


class Engine(SessionHost):
    def __init__(
        self,
        store: Store,
        config: Config | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        stopwatch_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        config = config or Config()
        clock = clock or SystemClock()
        super().__init__(store.keyspace, config, clock, rng or random.Random())
        self.store = store
        self.turn = Turn(store, self.outgoing, config.appendfsync)
        self.turn.run_commands = self._run_commands
        self.turn.on_failure = self._storage_failed
        self.turn.is_awaited = self.is_awaited
        self.short_requests = ShortRequests()
        self.had_long_turn = False  # since the last tick
        self.cuts = 0  # turns that ended early because of short requests
        self._ran_short_alone = False  # the last turn
        self.saving = Saving(store, self.turn, clock)
        # For INFO and similar commands.
        self.meter = Meter(clock)
        self.slowlog = SlowLog(config.slowlog_max_len)
        self.large_requests = SlowLog(config.commandlog_large_request_max_len)
        self.large_replies = SlowLog(config.commandlog_large_reply_max_len)
        self.command_sizes = CommandSizes(self.large_requests, self.large_replies)
        self.hotkeys: HotKeys | None = None
        self.spikes = Spikes()
        self.last_storage_error = ""
        # Output to clients that is no reply to a command.
        self.pubsub = PubSub(self)
        self.monitors = Monitors(clock, self.pubsub)
        self.monitoring = self.monitors.sessions
        self.tracking = Tracking(self, self.pubsub)
        self.notifications = Notifications(self, self.pubsub, self.tracking)
        # From an argv to its reply.
        self.condition = Condition()
        self.commands = Commands(config)
        self.users = Users(self, self.pubsub, self.tracking)
        self.default_user = self.users.default
        self.invoker = Invoker(self.keyspace, store.is_durable, self.slowlog, stopwatch_ns)
        self.scripts = Scripts(
            self, self.condition, self.commands, self.invoker, self.tracking, self.monitors
        )
        self.pause = Pause(self, self.condition, self.scripts.declared_to_write)
        self.admission = Admission(
            self,
            self.condition,
            self.users,
            self.scripts,
            self.pause,
            self.pubsub,
            self.tracking,
            self.monitors,
            self.invoker,
        )
        self.blocking = Blocking(
            self,
            self.commands,
            self.admission,
            self.invoker,
            self.pubsub,
            self.tracking,
            self.take_back,
        )
        self.loading = Loading(self, self.blocking, self.take_back, stopwatch_ns)
        self.primary = Primary(self, store, self._have_effects, self._have_replicas)
        self.following: Following | None = None  # from the first REPLICAOF on
        # Set by the process around the engine.
        self.open_following: Callable[[], Following] | None = None
        self._peers: Peers | None = None
        self.tls: ssl.SSLContext | None = None  # of the listener, if there is one
        self.on_fatal: Callable[[StorageError], None] = lambda error: None
        self.shutdown: Shutdown | None = None
        self.change_port: Callable[[], None] = live_settings.needs_a_restart
        self.is_stopping = False
        self.expires_actively = True  # DEBUG SET-ACTIVE-EXPIRE
        self.runs_cron = True  # DEBUG PAUSE-CRON
        self.fast_ns = 0  # see live_settings.py
        self._is_running = False
        self._spellings = self.commands.spellings
        self._last_name, self._last_found = self.commands.any()  # often the next name is the same
        self._now_ns = stopwatch_ns  # compiled code reads an attribute faster than a global
        self.refresh_clock()
        live_settings.follow(self)

    # -- commands coming in -------------------------------------------------------------------

    def run_some(self) -> bool:
        """Run commands of all sessions, one share after the other, for as long as a turn may take.
        Returns whether commands are left."""
        runnable = self.runnable
        if self._is_running or not runnable:
            return False
        self._is_running = True
        try:
            self.refresh_clock()
            began_ns = self._now_ns()
            left_of_round = len(runnable)
            left_of_first, self.run_first = self.run_first, 0
            may_run_short_alone, self._ran_short_alone = not self._ran_short_alone, False
            look_at_ns = LOOK_NS
            only_first = self.turn.is_paused
            while runnable:
                if only_first and left_of_first <= 0:
                    self.turn.is_cut = True
                    return True
                session = runnable.popleft()
                session.is_runnable = False
                left_of_round -= 1
                left_of_first -= 1
                try:
                    if session.proceed():
                        self.make_runnable(session)
                except Exception as error:  # a bug must not take the server down
                    log.error("a client is cut off", exc_info=error)
                    session.abort()
                if runnable:
                    elapsed_ns = self._now_ns() - began_ns
                    if left_of_first == 0 and may_run_short_alone:
                        self._ran_short_alone = self.turn.is_cut = True
                        self.cuts += 1
                        return True  # replies to short requests leave before the others run
                    if elapsed_ns >= look_at_ns and left_of_first < 0:
                        self.had_long_turn = True
                        if self.has_long_turns and self.is_awaited():
                            self.turn.is_cut = True
                            self.cuts += 1
                            return True
                        look_at_ns = elapsed_ns + LOOK_NS
                    if elapsed_ns >= (ROUND_NS if left_of_round > 0 else TURN_NS):
                        return True
        finally:
            self._is_running = False
        return False

    def is_awaited(self) -> bool:
        """Whether a client with a short request waits for the end of the turn."""
        return self.run_first > 0 or self.short_requests.is_ready()

    def receive(self, session: Session, argvs: list[list[bytes]]) -> None:
        """Run commands in order, until the share of the session is used up or a command waits. The
        other commands are kept."""
        if len(argvs) > FEW_COMMANDS or not self.outgoing.is_scheduled:
            if self.scripts.running is None:  # as in Redis, time stands still during a script
                self.refresh_clock()
            self.turn.schedule()
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
        backlog = session.backlog
        now_ns = self._now_ns()
        until_ns = now_ns + SHARE_NS
        while backlog and now_ns < until_ns and not (session.is_waiting or session.closing):
            now_ns = self.execute(session, backlog.popleft(), now_ns) or self._now_ns()
            if session.load_state == IS_LOADED and not session.parked:
                self.loading.ran(session)

    def execute(self, session: Session, argv: list[bytes], now_ns: int = 0) -> int:
        """Run a command, send its reply, and return the time. `now_ns` is the time that the call
        for the command before returned; 0: read the clock. To read the clock once for each command
        and not twice saves a twentieth of a pipelined GET."""
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
                self.admission.reject(session, error.with_traceback(None), None, argv)
                return 0
        command, stats = found
        session.last_command = command.name
        if not command.min_args <= len(argv) <= command.max_args:
            stats.rejected += 1
            self.admission.reject(session, wrong_arity(command), command, argv)
            return 0
        is_special = session.modes or self.condition.is_unusual
        if is_special:
            if (
                session.modes == IN_MULTI
                and not self.condition.is_unusual
                and command.is_allowed_in_multi
            ):
                if command.is_queued:
                    queue(session, command, argv)
                    return started_ns  # to queue a command takes almost no time
                self.running = session  # nothing else to admit
            else:
                try:
                    if not self.admission.admit(session, command, argv):
                        return 0
                except CommandError as error:
                    stats.rejected += 1
                    self.admission.reject(session, error.with_traceback(None), command, argv)
                    return 0
        keyspace = self.keyspace
        keyspace.may_wait_at = changes_before = keyspace.changes
        result: Reply | Block
        while True:
            try:
                result = self.invoker.invoke(session, command, argv, stats)
                if type(result) is Block:
                    self.blocking.block(session, command, argv, result)
            except NotLoadedError as error:
                keyspace.may_wait_at = NEVER
                if not self.loading.hold(session, command, argv, error.loads):
                    continue
                self.running = None
                return 0
            except CommandError as error:  # too many clients wait already
                result = error.with_traceback(None)
                self.invoker.count_failure(stats, error)
            except Exception as error:  # noqa: BLE001 - a bug must not take the server down
                result = self._broke(command, error, changes_before)
            break
        keyspace.may_wait_at = NEVER
        if type(result) is not Block:
            if session.reply_mode == REPLIES_ON:
                session.send(result)
            else:
                session.reply(result)
        now_ns = self._now_ns()
        elapsed_ns = now_ns - started_ns
        stats.ns += elapsed_ns
        if elapsed_ns < self.fast_ns:
            fast, slot = stats.fast, elapsed_ns >> SHIFT
            fast[slot] = fast[slot] + 1  # with += compiled code adds objects
        else:
            self._was_slow(session, command, argv, stats, elapsed_ns)
        if is_special:
            self._ran(session, command, argv)
        if self.monitoring:
            self.monitors.feed(session, command, argv)
        if keyspace.ready:
            self.blocking.serve_ready()
            return 0
        return now_ns

    def _ran(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """The end of a command that `Admission` has admitted."""
        self.running = None
        if session.modes & TRACKING:
            self.tracking.remember(session, command, argv)
            self.tracking.command_ended(session, command)
        self.tracking.tell_late(session)

    def call_in_exec(self, session: Session, command: Command, argv: list[bytes]) -> Reply:
        """Run a command of a transaction. It does not wait."""
        try:
            self.admission.admit_in_exec(session, command, argv)
        except CommandError as error:
            self.invoker.error_stats[error.counted_as] += 1
            return error.with_traceback(None)
        stats = self.commands.stats_of(command)
        result = self.invoker.answer(session, command, argv, stats)
        if session.modes & TRACKING:
            self.tracking.remember(session, command, argv)
        if self.monitoring:
            self.monitors.feed(session, command, argv)
        return result.when_denied if isinstance(result, Block) else result

    def _broke(self, command: Command, error: Exception, changes_before: int) -> CommandError:
        """A handler could not read the file, or has a bug."""
        try:
            return self.invoker.reply_to_bug(command, error, changes_before)
        except (FileError, HalfDoneError) as serious:
            return self.take_back(serious)

    def take_back(self, error: Exception) -> CommandError:
        """A command may have done half of its work: load memory from the file again."""
        is_bug = isinstance(error, HalfDoneError)
        self.turn.fail(StorageError(str(error) if is_bug else f"cannot read the tables: {error}"))
        assert self.condition.failure is not None
        return self.condition.failure

    def observe(self, observer: Observer) -> None:
        """Show each command that has run to the observer. While there are observers, commands take
        about a microsecond longer."""
        if observer not in self.invoker.observers:
            self.invoker.observers.append(observer)
        self.set_slowness()

    def observe_no_more(self, observer: Observer) -> None:
        if observer in self.invoker.observers:
            self.invoker.observers.remove(observer)
        self.set_slowness()

    def set_slowness(self) -> None:
        """Set the duration from which on `_was_slow` looks at a command that has run."""
        invoker = self.invoker
        invoker.slowlog_ns = 0 if invoker.observers else invoker.slow_ns
        self.fast_ns = min(invoker.slowlog_ns, FAST_NS)

    def _was_slow(
        self, session: Session, command: Command, argv: list[bytes], stats: Stats, elapsed_ns: int
    ) -> None:
        """Count a command that was slow, or not very fast. These are few, so that each can also be
        shown to logs."""
        if elapsed_ns < FAST_NS:
            stats.fast[elapsed_ns >> SHIFT] += 1
        else:
            stats.record_slow(elapsed_ns)
        if elapsed_ns >= STALE_NS and self.scripts.running is None:
            self.refresh_clock()  # the cached time is too old for the rest of the turn
        if elapsed_ns >= self.invoker.slowlog_ns:
            reply_bytes = 0
            if session.out and session.waiter is None and type(session.out[-1]) is bytes:
                reply_bytes = len(session.out[-1])
            self.invoker.look_at(session, command, argv, elapsed_ns, reply_bytes)
        event = b"fast-command" if "fast" in command.flags else b"command"
        self.spikes.add(event, self.keyspace.now_s, elapsed_ns // 1_000_000)

    # -- going on -----------------------------------------------------------------------------

    def _run_commands(self) -> bool:
        """Run the commands that fit into the turn. Returns whether commands are left."""
        self.run_some()
        if self.loading.is_busy:
            self.loading.run_share()
        if self.pubsub.topic is not None:
            self.pubsub.flush()
        if self.tracking.has_news:
            self.tracking.broadcast()
        return bool(self.runnable) or self.loading.is_busy

    @property
    def is_replica(self) -> bool:
        return self.following is not None and self.following.is_on

    @property
    def peers(self) -> Peers | None:
        """The other servers of an active-active database."""
        return self._peers

    @peers.setter
    def peers(self, peers: Peers | None) -> None:
        self._peers = peers
        self.turn.on_commit = None if peers is None else self._tell_peers

    def _tell_peers(self) -> None:
        """Send the batch to peers: it is committed, and its replies have not left yet."""
        assert self._peers is not None
        try:
            self._peers.committed()
        except Exception as error:  # no reply without a record for the peers
            log.error("a batch cannot be sent to peers", exc_info=error)
            self.turn.fail(StorageError(f"cannot tell peers: {error}"))

    def _have_effects(self, effects: EffectLog | None) -> None:
        """Note the effects of commands from now on, because there is a replica. `effects` is None
        if this server is a replica itself: it passes on the stream that it gets."""
        self.invoker.effects = effects
        self.turn.on_batch = self.primary.committed

    def _have_replicas(self, refusal: CommandError | None) -> None:
        self.condition.too_few_replicas = refusal
        self.condition.update()

    def check_room(self) -> None:
        """Check whether clients and libraries of functions alone exceed the limit of memory. Unlike
        values of a file, they cannot be forgotten."""
        limit = self.store.max_bytes
        stays = 0
        if limit:
            stays = self.scripts.functions.text_bytes
            stays += sum([each.memory_bytes for each in self.sessions.values()])
        self.condition.lacks_room = stays > limit > 0

    def reset_stats(self) -> None:
        """Set all counters to zero, for CONFIG RESETSTAT."""
        self.commands.reset_stats()
        self.invoker.error_stats.clear()
        self.meter.reset()
        self.primary.reset_stats()
        keyspace = self.keyspace
        keyspace.hits = keyspace.misses = keyspace.expired = 0
        keyspace.evicted = keyspace.forgotten = 0
        keyspace.freeing.freed = 0

    # -- sessions -----------------------------------------------------------------------------

    def find_command(self, argv: list[bytes]) -> Command:
        return self.commands.find(argv)[0]

    def unblock(self, waiter: Waiter, result: Reply) -> bool:
        return self.blocking.unblock(waiter, result)

    def connected(self, session: Session) -> None:
        self.sessions[session.id] = session
        self.users.welcome(session)
        log.log(VERBOSE, "client %d connected: %s", session.id, session.address)

    def disconnected(self, session: Session, why: str = "closed by this server") -> None:
        if self.sessions.pop(session.id, None) is None:
            return
        log.log(VERBOSE, "client %d disconnected: %s, %s", session.id, session.address, why)
        if self.peers is not None:
            self.peers.session_lost(session, why)
        if self.primary.known:
            self.primary.lost(session, why)
        self.monitors.remove(session)
        self.pubsub.forget(session)
        self.tracking.forget(session)
        self.pause.forget(session)
        self.loading.forget(session)
        session.closing = True
        session.backlog.clear()
        self.blocking.forget(session)
        session.reset_transaction()

    # -- when the disk fails ------------------------------------------------------------------

    def _storage_failed(self, error: StorageError, is_fatal: bool) -> tuple[CommandError, bool]:
        """Load memory from the file again: no client may see or use data that is not on disk.

        After a failed sync the content of the disk is unknown, so the server stops. It does not try
        the sync again: the kernel may have dropped the pages and would report success. The server
        also stops if the file cannot be read.
        """
        log.critical("%s", error)
        self.pubsub.drop()
        self.primary.drop_batch()
        if self.following is not None:
            self.following.storage_failed()
        self.last_storage_error = str(error)
        failure = self.condition.failure = CommandError(
            f"MISCONF Errors writing to the database file: {error}"
        )
        self.turn.refuses_writes = True
        self.condition.update()
        if not is_fatal:
            try:
                self.store.reload()
            except StorageError as also:
                log.critical("%s", also)
                is_fatal = True
        if is_fatal:
            self.store.is_broken = True
            self.primary.let_go()  # replicas must not have writes that the disk may lack
            self.on_fatal(error)
        return failure, is_fatal

    def take_back_half(self, error: HalfDoneError) -> None:
        """Undo a change of a peer that failed half way. Earlier changes of clients and peers stay.
        (A store without a file cannot undo it.)"""
        log.error("%s", error, exc_info=error.__cause__)
        try:
            self.turn.commit_early()
        except StorageError:
            return  # memory was loaded from the file already
        self.reload()
        self.blocking.wake_all()

    def reload(self) -> None:
        """DEBUG RELOAD: load the file as at a start. Clients stay connected."""
        try:
            self.store.reload()
        except StorageError as error:
            self.turn.fail(error, is_fatal=True)

    def storage_recovered(self) -> None:
        log.warning("writing to the database file works again")
        self.condition.failure = None
        self.turn.refuses_writes = False
        self.condition.update()
        self.blocking.wake_all()  # a pop that was taken back may have left an element
        self.turn.schedule()  # the removal of keys that have expired meanwhile is not committed yet


def engine_of(session: Session) -> Engine:
    """The engine of a session, for commands of the server, which may use all of the engine."""
    host = session.host
    assert isinstance(host, Engine)
    return host
