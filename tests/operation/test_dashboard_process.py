"""The dashboard inside of a server: it comes with the server and leaves with it."""

import http.client
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import HoldfastServer
from tests.harness.processes import steady_port, wait_until


def status_of(port: int, path: str = "/") -> int:
    """0: nothing listens there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_has_its_dashboard_until_it_ends(
    start_server: Callable[..., HoldfastServer], number: int
) -> None:
    port = steady_port()
    server = start_server("--dashboard", "yes", "--dashboard-port", str(port))
    wait_until(lambda: status_of(port) == 200, "a page of the dashboard", 60)
    os.kill(server.pid, number)
    server.process.wait(30)
    wait_until(lambda: status_of(port) == 0, "the dashboard has ended", 60)


def test_its_history_lies_beside_the_database_and_knows_the_password(
    start_server: Callable[..., HoldfastServer],
) -> None:
    port = steady_port()
    options = ("--dashboard", "yes", "--dashboard-port", str(port), "--requirepass", "secret")
    server = start_server(*options)
    wait_until(lambda: status_of(port) == 303, "the page to sign in", 60)
    found = [path.name for path in server.folder.iterdir()]
    assert any(name.endswith(".db.dashboard") for name in found), found
    assert "secret" not in server.stderr
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    arguments = [Path(f"/proc/{pid}/cmdline").read_text() for pid in children]
    assert any("holdfast.web.child" in text for text in arguments)
    assert not any("secret" in text for text in arguments)


def test_a_dashboard_that_others_could_reach_needs_a_password(
    start_server: Callable[..., HoldfastServer],
) -> None:
    options = ("--dashboard-port", str(steady_port()), "--dashboard-bind", "0.0.0.0")
    server = start_server("--dashboard", "yes", *options)
    wait_until(lambda: "not started again" in server.stderr, "the reason in the log", 60)
    assert "the server has no password" in server.stderr
    assert server.client().command("PING") == b"+PONG\r\n"
