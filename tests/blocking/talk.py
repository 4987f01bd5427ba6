"""How blocking tests talk to a server, so that nothing depends on how fast anything is."""

from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.harness.rawclient import Argument

PONG = b"+PONG\r\n"
NIL, NIL_ARRAY = b"$-1\r\n", b"*-1\r\n"


def bulks(*values: str) -> bytes:
    """An array of bulk strings, as a reply."""
    return encode_command(*values)


def block(client: RawClient, *args: Argument) -> None:
    """Send a command that will block; returns when the server has run it.

    A PING travels in front of it in the same packet: its answer leaves when the server has
    worked off the whole packet.
    """
    client.send(encode_command("PING") + encode_command(*args))
    assert client.read_reply() == PONG


def leave(client: RawClient, other: RawClient) -> None:
    """Close the connection; returns when the server has noticed."""
    host, port = client._sock.getsockname()
    client.close()
    mark = f" addr={host}:{port} ".encode()
    wait_until(lambda: mark not in other.command("CLIENT", "LIST"), "the server has noticed")


def still_blocked(client: RawClient, other: RawClient) -> bool:
    """Whether the server had the chance to answer, and did not.

    `other` must be a client that has read all its replies. Its commands woke no client if its next
    reply comes before any other reply.
    """
    assert other.command("PING") == PONG
    return client.is_quiet()


def complaints(server: HoldfastServer) -> list[str]:
    """The server's log, without the lines that are normal."""
    normal = (" notice ", " warning not compiled, ")
    return [line for line in server.stderr.splitlines() if not any(map(line.count, normal))]
