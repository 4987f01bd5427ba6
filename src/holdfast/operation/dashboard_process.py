"""The dashboard of `holdfast serve --dashboard yes`: another process, so that pages never delay
commands. It is a client of the server like any other.
"""

import asyncio
import contextlib
import json
import logging
import sys
from importlib.util import find_spec

from holdfast.errors import ConfigError
from holdfast.operation.logs import event
from holdfast.operation.own_url import own_url
from holdfast.server.config.config import Config

log = logging.getLogger(__name__)

MODULE = "holdfast.web.child"
PACKAGES = ("starlette", "uvicorn", "jinja2")
AGAIN_S = 5.0  # after it has ended by itself
REFUSED = 2  # its exit status if the configuration is wrong: it would end again


class DashboardProcess:
    """Raises ConfigError if it cannot be started at all. The rest is in the log: a server goes on
    without its dashboard."""

    def __init__(self, config: Config) -> None:
        missing = [name for name in PACKAGES if find_spec(name) is None]
        if missing:
            raise ConfigError(
                f"dashboard yes needs packages that are not installed ({missing[0]}):"
                " pip install 'holdfast[web]'"
            )
        if not config.port and not config.unixsocket and config.tls_port:
            raise ConfigError("dashboard yes needs a port without TLS, or a unix socket")
        self._config = config
        self._task: asyncio.Task[None] | None = None

    def start(self, port: int) -> None:
        """`port`: on which the server listens."""
        self._task = asyncio.get_running_loop().create_task(self._run(own_url(self._config, port)))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, url: str) -> None:
        while True:
            status = await self._run_once(url)
            why = f"the dashboard has ended with status {status}"
            fields = event("dashboard_ended", status=status)
            if status == REFUSED:
                log.error("%s and is not started again", why, extra=fields)
                return
            log.warning("%s; it is started again in %g s", why, AGAIN_S, extra=fields)
            await asyncio.sleep(AGAIN_S)

    async def _run_once(self, url: str) -> int:
        """The settings go over its standard input, because other users of the machine see
        arguments. The end of the input tells the process that the server is gone, also after
        SIGKILL."""
        config = self._config
        history = None if config.db == ":memory:" else f"{config.db_path}.dashboard"
        settings = {
            "url": url,
            "password": config.requirepass.decode("utf-8", "surrogateescape") or None,
            "bind": [address.removeprefix("-") for address in config.dashboard_bind],
            "port": config.dashboard_port,
            "history": history,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, stdin=asyncio.subprocess.PIPE, stdout=sys.stderr
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(settings).encode() + b"\n")
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                process.stdin.close()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), AGAIN_S)
                if process.returncode is None:
                    process.kill()
