"""REPLCONF where no replica would send it."""

import pytest

from tests.harness.in_process import InProcess


@pytest.mark.parametrize("words", ["REPLCONF ACK 1", "REPLCONF GETACK *"])
def test_an_option_without_a_reply_is_null_in_exec(words: str) -> None:
    """Redis leaves it out, and the client takes the next reply for the last of the array."""
    peer = InProcess().peer()
    reply = peer.transaction(("SET", "k", "v"), words.split(), ("GET", "k"))
    assert reply == b"*3\r\n+OK\r\n$-1\r\n$1\r\nv\r\n"
    assert peer.command("PING") == b"+PONG\r\n"
    peer.pipeline(words.split(), ("PING",))
    assert peer.replies() == [b"+PONG\r\n"]
