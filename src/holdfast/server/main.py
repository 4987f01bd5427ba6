"""`holdfast serve`: open the store, listen, and leave in good order."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import holdfast
from holdfast.errors import ConfigError, StorageError
from holdfast.server import families as families
from holdfast.server import huge_pages, listener
from holdfast.server.busy import BusyDesk
from holdfast.server.config import Config
from holdfast.server.connection import Connection, accept
from holdfast.server.cron import Cron
from holdfast.server.descriptors import limit_clients
from holdfast.server.engine import Engine
from holdfast.server.lookup import renamed_table
from holdfast.server.settings import LOG_LEVELS
from holdfast.server.tls import tls_context
from holdfast.server.users import configured_users
from holdfast.server.version import IS_COMPILED
from holdfast.store.store import Store, open_store

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(config: Config) -> int:
    """Serve until told to stop; returns the exit status. Raises HoldfastError when it cannot
    begin, or has to stop because of the disk."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    _collect_rarely()
    with _logging(config), asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(Server(config).serve())


def _collect_rarely() -> None:
    """Keys and row operations are many and long-lived: to look for cycles among
    them, as Python does by default, cost 5-15 % of pipelined writes and stalls of 25 ms and more.
    What has cycles is broken up when it ends (a connection and its session, the keys of a database
    that was flushed: see store/freeing.py), or dies young.
    """
    gc.freeze()
    gc.set_threshold(10_000, 5, 1000)


