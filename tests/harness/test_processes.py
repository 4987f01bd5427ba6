"""The servers that tests start: they come up, they die, they leave nothing behind."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, RedisServer, processes, wait_until


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_wait_until_gives_up_and_says_what_on() -> None:
    with pytest.raises(AssertionError, match="pigs fly"):
        wait_until(lambda: False, "pigs fly", timeout_s=0)


def test_the_oracle_answers(oracle_client: RawClient) -> None:
    assert oracle_client.command("PING") == b"+PONG\r\n"


@pytest.mark.oracle
def test_a_redis_server_takes_options_and_is_gone_afterwards(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--maxmemory", "100mb") as server:
        pid = server.pid
        assert b"104857600" in server.client().command("CONFIG", "GET", "maxmemory")
    assert not is_alive(pid)


def test_a_server_that_does_not_stop_is_killed_and_its_threads_are_told(
    start_server: Callable[..., HoldfastServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    server.suspend()
    monkeypatch.setattr(processes, "STOP_TIMEOUT_S", 0.1)
    with pytest.raises(AssertionError, match=r"still running after SIGTERM: \{'\d+ \w+"):
        server.terminate()
    assert not is_alive(server.pid)


def test_a_server_that_does_not_start_says_why(
    start_server: Callable[..., HoldfastServer],
) -> None:
    with pytest.raises(AssertionError, match="no-such-option"):
        start_server("--no-such-option", "1")


def test_a_server_is_gone_after_its_block(tmp_path: Path) -> None:
    with HoldfastServer(tmp_path) as server:
        pid = server.pid
        assert server.client().command("PING") == b"+PONG\r\n"
    assert not is_alive(pid)


def test_sigterm_is_a_clean_exit_and_a_restart_finds_the_data(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server()
    assert server.client().command("SET", "k", "v") == b"+OK\r\n"
    assert server.terminate() == 0
    server.restart()
    assert server.client().command("GET", "k") == b"$1\r\nv\r\n"


def test_sigkill_is_a_crash_and_a_restart_finds_what_was_acknowledged(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server()
    client = server.client()
    assert client.command("SET", "k", "v") == b"+OK\r\n"
    server.kill()
    assert server.process.returncode == -signal.SIGKILL
    assert client.read_until_closed() == b""
    server.restart()
    assert server.client().command("GET", "k") == b"$1\r\nv\r\n"
