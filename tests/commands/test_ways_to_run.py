"""Commands that came after Redis 7 do the same however they are run, and whatever their arguments.

Each call is run alone, in a transaction and in a script, on three engines that have the same data.
Afterwards the three must still have the same. And no call may leave a connection with a reply too
many or too few, or with an error that is not the client's.
"""

import random
from pathlib import Path

import hiredis

from tests.commands.calls_of_redis_8 import FILL, Calls
from tests.harness.in_process import InProcess, Peer
from tests.harness.processes import SteadyServer

ROUNDS, CALLS = 15, 12
DEBUG = {"enable-debug-command": "yes"}
# HIMPORT prepares fields for a connection. A script is a connection of its own, without any.
ONLY_OUTSIDE = (b"not allowed from script", b"no such fieldset")


def filled() -> Peer:
    peer = InProcess(DEBUG).peer()
    for line in FILL:
        peer.command(*line)
    return peer


def check_reply(reply: bytes) -> None:
    """One whole reply, and no more."""
    reader = hiredis.Reader()
    reader.feed(reply)
    value = reader.gets()
    assert value is not False
    assert reader.gets() is False
    assert b"internal" not in reply.lower()


def test_alone_in_a_transaction_and_in_a_script(rng: random.Random) -> None:
    for _ in range(ROUNDS):
        calls = Calls(rng)
        alone, multi, script = filled(), filled(), filled()
        for _ in range(CALLS):
            argv = calls.next()
            alone.pipeline(argv, ["PING"])
            reply, pong = alone.replies()
            assert pong == b"+PONG\r\n", argv
            check_reply(reply)
            check_reply(multi.transaction(argv))
            in_script = script.command("EVAL", "return redis.pcall(unpack(ARGV))", 0, *argv)
            check_reply(in_script)
            data = alone.command("DEBUG", "DIGEST")
            assert multi.command("DEBUG", "DIGEST") == data, argv
            if any(words in in_script for words in ONLY_OUTSIDE):
                break
            assert script.command("DEBUG", "DIGEST") == data, argv


def test_after_a_crash_all_of_it_is_there(tmp_path: Path, rng: random.Random) -> None:
    calls = Calls(rng, expires=False)
    with SteadyServer(tmp_path, "--enable-debug-command", "yes", "--fold-age-ms", "50") as server:
        client = server.client()
        for _ in range(3):
            for line in FILL:
                client.command(*line)
            for _ in range(50):
                check_reply(client.command(*calls.next()))
            before = client.command("DEBUG", "DIGEST")
            server.crash()
            client = server.client()
            assert client.command("DEBUG", "DIGEST") == before