class Server:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._stopping: asyncio.Future[bool] | None = None  # whether to fold
        self._fatal: StorageError | None = None

    async def serve(self) -> int:
        config = self._config
        renamed_table(config)  # these complain before anything is opened
        configured_users(config)
        tls = tls_context(config)
        config.maxclients = limit_clients(config.maxclients)
        node, peers = replicas(config)
        sockets, tls_sockets = listener.listen(config)
        try:
            with _pidfile(config):
                store = open_store(
                    config.db_path,
                    config.databases,
                    node,
                    accept_data_loss=config.accept_data_loss,
                    keeps_copy=not config.no_backup,
                )
                await _adopt(store)
                await self._serve(store, peers, sockets, tls_sockets, tls)
        finally:
            listener.close(sockets + tls_sockets, config)
        return 0

    async def _serve(
        self,
        store: Store,
        peers: list[str],
        sockets: list[socket.socket],
        tls_sockets: list[socket.socket],
        tls: ssl.SSLContext | None,
    ) -> None:
        config = self._config
        loop = asyncio.get_running_loop()
        self._stopping = loop.create_future()
        engine = Engine(store, config)
        engine.on_fatal = self._give_up
        engine.on_shutdown = self.stop
        engine.tls = tls
        engine.meter.tcp_port = listener.port_of(sockets)
        engine.turn.start(loop)
        if config.active_active:
            from holdfast.replication.replicator import Replicator  # others do not pay for it

            engine.replicator = Replicator(engine, config.active_active_cluster, peers)
        cron = Cron(engine)
        cron.start()
        pages = huge_pages.start() if config.huge_pages else None
        accepting = partial(accept, engine)
        listeners = [
            await loop.create_server(accepting, sock=sock, backlog=config.tcp_backlog)
            if sock.family != socket.AF_UNIX
            else await loop.create_unix_server(accepting, sock=sock, backlog=config.tcp_backlog)
            for sock in sockets
        ]
        listeners += [
            await loop.create_server(accepting, sock=sock, ssl=tls, backlog=config.tcp_backlog)
            for sock in tls_sockets
        ]
        if engine.replicator is not None:
            engine.replicator.start()
        BusyDesk(engine, sockets, tls_sockets)

        def on_signal(number: int, frame: FrameType | None) -> None:
            """Not a handler of the loop's: that one would wait for a script to end."""
            engine.scripts.end_for_shutdown()
            loop.call_soon_threadsafe(self.stop, True)

        for number in SIGNALS:
            signal.signal(number, on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal is no reason to stop
        if not IS_COMPILED:
            log.info("not compiled when it was installed, so commands take half as long again")
        where = ", ".join(
            [listener.shown(sock) for sock in sockets]
            + [f"tls:{listener.shown(sock)}" for sock in tls_sockets]
        )
        print(f"holdfast {holdfast.__version__} ready on {where} (db: {config.db})", flush=True)  # noqa: T201 - whoever started us waits for this line
        folds = await self._stopping
        log.info("stopping")
        if engine.replicator is not None:
            await engine.replicator.stop()
        for server in listeners:
            server.close()
        await _drain(engine, config.shutdown_timeout)
        cron.stop()
        if pages is not None:
            pages.stop()
        engine.turn.stop()
        self._close(store, folds)

    def stop(self, folds: bool) -> None:
        """Begin to stop. From now on a signal means: at once."""
        if self._stopping is None or self._stopping.done():
            return
        self._stopping.set_result(folds)
        for number in SIGNALS:
            signal.signal(number, lambda *_: os._exit(1))

    def _give_up(self, error: StorageError) -> None:
        self._fatal = error
        self.stop(False)

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
            raise StorageError(f"{error}; what was acknowledged is in {store.path}") from None
        log.info("stopped")


async def _drain(engine: Engine, timeout_s: int) -> None:
    """Answer what has arrived, let the answers go once they are synced, then close."""
    for _ in range(3):  # what is in the sockets' buffers has arrived
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    connections = [
        session.sink for session in engine.sessions.values() if isinstance(session.sink, Connection)
    ]
    for connection in connections:
        connection.pause_reading()
    while engine.runnable and loop.time() < deadline_s:
        engine.turn.end()
        await asyncio.sleep(0)
    for session in list(engine.sessions.values()):
        session.closing = True
    await engine.turn.drain()
    for session in list(engine.sessions.values()):
        if isinstance(session.sink, Connection):
            session.sink.finish()
    # Slow readers get their time. (Nobody but us wants to know when the last one has left.)
    while engine.sessions and loop.time() < deadline_s:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for session in list(engine.sessions.values()):
        session.sink.close()


def replicas(config: Config) -> tuple[int, list[str]]:
    """Which node of an active-active database this is (0: of none), and the URLs of the others.
    Raises ConfigError."""
    urls = [url.decode("utf-8", "surrogateescape") for (url,) in config.peer]
    if not config.active_active:
        if urls or config.node_id:
            raise ConfigError("peer and node-id are for servers with active-active yes")
        return 0, []
    if not config.node_id:
        raise ConfigError("an active-active server needs a node-id from 1 to 255")
    from holdfast.client.options import parse_url

    for url in urls:
        try:
            scheme = parse_url(url).scheme
        except (ValueError, TypeError) as error:
            raise ConfigError(f"peer: {error}") from None
        if scheme not in ("redis", "rediss", "unix"):
            raise ConfigError(f"peer: {scheme}:// names no single server")
    return config.node_id, urls


# -- the process ----------------------------------------------------------------------------------


async def _adopt(store: Store) -> None:
    """A standalone server's file becomes an active-active one's. A signal ends that, and the next
    start goes on with it."""
    try:
        for _ in iter(store.adopt_step, False):
            await asyncio.sleep(0)
    except BaseException:
        store.abandon()
        raise


@contextlib.contextmanager
def _logging(config: Config) -> Iterator[None]:
    """One line for each event, to stderr or the log file."""
    handler: logging.Handler = logging.StreamHandler()
    if config.logfile:
        try:
            handler = logging.FileHandler(config.path(config.logfile))
        except OSError as error:
            raise ConfigError(f"cannot write {config.logfile}: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger = logging.getLogger("holdfast")
    logger.setLevel(LOG_LEVELS[config.loglevel])
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def _pidfile(config: Config) -> Iterator[None]:
    path = Path(config.path(config.pidfile)) if config.pidfile else None
    if path is not None:
        try:
            path.write_text(f"{os.getpid()}\n")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
