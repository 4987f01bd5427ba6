"""`holdfast serve`: open the store, listen, and stop in good order.

The file is long because all parts of a server process meet here, and most of them are optional: a
function for each imports the part when it is needed.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from holdfast import all_commands as all_commands
from holdfast._version import __version__
from holdfast.errors import ConfigError, HoldfastError, StorageError
from holdfast.operation.logs import LogWriter, event, logging_to
from holdfast.operation.progress_lines import ProgressLines
from holdfast.operation.service_manager import ServiceManager
from holdfast.progress import Progress
from holdfast.server.config.config import Config
from holdfast.server.config.remarks import remarks
from holdfast.server.config.tls import tls_context
from holdfast.server.core.cron import Cron
from holdfast.server.core.descriptors import limit_clients
from holdfast.server.core.engine import Engine
from holdfast.server.core.shutdown import Shutdown
from holdfast.server.core.users import configured_users
from holdfast.server.dispatch.lookup import renamed_table
from holdfast.server.features import huge_pages
from holdfast.server.net import listener
from holdfast.server.net.wire_connection import Connection, accept
from holdfast.server.version import IS_COMPILED, why_not_compiled
from holdfast.store.file.opening import SQLITE_VERSION
from holdfast.store.store import MEMORY, FileStore, Store, open_store

try:
    import uvloop

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    new_event_loop = asyncio.new_event_loop

if TYPE_CHECKING:
    from holdfast.operation.dashboard_process import DashboardProcess
    from holdfast.replication.replicator import Replicator
    from holdfast.server.features.following import Following
    from holdfast.server.http.http_server import HttpServer
    from holdfast.server.primary.primary import Snapshots

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


# Returns a context manager that shows the progress of a start.
Showing = Callable[[], contextlib.AbstractContextManager[Progress]]


def run(
    config: Config,
    leave: Callable[[int], object] | None = None,
    showing: Showing | None = None,
) -> int:
    """Serve until a signal or SHUTDOWN; return the exit status. Raises HoldfastError if the server
    cannot start, or has to stop because of the disk. `leave` ends the process, if it has nothing
    else to do. The log has the progress of a long start, unless `showing` shows it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal is no reason to stop
    _collect_rarely()
    logfile = config.path(config.logfile) if config.logfile else ""
    with (
        logging_to(logfile, config.log_format, config.loglevel) as writer,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        try:
            server = Server(config, writer, showing or _logging_progress)
            status = runner.run(server.serve())
        except HoldfastError as error:
            if logfile:  # the command line says it on stderr
                log.critical("stopped: %s", error, extra=event("failed", reason=str(error)))
            raise
    if leave is not None:
        leave(status)  # `server` still refers to all data, so no time is lost in freeing it
    return status


def _collect_rarely() -> None:
    """Make Python look for reference cycles rarely. Keys and row operations are many and
    long-lived: searching them for cycles at Python's default rate cost 5-15 % of pipelined writes
    and stalls of 25 ms and more. Long-lived objects with cycles are taken apart when they end (a
    connection and its session, the keys of a flushed database: see store/memory/lazy_free.py).
    So all objects are searched only after 200,000 searches of new ones: with three million keys it
    takes 0.3 s, in which no client is served.

    Imported modules are frozen first: else Python would check all of their objects at the next one.
    """
    gc.freeze()
    gc.set_threshold(2_000, 1, 200_000)
    gc.enable()


class Server:
    def __init__(self, config: Config, log_writer: LogWriter, showing: Showing) -> None:
        self._config = config
        self._showing = showing
        self._log_writer = log_writer
        self._stopping: asyncio.Future[bool] | None = None  # whether to fold
        self._ready_status = ""
        self._stopping_since_s = 0.0
        self._fatal: StorageError | None = None
        self._manager = ServiceManager()
        self._engine: Engine | None = None
        self._dashboard: DashboardProcess | None = None

    async def serve(self) -> int:
        config = self._config
        renamed_table(config)  # these calls raise before anything is opened
        configured_users(config)
        tls = tls_context(config)
        config.maxclients = limit_clients(config.maxclients)
        node, peers = replicas(config)
        sockets, tls_sockets = listener.listen(config)
        http: HttpServer | None = None
        self._dashboard = _dashboard(config)
        try:
            http = _http_server(config)
            _log_start(config)
            with _pidfile(config):
                self._manager = ServiceManager.of(config.supervised, os.environ)
                opening = self._manager.asking_for_time(f"opening {config.db}")
                with opening, self._showing() as progress:
                    store = self._open(node, progress)
                    await _adopt(store)
                await self._serve(store, peers, sockets, tls_sockets, tls, http)
        finally:
            listener.close(sockets + tls_sockets, config)
            if http is not None:
                http.close()
        return 0

    def _open(self, node: int, progress: Progress) -> Store:
        config = self._config
        started_s = time.monotonic()
        store = open_store(
            config.db_path,
            config.databases,
            node,
            accept_data_loss=config.accept_data_loss,
            keeps_copy=not config.no_backup,
            progress=progress,
        )
        _log_recovery(store, time.monotonic() - started_s)
        return store

    async def _serve(
        self,
        store: Store,
        peers: list[str],
        sockets: list[socket.socket],
        tls_sockets: list[socket.socket],
        tls: ssl.SSLContext | None,
        http: "HttpServer | None",
    ) -> None:
        config = self._config
        loop = asyncio.get_running_loop()
        self._stopping = loop.create_future()
        engine = self._engine = Engine(store, config)
        engine.on_fatal = self._give_up
        engine.tls = tls
        engine.meter.tcp_port = listener.port_of(sockets)
        engine.turn.start(loop)
        replicator = _replicator(engine, peers)
        engine.peers = replicator
        if store.is_durable:
            engine.primary.open_snapshots = partial(_snapshots, engine)
        if replicator is None:
            engine.open_following = partial(_following, engine)
            _begin_to_follow(engine)
        cron = Cron(engine)
        cron.start()
        freeing = engine.keyspace.freeing
        pages = huge_pages.start(lambda: freeing.trims) if config.huge_pages else None
        listeners = listener.Listeners(config, sockets, tls_sockets, partial(accept, engine), tls)
        await listeners.start()
        if replicator is not None:
            replicator.start()
        _serve_others_when_busy(engine, sockets, tls_sockets)

        def change_port() -> None:
            listeners.change_port()
            engine.meter.tcp_port = listener.port_of(sockets)
            _serve_others_when_busy(engine, sockets, tls_sockets)

        engine.change_port = change_port
        if http is not None:
            await http.start(engine)
        if self._dashboard is not None:
            self._dashboard.start(listener.port_of(sockets))

        def on_signal(number: int, frame: FrameType | None) -> None:
            """A plain signal handler. A handler of the loop would wait for a script to end.

            The next signal ends the process at once. (This one may come after SHUTDOWN: programs
            that stop servers often do both.)"""
            for each in SIGNALS:
                signal.signal(each, lambda *_: os._exit(1))
            engine.scripts.end_for_shutdown()
            if not loop.is_closed():
                why = signal.Signals(number).name
                loop.call_soon_threadsafe(lambda: shutdown.begin(folds=True, why=why))

        def reload() -> None:
            loop.call_soon_threadsafe(self._reload)

        def handle_signals() -> None:
            for number in SIGNALS:
                signal.signal(number, on_signal)

        engine.shutdown = shutdown = Shutdown(engine, self.stop, handle_signals)
        handle_signals()
        signal.signal(signal.SIGHUP, lambda *_: reload())
        engine.scripts.on_tick = self._manager.beat_if_due
        self._announce(sockets, tls_sockets)
        self._manager.start_watchdog(loop)
        folds = await self._stopping
        engine.is_stopping = True
        self._manager.stop_watchdog()
        with self._manager.asking_for_time("stopping"):
            await self._leave(engine, replicator, listeners)
            cron.stop()
            if pages is not None:
                pages.stop()
            engine.turn.stop()
            self._close(store, folds)
        took_s = time.monotonic() - self._stopping_since_s
        log.info("stopped after %.3f s", took_s, extra=event("stopped", seconds=round(took_s, 3)))

    async def _leave(
        self,
        engine: Engine,
        replicator: "Replicator | None",
        listeners: listener.Listeners,
    ) -> None:
        """Accept no more clients, and disconnect the present ones."""
        if self._dashboard is not None:
            await self._dashboard.stop()
        if replicator is not None:
            await replicator.stop()
        if engine.following is not None:
            await engine.following.stop()
        await engine.primary.stop()
        listeners.close()
        await _drain(engine, self._config.shutdown_timeout)
        if replicator is None:
            await engine.turn.drain()
            _note_end_of_stream(engine)

    def _announce(self, sockets: list[socket.socket], tls_sockets: list[socket.socket]) -> None:
        """Tell stdout, the log and the service manager that clients can connect."""
        config = self._config
        listeners = [listener.shown(sock) for sock in sockets]
        listeners += [f"tls:{listener.shown(sock)}" for sock in tls_sockets]
        where = ", ".join(listeners)
        policy = f"appendfsync: {config.appendfsync}"
        print(f"holdfast {__version__} ready on {where} (db: {config.db}, {policy})", flush=True)  # noqa: T201 - the program that started the server waits for it
        fields = {"listeners": listeners, "db": config.db_path, "appendfsync": config.appendfsync}
        log.info("ready on %s (%s)", where, policy, extra=event("ready", **fields))
        self._ready_status = f"ready on {where}"
        self._manager.ready(self._ready_status)

    def _reload(self) -> None:
        """SIGHUP: the log continues in the file that has its name now."""
        is_stopping = self._stopping is not None and self._stopping.done()
        if not is_stopping:
            self._manager.reloading()
        self._log_writer.reopen()
        log.info("the log goes on here, after SIGHUP", extra=event("log_reopened"))
        if not is_stopping:
            self._manager.ready(self._ready_status)

    def stop(self, folds: bool, why: str) -> None:
        """Begin to stop."""
        if self._stopping is None or self._stopping.done():
            return
        self._stopping_since_s = time.monotonic()
        log.info("stopping: %s", why, extra=event("stopping", reason=why))
        self._manager.stopping(f"stopping: {why}")
        self._stopping.set_result(folds)

    def _give_up(self, error: StorageError) -> None:
        self._fatal = error
        self.stop(False, f"the disk failed: {error}")

    def _close(self, store: Store, folds: bool) -> None:
        if self._fatal is not None:
            store.abandon()
            raise self._fatal
        try:
            if folds:
                store.close()
            else:
                store.commit()
                store.sync()
                store.abandon()
        except (StorageError, OSError) as error:
            raise StorageError(f"{error}; all acknowledged writes are in {store.path}") from None


def _snapshots(engine: Engine) -> "Snapshots":
    """Imported when the first replica asks: a start should not wait for it."""
    from holdfast.server.primary.snapshot_process import SnapshotProcess

    config = engine.config
    return SnapshotProcess(engine.primary, Path(config.db_path), config)


def _following(engine: Engine) -> "Following":
    """Imported when this server becomes a replica."""
    from holdfast.server.replica.replica_role import ReplicaRole

    return ReplicaRole(engine)


def _begin_to_follow(engine: Engine) -> None:
    """Follow the primary of the configuration, if it names one. A server that was a replica and
    now starts as a primary stays a primary, because its data will differ from that of the server
    that it followed. Replicas whose offset equals the offset of this server may continue with it,
    under its new id."""
    keyspace = engine.keyspace
    if keyspace.replication_position is not None:
        from holdfast.server.replica.position import unpack

        position = unpack(keyspace.replication_position)
        assert position is not None
        is_current = position.lsn in (0, engine.store.lsn)
        if is_current and not engine.config.replicaof:
            engine.primary.go_on(position.replication_id, position.offset)
        if not (is_current and engine.config.replicaof):
            keyspace.set_position(None)
            engine.turn.schedule()
    if engine.config.replicaof:
        host, port = engine.config.replicaof
        engine.following = _following(engine)
        engine.following.follow(host, int(port))


def _note_end_of_stream(engine: Engine) -> None:
    """Put the end of the stream for replicas into the last batch, after which no batch may come.
    The next start then continues the stream."""
    primary, keyspace = engine.primary, engine.keyspace
    if primary.effects is None or keyspace.open_ops or engine.condition.failure is not None:
        return
    from holdfast.server.replica.position import Position

    end = Position(primary.replication_id, primary.offset, 0, engine.store.lsn + 1)
    keyspace.set_position(end.pack())


async def _drain(engine: Engine, timeout_s: int) -> None:
    """Answer the commands that have arrived, send the replies once they are synced, then close.

    Replicas come last, and stay connected until they have acknowledged all writes. (If a connection
    is closed before its input was read, the kernel resets it, and the other side loses the bytes
    that it has not read yet.)
    """
    for _ in range(3):  # reads the buffers of the sockets
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    replicas = engine.primary.replicas
    clients = [session for session in engine.sessions.values() if session not in replicas]
    for session in clients:
        if isinstance(session.sink, Connection):
            session.sink.pause_reading()
    while (engine.runnable or engine.loading.is_busy) and loop.time() < deadline_s:
        engine.turn.end()
        await asyncio.sleep(0)
    engine.loading.stop()
    for session in clients:
        session.closing = True
    await engine.turn.drain()
    for session in clients:
        if isinstance(session.sink, Connection):
            session.sink.finish()
    engine.primary.ask_how_far()
    while engine.primary.is_ahead and loop.time() < deadline_s:  # noqa: ASYNC110 - as below
        await asyncio.sleep(0.01)
    engine.primary.log_acknowledgements()
    for session in list(replicas):
        session.closing = True
        if isinstance(session.sink, Connection):
            session.sink.finish()
    # Slow readers get time to read.
    while engine.sessions and loop.time() < deadline_s:  # noqa: ASYNC110 - an event for this alone
        await asyncio.sleep(0.01)
    for session in list(engine.sessions.values()):
        session.sink.close()


def _serve_others_when_busy(
    engine: Engine, sockets: list[socket.socket], tls_sockets: list[socket.socket]
) -> None:
    """Import the busy server when a script first runs for too long: most servers never need it."""

    def on_slow() -> None:
        from holdfast.server.net.busy_server import BusyServer

        BusyServer(engine, sockets, tls_sockets)  # this replaces `engine.scripts.on_slow`
        engine.scripts.on_slow()

    engine.scripts.on_slow = on_slow


def _replicator(engine: Engine, urls: list[str]) -> "Replicator | None":
    """The links of an active-active server. Other servers do not import the package."""
    if not engine.config.active_active:
        return None
    from holdfast.replication.replicator import Replicator

    return Replicator(engine, engine.config.active_active_cluster, urls)


def _http_server(config: Config) -> "HttpServer | None":
    """Other servers do not import the package."""
    if not config.http_port:
        return None
    from holdfast.server.http.http_server import HttpServer

    return HttpServer(config)


def _dashboard(config: Config) -> "DashboardProcess | None":
    """Other servers do not import the module."""
    if not config.dashboard:
        return None
    from holdfast.operation.dashboard_process import DashboardProcess

    return DashboardProcess(config)


def replicas(config: Config) -> tuple[int, list[str]]:
    """The node id of this server in an active-active database (0: standalone), and the URLs of the
    other servers. Raises ConfigError."""
    urls = [url.decode("utf-8", "surrogateescape") for (url,) in config.peer]
    if config.replicaof and config.active_active:
        raise ConfigError("replicaof: a server of an active-active database cannot be a replica")
    if config.replicaof and config.db == MEMORY:
        raise ConfigError("replicaof: a database that is only in memory cannot follow a server")
    if not config.active_active:
        if urls or config.node_id:
            raise ConfigError("peer and node-id are for servers with active-active yes")
        return 0, []
    if not config.node_id:
        raise ConfigError("an active-active server needs a node-id from 1 to 255")
    from holdfast.client.transport.options import parse_server_url

    for url in urls:
        try:
            parse_server_url(url)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"peer: {error}") from None
    return config.node_id, urls


