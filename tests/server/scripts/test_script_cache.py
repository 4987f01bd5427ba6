"""Which scripts stay in the cache."""

from hashlib import sha1

from holdfast.server.scripts.script_cache import MOST_EVALUATED
from tests.harness.in_process import InProcess


def test_a_script_in_use_stays() -> None:
    peer = InProcess().peer()
    known, unused = "return 'known'", "return 'unused'"
    for script in (known, unused):
        peer.command("EVAL", script, 0)
    for number in range(MOST_EVALUATED):
        assert peer.command("EVALSHA", sha1(known.encode()).hexdigest(), 0) == b"$5\r\nknown\r\n"
        peer.command("EVAL", f"return {number}", 0)
    reply = peer.command("EVALSHA", sha1(unused.encode()).hexdigest(), 0)
    assert reply == b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
