"""Servers for tests: each is a process of its own, and none outlives its session."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import UnavailableError
from holdfast.testing import DisposableServer, Servers
from tests.harness import RawClient, wait_until


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers() as servers:
        yield servers


def is_running(pid: int) -> bool:
    """A zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def ask(server: DisposableServer, *args: str | int) -> bytes:
    with RawClient.connect(server.port) as client:
        return client.command(*args)


def test_a_server_is_empty_and_has_its_own_port_and_process(servers: Servers) -> None:
    with servers.start() as one, servers.start() as two:
        assert ask(one, "SET", "k", "v") == b"+OK\r\n"
        assert ask(two, "DBSIZE") == b":0\r\n"
        assert len({one.pid, two.pid, os.getpid()}) == 3
        assert one.port != two.port
        assert one.url == f"redis://127.0.0.1:{one.port}/0"
        assert "ready on" in one.log


def test_options_are_configuration_parameters(servers: Servers) -> None:
    with servers.start(maxmemory="10mb", slowlog_max_len=7) as server:
        assert b"10485760" in ask(server, "CONFIG", "GET", "maxmemory")
        assert b"\r\n7\r\n" in ask(server, "CONFIG", "GET", "slowlog-max-len")


@pytest.mark.parametrize("options", [{"maxmemry": 1}, {"maxmemory": "much"}, {"db": "no/x.db"}])
def test_wrong_options_are_one_sentence(servers: Servers, options: dict[str, str | int]) -> None:
    with pytest.raises(UnavailableError) as caught:
        servers.start(**options)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    with servers.start() as server:
        assert ask(server, "PING") == b"+PONG\r\n"


def test_the_environment_of_the_session_does_not_configure_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PORT", "1")
    monkeypatch.setenv("HOLDFAST_REQUIREPASS", "secret")
    with Servers() as servers, servers.start() as server:
        assert ask(server, "PING") == b"+PONG\r\n"


def test_a_file_survives_a_restart_on_the_same_port(servers: Servers) -> None:
    with servers.start(db="test.db") as server:
        ask(server, "SET", "k", "v")
        before = server.pid, server.port
        server.restart()
        assert server.port == before[1]
        assert server.pid != before[0]
        assert ask(server, "GET", "k") == b"$1\r\nv\r\n"
        folder = server.folder
        assert (folder / "test.db").exists()
    wait_until(lambda: not folder.exists(), "the files are removed")


def test_memory_does_not_survive_a_restart(servers: Servers) -> None:
    with servers.start() as server:
        ask(server, "SET", "k", "v")
        server.restart()
        assert ask(server, "DBSIZE") == b":0\r\n"


@pytest.mark.parametrize("how", ["kill", "SHUTDOWN", "SIGKILL", "SIGSTOP", "endless script"])
def test_the_next_server_starts_whatever_became_of_the_last(servers: Servers, how: str) -> None:
    with servers.start() as server:
        with RawClient.connect(server.port) as client:
            match how:
                case "kill":
                    server.kill()
                    server.kill()
                case "SHUTDOWN":
                    client.send(b"SHUTDOWN NOSAVE\r\n")
                case "endless script":
                    client.send_command("EVAL", "while true do end", 0)
                case _:
                    os.kill(server.pid, getattr(signal, how))
        pid = server.pid
    with servers.start() as server:
        assert ask(server, "PING") == b"+PONG\r\n"
    wait_until(lambda: not is_running(pid), "the last server is gone")


def test_a_spawner_that_died_is_replaced() -> None:
    with Servers() as servers:
        first = servers.start()
        busy = RawClient.connect(first.port)
        busy.send_command("EVAL", "while true do end", 0)
        process = servers._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(first.pid), "the server follows its spawner")
        process.wait()
        with servers.start() as server:
            assert ask(server, "PING") == b"+PONG\r\n"
        busy.close()
        first.close()
        shutil.rmtree(first.folder.parent)  # a spawner that is killed cannot do it


def test_a_closed_server_is_not_started_again_and_harms_no_other(servers: Servers) -> None:
    with servers.start() as other:
        server = servers.start(db="test.db")
        server.close()
        with servers.start():  # the spawner has removed the files of the closed one by now
            pass
        with pytest.raises(UnavailableError, match="is closed"):
            server.restart()
        with pytest.raises(UnavailableError, match="No such file"):
            servers.ask("start", options={}, folder=str(server.folder))
        assert ask(other, "PING") == b"+PONG\r\n"


def test_the_url_has_the_password(servers: Servers) -> None:
    with servers.start(requirepass="p@ss") as server:
        assert server.url == f"redis://:p%40ss@127.0.0.1:{server.port}/0"


def test_closing_leaves_nothing() -> None:
    other = Servers()
    server = other.start(db="test.db")
    pid, folder = server.pid, server.folder.parent
    other.close()
    other.close()
    assert not is_running(pid)
    assert not folder.exists()


SESSION = """
import os, sys
from holdfast.testing import Servers
servers = Servers()
server = servers.start(db="test.db")
if "fork" in sys.argv and os.fork() == 0:
    import signal
    signal.pause()  # it holds the pipe to the spawner
import socket
busy = socket.create_connection((server.host, server.port))
busy.sendall(b"EVAL 'while true do end' 0\\r\\n")
print(server.pid, servers._process.pid, server.folder.parent, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGKILL fork"])
def test_servers_die_with_a_session_that_is_killed(how: str) -> None:
    """Even if a script runs for ever, and a process that the session forked lives on."""
    name, _, fork = how.partition(" ")
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION, fork],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with session:
        assert session.stdout is not None
        pid, spawner, folder = session.stdout.readline().split()
        session.send_signal(getattr(signal, name))
        session.wait()
        try:
            wait_until(lambda: not is_running(int(pid)), "the server is gone")
            wait_until(lambda: not is_running(int(spawner)), "the spawner is gone")
            assert not Path(folder).exists()
        finally:
            if fork:
                os.killpg(session.pid, signal.SIGKILL)
