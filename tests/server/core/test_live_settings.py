"""CONFIG SET takes effect at once, or says why not."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import CommandError
from holdfast.store.store import FileStore
from tests.harness import HoldfastServer, RawClient
from tests.harness.in_process import InProcess


def test_where_it_listens_cannot_be_changed() -> None:
    world = InProcess()
    for name, value in (("port", "7000"), ("bind", "127.0.0.2")):
        with pytest.raises(CommandError, match="restart it with the new value"):
            world.set(name, value)
    assert world.engine.config.port == 6379


def test_maxmemory_reaches_the_store(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "x.db")
    world = InProcess({"appendfsync": "no", "maxmemory": "5mb"}, store)
    assert store.max_bytes == 5 << 20
    world.set("maxmemory", "7mb")
    assert store.max_bytes == 7 << 20
    store.close()


def test_a_rewritten_file_is_what_the_next_start_reads(
    start_server: Callable[..., HoldfastServer], tmp_path: Path
) -> None:
    file = tmp_path / "x.conf"
    file.write_text("# mine\nslowlog-max-len 7\n")
    server = start_server("--config", str(file))
    client = server.client()
    client.command("CONFIG", "SET", "slowlog-max-len", 9, "appendfsync", "everysec")
    assert client.command("CONFIG", "REWRITE") == b"+OK\r\n"
    assert file.read_text().startswith("# mine\nslowlog-max-len 9\n")
    server.restart()
    reply = server.client().command("CONFIG", "GET", "slowlog-max-len", "appendfsync")
    assert reply.endswith(b"$1\r\n9\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n")


def test_limits_are_read_by_commands() -> None:
    world = InProcess()
    peer = world.peer()
    world.set("proto-max-bulk-len", 1 << 20)
    assert peer.command("SETRANGE", "k", 1 << 20, "x").startswith(b"-ERR string exceeds")
    world.set("blocking-max-keys-per-wait", 1)
    assert peer.command("BLPOP", "a", "b", 0)[:1] == b"-"


def test_debug_needs_permission() -> None:
    assert InProcess().peer().command("DEBUG", "SLEEP", 0).startswith(b"-ERR DEBUG command not")
    allowed = InProcess({"enable-debug-command": "local"})
    assert allowed.peer().command("DEBUG", "SLEEP", 0) == b"+OK\r\n"


def test_active_expiry_can_be_switched_off() -> None:
    world = InProcess({"enable-debug-command": "yes"})
    peer = world.peer()
    seen = []
    for value in (0, 1):
        peer.command("DEBUG", "SET-ACTIVE-EXPIRE", value)
        seen.append(world.engine.expires_actively)
    assert seen == [False, True]


def test_shutdown_is_for_servers() -> None:
    assert InProcess().peer().command("SHUTDOWN").startswith(b"-ERR There is no server")


def test_another_port(start_server: Callable[..., HoldfastServer]) -> None:
    server, other = start_server(), start_server()
    client = server.client()
    old, shown = server.port, client.command("CONFIG", "GET", "port")
    refused = client.command("CONFIG", "SET", "port", other.port, "timeout", 77)
    assert refused == (
        b"-ERR CONFIG SET failed (possibly related to argument 'port')"
        b" - Unable to listen on this port. Check server logs.\r\n"
    )
    assert client.command("CONFIG", "GET", "port") == shown
    assert b"\r\n0\r\n" in client.command("CONFIG", "GET", "timeout")
    with RawClient.connect(old) as again:
        assert again.command("PING") == b"+PONG\r\n"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    assert client.command("CONFIG", "SET", "port", free) == b"+OK\r\n"
    with RawClient.connect(free) as new:
        assert b"tcp_port:%d\r\n" % free in new.command("INFO", "server")
    with pytest.raises(ConnectionRefusedError):
        RawClient.connect(old)
    assert client.command("PING") == b"+PONG\r\n"  # clients that came before stay


def test_no_replicas_are_too_few() -> None:
    world = InProcess()
    peer = world.peer()
    peer.command("SET", "k", "v")
    world.set("min-replicas-to-write", 1)
    refused = b"-NOREPLICAS Not enough good replicas to write."
    assert peer.command("SET", "k", "w") == refused + b"\r\n"
    assert peer.command("EVAL", "#!lua\nreturn 1", 0) == refused + b"\r\n"
    assert peer.command("EVAL", "return redis.call('SET', 'k', 'w')", 0).startswith(refused)
    assert peer.command("EVAL", "return redis.call('GET', 'k')", 0) == b"$1\r\nv\r\n"
    assert peer.command("EVAL", "#!lua flags=no-writes\nreturn 1", 0) == b":1\r\n"
    world.set("min-replicas-max-lag", 0)  # no replica could be late
    assert peer.command("SET", "k", "w") == b"+OK\r\n"
