"""While a script or a function overruns: which clients get replies, and which commands end it."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient
from tests.server.config.test_tls import Certificates, serve

LIBRARY = """#!lua name=lib
    redis.register_function('f', function() redis.call('set', 'k', 'after') while true do end end)
"""
SCRIPT = "redis.call('set', 'k', 'after') while true do end"
RUNS: dict[str, tuple[str | int, ...]] = {"EVAL": ("EVAL", SCRIPT, 0), "FCALL": ("FCALL", "f", 0)}


@pytest.fixture(params=RUNS.values(), ids=list(RUNS))
def run(request: pytest.FixtureRequest) -> tuple[str | int, ...]:
    command: tuple[str | int, ...] = request.param
    return command


def prepare(client: RawClient) -> None:
    client.command("SET", "k", "before")
    client.command("FUNCTION", "LOAD", LIBRARY)


def wait_until_busy(client: RawClient) -> None:
    while client.command("PING") == b"+PONG\r\n":
        pass


def test_sigterm_ends_it_and_stops_the_server(
    start_server: Callable[..., HoldfastServer], run: tuple[str | int, ...]
) -> None:
    server = start_server("--lua-time-limit", "50")
    victim, client = server.client(), server.client()
    prepare(client)
    victim.send_command(*run)
    wait_until_busy(client)
    assert server.terminate() == 0
    assert b"Script killed: the server shuts down" in victim.read_reply()
    server.start()
    assert server.client().command("GET", "k") == b"$6\r\nbefore\r\n"


def test_sigterm_before_it_overruns_is_not_forgotten(
    start_server: Callable[..., HoldfastServer],
) -> None:
    """It may end by itself until then."""
    server = start_server("--lua-time-limit", "1000")
    victim, client = server.client(), server.client()
    prepare(client)
    victim.send_command(*RUNS["EVAL"])
    client.send_command("PING")  # whether or not the script began before it
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    server.start()
    assert server.client().command("GET", "k") == b"$6\r\nbefore\r\n"


def test_shutdown_nosave_ends_a_function(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server("--lua-time-limit", "50")
    victim, client = server.client(), server.client()
    prepare(client)
    victim.send_command(*RUNS["FCALL"])
    wait_until_busy(client)
    assert client.command("SHUTDOWN") == (
        b"-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN "
        b"NOSAVE.\r\n"
    )
    client.send_command("SHUTDOWN", "NOSAVE")
    client.read_until_closed()
    assert server.process.wait(30) == 0
    server.start()
    assert server.client().command("GET", "k") == b"$6\r\nbefore\r\n"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_with_tls_it_can_be_killed_by_a_client_that_connects_later(
    tmp_path: Path, run: tuple[str | int, ...]
) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    certificates = Certificates(folder)
    options = certificates.options(tls_auth_clients="no", lua_time_limit="50")
    path = str(tmp_path / "socket")
    with (
        serve(tmp_path / "server", "--port", "0", "--unixsocket", path, *options) as server,
        certificates.connect(server.port) as victim,
        certificates.connect(server.port) as earlier,
        RawClient.connect_unix(path) as plain,
    ):
        prepare(plain)
        victim.send_command(*run)
        wait_until_busy(plain)
        earlier.send_command("PING")
        with certificates.connect(server.port) as late:
            assert late.command("PING")[:5] == b"-BUSY"
            assert late.command("ECHO", "x" * 200_000)[:5] == b"-BUSY", "also what comes in pieces"
            kind = "SCRIPT" if run[0] == "EVAL" else "FUNCTION"
            assert late.command(kind, "KILL") == b"+OK\r\n"
            assert victim.read_reply()[:18] == b"-ERR Script killed"
            late.read_until_closed()
        assert earlier.read_reply() == b"+PONG\r\n", "the loop has its keys, so it waited"
        with certificates.connect(server.port) as again:
            assert again.command("GET", "k") == b"$6\r\nbefore\r\n"
