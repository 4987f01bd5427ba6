"""The fixtures, in a pytest of their own, as a project uses them."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.testing.pytest_plugin import has_loop_scopes
from tests.harness import wait_until
from tests.testing.projects import argv, environment, run_project

QUIET = ("-p", "no:cacheprovider", "-W", "error", "--strict-markers")
# pytest-asyncio warns in every project that does not choose one.
SCOPED = ("-o", "asyncio_default_fixture_loop_scope=function")

# Each leaves something behind. The test after it begins by looking for it.
LEFTOVERS = {
    "a blocked client": 'r().execute_command("BLPOP", "q", 0)',
    "a subscriber": 'r().execute_command("SUBSCRIBE", "news")',
    "an open MULTI": 'r().execute_command("MULTI")',
    "a changed CONFIG": 'r().execute_command("CONFIG", "SET", "maxmemory", "1mb", "timeout", "7")',
    "a function library": 'r().execute_command("FUNCTION", "LOAD", LIBRARY)',
    "a script": 'r().execute_command("SCRIPT", "LOAD", "return 1")',
    "an ACL user": 'r().execute_command("ACL", "SETUSER", "ann", "on", ">x", "+@all", "~*")',
    "no rights": 'r().execute_command("ACL", "SETUSER", "default", "off")',
    "a pause": 'r().execute_command("CLIENT", "PAUSE", "600000")',
    "data": 'r().execute_command("SET", "k", "v"); r(db=5).execute_command("SET", "k", "v")',
    "a script that runs for ever": 'r().execute_command("EVAL", "while true do end", 0)',
    "a script that runs for ever and has written": 'r().execute_command("EVAL", WRITES, 0)',
    "a thread that connects again": "threading.Thread(target=reconnect, daemon=True).start()",
    "no server": 'r().execute_command("SHUTDOWN", "NOSAVE")',
}
LEAVES = f'''
import threading, time
import pytest, redis

LIBRARY = "#!lua name=lib\\nredis.register_function('f', function() return 1 end)"
WRITES = "redis.call('SET', 'k', 'v') while true do end"
LEFTOVERS = {LEFTOVERS!r}
SHA = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"  # of "return 1"
kept, first = [], []

def state(url):
    """All that a client can see and that must not depend on earlier tests."""
    with redis.Redis.from_url(url, decode_responses=True) as r:
        names = ("connected_clients blocked_clients pubsub_channels number_of_functions "
                 "number_of_cached_scripts total_error_replies total_connections_received")
        info = r.info("everything")
        config = {{k: v for k, v in r.config_get("*").items() if k not in ("dir", "port")}}
        return [config, [info[name] for name in names.split()], r.info("keyspace"), r.acl_list(),
                r.function_list(), r.acl_log(), r.script_exists(SHA)]

@pytest.mark.parametrize("name", [*LEFTOVERS, ""])
def test_step(name, holdfast_url):
    first.append(state(holdfast_url))
    assert first[-1] == first[0]

    class r:
        def __init__(self, **options):
            self.pool = redis.ConnectionPool.from_url(holdfast_url, **options)
        def execute_command(self, *args):
            connection = self.pool.get_connection()
            kept.append((self.pool, connection))  # it stays open, and no reply is read
            connection.send_command(*args)

    def reconnect():
        while True:
            try:
                redis.Redis.from_url(holdfast_url).blpop("q", 0)
            except redis.RedisError:
                time.sleep(0.001)

    exec(LEFTOVERS.get(name, ""), globals() | locals())
'''


def test_nothing_of_a_test_is_left_for_the_next(tmp_path: Path) -> None:
    (tmp_path / "test_leaving.py").write_text(LEAVES)
    done = run_project(tmp_path, *QUIET, "-W", "default::pytest.PytestUnraisableExceptionWarning")
    assert done.code == 0, done.text
    assert len(done.results) == len(LEFTOVERS) + 1


ASYNC = """
import pytest, redis

class TestOneLoop:
    pytestmark = pytest.mark.asyncio(loop_scope="class")

    @pytest.mark.parametrize("again", [1, 2])
    async def test_class(self, again, holdfast_client, holdfast_embedded):
        assert await holdfast_client.get("k") is None
        await holdfast_client.set("k", "v")
        assert await holdfast_embedded.execute("GET", "k") is None
        await holdfast_embedded.execute("SET", "k", "v")

@pytest.mark.asyncio
async def test_default(holdfast_client, holdfast_url):
    assert await holdfast_client.incr("n") == 1
    with redis.Redis.from_url(holdfast_url) as r:
        assert r.get("n") == b"1"

