"""The pytest plugin: fixtures that give each test a real, empty server.

pytest imports this module in each run of an environment with Holdfast. Until a test uses a fixture,
this costs only the import and a line of configuration. Therefore the imports are in the functions
below.

`holdfast_client` and `holdfast_embedded` live in the event loop of the test, which belongs to
pytest-asyncio or to anyio. The two need different kinds of async fixtures, so there are async
fixtures for anyio below, and others in `asyncio_fixtures`. The two fixtures with public names are
not async, and choose one of these.
"""

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.client.api.client import Client
    from holdfast.client.api.sync_client import SyncClient
    from holdfast.embedded import LocalDatabase
    from holdfast.testing.servers import DisposableServer, Servers

MARKER = (
    "holdfast(**options): configuration of the server of this test, with _ for -, such as"
    " maxmemory='10mb' or db='test.db'"
)
# pytest-asyncio as an entry point, and as the argument of -p or an entry of pytest_plugins
ASYNCIO_FIXTURES = "holdfast_asyncio_fixtures"
ASYNCIO_PLUGINS = ("asyncio", "pytest_asyncio", "pytest_asyncio.plugin")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    if _has_pytest_asyncio(config):
        import pytest_asyncio

        if has_loop_scopes(pytest_asyncio.__version__):
            from holdfast.testing import asyncio_fixtures

            config.pluginmanager.register(asyncio_fixtures, ASYNCIO_FIXTURES)


def has_loop_scopes(version: str) -> bool:
    """Whether this version of pytest-asyncio lets a fixture name its event loop. The plugin must be
    harmless in a project with an older version that uses none of the fixtures."""
    return tuple(map(int, version.split(".")[:2])) >= (0, 24)


# -- servers --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def holdfast_servers(pytestconfig: pytest.Config) -> "Iterator[Servers]":
    """Starts further servers: `with holdfast_servers.start(maxmemory="10mb") as server`.

    Use it for tests with several servers, and for fixtures of a wider scope.
    """
    from holdfast.testing.server_logs import ServerLogs
    from holdfast.testing.servers import Servers

    with Servers() as servers:
        # Not earlier, because a run without servers should have no hooks of ours.
        logs = ServerLogs(servers)
        pytestconfig.pluginmanager.register(logs)
        yield servers
        pytestconfig.pluginmanager.unregister(logs)


@pytest.fixture
def holdfast_server(
    request: pytest.FixtureRequest, holdfast_servers: "Servers"
) -> "Iterator[DisposableServer]":
    """A server process for this test alone, with an empty database.

    `@pytest.mark.holdfast(...)` configures it.
    """
    from holdfast.errors import HoldfastError

    options: dict[str, str | int] = {}
    # the closest marker is the last one
    for marker in reversed([*request.node.iter_markers("holdfast")]):
        if marker.args:
            pytest.fail("holdfast(): options have names, such as maxmemory='10mb'", pytrace=False)
        options |= marker.kwargs
    try:
        server = holdfast_servers.start(**options)
    except HoldfastError as error:
        pytest.fail(f"holdfast_server: {error}", pytrace=False)
    with server:
        yield server


@pytest.fixture
def holdfast_url(holdfast_server: "DisposableServer") -> str:
    """The address of the server of this test, for any Redis client: `redis://127.0.0.1:PORT/0`."""
    return holdfast_server.url


# -- clients --------------------------------------------------------------------------------------


@pytest.fixture
def holdfast_sync_client(holdfast_url: str) -> "Iterator[SyncClient]":
    """A client without coroutines, as `holdfast.sync.connect` makes it."""
    from holdfast import sync

    client = sync.connect(holdfast_url)
    try:
        client.connect()
        yield client
    finally:
        client.close(0)  # a thread may still wait in BLPOP


@pytest.fixture
def holdfast_client(request: pytest.FixtureRequest) -> "Client":
    """A client for `async def` tests, as `holdfast.connect` makes it. It is connected."""
    client: Client = request.getfixturevalue(_async_fixture(request, "client"))
    return client


@pytest.fixture
def holdfast_embedded(request: pytest.FixtureRequest) -> "LocalDatabase":
    """An empty database in this process, as `holdfast.open(":memory:")` opens it."""
    database: LocalDatabase = request.getfixturevalue(_async_fixture(request, "embedded"))
    return database


@asynccontextmanager
async def connected_client(url: str) -> "AsyncIterator[Client]":
    """A client that does not wait for its last requests when the test ends."""
    import holdfast

    client = holdfast.connect(url)
    try:
        await client.connect()
        yield client
    finally:
        await client.close(0)


@pytest.fixture
async def _holdfast_client_in_anyio(holdfast_url: str) -> "AsyncIterator[Client]":
    async with connected_client(holdfast_url) as client:
        yield client


@pytest.fixture
async def _holdfast_embedded_in_anyio() -> "AsyncIterator[LocalDatabase]":
    import holdfast

    async with holdfast.open(":memory:") as database:
        yield database


def _async_fixture(request: pytest.FixtureRequest, what: str) -> str:
    """The name of the async fixture that runs in the event loop of the test."""
    if _is_plain(request.function, f"holdfast_{what}"):
        instead = ": use holdfast_sync_client" if what == "client" else ""
        pytest.fail(
            f"holdfast_{what} is for 'async def' tests, and {request.function.__name__} is"
            f" none{instead}",
            pytrace=False,
        )
    if "anyio_backend" in request.fixturenames:
        backend: Any = request.getfixturevalue("anyio_backend")
        if (backend if isinstance(backend, str) else backend[0]) == "trio":
            pytest.fail(f"holdfast_{what} needs asyncio, and this test runs on trio", pytrace=False)
        return f"_holdfast_{what}_in_anyio"
    if request.config.pluginmanager.hasplugin(ASYNCIO_FIXTURES):
        marker = request.node.get_closest_marker("asyncio")
        scope = marker.kwargs.get("loop_scope") if marker else None
        return f"_holdfast_{what}_in_{scope or _default_scope(request.config)}"
    pytest.fail(
        f"holdfast_{what} needs an event loop: install pytest-asyncio 0.24 or newer, or mark the"
        " test with pytest.mark.anyio; holdfast_sync_client needs none",
        pytrace=False,
    )


def _is_plain(test: Any, fixture: str) -> bool:
    """Whether the test itself uses an async fixture but is not an `async def`, so that it cannot
    use it. An async fixture between them may use it."""
    test = getattr(getattr(test, "hypothesis", test), "inner_test", test)
    if inspect.iscoroutinefunction(test) or inspect.isasyncgenfunction(test):
        return False
    return fixture in inspect.signature(test).parameters


def _default_scope(config: pytest.Config) -> str:
    try:
        return str(config.getini("asyncio_default_test_loop_scope"))
    except ValueError:  # before pytest-asyncio 1.0 there is no such setting
        return "function"


def _has_pytest_asyncio(config: pytest.Config) -> bool:
    return any(map(config.pluginmanager.hasplugin, ASYNCIO_PLUGINS))