# -- the process ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _logging_progress() -> Iterator[Progress]:
    yield ProgressLines(lambda sentence: log.info("%s", sentence, extra=event("progress")))


async def _adopt(store: Store) -> None:
    """Convert the file of a standalone server into that of an active-active one. A signal
    interrupts the conversion, and the next start goes on with it."""
    try:
        for _ in iter(store.adopt_step, False):
            await asyncio.sleep(0)
    except BaseException:
        store.abandon()
        raise


def _log_start(config: Config) -> None:
    """Log the versions, and remarks about the settings."""
    if not IS_COMPILED:
        reason = why_not_compiled()
        fields = event("not_compiled", reason=reason)
        log.warning("not compiled, so commands take about 50 %% longer: %s", reason, extra=fields)
    facts = {
        "version": __version__,
        "compiled": IS_COMPILED,
        "python": sys.version.partition(" ")[0],
        "sqlite": SQLITE_VERSION,
        "config_file": str(config.file or ""),
    }
    log.info(
        "holdfast %s (%s) starts: Python %s, SQLite %s, configuration file: %s",
        *(__version__, "compiled" if IS_COMPILED else "not compiled"),
        *(facts["python"], SQLITE_VERSION, config.file or "none"),
        extra=event("start", **facts),
    )
    for level, setting, sentence in remarks(config):
        log.log(level, "%s", sentence, extra=event("setting", setting=setting))


def _log_recovery(store: Store, took_s: float) -> None:
    if not isinstance(store, FileStore):
        return
    keys = sum(len(database) for database in store.keyspace.databases)
    fields = {
        "file": str(store.path),
        "seconds": round(took_s, 3),
        "recovered_ops": store.recovered_ops,
        "recovered_batches": store.lsn - store.folded_lsn,
        "keys": keys,
    }
    log.info(
        "%s is open after %.3f s: %d keys; %d changes in %d batches recovered from the journal",
        *(store.path, took_s, keys, store.recovered_ops, fields["recovered_batches"]),
        extra=event("opened", **fields),
    )


@contextlib.contextmanager
def _pidfile(config: Config) -> Iterator[None]:
    """Write the pidfile, and remove it at the end. If it cannot be written, the server starts all
    the same, as Redis does: the redis.conf of Redis names a folder that only the service of Redis
    creates."""
    path = Path(config.path(config.pidfile)) if config.pidfile else None
    if path is not None:
        try:
            path.write_text(f"{os.getpid()}\n")
        except OSError as error:
            log.warning("cannot write the pidfile %s: %s", path, error.strerror)
            path = None
    try:
        yield
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