@pytest.mark.asyncio(loop_scope="session")
async def test_session(holdfast_client):
    assert await holdfast_client.incr("n") == 1

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_anyio(holdfast_client, anyio_backend):
    assert await holdfast_client.incr("n") == 1
"""
AUTO = """
import pytest_asyncio

@pytest_asyncio.fixture
async def seeded(holdfast_client):
    await holdfast_client.set("seed", "1")
    yield holdfast_client
    assert await holdfast_client.get("seed") == "2"  # it is still open

async def test_fixture(seeded):
    assert await seeded.incr("seed") == 2

async def test_embedded(holdfast_embedded):
    assert await holdfast_embedded.execute("INCR", "n") == 1

def test_sync(holdfast_sync_client):
    assert holdfast_sync_client.incr("n") == 1
"""
ANYIO = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def seeded(holdfast_client):
    await holdfast_client.set("seed", "1")
    yield holdfast_client
    assert await holdfast_client.get("seed") == "2"

@pytest.mark.anyio
async def test_fixture(seeded, holdfast_embedded):
    assert await seeded.incr("seed") == 2
    assert await holdfast_embedded.execute("INCR", "seed") == 1
"""


@pytest.mark.parametrize(("mode", "text"), [("strict", ASYNC), ("auto", AUTO)])
def test_clients_live_in_the_loop_of_pytest_asyncio(tmp_path: Path, mode: str, text: str) -> None:
    (tmp_path / "test_async.py").write_text(text)
    args = (*QUIET, *SCOPED, "-o", f"asyncio_mode={mode}")
    done = run_project(tmp_path, *args, libraries=["pytest-asyncio"])
    assert done.code == 0, done.text


def test_clients_live_in_the_loop_of_anyio(tmp_path: Path) -> None:
    pytest.importorskip("anyio")
    (tmp_path / "test_async.py").write_text(ANYIO)
    done = run_project(tmp_path, *QUIET)
    assert done.code == 0, done.text


WRONG = """
import pytest

async def test_no_loop(holdfast_client): pass

def test_plain(holdfast_client): pass

def test_plain_embedded(holdfast_embedded): pass

@pytest.mark.holdfast(maxmemry="1mb")
def test_option(holdfast_server): pass

@pytest.mark.holdfast("1mb")
def test_position(holdfast_server): pass
"""


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(WRONG)
    done = run_project(tmp_path, *QUIET)
    assert set(done.results.values()) == {"ERROR"}
    assert "Traceback" not in done.text
    for sentence in (
        "holdfast_client needs an event loop: install pytest-asyncio 0.24 or newer,",
        "holdfast_client is for 'async def' tests, and test_plain is none: use",
        "holdfast_embedded is for 'async def' tests, and test_plain_embedded is none",
        "holdfast_server: unknown option 'maxmemry'",
        "holdfast(): options have names, such as maxmemory='10mb'",
    ):
        assert sentence in done.text


PLAIN = """
import pytest, pytest_asyncio
from hypothesis import HealthCheck, given, settings, strategies

@pytest_asyncio.fixture
async def seeded(holdfast_client):
    await holdfast_client.set("seed", "1")

def test_plain(holdfast_client): pass

@pytest.mark.asyncio
def test_marked(holdfast_embedded): pass

def test_by_fixture(seeded, holdfast_sync_client):
    assert holdfast_sync_client.get("seed") == "1"

@pytest.mark.usefixtures("holdfast_client")
def test_asks_for_no_value(): pass

@pytest.mark.asyncio
@given(number=strategies.integers())
@settings(max_examples=2, suppress_health_check=[*HealthCheck])
async def test_property(holdfast_client, number):
    await holdfast_client.set("n", number)
"""


def test_a_plain_test_cannot_await_so_it_gets_no_asyncio_client(tmp_path: Path) -> None:
    """pytest-asyncio would give it a client that no statement of the test can use."""
    (tmp_path / "test_plain.py").write_text(PLAIN)
    args = (*QUIET, *SCOPED, "-W", "default::pytest.PytestWarning")
    done = run_project(tmp_path, *args, libraries=["pytest-asyncio"])
    assert done.results == {
        "test_plain": "ERROR", "test_marked": "ERROR", "test_by_fixture": "PASSED",
        "test_asks_for_no_value": "PASSED", "test_property": "PASSED",
    }, done.text  # fmt: skip
    assert "holdfast_client is for 'async def' tests, and test_plain is none: use" in done.text
    assert "holdfast_embedded is for 'async def' tests, and test_marked is none" in done.text


