"""The listening sockets, as the configuration asks for them."""

import asyncio
import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.errors import ConfigError, HoldfastError, UnavailableError
from holdfast.server.config.config import Config

log = logging.getLogger(__name__)

ANY_ADDRESS = {"*": "0.0.0.0", "::*": "::"}


def listen(config: Config) -> tuple[list[socket.socket], list[socket.socket]]:
    """Open all sockets; those for TLS are returned apart. If one cannot be opened, all are closed
    and HoldfastError is raised.

    With port 0 all addresses share one free port. If only a port for TLS is configured, there is no
    other one.
    """
    sockets: list[socket.socket] = []
    tls_sockets: list[socket.socket] = []
    try:
        if config.port or not config.tls_port:
            listen_at(config.port, config.bind, config.tcp_backlog, sockets)
        if config.tls_port:
            listen_at(config.tls_port, config.bind, config.tcp_backlog, tls_sockets)
        if config.unixsocket:
            path = config.path(config.unixsocket)
            sockets.append(_listen_unix(path, config.unixsocketperm, config.tcp_backlog))
        if not sockets and not tls_sockets:
            raise ConfigError("there is no address to listen on")
    except HoldfastError:
        for sock in sockets + tls_sockets:
            sock.close()
        raise
    return sockets, tls_sockets


def listen_at(
    port: int, addresses: Sequence[str], backlog: int, sockets: list[socket.socket]
) -> None:
    """Add a socket for each address. Raises ConfigError; sockets that were added stay open."""
    for address in addresses:
        host = address.removeprefix("-")
        try:
            sock = _listen_tcp(ANY_ADDRESS.get(host, host), port, backlog)
        except OSError as error:
            if address.startswith("-"):  # listen only if this machine has the address
                continue
            raise UnavailableError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        port = port or sock.getsockname()[1]
        sockets.append(sock)


class Listeners:
    """The sockets of `listen`, once clients are accepted from them."""

    def __init__(
        self,
        config: Config,
        sockets: list[socket.socket],
        tls_sockets: list[socket.socket],
        accept: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._config = config
        self._sockets = sockets
        self._tls_sockets = tls_sockets
        self._accept = accept
        self._tls = tls
        self._port = config.port
        self._servers: dict[socket.socket, asyncio.Server] = {}
        self._starting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        for sock in self._sockets + self._tls_sockets:
            await self._start(sock)

    async def _start(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        backlog = self._config.tcp_backlog
        if sock.family == socket.AF_UNIX:
            server = await loop.create_unix_server(self._accept, sock=sock, backlog=backlog)
        else:
            tls = self._tls if sock in self._tls_sockets else None
            server = await loop.create_server(self._accept, sock=sock, ssl=tls, backlog=backlog)
        self._servers[sock] = server

    def change_port(self) -> None:
        """Listen at the port that the configuration has now, and no longer at the old one. If that
        is not possible, ConfigError is raised and nothing has changed."""
        config = self._config
        if config.port == self._port:
            return  # CONFIG SET has failed, and sets the old value again
        opened: list[socket.socket] = []
        try:
            listen_at(config.port, config.bind, config.tcp_backlog, opened)
        except UnavailableError as error:
            for sock in opened:
                sock.close()
            log.warning("CONFIG SET port: %s", error)
            raise ConfigError("Unable to listen on this port. Check server logs.") from None
        self._port = config.port
        closed = [sock for sock in self._sockets if sock.family != socket.AF_UNIX]
        self._sockets[:] = opened + [sock for sock in self._sockets if sock not in closed]
        loop = asyncio.get_running_loop()
        for sock in opened:  # clients that come before the task runs wait in the backlog
            task = loop.create_task(self._start(sock))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
        for sock in closed:
            self._servers.pop(sock).close()
        log.info("listening on %s now", ", ".join(map(shown, opened)))

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


def close(sockets: list[socket.socket], config: Config) -> None:
    """Close the sockets that `listen` opened."""
    for sock in sockets:
        sock.close()
    if config.unixsocket:
        Path(config.path(config.unixsocket)).unlink(missing_ok=True)


def port_of(sockets: list[socket.socket]) -> int:
    """The TCP port; 0 if there is none."""
    ports = (sock.getsockname()[1] for sock in sockets if sock.family != socket.AF_UNIX)
    return next(ports, 0)


def shown(sock: socket.socket) -> str:
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen_tcp(host: str, port: int, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    return sock


def _listen_unix(path: str, permissions: int, backlog: int) -> socket.socket:
    """Listen at a path. The socket has its permissions from the first moment on, so that no other
    user can connect before."""
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_umask = os.umask(0o777 & ~(permissions or 0o700))
    try:
        sock.bind(path)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise UnavailableError(f"cannot listen on {path}: {error.strerror or error}") from None
    finally:
        os.umask(old_umask)
    return sock


def _remove_stale(path: str) -> None:
    """Remove the socket of a server that was killed. Any other file of that name is an error."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise UnavailableError(f"cannot listen on {path}: there is something else of that name")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError:
            Path(path).unlink(missing_ok=True)
            return
    raise UnavailableError(f"cannot listen on {path}: another server does")
