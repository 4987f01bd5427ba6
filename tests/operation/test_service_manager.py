"""What systemd is told, by a socket of the test's own."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from holdfast.operation.service_manager import ServiceManager
from tests.harness import HoldfastServer
from tests.harness.in_process import InProcess


class Manager:
    """The other end: a socket that takes datagrams."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind("\0" + address[1:] if address.startswith("@") else address)
        self.sock.settimeout(20)

    def close(self) -> None:
        self.sock.close()

    def message(self) -> dict[str, str]:
        lines = self.sock.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def until(self, name: str) -> list[dict[str, str]]:
        messages = [self.message()]
        while name not in messages[-1]:
            messages.append(self.message())
        return messages


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    names = {"path": str(tmp_path / "n"), "abstract": f"@holdfast-test-{os.getpid()}"}
    with closing(Manager(names[request.param])) as manager:
        yield manager


@pytest.mark.parametrize("supervised", ["systemd", "auto"])
def test_a_life(tmp_path: Path, manager: Manager, supervised: str) -> None:
    env = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "100000"}
    with HoldfastServer(tmp_path / "s", "--supervised", supervised, env=env) as server:
        *before, ready = manager.until("READY")
        assert before, "it asks for time while it opens its file"
        assert all(int(each["EXTEND_TIMEOUT_USEC"]) > 0 for each in before)
        assert ready["STATUS"].startswith("ready on 127.0.0.1:")
        manager.until("WATCHDOG")
        manager.until("WATCHDOG")  # it goes on
        server.process.send_signal(signal.SIGHUP)
        reloading = manager.until("RELOADING")[-1]
        assert int(reloading["MONOTONIC_USEC"]) > 0
        assert "READY" in manager.until("READY")[-1]
        assert server.terminate() == 0
        assert manager.until("STOPPING")[-1]["STATUS"] == "stopping: SIGTERM"


class Loop:
    """Stands for an event loop, and keeps its timers."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, callback: Callable[..., None], *args: object) -> "Loop":
        self.timers.append((delay_s, partial(callback, *args)))
        return self

    def cancel(self) -> None:
        self.timers.clear()


def test_beats_come_from_timers_of_the_loop(manager: Manager) -> None:
    """So a loop that hangs does not beat: no thread does it instead."""
    environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "3000000"}
    made, loop = ServiceManager.of("systemd", environ), Loop()
    before = threading.active_count()
    made.start_watchdog(cast(asyncio.AbstractEventLoop, loop))
    assert threading.active_count() == before
    manager.sock.setblocking(False)
    for _ in range(3):
        assert manager.message() == {"WATCHDOG": "1"}
        with pytest.raises(BlockingIOError):
            manager.message()
        ((delay_s, ring),) = loop.timers
        assert delay_s == 1.5
        loop.timers.clear()
        ring()
    made.stop_watchdog()
    assert loop.timers == []


def test_a_long_script_is_no_hang(tmp_path: Path, manager: Manager) -> None:
    env = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "20000"}
    with HoldfastServer(tmp_path / "s", "--supervised", "systemd", env=env) as server:
        client, other = server.client(), server.client()
        client.send_command("EVAL", "while true do end", 0)
        while not other.command("PING").startswith(b"-BUSY"):
            pass
        for _ in range(20):
            assert "WATCHDOG" in manager.until("WATCHDOG")[-1]
        assert other.command("SCRIPT", "KILL") == b"+OK\r\n"
        assert b"killed" in client.read_reply()


@pytest.mark.parametrize(
    ("usec", "pid", "beats"),
    [
        ("1000000", "", True),
        ("1000000", "own", True),
        ("1000000", "1", False),
        ("", "", False),
        ("soon", "", False),
        ("0", "", False),
    ],
)
def test_who_has_to_beat(manager: Manager, usec: str, pid: str, beats: bool) -> None:
    environ = {
        "NOTIFY_SOCKET": manager.address,
        "WATCHDOG_USEC": usec,
        "WATCHDOG_PID": str(os.getpid()) if pid == "own" else pid,
        "PATH": "/bin",
    }
    made = ServiceManager.of("systemd", environ)
    assert environ == {"PATH": "/bin"}, "child processes must not inherit them"
    loop = asyncio.new_event_loop()
    made.start_watchdog(loop)
    made.ready("now")
    assert [*manager.message()] == (["WATCHDOG"] if beats else ["READY", "STATUS"])
    made.stop_watchdog()
    loop.close()


def test_no_manager_is_told_nothing(manager: Manager) -> None:
    environ = {"NOTIFY_SOCKET": manager.address}
    made = ServiceManager.of("no", environ)
    made.ready("now")
    assert environ == {"NOTIFY_SOCKET": manager.address}
    manager.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.message()


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_a_socket_that_is_none_is_said_once(address: str, caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager.of("systemd", {"NOTIFY_SOCKET": address}).ready("now")
    assert "NOTIFY_SOCKET names no socket" in caplog.text
    caplog.clear()
    ServiceManager.of("auto", {"NOTIFY_SOCKET": address}).ready("now")
    assert caplog.text == ""


def test_a_manager_that_is_gone_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = ServiceManager.of("systemd", {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    made.ready("now")
    made.ready("again")
    assert caplog.text.count("cannot send messages to the service manager") == 1
    with closing(Manager(str(tmp_path / "gone"))) as manager:
        made.ready("line one\nSTOPPING=1")
        assert manager.message() == {"READY": "1", "STATUS": "line one\\nSTOPPING=1"}


def test_scripts_tick_before_they_are_slow() -> None:
    """A running script is no hang, for any lua-time-limit."""
    world = InProcess({"lua-time-limit": "0"})
    ticks: list[int] = []
    world.engine.scripts.on_tick = lambda: ticks.append(1)
    world.peer().command("EVAL", "for i = 1, 5000000 do end", 0)
    assert ticks
