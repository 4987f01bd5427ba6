"""TLS, unix sockets, passwords, names; and replies in pieces through a real socket."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.errors import ConnectError, ConnectTimeoutError, RequestTooLargeError
from holdfast.client.protocol.request import Request
from holdfast.client.topology.single import Single
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.options import ClientOptions
from holdfast.clock import ManualClock
from tests.client.fakes import turns
from tests.harness import RedisServer, free_port


def certificate(folder: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: there is no certificate to test with")
    folder.mkdir(parents=True, exist_ok=True)
    key, cert = folder / "key.pem", folder / "cert.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"]
    argv += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(argv, check=True, capture_output=True)
    return key, cert


def test_tls(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path / "certs")
    args = ["--tls-cert-file", str(cert), "--tls-key-file", str(key)]
    args += ["--tls-ca-cert-file", str(cert), "--tls-auth-clients", "no"]

    async def scenario(port: int) -> None:
        context = ssl.create_default_context(cafile=str(cert))
        async with holdfast.connect(f"rediss://127.0.0.1:{port}", tls=context) as client:
            await client.set("k", "v" * 100_000)
            assert await client.get("k") == "v" * 100_000
        with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await holdfast.connect(f"rediss://127.0.0.1:{port}").connect()

    with RedisServer(tmp_path / "server", *args) as server:
        port = free_port()
        with server.client() as raw:
            assert raw.command("CONFIG", "SET", "tls-port", port) == b"+OK\r\n"
        asyncio.run(scenario(port))


def test_unix_socket_password_name_and_database(tmp_path: Path) -> None:
    path = tmp_path / "r.sock"

    async def scenario() -> None:
        url = f"unix://:pw@{path}?db=2&client_name=tester"
        async with holdfast.connect(url) as client:
            await client.set("k", "v")
            info = await client.exec("CLIENT", "INFO", into=str)
            assert " name=tester " in info
            assert " db=2 " in info
        with pytest.raises(ConnectError, match="WRONGPASS"):
            await holdfast.connect(f"unix://:no@{path}").connect()
        with pytest.raises(ConnectError, match="NOAUTH"):
            await holdfast.connect(f"unix://{path}").connect()

    args = ("--unixsocket", str(path), "--requirepass", "pw")
    with RedisServer(tmp_path / "server", *args):
        asyncio.run(scenario())


def test_large_values_are_written_in_parts_and_accounting_is_reclaimed(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            value = b"x" * (8 << 20)
            names = [f"big{n}" for n in range(4)]
            await asyncio.gather(*(client.set(name, value) for name in names))
            got = await asyncio.gather(*(client.binary.get(name) for name in names))
            assert all(each == value for each in got)
            request = Request(("STRLEN", name) for name in names)
            assert await client.exec_dynamic(request, into=int) == [8 << 20] * 4
            assert isinstance(client._caller, Single)
            assert client._caller.connection.pending == (0, 0)
            await client.delete(*names)

    asyncio.run(scenario())


def test_a_huge_request_is_one_request(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url, max_requests=1) as client:
            count = 30_000
            request = Request(("INCR", "n") for _ in range(count))
            assert await client.exec_dynamic(request, into=int) == list(range(1, count + 1))
            with pytest.raises(RequestTooLargeError, match="max_bytes=67108864 allows no more"):
                await client.exec(Request().add("SET", "k", b"x" * (65 << 20)), into=(None,))
            assert await client.get("n") == str(count)

    asyncio.run(scenario())


def test_attributes_from_a_real_server(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            reply = await client.exec("DEBUG", "PROTOCOL", "attrib")
            assert reply == b"Some real reply following the attribute"
            assert await client.exec("DEBUG", "PROTOCOL", "bignum", into=int) > 2**64
            assert await client.exec("DEBUG", "PROTOCOL", "map", into=dict[int, bool]) == {
                0: False,
                1: True,
                2: False,
            }
            assert await client.exec("DEBUG", "PROTOCOL", "verbatim", into=str)
            assert await client.exec("DEBUG", "PROTOCOL", "null") is None

    asyncio.run(scenario())


def test_resolving_has_a_timeout_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        clock = ManualClock()

        async def hang(*_: object, **__: object) -> object:
            return await loop.create_future()

        monkeypatch.setattr(loop, "getaddrinfo", hang)
        connection = Connection(
            ClientOptions(host="somewhere", connect_timeout_s=None), clock=clock
        )
        connecting = asyncio.ensure_future(connection.connect())
        await turns()
        clock.advance(5)
        with pytest.raises(ConnectTimeoutError, match="resolving somewhere"):
            await connecting

    asyncio.run(scenario())


def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        clock = ManualClock()
        port = int(redis_url.rpartition(":")[2])
        tried: list[str] = []
        really_connect = loop.create_connection

        async def resolve(*_: object, **__: object) -> list[Any]:
            return [(0, 0, 0, "", (host, port)) for host in ("10.0.0.1", "10.0.0.1", "127.0.0.1")]

        async def connect(factory: Any, host: str, *args: Any, **options: Any) -> Any:
            tried.append(host)
            if host == "10.0.0.1":
                await loop.create_future()
            return await really_connect(factory, host, *args, **options)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        monkeypatch.setattr(loop, "create_connection", connect)
        connection = Connection(
            ClientOptions(host="two", port=port, connect_timeout_s=6), clock=clock
        )
        connecting = asyncio.ensure_future(connection.connect())
        await turns()
        clock.advance(3)
        await connecting
        assert tried == ["10.0.0.1", "127.0.0.1"]
        await connection.close()

    asyncio.run(scenario())


def test_the_same_on_uvloop(redis_url: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            big = "x" * 3_000_000
            await asyncio.gather(*(client.set(f"k{n}", big) for n in range(5)))
            assert await client.get("k4") == big
            waiting = asyncio.create_task(client.blpop("q", timeout_s=0))
            await client.ping()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await client.rpush("q", 1)
            assert await client.llen("q") == 1
            await client.flushall()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


def test_a_file_that_is_in_use(tmp_path: Path) -> None:
    async def scenario() -> None:
        url = f"holdfast://{tmp_path}/app.db"
        async with holdfast.connect(url):
            with pytest.raises(ConnectError) as caught:
                await holdfast.connect(url).connect()
            assert isinstance(caught.value.__cause__, holdfast.StoreInUseError)

    asyncio.run(scenario())


def test_an_embedded_server_may_stop_reading_for_a_while() -> None:
    """It does when a client is far ahead: see the shares of a turn in the server's tour."""

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            request = Request()
            for number in range(3000):
                request.add("SET", number, "x" * 300)
            late = asyncio.create_task(client.exec_dynamic(request, into=bool))
            assert await late == [True] * 3000
            assert await client.dbsize() == 3000
            last = [asyncio.create_task(client.set("last", "y" * 300_000)) for _ in range(3)]
            await asyncio.sleep(0)
        assert await asyncio.gather(*last) == [True] * 3  # closing waited for them

    asyncio.run(scenario())
