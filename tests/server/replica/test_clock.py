"""A replica does not use its own clock: its primary says which keys and fields have expired."""

import pytest

from tests.commands.asking import ask
from tests.harness.in_process import InProcess

AHEAD_MS = 1_000_000


@pytest.mark.parametrize(
    ("commands", "question", "reply"),
    [
        (["SET k 5 PXAT 1"], "GET k", b"5"),
        (["SETEX k 1 5", "PEXPIREAT k 1"], "GET k", b"5"),
        (["SET k 5", "GETEX k PXAT 1"], "GET k", b"5"),
        (["INCREX k PXAT 1"], "GET k", b"1"),
        (["SET k 5", "INCREX k PXAT 1"], "GET k", b"6"),
        (["SET k 5 PXAT 1", "INCREX k"], "GET k", b"6"),
        (["HSET k f 5", "HPEXPIREAT k 1 FIELDS 1 f"], "HGET k f", b"5"),
        (["HSETEX k PXAT 1 FIELDS 1 f 5"], "HGET k f", b"5"),
    ],
)
def test_what_has_expired_stays_until_the_primary_deletes_it(
    commands: list[str], question: str, reply: object
) -> None:
    place = InProcess()
    keyspace, peer = place.engine.keyspace, place.peer()
    keyspace.is_replica = keyspace.obeys_primary = True
    for line in commands:
        ask(peer, line)
    assert ask(peer, question) == reply


def test_a_delivery_later_than_the_clock_of_the_replica() -> None:
    """The clock of the primary is ahead."""
    place = InProcess()
    keyspace, peer = place.engine.keyspace, place.peer()
    later_ms = keyspace.now_ms + AHEAD_MS
    keyspace.is_replica = keyspace.obeys_primary = True
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s g 0"):
        ask(peer, line)
    ask(peer, f"XCLAIM s g c 0 1-1 TIME {later_ms} RETRYCOUNT 1 FORCE JUSTID LASTID 1-1")
    place.clock.advance(AHEAD_MS / 1000)
    ask(peer, "PING")
    assert keyspace.now_ms == later_ms
    assert ask(peer, "XPENDING s g - + 1") == [[b"1-1", b"c", 0, 1]]
