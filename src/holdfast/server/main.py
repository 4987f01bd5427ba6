"""`holdfast serve`: open the store, listen, and leave in good order."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.errors import ConfigError
from holdfast.server import families as families
from holdfast.server.config import Config
from holdfast.server.connection import Connection
from holdfast.server.cron import Cron
from holdfast.server.engine import Engine
from holdfast.store.store import open_store

log = logging.getLogger(__name__)


def run(config: Config) -> int:
    """Serve until told to stop; returns the exit status. Raises HoldfastError before that."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(Server(config).serve())


class Server:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._stopped: asyncio.Future[int] | None = None

    async def serve(self) -> int:
        config = self._config
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        sockets = self._bind()
        store = open_store(config.db, config.databases)
        engine = Engine(store, config)
        engine.on_fatal = lambda error: self.stop(1)
        engine.turn.start(loop)
        cron = Cron(engine)
        cron.start()
        listeners = [
            await loop.create_server(lambda: Connection(engine), sock=sock)
            if sock.family != socket.AF_UNIX
            else await loop.create_unix_server(lambda: Connection(engine), sock=sock)
            for sock in sockets
        ]
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, self.stop, 0)
        where = ", ".join(_shown(sock) for sock in sockets)
        ready = f"holdfast {holdfast.__version__} ready on {where} (db: {config.db})\n"
        sys.stdout.write(ready)
        sys.stdout.flush()
        status = await self._stopped
        for listener in listeners:
            listener.close()
        cron.stop()
        engine.turn.end()
        engine.turn.stop()
        store.close()
        return status

    def stop(self, status: int) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(status)

    # -- sockets ------------------------------------------------------------------------------

    def _bind(self) -> list[socket.socket]:
        config = self._config
        sockets: list[socket.socket] = []
        port = config.port
        for address in config.bind:
            optional = address.startswith("-")
            host = address.removeprefix("-")
            try:
                sock = _listen_tcp(host, port, config.tcp_backlog)
            except OSError as error:
                if optional:
                    continue
                raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
            port = port or sock.getsockname()[1]  # one free port for all addresses
            sockets.append(sock)
        if config.unixsocket:
            sockets.append(_listen_unix(config.unixsocket, config.unixsocketperm))
        return sockets


def _listen_tcp(host: str, port: int, backlog: int) -> socket.socket:
    host = {"*": "0.0.0.0", "::*": "::"}.get(host, host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    return sock


def _listen_unix(path: str, permissions: int) -> socket.socket:
    """Nobody but us can connect before the permissions are as configured."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    old_umask = os.umask(0o777 & ~(permissions or 0o700))
    try:
        sock.bind(path)
        sock.listen()
    except OSError as error:
        sock.close()
        raise ConfigError(f"cannot listen on {path}: {error.strerror}") from None
    finally:
        os.umask(old_umask)
    return sock


def _shown(sock: socket.socket) -> str:
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
