"""A server with `http-port`, and requests to it as raw bytes."""

import socket
from collections.abc import Callable
from typing import NamedTuple

from tests.harness.processes import HoldfastServer, free_port

StartServer = Callable[..., HoldfastServer]


class Reply(NamedTuple):
    status: int
    head: str
    body: str


class HttpPort:
    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port = port
        self.host = host

    def connect(self, timeout_s: float = 30.0) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout_s)

    def send(self, data: bytes) -> Reply:
        """Send bytes. Returns the complete answer of the server."""
        with self.connect() as sock:
            sock.sendall(data)
            return read(sock)

    def get(self, path: str, method: str = "GET") -> Reply:
        return self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def read(sock: socket.socket) -> Reply:
    received = b""
    while part := sock.recv(65536):
        received += part
    head, _, body = received.decode().partition("\r\n\r\n")
    return Reply(int(head.split()[1]), head, body)


def start_with_http(
    start_server: StartServer, *args: str, env: dict[str, str] | None = None
) -> tuple[HoldfastServer, HttpPort]:
    """Start a server with an HTTP port. Another process may take the port of `free_port` first, so
    this tries several times."""
    for attempt in range(5):
        port = free_port()
        try:
            return start_server("--http-port", str(port), *args), HttpPort(port)
        except AssertionError as error:
            if attempt == 4 or "cannot listen" not in str(error):
                raise
    raise AssertionError
