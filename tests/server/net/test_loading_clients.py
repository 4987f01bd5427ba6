"""Clients whose command waits for a load: what they send meanwhile, and what happens when they
leave."""

from pathlib import Path

import pytest

from holdfast.server.net.wire_connection import AHEAD_BYTES
from holdfast.server.sessions.session import IS_LOADING
from tests.harness import encode_command
from tests.server.core.cold import ColdWireServer, fill
from tests.server.wire import WireClient

HGET = encode_command("HGET", "big", "f7")
HSET = encode_command("HSET", "big", "new", "1")
PING = encode_command("PING")


@pytest.fixture
def server(tmp_path: Path) -> ColdWireServer:
    return ColdWireServer(tmp_path / "a.db", *fill("hash", "big"))


def touching(server: ColdWireServer, data: bytes) -> WireClient:
    client = server.connect()
    client.connection.data_received(data)
    server.engine.run_some()
    assert client.connection.session.load_state == IS_LOADING
    return client


def test_commands_that_come_during_a_load_are_answered_behind_it(server: ColdWireServer) -> None:
    client = touching(server, HGET + PING)
    client.connection.data_received(PING)
    assert client.read() == b"$2\r\nv7\r\n+PONG\r\n+PONG\r\n"


def test_a_client_that_says_no_more_is_answered(server: ColdWireServer) -> None:
    """As `printf … | nc` does."""
    client = touching(server, HGET + PING)
    assert client.connection.eof_received()
    assert client.read() == b"$2\r\nv7\r\n+PONG\r\n"
    assert client.state == "closed"


def test_what_a_client_has_sent_is_done_after_its_connection_broke(server: ColdWireServer) -> None:
    client = touching(server, HSET)
    client.transport.abort()
    other = server.connect()
    assert other.command("HGET", "big", "new") == b"$1\r\n1\r\n"
    assert len(server.engine.sessions) == 1
    assert not server.engine.loading.is_busy


def test_the_command_of_a_client_that_is_killed_does_not_run(server: ColdWireServer) -> None:
    client, other = touching(server, HSET), server.connect()
    client_id = client.connection.session.id
    assert other.command("CLIENT", "KILL", "ID", client_id) == b":1\r\n"
    assert client.state == "aborted"
    assert not server.engine.loading.is_busy
    assert other.command("HEXISTS", "big", "new") == b":0\r\n"


def test_the_socket_of_a_client_that_sends_much_during_a_load_is_not_read(
    server: ColdWireServer,
) -> None:
    client = touching(server, HGET)
    count = AHEAD_BYTES // len(PING) + 1
    client.connection.data_received(PING * count)
    assert not client.transport.is_reading
    assert client.read() == b"$2\r\nv7\r\n" + b"+PONG\r\n" * count
    assert client.transport.is_reading


def test_a_client_that_waits_for_a_load_is_not_idle(server: ColdWireServer) -> None:
    server.set("timeout", 1)
    client, idle = touching(server, HGET), server.connect()
    server.clock.advance(5)
    assert (client.state, idle.state) == ("open", "aborted")
    assert client.read() == b"$2\r\nv7\r\n"
