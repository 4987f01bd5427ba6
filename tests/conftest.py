"""Fixtures for all tests: servers, clients on emptied servers, and replayable randomness.

A test that changes a server's configuration, kills it or restarts it starts its own
with `start_server`; the other fixtures share one process between tests.
"""

import filecmp
import gc
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness import HoldfastServer, RawClient, RedisServer
from tests.harness.browser import NO_BROWSER
from tests.harness.processes import NO_ORACLE
from tests.harness.seeds import NEW, seed_of
from tests.harness.spawned import NO_LIBRARY
from tests.harness.time_limit import pytest_addoption as pytest_addoption
from tests.harness.time_limit import pytest_runtest_protocol as pytest_runtest_protocol
from tests.harness.valkey import NO_VALKEY, ValkeyServer

# No deadline: how long an example takes says more about the machine than about the code.
settings.register_profile(
    "holdfast", deadline=None, print_blob=True, derandomize=os.environ.get("HOLDFAST_SEED") != NEW
)
settings.load_profile("holdfast")


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A redis-server shared by all tests of this process."""
    with RedisServer(tmp_path_factory.mktemp("oracle")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A valkey-server shared by all tests of this process."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    """Our server with default options on a fresh file, shared by the tests of one module."""
    with HoldfastServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., HoldfastServer]]:
    """Starts a server of the test's own: `start_server("--appendfsync", "no", db=path)`."""
    with ExitStack() as stack:
        count = 0

        def start(*args: str, db: Path | str | None = None) -> HoldfastServer:
            nonlocal count
            count += 1
            return stack.enter_context(HoldfastServer(tmp_path / f"server-{count}", *args, db=db))

        yield start


@pytest.fixture
def client(server: HoldfastServer) -> Iterator[RawClient]:
    """A new connection to our server, which is empty."""
    with RawClient.connect(server.port) as client:
        assert client.command("FLUSHALL") == b"+OK\r\n"
        yield client


@pytest.fixture
def oracle_client(oracle: RedisServer) -> Iterator[RawClient]:
    """A new connection to the oracle, which is empty."""
    with RawClient.connect(oracle.port) as client:
        assert client.command("FLUSHALL") == b"+OK\r\n"
        yield client


COMPILED_ALONE = {"commands", "crdt", "model", "replication", "server"}


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random choices; tests/harness/seeds.py says which."""
    return random.Random(seed_of(request.node.nodeid))


def pytest_configure() -> None:
    """A shell lets its background jobs ignore SIGINT. The servers of the tests would inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tests import src. Servers run the installed package, which is compiled. Both must be the same
    source."""
    if hasattr(session.config, "workerinput"):
        return  # one look is enough
    where = "import holdfast; print(holdfast.__path__[0])"
    found = subprocess.run([sys.executable, "-c", where], capture_output=True, text=True)
    source, installed = Path(__file__).parents[1] / "src/holdfast", Path(found.stdout.strip())
    files = [
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.suffix in {".py", ".lua", ".sql"}
    ]
    if any(source.rglob("*.so")):
        pytest.exit(f"{source} has compiled modules, which would be imported: `make clean`", 1)
    _, differ, missing = filecmp.cmpfiles(source, installed, files, shallow=False)
    if differ or missing:
        pytest.exit(
            f"{installed} is not what is in src (see {[*differ, *missing][0]}):"
            " `make install` compiles it, `PYTHONPATH=$PWD/src` does without",
            returncode=1,
        )


@pytest.hookimpl(tryfirst=True)  # before -m decides by these marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function):
            if "oracle" in item.fixturenames:
                item.add_marker(pytest.mark.oracle)
            if {"server", "start_server"} & {*item.fixturenames}:
                item.add_marker(pytest.mark.source_only)
    if os.environ.get("TESTED_COMPILED"):
        config.hook.pytest_deselected(items=[item for item in items if has_run_compiled(item)])
        items[:] = [item for item in items if not has_run_compiled(item)]


def pytest_collection_finish() -> None:
    """All tests stay in memory until the end. A search for garbage need not visit them each time:
    that took half a second."""
    gc.collect()
    gc.freeze()


def has_run_compiled(item: pytest.Item) -> bool:
    """Whether `make test` has run it on the compiled modules, and once is enough. Tests of the
    store and of scripts run on both, because modules in C have twins in Python there."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return folder in COMPILED_ALONE and item.get_closest_marker("source_only") is None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    for what, reason in (
        ("ORACLE", NO_ORACLE),
        ("VALKEY", NO_VALKEY),
        ("LIBRARY", NO_LIBRARY),
        ("BROWSER", NO_BROWSER),
    ):
        count = sum(reason in str(report.longrepr) for report in skipped)
        if count:
            terminalreporter.section(f"{what} TESTS DID NOT RUN", red=True, bold=True)
            terminalreporter.line(f"{reason}. {count} tests skipped.", red=True)
