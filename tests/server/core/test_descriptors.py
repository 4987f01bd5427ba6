"""Descriptors are kept for files, and clients wait to be let in as tcp-backlog says."""

import os
import re
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.server.core.descriptors import RESERVED, check_clients, limit_clients
from tests.harness import HoldfastServer
from tests.harness.processes import wait_until


class Narrow(HoldfastServer):
    """A server that may have 100 open files, and no more."""

    def _spawn(self, argv: list[str], env: dict[str, str] | None = None) -> re.Match[str] | None:
        return super()._spawn(["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh", *argv], env)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The limits of a fake process, independent of the real one."""
    limits = {"soft": 1024, "hard": 4096}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits["soft"], limits["hard"]))
    monkeypatch.setattr(
        resource, "setrlimit", lambda _, pair: limits.update(soft=pair[0], hard=pair[1])
    )
    return limits


def test_the_limit_is_raised_as_far_as_needed(limits: dict[str, int]) -> None:
    assert limit_clients(900) == 900
    assert limits["soft"] == 1024
    assert limit_clients(2000) == 2000
    assert limits["soft"] == 2000 + RESERVED


def test_clients_are_fewer_where_the_system_allows_no_more(
    limits: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    assert limit_clients(10_000) == 4096 - RESERVED
    assert "maxclients is 4032 instead of 10000: 4096 open files are allowed" in caplog.text


def test_a_system_that_allows_no_client_is_told_so(limits: dict[str, int]) -> None:
    limits.update(soft=20, hard=RESERVED)
    with pytest.raises(ConfigError, match=r"64 open files are allowed \(ulimit -n\)"):
        limit_clients(10)


def test_config_set_does_not_promise_what_the_system_does_not_allow(
    limits: dict[str, int],
) -> None:
    check_clients(4096 - RESERVED)
    with pytest.raises(ConfigError, match="try with 4032"):
        check_clients(5000)


def test_files_can_be_opened_when_no_more_clients_are_let_in(tmp_path: Path) -> None:
    users = tmp_path / "users.acl"
    users.touch()
    with Narrow(tmp_path / "server", "--aclfile", str(users)) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(100)]
        answers = [client.command("PING") for client in clients[: 100 - RESERVED]]
        assert answers == [b"+PONG\r\n"] * (100 - RESERVED)
        assert clients[-1].read_reply() == b"-ERR max number of clients reached\r\n"
        first = clients[0]
        assert first.command("CONFIG", "GET", "maxclients").endswith(b"$2\r\n36\r\n")
        assert first.command("SET", "k", "v") == b"+OK\r\n"
        assert first.command("ACL", "SAVE") == b"+OK\r\n"
        assert first.command("SAVE") == b"+OK\r\n"
        assert b"try with 36" in first.command("CONFIG", "SET", "maxclients", 1000)
        assert "maxclients is 36 instead of 10000" in server.stderr


def test_as_many_clients_wait_to_be_let_in_as_tcp_backlog_says(
    start_server: Callable[..., HoldfastServer],
) -> None:
    """While the server is stopped the kernel keeps them."""
    server = start_server("--tcp-backlog", "250")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.socket()) for _ in range(200)]
            for client in clients:
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", server.port))
            wait_until(lambda: all(map(is_connected, clients)), "all clients are connected")
    finally:
        os.kill(server.pid, signal.SIGCONT)


def is_connected(client: socket.socket) -> bool:
    try:
        client.getpeername()
    except OSError:
        return False
    return True
