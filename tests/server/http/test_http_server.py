"""`/health`, `/ready` and `/metrics` of real servers, asked by good and by bad clients."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.server.http.http_server import MOST_CONNECTIONS
from tests.harness import HoldfastServer
from tests.harness.http import HttpPort, StartServer, read, start_with_http
from tests.harness.processes import free_port, wait_until


@pytest.fixture
def served(start_server: StartServer) -> tuple[HoldfastServer, HttpPort]:
    return start_with_http(start_server)


@pytest.fixture
def http(served: tuple[HoldfastServer, HttpPort]) -> HttpPort:
    return served[1]


def test_three_paths_are_answered(http: HttpPort) -> None:
    assert http.get("/health")[::2] == (200, "alive\n")
    assert http.get("/ready")[::2] == (200, "ready\n")
    assert "\nholdfast_ready 1.0\n" in http.get("/metrics").body
    assert http.get("/").status == http.get("/%00").status == http.get("/metrics/").status == 404


def test_head_and_http_1_0(http: HttpPort) -> None:
    assert http.get("/metrics", "HEAD").body == ""
    assert http.send(b"GET /health HTTP/1.0\r\n\r\n").body == "alive\n"


def test_other_methods_are_refused(http: HttpPort) -> None:
    reply = http.send(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
    assert reply.status == 405
    assert "Allow: GET, HEAD" in reply.head


def test_a_megabyte_of_headers_is_refused_and_the_client_reads_why(http: HttpPort) -> None:
    with http.connect() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 2000)
        assert read(sock).status == 431
    with http.connect() as sock, pytest.raises(OSError):  # noqa: PT011 - reset, or a broken pipe
        sock.sendall(b"A: b\r\n" * 10_000_000)
    assert http.get("/health").status == 200


def test_half_a_request_is_no_request(http: HttpPort) -> None:
    with http.connect() as sock:
        sock.sendall(b"GET /health HTT")
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""


def test_a_client_may_half_close_after_its_request(http: HttpPort) -> None:
    for path in ("/health", "/metrics"):
        with http.connect() as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            sock.shutdown(socket.SHUT_WR)
            assert read(sock).status == 200


def test_connections_are_bounded_and_their_end_makes_room(http: HttpPort) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(http.connect()).sendall(b"GET")
        with http.connect() as sock:
            assert read(sock).status == 503
    wait_until(lambda: http.get("/health").status == 200, "there is room again")


def test_clients_that_ask_at_once_are_all_answered(http: HttpPort) -> None:
    with ExitStack() as stack:
        socks = [stack.enter_context(http.connect()) for _ in range(MOST_CONNECTIONS)]
        for sock in socks:
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert {read(sock).status for sock in socks} == {200}


def test_ipv6(start_server: StartServer) -> None:
    _, http = start_with_http(start_server, "--http-bind", "::1")
    assert HttpPort(http.port, "::1").get("/health").status == 200
    with pytest.raises(ConnectionRefusedError):
        http.connect()


def test_nothing_listens_unless_asked(start_server: StartServer) -> None:
    server = start_server()
    assert server.client().command("CONFIG", "GET", "http-port").endswith(b"$1\r\n0\r\n")
    assert "HTTP" not in server.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--http-port", "PORT"], "cannot listen on 127.0.0.1:PORT: Address already in use"),
        (["--http-port", "70000"], "between 0 and 65535"),
        (["--http-port", "PORT", "--http-bind", "256.0.0.1"], "cannot listen on 256.0.0.1:PORT"),
    ],
)
def test_a_port_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = [word.replace("PORT", port) for word in options]
        db = tmp_path / "x.db"
        serve = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--db", str(db)]
        done = subprocess.run([*serve, *words], capture_output=True, text=True)
    assert done.returncode != 0
    assert reason.replace("PORT", port) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not db.exists()


def test_without_the_extra_only_metrics_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'prometheus_client':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    port = free_port()
    arguments = ("--http-port", str(port))
    with HoldfastServer(tmp_path / "s", *arguments, env={"PYTHONPATH": path}) as server:
        http = HttpPort(port)
        assert http.get("/health").status == http.get("/ready").status == 200
        reply = http.get("/metrics")
        assert (reply.status, reply.body.count("\n")) == (501, 1)
        assert "pip install prometheus-client" in reply.body
        assert "pip install prometheus-client" in server.stderr


def test_a_server_that_joins_is_alive_and_not_ready(start_server: StartServer) -> None:
    """It has no state until it has reached a peer, and this peer is not there."""
    peer = f"redis://127.0.0.1:{free_port()}"
    args = ("--active-active", "yes", "--node-id", "2", "--peer", peer)
    _, http = start_with_http(start_server, *args)
    assert http.get("/health").status == 200
    reply = http.get("/ready")
    assert reply.status == 503
    assert reply.body.startswith("not ready: this server has not reached its peers yet")
    body = http.get("/metrics").body
    assert "\nholdfast_ready 0.0\n" in body
    address = peer.removeprefix("redis://")
    assert f'holdfast_peer_up{{address="{address}",node="0"}} 0.0' in body
    assert f'holdfast_peer_lag_seconds{{address="{address}",node="0"}} +Inf' in body


def test_a_server_that_stops_is_not_ready(served: tuple[HoldfastServer, HttpPort]) -> None:
    """A client that does not read its reply keeps the server for `shutdown-timeout`."""
    server, http = served
    client = server.client()
    client.command("SET", "k", "x" * 30_000_000)
    client.send_command("GET", "k")
    wait_until(lambda: "get" in http.get("/metrics").body, "the reply is on its way")
    server.process.terminate()
    wait_until(lambda: http.get("/ready").status == 503, "the server stops")
    assert http.get("/ready").body == "not ready: the server shuts down\n"
    assert http.get("/health").status == 200
    client.close()
    assert server.process.wait(30) == 0
