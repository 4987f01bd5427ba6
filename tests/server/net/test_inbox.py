"""The commands of several clients in one turn are read together, in order, at its end."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.harness import HoldfastServer
from tests.server.wire import WireServer


@contextmanager
def stopped(server: HoldfastServer) -> Iterator[None]:
    """Data sent meanwhile is there when the server reads again, all in one turn."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_a_client_that_comes_with_a_script_that_overruns_is_answered_while_it_runs(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--lua-time-limit", "10")
    with server.client() as runner, server.client() as other, server.client() as killer:
        assert [c.command("PING") for c in (runner, other, killer)] == [b"+PONG\r\n"] * 3
        with stopped(server):
            runner.send_command("EVAL", "while true do end", 0)
            runner.send_command("ECHO", "after the script")
            other.send_command("GET", "k")
        assert other.read_reply().startswith(b"-BUSY ")
        assert killer.command("SCRIPT", "KILL") == b"+OK\r\n"
        assert runner.read_reply().startswith(b"-ERR Script killed by user")
        assert runner.read_reply() == b"$16\r\nafter the script\r\n"
        assert other.command("GET", "k") == b"$-1\r\n"


def test_what_a_client_says_before_it_leaves_is_done() -> None:
    server = WireServer()
    leaving, staying = server.connect(), server.connect()
    leaving.connection.data_received(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
    leaving.connection.connection_lost(None)
    assert staying.command("GET", "k") == b"$1\r\nv\r\n"


def test_parts_of_a_command_come_together_in_one_turn() -> None:
    server = WireServer()
    one, other = server.connect(), server.connect()
    one.connection.data_received(b"*2\r\n$4\r\nEC")
    other.connection.data_received(b"*1\r\n$4\r\nPING\r\n")
    one.connection.data_received(b"HO\r\n$2\r\nhi\r\n*1\r\n$4\r\nPI")
    assert one.read() == b"$2\r\nhi\r\n"
    assert other.read() == b"+PONG\r\n"
    one.connection.data_received(b"NG\r\n")
    assert one.read() == b"+PONG\r\n"


def test_later_commands_of_a_client_that_is_cut_off_do_not_run() -> None:
    server = WireServer()
    one, other = server.connect(), server.connect()
    client_id = other.command("CLIENT", "ID")[1:-2]
    one.connection.data_received(b"CLIENT KILL ID %b\r\n" % client_id)
    other.connection.data_received(b"SET k v\r\n")
    one.read()
    assert other.state != "open"
    assert one.command("EXISTS", "k") == b":0\r\n"
