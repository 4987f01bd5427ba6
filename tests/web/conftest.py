"""A dashboard in the process of the test, before a real server, and browsers without a screen."""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from holdfast.web.application import application
from holdfast.web.dashboard import Dashboard
from holdfast.web.live.poller import NOT_ASKED
from holdfast.web.settings import Settings
from tests.harness import HoldfastServer, RawClient, RedisServer
from tests.harness.valkey import VALKEY

KINDS = ["holdfast", "redis", *(["valkey"] if VALKEY is not None else [])]
PASSWORD = "correct horse"


class Browser:
    """Cookies, and forms sent with the token that their page has."""

    def __init__(self, app: Any, address: str = "127.0.0.1") -> None:
        transport = httpx.ASGITransport(app=app, client=(address, 1234))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost:8380")
        self.page = ""

    async def get(self, path: str, **options: Any) -> httpx.Response:
        answer = await self.http.get(path, **options)
        self.page = answer.text
        return answer

    def token(self, path: str) -> str:
        """The token of the form for this path, on the page that was loaded last."""
        form = re.search(
            rf'<form[^>]*action="{re.escape(path)}".*?name="token" value="([^"]+)"',
            self.page,
            re.DOTALL,
        )
        assert form is not None, f"the page has no form for {path}"
        return html.unescape(form[1])

    async def post(self, path: str, fields: dict[str, Any], **options: Any) -> httpx.Response:
        """Exactly these fields."""
        headers = {"content-type": "application/x-www-form-urlencoded"} | options.pop("headers", {})
        body = urlencode(fields, errors="surrogateescape")
        return await self.http.post(path, content=body, headers=headers, **options)

    async def submit(self, path: str, **fields: Any) -> httpx.Response:
        """As a person does it: the form of the page, with its token."""
        return await self.post(path, {"token": self.token(path), **fields})

    async def sign_in(self, username: str, password: str = PASSWORD) -> httpx.Response:
        await self.get("/sign-in")
        return await self.submit("/sign-in", username=username, password=password, next="/")


class Place:
    """A dashboard that runs, and its application."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        self.app = application(dashboard)

    def browser(self, address: str = "127.0.0.1") -> Browser:
        return Browser(self.app, address)


@asynccontextmanager
async def running(settings: Settings, **options: Any) -> AsyncIterator[Place]:
    dashboard = Dashboard(settings, **options)
    place = Place(dashboard)
    await dashboard.start()
    try:
        yield place
    finally:
        await dashboard.stop()


@pytest.fixture(params=KINDS)
def server_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """An empty server of each kind, with its default users."""
    fixture = {"holdfast": "server", "redis": "oracle", "valkey": "valkey"}[request.param]
    server: HoldfastServer | RedisServer = request.getfixturevalue(fixture)
    with RawClient.connect(server.port) as raw:
        assert raw.command("FLUSHALL") == b"+OK\r\n"
        yield server.port
        for user in ("reader", "writer", "nobody"):
            raw.command("ACL", "DELUSER", user)


@pytest.fixture
def port(server: HoldfastServer) -> Iterator[int]:
    """Our server, empty."""
    with RawClient.connect(server.port) as raw:
        assert raw.command("FLUSHALL") == b"+OK\r\n"
        yield server.port
        for user in ("reader", "writer", "nobody"):
            raw.command("ACL", "DELUSER", user)


def add_users(port: int) -> None:
    with RawClient.connect(port) as raw:
        everywhere = ("on", f">{PASSWORD}", "~*", "&*")
        raw.command(
            "ACL",
            "SETUSER",
            "reader",
            *everywhere,
            "+@read",
            "+@connection",
            "+info",
            "+slowlog|get",
            "+client|list",
            "+config|get",
            "+acl|whoami",
            "+command",
        )
        raw.command("ACL", "SETUSER", "writer", *everywhere, "+@all")
        raw.command("ACL", "SETUSER", "nobody", *everywhere, "+@connection", "-command")


Scenario = Callable[[Place], Coroutine[Any, Any, None]]


def play(port: int, scenario: Scenario, settings: Settings | None = None, **options: Any) -> None:
    """Runs a scenario with a dashboard of the server at this port."""
    url = f"redis://127.0.0.1:{port}"
    wanted = Settings(url) if settings is None else replace(settings, url=url)

    async def main() -> None:
        async with running(wanted, **options) as place:
            for _ in range(100_000):  # until it is connected, or has learned that it cannot be
                if place.dashboard.poller.view.trouble != NOT_ASKED:
                    break
                await asyncio.sleep(0)
            await scenario(place)

    asyncio.run(main())


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.db"
