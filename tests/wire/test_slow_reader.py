"""A client that asks for much and reads nothing is disconnected, and no other client notices."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, encode_command

MB = 1 << 20


def resident_bytes(server: HoldfastServer, field: str) -> int:
    """VmRSS now, or VmHWM at its highest so far."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field}")


@pytest.mark.parametrize(
    "greedy",
    [
        [encode_command("GET", "big")] * 4000,
        [encode_command("MGET", *["big"] * 4000)],
        [encode_command("MULTI"), *[encode_command("GET", "big")] * 4000, encode_command("EXEC")],
        [encode_command("LRANGE", "list", 0, -1)] * 4000,
    ],
    ids=["pipeline", "mget", "exec", "lrange"],
)
def test_a_client_that_does_not_read_is_cut_off_and_memory_stays_bounded(
    start_server: Callable[..., HoldfastServer], greedy: list[bytes]
) -> None:
    limit = 32 * MB
    server = start_server(
        "--client-output-buffer-limit", f"normal {limit} 0 0", "--appendfsync", "no"
    )
    other = server.client()
    assert other.command("SET", "big", b"x" * MB) == b"+OK\r\n"
    assert other.command("RPUSH", "list", *[b"y" * 1000] * 1000) == b":1000\r\n"
    before = resident_bytes(server, "VmRSS")
    slow = server.client()
    try:
        slow.send(b"".join(greedy))
    except (BrokenPipeError, ConnectionResetError):
        pass  # cut off while it was still asking
    for _ in range(50):
        assert other.command("GET", "missing") == b"$-1\r\n"
    # It never gets 4 GB, nor as much as one reply more than the limit and the sockets hold.
    assert len(slow.read_until_closed()) < limit + 16 * MB
    assert resident_bytes(server, "VmHWM") < before + 3 * limit
    assert other.command("CLIENT", "LIST").count(b"id=") == 1


def test_a_listener_that_does_not_read_is_cut_off_by_the_limit_of_listeners(
    start_server: Callable[..., HoldfastServer],
) -> None:
    limit = 4 * MB
    server = start_server(
        *("--client-output-buffer-limit", f"normal 0 0 0 pubsub {limit} 0 0"),
        *("--appendfsync", "no"),
    )
    publisher, slow, reader = (server.client() for _ in range(3))
    before = resident_bytes(server, "VmRSS")
    for client in (slow, reader):
        assert client.command("SUBSCRIBE", "x").startswith(b"*3")
    message = b"x" * (MB // 4)
    sent = 0
    while publisher.command("PUBLISH", "x", message) == b":2\r\n":
        reader.read_reply()
        sent += 1
        assert sent < 1000, "the slow one is never cut off"
    reader.read_reply()
    assert publisher.command("PUBLISH", "x", "hello") == b":1\r\n"
    assert reader.read_reply() == b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$5\r\nhello\r\n"
    assert resident_bytes(server, "VmHWM") < before + 8 * limit
    assert len(slow.read_until_closed()) < limit + 16 * MB
