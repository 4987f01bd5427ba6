"""Peers that vanish without a word, and how little an idle connection costs."""

import asyncio
import gc
import socket
import tracemalloc

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.client.single import Single
from tests.client.fakes import until

TCP_REPAIR = 19  # Linux: a socket in this mode is closed without telling the other side


def socket_of(client: Client) -> socket.socket:
    assert isinstance(client._caller, Single)
    link = client._caller.connection._link
    assert link is not None
    assert link._transport is not None
    sock: socket.socket = link._transport.get_extra_info("socket")
    return sock


def test_sockets_have_no_delay_and_are_kept_alive(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url, keepalive_s=12) as client:
            sock = socket_of(client)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            seconds = {"TCP_KEEPIDLE": 12, "TCP_KEEPINTVL": 4, "TCP_KEEPCNT": 3}
            for name, value in {**seconds, "TCP_USER_TIMEOUT": 24_000}.items():
                if hasattr(socket, name):
                    assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
        async with holdfast.connect(redis_url, keepalive_s=None) as client:
            assert not socket_of(client).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert socket_of(client).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    asyncio.run(scenario())


def test_an_idle_connection_notices_that_its_peer_is_gone() -> None:
    async def greet(listener: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        peer, _ = await loop.sock_accept(listener)
        data = b""
        while b"LIB-VER" not in data:
            data += await loop.sock_recv(peer, 4096)
        await loop.sock_sendall(peer, b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n")
        return peer

    async def scenario(listener: socket.socket) -> None:
        client = holdfast.connect(f"redis://127.0.0.1:{listener.getsockname()[1]}", keepalive_s=1)
        peer, _ = await asyncio.gather(greet(listener), client.connect())
        assert isinstance(client._caller, Single)
        connection = client._caller.connection
        try:
            peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        except OSError:
            await client.close()
            pytest.skip("only an administrator can make a socket vanish")
        finally:
            peer.close()
        again, _ = await asyncio.gather(greet(listener), until(lambda: connection.generation == 2))
        assert connection.last_error is not None
        await client.close()
        again.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        asyncio.run(scenario(listener))


def test_an_idle_connection_costs_little(redis_url: str) -> None:
    """Python's side of it: what the loop and the kernel need is theirs."""

    async def scenario() -> None:
        async def connect(count: int) -> list[Client]:
            clients = [holdfast.connect(redis_url) for _ in range(count)]
            for client in clients:
                await client.connect()
            return clients

        clients = await connect(5)  # what only the first ones need
        gc.collect()
        tracemalloc.start()
        try:
            clients += await connect(50)
            gc.collect()
            each = tracemalloc.get_traced_memory()[0] / 50
        finally:
            tracemalloc.stop()
        for client in clients:
            await client.close()
        assert each < 20_000, f"{each:,.0f} bytes"

    asyncio.run(scenario())
