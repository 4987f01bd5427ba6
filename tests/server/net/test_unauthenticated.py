"""Clients that have not signed in: little is kept of them, and not for long."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.server.core.engine import TURN_NS
from holdfast.server.net.wire_connection import UNAUTHENTICATED_INPUT_BYTES
from holdfast.server.sessions.bounded_session import UNAUTHENTICATED_OUTPUT_BYTES, UNSEEN_PART
from tests.harness import HoldfastServer, RawClient, RedisServer, encode_command
from tests.harness.processes import ServerProcess
from tests.server.wire import Stopwatch, WireServer

NOAUTH = b"-NOAUTH Authentication required.\r\n"
WITHIN_LIMIT = UNAUTHENTICATED_OUTPUT_BYTES // len(NOAUTH)


@pytest.fixture
def locked() -> WireServer:
    return WireServer(requirepass="secret")


# -- memory for strangers -------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_cut_off_before_it_has_signed_in(locked: WireServer) -> None:
    client = locked.connect()
    client.transport.is_stuck = True
    for _ in range(100):
        client.connection.data_received(b"a\n" * 1000)
        locked.engine.turn.end()
        if client.state != "open":
            break
    assert client.state == "aborted"
    assert client.transport.peak_bytes <= UNAUTHENTICATED_OUTPUT_BYTES
    assert len(locked.engine.sessions) == 0


def test_what_is_not_read_counts_over_many_turns(locked: WireServer) -> None:
    client = locked.connect()
    client.transport.is_stuck = True
    for _ in range(WITHIN_LIMIT):
        client.connection.data_received(b"PING\n")
        locked.engine.turn.end()
    assert client.state == "open"
    for _ in range(WITHIN_LIMIT // UNSEEN_PART + 1):  # it is looked at now and then
        if client.state == "open":
            client.connection.data_received(b"PING\n")
            locked.engine.turn.end()
    assert client.state == "aborted"


def test_strangers_that_never_pause_are_cut_off_also_while_their_sockets_take_the_replies() -> None:
    """The kernel takes megabytes of replies before a transport has to keep any: so long, four
    strangers had four of five turns."""
    server = WireServer(Stopwatch(TURN_NS), requirepass="secret")  # one share for each turn
    strangers = [server.connect() for _ in range(4)]
    for stranger in strangers:
        stranger.connection.data_received(b"PING\n" * 20_000)
    server.engine.turn.end()
    for stranger in strangers:
        assert stranger.state == "aborted"
        replies = stranger.transport.read()
        assert replies[: len(NOAUTH)] == NOAUTH
        assert len(replies) <= 2 * UNAUTHENTICATED_OUTPUT_BYTES


def test_a_stranger_that_pauses_now_and_then_is_answered(locked: WireServer) -> None:
    client = locked.connect()
    for _ in range(10):
        client.send(b"PING\n" * (WITHIN_LIMIT // 2))
        assert client.read() == NOAUTH * (WITHIN_LIMIT // 2)


def test_a_client_that_reads_may_go_on_guessing(locked: WireServer) -> None:
    client = locked.connect()
    for _ in range(3 * WITHIN_LIMIT):
        assert client.command("PING") == NOAUTH
    assert client.command("AUTH", "secret") == b"+OK\r\n"


def test_limits_are_the_usual_ones_once_a_client_has_signed_in(locked: WireServer) -> None:
    client = locked.connect()
    client.transport.is_stuck = True
    client.send(encode_command("AUTH", "secret") + encode_command("ECHO", "x" * 10_000) * 100)
    assert client.state == "open"
    assert len(client.read()) > 1_000_000
    assert client.command("RESET") == b"+RESET\r\n"  # and a stranger again
    client.send(b"PING\n" * (WITHIN_LIMIT + 1))
    assert client.state == "aborted"


def test_a_password_that_is_set_later_limits_only_strangers() -> None:
    server = WireServer()
    early = server.connect()
    server.set("requirepass", "secret")
    late = server.connect()
    for client in (early, late):
        client.send(b"PING\n" * (WITHIN_LIMIT + 1))
    assert (early.state, late.state) == ("open", "aborted")


def test_commands_that_are_held_are_limited_too(locked: WireServer) -> None:
    admin = locked.connect()
    admin.command("AUTH", "secret")
    client = locked.connect()
    assert admin.command("CLIENT", "PAUSE", 100_000) == b"+OK\r\n"
    client.send_command("AUTH", "secret")  # held until the password is checked
    assert client.connection.session.is_waiting
    client.send(b"PING\n" * (UNAUTHENTICATED_INPUT_BYTES // 5))
    assert client.state == "open"
    client.send(b"PING\n")
    assert client.state == "aborted"


# -- for how long ---------------------------------------------------------------------------------


def test_a_client_has_a_time_to_sign_in(locked: WireServer) -> None:
    silent, busy, member = locked.connect(), locked.connect(), locked.connect()
    assert member.command("AUTH", "secret") == b"+OK\r\n"
    for _ in range(59):
        locked.wait(1)
        assert busy.command("PING") == NOAUTH
    assert (silent.state, busy.state, member.state) == ("open", "open", "open")
    locked.wait(3)
    assert (silent.state, busy.state, member.state) == ("aborted", "aborted", "open")


def test_the_time_to_sign_in_begins_when_that_becomes_necessary(locked: WireServer) -> None:
    client = locked.connect()
    client.command("AUTH", "secret")
    locked.wait(1000)
    assert client.command("RESET") == b"+RESET\r\n"
    locked.wait(50)
    assert client.state == "open"
    locked.wait(20)
    assert client.state == "aborted"


def test_the_time_can_be_changed_and_taken_away(locked: WireServer) -> None:
    client = locked.connect()
    locked.set("auth-timeout", 0)
    locked.wait(1000)
    assert client.state == "open"
    locked.set("auth-timeout", 5)
    locked.wait(1)
    assert client.state == "aborted"


def test_where_no_password_is_needed_there_is_no_hurry() -> None:
    server = WireServer()
    client = server.connect()
    server.wait(1000)
    assert client.command("PING") == b"+PONG\r\n"


# -- as redis-server ------------------------------------------------------------------------------


@pytest.fixture
def both(
    tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> Iterator[list[ServerProcess]]:
    with RedisServer(tmp_path / "redis", "--requirepass", "secret") as redis:
        yield [start_server("--requirepass", "secret"), redis]


def outcome(server: ServerProcess, data: bytes) -> tuple[int, bool]:
    """How many bytes come back to a client that reads only after all is sent, and whether it may
    go on then."""
    client = RawClient(socket.create_connection(("127.0.0.1", server.port)))
    with client:
        try:
            client.send(data + b"QUIT\r\n")
        except OSError:
            return 0, False
        answer = client.read_until_closed()
        return len(answer), answer.endswith(b"+OK\r\n")


@pytest.mark.parametrize("count", [10, 300])
def test_redis_server_answers_strangers_as_often(both: list[ServerProcess], count: int) -> None:
    """More than these it answers only if it happens to read them in two pieces, and so do we."""
    ours, theirs = (outcome(server, b"a\n" * count) for server in both)
    assert ours == theirs
    assert ours[1]


def test_strangers_that_never_read_are_cut_off_and_members_are_answered_meanwhile(
    both: list[ServerProcess],
) -> None:
    for server in both:
        with server.client() as member:
            assert member.command("AUTH", "secret") == b"+OK\r\n"
            strangers = [server.client() for _ in range(4)]
            for stranger in strangers:
                try:
                    for _ in range(1000):  # more than any socket holds
                        stranger.send(b"a\n" * 100_000)
                except OSError:
                    continue
                pytest.fail("a stranger was not cut off")
            assert member.command("PING") == b"+PONG\r\n"
