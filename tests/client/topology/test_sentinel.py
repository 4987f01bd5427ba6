"""Sentinels: masters that move, passwords, TLS, and sentinels that say nothing."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import holdfast
from holdfast.client.errors import ConnectError
from tests.client.fakes import until
from tests.client.transport.test_transports import certificate
from tests.harness import RedisServer, free_port
from tests.harness.sentinel import Sentinel


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    with ExitStack() as stack:

        def start(master: RedisServer, *lines: str) -> RedisServer:
            config = tmp_path / "sentinel.conf"
            monitor = f"sentinel monitor main 127.0.0.1 {master.port} 1"
            config.write_text("\n".join([monitor, *lines, ""]))
            return stack.enter_context(Sentinel(tmp_path / "sentinel", config))

        yield start


def test_sentinels_are_asked_again_after_a_failover(
    tmp_path: Path, sentinel: Callable[..., RedisServer]
) -> None:
    async def scenario(url: str, first: RedisServer, second: RedisServer, port: int) -> None:
        async with holdfast.connect(url) as client:
            await client.set("where", "first")
            assert first.client().command("GET", "where") == b"$5\r\nfirst\r\n"
            async with holdfast.connect(f"redis://127.0.0.1:{port}?protocol=2") as watcher:
                await watcher.exec("SENTINEL", "REMOVE", "main")
                await watcher.exec("SENTINEL", "MONITOR", "main", "127.0.0.1", second.port, 1)
            first.kill()
            await until(lambda: not client.is_connected)
            await until(lambda: client.is_connected)
            assert await client.get("where") == "second"

    with RedisServer(tmp_path / "first") as first, RedisServer(tmp_path / "second") as second:
        second.client().command("SET", "where", "second")
        port = sentinel(first).port
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/main"
        asyncio.run(scenario(url, first, second, port))


def test_an_unknown_service(
    tmp_path: Path, sentinel: Callable[..., RedisServer], oracle: RedisServer
) -> None:
    async def scenario() -> None:
        port = sentinel(oracle).port
        with pytest.raises(ConnectError, match="does not know nobody"):
            await holdfast.connect(f"redis+sentinel://127.0.0.1:{port}/nobody").connect()

    asyncio.run(scenario())


def test_sentinels_may_have_a_password_of_their_own(
    tmp_path: Path, sentinel: Callable[..., RedisServer]
) -> None:
    async def scenario(port: int) -> None:
        url = f"redis+sentinel://:master@127.0.0.1:{port}/main"
        async with holdfast.connect(url, sentinel_password="watch") as client:
            await client.set("k", "v")
        async with holdfast.connect(f"{url}?sentinel_password=watch") as client:
            assert await client.get("k") == "v"
        with pytest.raises(ConnectError, match="NOAUTH"):
            await holdfast.connect(url).connect()
        with pytest.raises(ConnectError, match="WRONGPASS"):
            await holdfast.connect(url, sentinel_password="master").connect()

    with RedisServer(tmp_path / "master", "--requirepass", "master") as master:
        lines = ("sentinel auth-pass main master", "requirepass watch")
        asyncio.run(scenario(sentinel(master, *lines).port))


def test_sentinels_and_master_over_tls(
    tmp_path: Path, sentinel: Callable[..., RedisServer]
) -> None:
    key, cert = certificate(tmp_path / "certs")
    options = {"tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": cert}
    lines = [f"{name} {value}" for name, value in options.items()]
    args = [part for name, value in options.items() for part in (f"--{name}", str(value))]

    async def scenario(port: int) -> None:
        context = ssl.create_default_context(cafile=str(cert))
        url = f"rediss+sentinel://127.0.0.1:{port}/main"
        async with holdfast.connect(url, tls=context) as client:
            await client.set("k", "v")
            assert await client.get("k") == "v"
        with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await holdfast.connect(url).connect()

    with RedisServer(tmp_path / "master", *args, "--tls-auth-clients", "no") as master:
        tls_port = free_port()
        with master.client() as raw:
            assert raw.command("CONFIG", "SET", "tls-port", tls_port) == b"+OK\r\n"
        plain, master.port = master.port, tls_port  # the sentinel gets this port
        watcher = sentinel(master, *lines, "tls-auth-clients no", "tls-replication yes")
        master.port = plain
        asyncio.run(scenario(watcher.port))


def test_a_silent_sentinel_does_not_use_up_the_time_of_the_others(
    oracle: RedisServer, sentinel: Callable[..., RedisServer]
) -> None:
    async def scenario(port: int, silent: int) -> None:
        url = f"redis+sentinel://127.0.0.1:{silent},127.0.0.1:{port}/main"
        async with holdfast.connect(url, connect_timeout_s=30) as client:
            assert await client.ping() == "PONG"

    with socket.create_server(("127.0.0.1", 0)) as mute:  # it accepts, and never answers
        asyncio.run(scenario(sentinel(oracle).port, mute.getsockname()[1]))
