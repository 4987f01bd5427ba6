"""The dashboard as a process: sockets, TLS, signals, and the line with its URL."""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace

import uvicorn

from holdfast.errors import ConfigError
from holdfast.web.application import application
from holdfast.web.dashboard import Dashboard, check_public
from holdfast.web.live.hub import MOST_PAGES
from holdfast.web.settings import Settings, first_url

log = logging.getLogger(__name__)

OTHER_DESCRIPTORS = 1000  # for requests, files and the connections of users
STOP_S = 2  # the time that open pages have to finish


async def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `announce` gets the URL when pages can be opened. Raises
    ConfigError if the dashboard may not or cannot listen there, and StorageError if the history
    cannot be used."""
    await check_public(settings)
    sockets = listen(settings)
    try:
        settings = replace(settings, port=sockets[0].getsockname()[1])
        dashboard = Dashboard(settings)
        url = first_url(settings.bind, settings.port, settings.is_https)
        dashboard.on_started = lambda: announce(url)
        await Server(dashboard).serve(sockets)
    finally:
        for each in sockets:
            each.close()


class Server(uvicorn.Server):
    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(configuration(dashboard))
        self._dashboard = dashboard

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of open pages first, because uvicorn would wait for them, and then cut
        them."""
        self._dashboard.hub.close()
        await super().shutdown(sockets)


def listen(settings: Settings) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    port = settings.port
    for address in settings.bind:
        try:
            found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
            sock = socket.socket(found[0], socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if found[0] == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(found[4])
            sock.listen(511)
        except (OSError, OverflowError) as error:
            for each in sockets:
                each.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"cannot listen on {address}:{port}: {reason}") from None
        # if the port is 0: the other sockets use the port of the first
        port = sock.getsockname()[1]
    return sockets


def configuration(dashboard: Dashboard) -> uvicorn.Config:
    settings = dashboard.settings
    config = uvicorn.Config(
        application(dashboard),
        access_log=False,  # URLs contain names of keys
        log_config=None,
        server_header=False,
        date_header=False,
        http="h11",
        ws="none",
        lifespan="on",
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
    )
    if settings.certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(settings.certificate, settings.certificate_key)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"--tls-cert {settings.certificate}: {reason}") from None
        config.load()
        config.ssl = context
    return config


def raise_descriptors() -> None:
    """Allow as many open files as open pages need, if the system permits it: 1024 is a usual
    limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_PAGES + OTHER_DESCRIPTORS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def run(settings: Settings, announce: Callable[[str], None]) -> int:
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    raise_descriptors()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(settings, announce))
    return 0
