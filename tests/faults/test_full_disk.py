"""A disk that is full, for a while: nothing acknowledged is lost, nothing refused is kept."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.store.check import check_file
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.harness.http import start_with_http

Start = Callable[..., HoldfastServer]


def allow(server: HoldfastServer, nbytes: int = resource.RLIM_INFINITY) -> None:
    """The limit for the size of every file of the server: a write beyond it fails as on a full
    disk."""
    hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (nbytes, hard))


def fill_up(server: HoldfastServer, client: RawClient) -> dict[str, bytes]:
    """Write until the disk is full; return the acknowledged values."""
    wal = Path(f"{server.db}-wal")
    allow(server, wal.stat().st_size + 200_000)
    acknowledged: dict[str, bytes] = {}
    for number in range(1000):
        value = b"%d" % number * 1000
        reply = client.command("SET", f"k{number % 50}", value)
        if reply != b"+OK\r\n":
            assert reply.startswith(b"-MISCONF Errors writing to the database file: "), reply
            assert acknowledged, "there was room for some"
            return acknowledged
        acknowledged[f"k{number % 50}"] = value
    raise AssertionError("the disk never got full")


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def assert_all_there(client: RawClient, acknowledged: dict[str, bytes]) -> None:
    for name, value in acknowledged.items():
        assert client.command("GET", name) == bulk(value)


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
def test_refuses_writes_until_there_is_room(
    start_server: Start, appendfsync: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server("--appendfsync", appendfsync)
    client = server.client()
    client.command("RPUSH", "list", "a", "b")
    acknowledged = fill_up(server, client)

    # Full: data can be read and not changed, and no reply claims a change.
    assert_all_there(client, acknowledged)
    assert client.command("LRANGE", "list", 0, -1) == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    for write in (("LPOP", "list"), ("SET", "k0", "x"), ("BLPOP", "list", 0), ("FLUSHALL",)):
        assert client.command(*write).startswith(b"-MISCONF ")
    client.send(b"MULTI\r\nSET other x\r\nEXEC\r\nGET other\r\nDISCARD\r\nECHO x\r\n")
    replies = client.read_replies(6)
    assert replies[0] == b"+OK\r\n"
    assert replies[1].startswith(b"-MISCONF ")
    assert replies[2].startswith(b"-EXECABORT ")
    assert replies[3] == b"$-1\r\n"
    assert replies[5] == b"$1\r\nx\r\n"
    assert b"aof_last_write_status:err" in client.command("INFO", "persistence")
    assert client.command("SAVE").startswith(b"-ERR ")
    assert main(["ping", f"redis://127.0.0.1:{server.port}"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: no PONG: MISCONF ")

    # Room again.
    allow(server)
    wait_until(lambda: client.command("SET", "after", "x") == b"+OK\r\n", "writes work again")
    acknowledged["after"] = b"x"
    assert_all_there(client, acknowledged)
    assert b"aof_last_write_status:ok" in client.command("INFO", "persistence")

    server.kill()
    assert check_file(Path(server.db)) == []
    server.start()
    assert_all_there(server.client(), acknowledged)
    assert server.terminate() == 0
    assert check_file(Path(server.db)) == []


def test_an_exec_that_was_queued_before_is_discarded(start_server: Start) -> None:
    server = start_server()
    early, client = server.client(), server.client()
    early.send(b"MULTI\r\nSET early x\r\n")
    assert early.read_replies(2) == [b"+OK\r\n", b"+QUEUED\r\n"]
    fill_up(server, client)
    reply = early.command("EXEC")
    assert reply.startswith(b"-EXECABORT Transaction discarded because of: MISCONF ")
    allow(server)
    wait_until(lambda: early.command("SET", "k", "v") == b"+OK\r\n", "writes work again")
    assert early.command("GET", "early") == b"$-1\r\n"


def test_it_is_alive_and_not_ready(start_server: Start) -> None:
    server, http = start_with_http(start_server)
    fill_up(server, server.client())
    assert http.get("/health").status == 200
    reply = http.get("/ready")
    assert reply.status == 503
    assert reply.body.startswith("not ready: the disk fails: cannot write the journal: ")
    body = http.get("/metrics").body
    assert "\nholdfast_storage_ok 0.0\n" in body
    assert "\nholdfast_ready 0.0\n" in body
    allow(server)
    wait_until(lambda: http.get("/ready").status == 200, "the disk has room again")


def test_killed_while_full(start_server: Start) -> None:
    server = start_server()
    acknowledged = fill_up(server, server.client())
    server.kill()
    server.start()
    assert_all_there(server.client(), acknowledged)
    assert server.terminate() == 0


def test_stopped_while_full(start_server: Start) -> None:
    """The server cannot fold. It says so, and leaves the journal to the next start."""
    server = start_server()
    acknowledged = fill_up(server, server.client())
    assert server.terminate() == 1
    assert "Traceback" not in server.stderr
    assert f"all acknowledged writes are in {server.db}" in server.stderr
    assert check_file(Path(server.db)) == []
    server.start()
    assert_all_there(server.client(), acknowledged)


def test_keys_expire_while_full(start_server: Start) -> None:
    """No client is promised an expiry, so a read must not fail because the expiry cannot be
    written."""
    server = start_server()
    client = server.client()
    client.command("SET", "brief", "x", "PX", 400)
    fill_up(server, client)
    wait_until(lambda: client.command("GET", "brief") == b"$-1\r\n", "it expires")
    assert client.command("GET", "k0").startswith(b"$")
    assert client.command("SET", "k0", "x").startswith(b"-MISCONF ")
    allow(server)
    wait_until(lambda: client.command("SET", "k", "v") == b"+OK\r\n", "writes work again")
    assert client.command("EXISTS", "brief") == b":0\r\n"
    assert server.terminate() == 0
    assert check_file(Path(server.db)) == []