LOGGED = """
import pytest, redis

def say(url, text):
    with redis.Redis.from_url(url) as r:
        r.execute_command("CONFIG", "SET", "proc-title-template", text)

@pytest.fixture(scope="module")
def shared(holdfast_servers):
    with holdfast_servers.start() as server:
        yield server

@pytest.fixture
def broken(holdfast_url):
    say(holdfast_url, "in-the-fixture")
    raise ValueError

def test_good(holdfast_url, shared):
    say(holdfast_url, "of-a-good-test")
    say(shared.url, "shared-before")

def test_bad(holdfast_url, shared):
    say(holdfast_url, "of-a-bad-test")
    say(shared.url, "shared-now")
    assert False

def test_own(holdfast_servers):
    with holdfast_servers.start() as server:
        say(server.url, "of-an-own-server")
        assert False

def test_setup(broken): pass

def test_closed(holdfast_servers):
    with holdfast_servers.start() as server:
        say(server.url, "of-a-closed-server")
    assert False
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_the_report_of_a_failed_test_has_the_log_of_its_servers(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_logged.py").write_text(LOGGED)
    done = run_project(tmp_path, *QUIET, *workers)
    assert len(done.results) == 5, done.text
    assert done.text.count("- Captured log of holdfast, port ") == 4, done.text
    for said, count in {
        "of-a-good-test": 0, "shared-before": 0, "of-a-bad-test": 1, "shared-now": 1,
        "of-an-own-server": 1, "in-the-fixture": 1, "of-a-closed-server": 0,
    }.items():  # fmt: skip
        assert len(re.findall(f"notice .*{said}", done.text)) == count, (said, done.text)


MARKED = """
import pytest, redis
pytestmark = pytest.mark.holdfast(maxmemory="1mb", slowlog_max_len=5)

@pytest.mark.holdfast(maxmemory="2mb", db="test.db")
def test_marked(holdfast_server, holdfast_servers):
    with redis.Redis.from_url(holdfast_server.url) as r:
        r.set("k", "v")
        assert r.config_get("maxmemory") == {"maxmemory": "2097152"}
        assert r.config_get("slowlog-max-len") == {"slowlog-max-len": "5"}
    holdfast_server.restart()
    with redis.Redis.from_url(holdfast_server.url) as r:
        assert r.get("k") == b"v"
    with holdfast_servers.start() as other, redis.Redis.from_url(other.url) as r:
        assert r.dbsize() == 0
"""


def test_a_marker_configures_the_server_of_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    done = run_project(tmp_path, *QUIET)
    assert done.code == 0, done.text


def test_each_worker_of_xdist_has_its_own(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(4))\n"
    text += "def test_parent(n, holdfast_sync_client):\n    holdfast_sync_client.set('k', n)\n"
    text += "    assert holdfast_sync_client.get('k') == str(n)\n"
    (tmp_path / "test_many.py").write_text(text)
    done = run_project(tmp_path, *QUIET, "-n", "2")
    assert done.code == 0, done.text


def test_a_killed_pytest_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "test_killed.py").write_text(
        "import time\n"
        "def test_killed(holdfast_server):\n"
        "    print(holdfast_server.pid, holdfast_server.folder.parent, flush=True)\n"
        "    time.sleep(600)\n"
    )
    env = environment(tmp_path)
    with subprocess.Popen(argv("-s", *QUIET), cwd=tmp_path, env=env, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        try:
            line = next(line for line in run.stdout if b"holdfast-tests-" in line)
        finally:
            os.kill(run.pid, signal.SIGKILL)
        pid, folder = line.split()[-2:]
    wait_until(lambda: not Path(f"/proc/{pid.decode()}").exists(), "the server is gone")
    wait_until(lambda: not Path(folder.decode()).exists(), "its folder is gone")


def test_a_run_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    """No server, no client, no event loop, no process."""
    (tmp_path / "test_imports.py").write_text(
        "import sys\n"
        "def test_imports():\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] == 'holdfast'}\n"
        "    assert ours == {'holdfast', 'holdfast._version', 'holdfast.errors',\n"
        "        'holdfast.testing', 'holdfast.testing.pytest_plugin'}\n"
    )
    done = run_project(tmp_path, *QUIET, "-p", "no:anyio", "-p", "no:hypothesispytest")
    assert done.code == 0, done.text


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.21.2", False), ("0.23.8", False), ("0.24.0", True), ("0.24.0a1", True), ("1.4.0", True)],
)
def test_an_old_pytest_asyncio_does_not_break_runs_without_fixtures(
    version: str, expected: bool
) -> None:
    assert has_loop_scopes(version) is expected
