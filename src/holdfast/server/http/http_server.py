"""The port of `http-port`: its connections, and the answer for each path."""

import asyncio
import logging
import socket
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING

from holdfast.errors import ConfigError
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.http.http_connection import HttpConnection
from holdfast.server.http.readiness import why_not_ready
from holdfast.server.http.request import Answer, Request
from holdfast.server.net.listener import listen_at, shown
from holdfast.server.scripts.coordination_index import CoordinationIndex

if TYPE_CHECKING:
    from holdfast.server.http.exposition import Exposition

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
BACKLOG = 64
PIECE_S = 0.001  # after this time other clients are served, before the text is continued
NO_METRICS = "/metrics needs the package prometheus_client: pip install prometheus-client"


class HttpServer:
    """The server for operators. Its constructor raises ConfigError if it cannot listen."""

    def __init__(self, config: Config) -> None:
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._connections: set[HttpConnection] = set()
        self._engine: Engine | None = None
        self._exposition: Exposition | None = None
        self._scrape: asyncio.Task[bytes] | None = None
        try:
            listen_at(config.http_port, config.http_bind, BACKLOG, self._sockets)
            if not self._sockets:
                raise ConfigError("http-bind: there is no address to listen on")
        except ConfigError:
            self.close()
            raise

    async def start(self, engine: Engine) -> None:
        """Begin to answer. The engine must have recovered its file."""
        self._engine = engine
        try:
            from holdfast.server.http.exposition import Exposition
        except ImportError:
            log.warning("%s", NO_METRICS)
        else:
            engine.scripts.index = CoordinationIndex()
            self._exposition = Exposition(engine)
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            self._servers.append(await loop.create_server(self._connected, sock=sock))
        log.info("HTTP on %s", ", ".join(map(shown, self._sockets)))

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.abort()
        for sock in self._sockets:
            sock.close()

    def _connected(self) -> HttpConnection:
        assert self._engine is not None
        return HttpConnection(self.respond, self._engine.clock, self._connections, MOST_CONNECTIONS)

    # -- answers ------------------------------------------------------------------------------

    async def respond(self, request: Request) -> Answer:
        if request.path == b"/metrics" and self._exposition is not None:
            from holdfast.server.http.exposition import CONTENT_TYPE

            # Requests that come while a text is made get that text.
            if self._scrape is None or self._scrape.done():
                self._scrape = asyncio.get_running_loop().create_task(_text(self._exposition))
            text = await asyncio.shield(self._scrape)
            return Answer(HTTPStatus.OK, text, CONTENT_TYPE)
        assert self._engine is not None
        if request.path == b"/health":
            return _sentence(HTTPStatus.OK, "alive")
        if request.path == b"/ready":
            reason = why_not_ready(self._engine)
            if reason is None:
                return _sentence(HTTPStatus.OK, "ready")
            return _sentence(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {reason}")
        if request.path == b"/metrics":
            return _sentence(HTTPStatus.NOT_IMPLEMENTED, NO_METRICS)
        config = self._engine.config
        more = f"; the dashboard is on port {config.dashboard_port}" if config.dashboard else ""
        return _sentence(HTTPStatus.NOT_FOUND, f"here are /metrics, /health and /ready{more}")


async def _text(exposition: "Exposition") -> bytes:
    parts: list[bytes] = []
    until_s = perf_counter() + PIECE_S
    for part in exposition.pieces():
        parts.append(part)
        if perf_counter() >= until_s:
            await asyncio.sleep(0)
            until_s = perf_counter() + PIECE_S
    return b"".join(parts)


def _sentence(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, f"{text}\n".encode())
