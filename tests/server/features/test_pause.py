"""CLIENT PAUSE: which commands are held, which pass, and in which order they go on."""

import pytest

from holdfast.server.features.pause import Purpose
from tests.harness import encode_command
from tests.server.wire import WireServer


@pytest.fixture
def server() -> WireServer:
    return WireServer()


def test_all_holds_everything_until_the_time_is_up(server: WireServer) -> None:
    boss, client = server.connect(), server.connect()
    assert boss.command("CLIENT", "PAUSE", 1000) == b"+OK\r\n"
    client.send(encode_command("PING") + encode_command("SET", "k", "v"))
    server.wait(0.9)
    assert client.read() == b""
    server.wait(0.2)
    assert client.read() == b"+PONG\r\n+OK\r\n"


def test_write_holds_what_writes_and_what_comes_behind_it(server: WireServer) -> None:
    boss, client = server.connect(), server.connect()
    boss.command("CLIENT", "PAUSE", 1000, "WRITE")
    assert client.command("GET", "k") == b"$-1\r\n"
    client.send(encode_command("SET", "k", "v") + encode_command("GET", "k"))
    assert client.read() == b""
    assert boss.command("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert client.read() == b"+OK\r\n$1\r\nv\r\n"


def test_exec_is_held_when_it_would_write(server: WireServer) -> None:
    boss, reader, writer = server.connect(), server.connect(), server.connect()
    for client, queued in ((reader, ("GET", "k")), (writer, ("SET", "k", "v"))):
        client.command("MULTI")
        assert client.command(*queued) == b"+QUEUED\r\n"
    boss.command("CLIENT", "PAUSE", 1000, "WRITE")
    assert reader.command("EXEC") == b"*1\r\n$-1\r\n"
    assert writer.command("EXEC") == b""
    server.wait(1.1)
    assert writer.read() == b"*1\r\n+OK\r\n"


def test_mistakes_are_told_at_once(server: WireServer) -> None:
    client = server.connect()
    client.command("CLIENT", "PAUSE", 1000)
    assert client.command("NOPE").startswith(b"-ERR unknown command")
    assert client.command("GET").startswith(b"-ERR wrong number of arguments")
    assert client.command("CLIENT", "UNPAUSE") == b""
    server.wait(1.1)
    assert client.read() == b"+OK\r\n"


def test_those_held_go_on_in_the_order_they_came(server: WireServer) -> None:
    boss, *clients = [server.connect() for _ in range(5)]
    boss.command("CLIENT", "PAUSE", 1000, "WRITE")
    for number in (2, 0, 3, 1):
        clients[number].send_command("RPUSH", "order", number)
    server.wait(1.1)
    assert boss.command("LRANGE", "order", 0, -1) == (
        b"*4\r\n$1\r\n2\r\n$1\r\n0\r\n$1\r\n3\r\n$1\r\n1\r\n"
    )


def test_the_longer_and_the_stricter_win(server: WireServer) -> None:
    client = server.connect()
    client.command("CLIENT", "PAUSE", 1000, "WRITE")
    client.command("CLIENT", "PAUSE", 100, "ALL")
    assert client.command("PING") == b""
    server.wait(0.9)
    assert client.read() == b""
    server.wait(0.2)
    assert client.read() == b"+PONG\r\n"
    # And nothing of it is left.
    client.command("CLIENT", "PAUSE", 100, "WRITE")
    assert client.command("PING") == b"+PONG\r\n"
    assert client.command("SET", "k", "v") == b""
    server.wait(0.2)
    assert client.read() == b"+OK\r\n"


def test_no_time_at_all_is_no_pause(server: WireServer) -> None:
    client = server.connect()
    assert client.command("CLIENT", "PAUSE", 0) == b"+OK\r\n"
    assert client.command("SET", "k", "v") == b"+OK\r\n"


def test_keys_do_not_expire_actively_meanwhile(server: WireServer) -> None:
    client = server.connect()
    client.command("SET", "k", "v", "PX", 100)
    client.command("CLIENT", "PAUSE", 1000, "WRITE")
    server.wait(0.5)
    assert server.engine.keyspace.expired == 0
    server.wait(1)
    assert server.engine.keyspace.expired == 1


def test_keys_that_expire_meanwhile_stay_and_are_not_seen(server: WireServer) -> None:
    client = server.connect()
    client.command("MULTI")
    client.command("CLIENT", "PAUSE", 1000, "WRITE")
    client.command("SET", "k", "v", "PX", 100)  # the transaction may still write
    client.command("SET", "l", "v", "PX", 100)
    client.command("EXEC")
    server.wait(0.5)
    assert client.command("GET", "k") == b"$-1\r\n"
    assert client.command("EXISTS", "k", "l") == b":0\r\n"
    assert client.command("DBSIZE") == b":2\r\n"
    assert server.engine.keyspace.expired == 0
    client.command("CLIENT", "UNPAUSE")
    assert client.command("GET", "k") == b"$-1\r\n"
    assert client.command("SET", "l", "new") == b"+OK\r\n"
    assert server.engine.keyspace.expired == 2
    assert client.command("DBSIZE") == b":1\r\n"


def test_exec_of_scripts_that_declare_to_write_nothing_is_not_held(server: WireServer) -> None:
    boss, reader, writer = server.connect(), server.connect(), server.connect()
    for client, flags in ((reader, " flags=no-writes"), (writer, "")):
        client.command("MULTI")
        assert client.command("EVAL", f"#!lua{flags}\nreturn 1", 0) == b"+QUEUED\r\n"
    boss.command("CLIENT", "PAUSE", 1000, "WRITE")
    assert reader.command("EXEC") == b"*1\r\n:1\r\n"
    assert writer.command("EXEC") == b""
    server.wait(1.1)
    assert writer.read() == b"*1\r\n:1\r\n"


def test_a_held_client_that_leaves_runs_nothing(server: WireServer) -> None:
    boss, client = server.connect(), server.connect()
    boss.command("CLIENT", "PAUSE", 1000, "WRITE")
    client.send_command("SET", "k", "v")
    client.transport.abort()
    server.wait(1.1)
    assert boss.command("EXISTS", "k") == b":0\r\n"


def test_a_held_client_is_not_idle_and_cannot_be_unblocked(server: WireServer) -> None:
    server.set("timeout", 10)
    boss, client = server.connect(), server.connect()
    boss.command("CLIENT", "PAUSE", 30_000, "WRITE")
    client.send_command("SET", "k", "v")
    number = client.connection.session.id
    assert boss.command("CLIENT", "UNBLOCK", number) == b":0\r\n"
    server.wait(31)
    assert client.read() == b"+OK\r\n"


def test_garbage_behind_a_held_command_is_answered_behind_it(server: WireServer) -> None:
    boss, client = server.connect(), server.connect()
    boss.command("CLIENT", "PAUSE", 1000, "WRITE")
    client.send(encode_command("SET", "k", "v") + b"*1\r\n:1\r\n")
    assert client.read() == b""
    server.wait(1.1)
    assert client.read() == b"+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    assert client.state == "closed"


def test_a_client_that_monitors_is_not_held(server: WireServer) -> None:
    boss, monitor = server.connect(), server.connect()
    monitor.command("MONITOR")
    boss.command("CLIENT", "PAUSE", 1000)
    assert monitor.command("PING").startswith(b"+PONG\r\n")


def test_a_pause_for_centuries(server: WireServer) -> None:
    client = server.connect()
    assert client.command("CLIENT", "PAUSE", 2**62, "WRITE") == b"+OK\r\n"
    assert client.command("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert client.command("SET", "k", "v") == b"+OK\r\n"


def test_the_pause_of_a_shutdown_and_that_of_clients_end_each_by_itself(
    server: WireServer,
) -> None:
    boss, client = server.connect(), server.connect()
    pause = server.engine.pause
    pause.hold_writes(Purpose.SHUTDOWN)
    assert boss.command("CLIENT", "UNPAUSE") == b"+OK\r\n"
    client.send(encode_command("GET", "k") + encode_command("SET", "k", 1))
    assert client.read() == b"$-1\r\n"
    boss.command("CLIENT", "PAUSE", 1000, "ALL")
    assert boss.command("PING") == b""
    pause.end(Purpose.SHUTDOWN)
    server.wait(0.9)
    assert (boss.read(), client.read()) == (b"", b"")
    server.wait(0.2)
    assert (boss.read(), client.read()) == (b"+PONG\r\n", b"+OK\r\n")


def test_commands_that_only_the_stricter_pause_held_go_on_at_its_end(server: WireServer) -> None:
    boss, reader, writer = server.connect(), server.connect(), server.connect()
    server.engine.pause.hold_writes(Purpose.FAILOVER)
    boss.command("CLIENT", "PAUSE", 1000, "ALL")
    reader.send_command("GET", "k")
    writer.send_command("SET", "k", 1)
    server.wait(1.1)
    assert (reader.read(), writer.read()) == (b"$-1\r\n", b"")
    server.engine.pause.end(Purpose.FAILOVER)
    server.wait(0)
    assert writer.read() == b"+OK\r\n"
