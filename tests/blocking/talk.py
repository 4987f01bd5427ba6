"""How blocking tests talk to a server, so that nothing depends on how fast anything is."""

from tests.harness import RawClient, encode_command
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


def still_blocked(client: RawClient, other: RawClient) -> bool:
    """Whether the server has had its chance to answer, and did not.

    `other` must be a client that has read its replies; what it did woke nobody if its next
    reply comes before anything else does.
    """
    assert other.command("PING") == PONG
    return client.is_quiet()
