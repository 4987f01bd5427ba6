"""Connections: which are accepted, which are closed, and which bytes leave first."""

import socket
from collections.abc import Callable
from time import perf_counter_ns

import pytest

from tests.harness import HoldfastServer, encode_command
from tests.server.wire import WireServer

KB = b"x" * 1000
OUTSIDE = "192.0.2.7"


# -- accepted clients -----------------------------------------------------------------------------


def test_strangers_are_refused_while_there_is_no_password() -> None:
    server = WireServer()
    stranger = server.connect(OUTSIDE)
    assert stranger.transport.read().startswith(b"-DENIED Redis is running in protected mode")
    assert stranger.state == "closed"
    assert len(server.engine.sessions) == 0
    assert server.connect("127.0.0.1").command("PING") == b"+PONG\r\n"
    assert server.connect("::1").command("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("config", [{"protected_mode": "no"}, {"requirepass": "secret"}])
def test_strangers_are_let_in_without_protection_or_with_a_password(
    config: dict[str, str],
) -> None:
    server = WireServer(perf_counter_ns, **config)
    assert server.connect(OUTSIDE).command("AUTH", "default", "secret") == b"+OK\r\n"


def test_one_client_too_many_is_told_so() -> None:
    server = WireServer(maxclients="2")
    first, second = server.connect(), server.connect()
    third = server.connect()
    assert third.transport.read() == b"-ERR max number of clients reached\r\n"
    assert third.state == "closed"
    assert second.command("PING") == b"+PONG\r\n"
    first.transport.close()
    assert server.connect().command("PING") == b"+PONG\r\n"
    assert server.engine.meter.rejected_connections == 1


def test_a_password_set_later_is_asked_of_later_connections() -> None:
    server = WireServer()
    early = server.connect()
    server.set("requirepass", "secret")
    assert early.command("PING") == b"+PONG\r\n"
    late = server.connect()
    assert late.command("PING") == b"-NOAUTH Authentication required.\r\n"
    server.set("requirepass", "")
    assert late.command("PING") == b"+PONG\r\n"
    server.set("requirepass", "another")
    assert late.command("PING") == b"-NOAUTH Authentication required.\r\n"
    assert late.command("AUTH", "another") == b"+OK\r\n"


def test_long_commands_behind_an_auth_are_read_when_it_has_succeeded() -> None:
    server = WireServer(requirepass="secret")
    client = server.connect()
    long_one = encode_command("DEL", *range(20))
    client.send(encode_command("AUTH", "secret") + long_one)
    assert client.read() == b"+OK\r\n:0\r\n"
    stranger = server.connect()
    stranger.send(encode_command("AUTH", "wrong") + long_one)
    assert stranger.read().endswith(b"-ERR Protocol error: unauthenticated multibulk length\r\n")
    assert stranger.state == "closed"


def test_dead_peers_are_probed_as_configured() -> None:
    tcp = socket.IPPROTO_TCP
    options = WireServer(tcp_keepalive="30").connect().transport.socket.options
    assert options[socket.SOL_SOCKET, socket.SO_KEEPALIVE] == 1
    assert options[tcp, socket.TCP_KEEPIDLE] == 30
    assert (options[tcp, socket.TCP_KEEPINTVL], options[tcp, socket.TCP_KEEPCNT]) == (10, 3)
    options = WireServer(tcp_keepalive="0").connect().transport.socket.options
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE) not in options


