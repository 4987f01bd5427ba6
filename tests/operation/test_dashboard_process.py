"""The dashboard inside of a server: it comes with the server and leaves with it."""

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

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


def test_an_open_page_does_not_hold_up_the_end(server: HoldfastServer, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    argv = (sys.executable, "-m", "holdfast", "dashboard", url, "--port", "0")
    log = tmp_path / "log"
    with log.open("wb") as out:
        history = ("--history", str(tmp_path / "history.db"))
        process = subprocess.Popen([*argv, *history], stdout=out, stderr=out)
    try:
        wait_until(lambda: "ready on" in log.read_text(), "the dashboard is ready")
        found = re.search(r"ready on (\S+)/", log.read_text())
        assert found is not None
        with urlopen(f"{found[1]}/events?kind=figures", timeout=60) as stream:
            assert stream.readline().startswith(b"event")
            process.terminate()
            assert stream.read()  # the stream ends, and is not cut
            assert process.wait(60) == -signal.SIGTERM  # after a clean end, uvicorn raises it again
    finally:
        process.kill()
        process.wait()
    assert log.read_text().count("\n") == 1, log.read_text()


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