def test_a_client_with_a_keepalive_longer_than_the_kernel_allows_is_accepted(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--tcp-keepalive", "2147483647")
    assert server.client().command("PING") == b"+PONG\r\n"


# -- idle clients ---------------------------------------------------------------------------------


def test_idle_clients_are_closed_and_busy_ones_are_not() -> None:
    server = WireServer(timeout="10")
    idle, busy = server.connect(), server.connect()
    for _ in range(4):
        server.wait(4)
        assert busy.command("PING") == b"+PONG\r\n"
    assert (idle.state, busy.state) == ("aborted", "open")


def test_a_client_that_waits_or_monitors_is_not_idle() -> None:
    server = WireServer(timeout="10")
    blocked, monitor, pusher = server.connect(), server.connect(), server.connect()
    blocked.send_command("BLPOP", "k", 0)
    assert monitor.command("MONITOR") == b"+OK\r\n"
    server.wait(30)
    assert (blocked.state, monitor.state, pusher.state) == ("open", "open", "aborted")
    # Being answered is activity, too.
    server.connect().command("RPUSH", "k", "v")
    server.wait(8)
    assert blocked.state == "open"
    server.wait(8)
    assert blocked.state == "aborted"


def test_the_timeout_can_be_set_while_clients_are_idle() -> None:
    server = WireServer()
    client = server.connect()
    server.wait(100)
    assert client.state == "open"
    server.set("timeout", "10")
    server.wait(1)
    assert client.state == "aborted"


# -- slow readers ---------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_cut_off_at_the_hard_limit() -> None:
    server = WireServer(client_output_buffer_limit="normal 10000 0 0")
    client = server.connect()
    client.command("SET", "k", KB)
    client.transport.is_stuck = True
    for _ in range(9):
        client.send_command("GET", "k")
        server.engine.turn.end()
    assert client.state == "open"
    client.send_command("GET", "k")
    server.engine.turn.end()
    assert client.state == "aborted"


@pytest.mark.parametrize("commands_between", [0, 1, 50])
def test_a_client_that_was_behind_and_has_caught_up_may_be_sent_as_much_again(
    commands_between: int,
) -> None:
    server = WireServer(client_output_buffer_limit="normal 10000 0 0")
    client = server.connect()
    client.command("SET", "k", "x" * 9000)
    client.transport.is_stuck = True
    assert len(client.command("GET", "k")) > 9000  # and with that it has read it
    for _ in range(commands_between):
        assert client.command("PING") == b"+PONG\r\n"
    assert len(client.command("GET", "k")) > 9000
    assert client.state == "open"


def test_the_soft_limit_counts_the_seconds_above_it() -> None:
    server = WireServer(client_output_buffer_limit="normal 0 5000 10")
    client = server.connect()
    client.command("SET", "k", KB)
    client.transport.is_stuck = True
    client.send(encode_command("GET", "k") * 6)
    server.wait(9)
    assert client.state == "open"
    client.transport.read()  # just in time
    server.wait(2)
    client.send(encode_command("GET", "k") * 6)
    server.wait(9)
    assert client.state == "open"
    server.wait(3)
    assert client.state == "aborted"


def test_a_pipeline_that_asks_for_too_much_ends_where_it_is_too_much() -> None:
    server = WireServer(client_output_buffer_limit="normal 10000 0 0")
    client, other = server.connect(), server.connect()
    client.command("SET", "k", KB)
    client.send(encode_command("GET", "k") * 5000 + encode_command("SET", "reached", "1"))
    assert client.state == "aborted"
    assert client.read() == b""
    assert other.command("EXISTS", "reached") == b":0\r\n"
    assert server.engine.commands.stats["get"].calls < 15


@pytest.mark.parametrize(
    "command",
    [("MGET", *["k"] * 5000), ("LRANGE", "list", 0, -1)],
    ids=["mget", "lrange"],
)
def test_a_reply_that_is_too_much_is_not_even_made(command: tuple[str | int, ...]) -> None:
    server = WireServer(client_output_buffer_limit="normal 10000 0 0")
    client = server.connect()
    client.command("SET", "k", KB)
    client.command("RPUSH", "list", *[KB] * 20)
    client.send_command(*command)
    assert client.state == "aborted"
    assert client.transport.peak_bytes == 0


def test_a_transaction_runs_whole_also_when_its_replies_are_too_much() -> None:
    server = WireServer(client_output_buffer_limit="normal 10000 0 0")
    client, other = server.connect(), server.connect()
    client.command("SET", "k", KB)
    get, last = encode_command("GET", "k"), encode_command("SET", "reached", "1")
    client.send(encode_command("MULTI") + get * 50 + last + encode_command("EXEC"))
    assert client.state == "aborted"
    assert other.command("EXISTS", "reached") == b":1\r\n"


def test_limits_can_be_changed_for_clients_that_are_there() -> None:
    server = WireServer()
    client = server.connect()
    client.command("SET", "k", KB)
    server.set("client-output-buffer-limit", "normal 500 0 0")
    client.send_command("GET", "k")
    assert client.state == "aborted"
    client = server.connect()
    server.set("proto-max-bulk-len", "1mb")
    assert client.command("SET", "k", b"x" * ((1 << 20) + 1)) == (
        b"-ERR Protocol error: invalid bulk length\r\n"
    )


def test_a_monitor_that_does_not_read_is_cut_off_too() -> None:
    server = WireServer(client_output_buffer_limit="normal 10000 0 0")
    monitor, client = server.connect(), server.connect()
    monitor.command("MONITOR")
    client.send(encode_command("ECHO", KB[:500]) * 15)
    assert monitor.state == "open"
    client.read()
    monitor.transport.is_stuck = True
    for _ in range(30):
        client.command("ECHO", KB[:500])
    assert (monitor.state, client.state) == ("aborted", "open")
    assert not server.engine.monitors.sessions


def test_commands_behind_one_that_waits_are_kept_within_the_query_buffer_limit() -> None:
    server = WireServer(client_query_buffer_limit="1mb")
    client = server.connect()
    client.send_command("BLPOP", "k", 0)
    for _ in range(20):
        client.send_command("SET", "x", b"y" * 50_000)
    assert client.state == "open"
    client.send_command("SET", "x", b"y" * 500_000)
    assert client.state == "aborted"


# -- the end --------------------------------------------------------------------------------------


def test_what_was_asked_before_the_end_of_the_stream_is_answered() -> None:
    client = WireServer().connect()
    client.send(encode_command("PING") + encode_command("ECHO", "x"))
    assert client.connection.eof_received()
    assert client.read() == b"+PONG\r\n$1\r\nx\r\n"
    assert client.state == "closed"


def test_a_client_that_leaves_while_waiting_takes_nothing() -> None:
    server = WireServer()
    client, other = server.connect(), server.connect()
    client.send_command("BLPOP", "k", 0)
    assert not client.connection.eof_received()
    assert other.command("RPUSH", "k", "v") == b":1\r\n"
    assert other.command("LLEN", "k") == b":1\r\n"


def test_nothing_behind_quit_runs() -> None:
    server = WireServer()
    client = server.connect()
    client.send(encode_command("QUIT") + encode_command("SET", "k", "v"))
    assert client.read() == b"+OK\r\n"
    assert client.state == "closed"
    assert server.connect().command("EXISTS", "k") == b":0\r\n"


@pytest.mark.parametrize("word", [b"POST", b"Host:", b"host:"])
def test_a_browser_is_hung_up_on(word: bytes) -> None:
    client = WireServer().connect()
    client.send(word + b" / HTTP/1.1\r\nSET k v\r\n")
    assert client.state == "aborted"
    assert client.read() == b""


def test_only_what_is_still_waiting_counts_against_the_limit() -> None:
    """A client that always has one more pop on its way sends for ever, and never much at once."""
    server = WireServer(client_query_buffer_limit="1mb")
    worker, pusher = server.connect(), server.connect()
    pop = encode_command("BLPOP", "q", "x" * 100_000, 0)
    worker.send(pop)
    for number in range(30):
        worker.send(pop)
        assert pusher.command("RPUSH", "q", number) == b":1\r\n"
    assert worker.state == "open"
    assert worker.connection.input_bytes < len(pop)
    for _ in range(9):
        worker.send(pop)
    assert worker.state == "open"
    worker.send(pop * 2)
    assert worker.state != "open"
