"""The backlog: which bytes it keeps, and for which replicas they suffice."""

import random
import tracemalloc

import pytest

from holdfast.server.primary.backlog import Backlog

ID = b"a" * 40


def test_a_replica_continues_behind_its_last_byte() -> None:
    backlog = Backlog(100, ID)
    backlog.feed(b"0123456789")
    assert backlog.offset == 10
    assert backlog.since(1) == b"0123456789"
    assert backlog.since(4) == b"3456789"
    assert backlog.since(11) == b""


@pytest.mark.parametrize(
    ("replication_id", "offset", "can"),
    [
        (ID, 1, True),
        (ID, 11, True),
        (ID, 12, False),
        (ID, 0, False),
        (ID, -1, False),
        (b"b" * 40, 5, False),
        (b"?", -1, False),
    ],
)
def test_which_replica_can_continue(replication_id: bytes, offset: int, can: bool) -> None:
    backlog = Backlog(100, ID)
    backlog.feed(b"0123456789")
    assert backlog.can_continue(replication_id, offset) is can


def test_it_keeps_at_least_its_size_and_little_more(rng: random.Random) -> None:
    backlog = Backlog(200_000, ID)
    fed = b""
    for _ in range(300):
        data = rng.randbytes(rng.choice((1, 10, 5_000, 90_000)))
        backlog.feed(data)
        fed += data
        assert backlog.offset == len(fed)
        kept = backlog.kept_bytes
        assert kept == len(fed) if len(fed) <= 200_000 else kept >= 200_000
        assert kept <= 200_000 + 90_000 + 65_536
        assert backlog.since(backlog.first_offset) == fed[len(fed) - kept :]


def test_what_a_snapshot_may_need_stays() -> None:
    backlog = Backlog(16, ID)
    backlog.feed(b"a" * 100_000)
    backlog.needed_from = backlog.offset
    for _ in range(3):
        backlog.feed(b"b" * 100_000)
    assert backlog.since(100_001) == b"b" * 300_000
    backlog.needed_from = None
    backlog.feed(b"c" * 100_000)
    assert backlog.first_offset > 100_001


def test_a_large_value_does_not_stay_because_of_its_end(rng: random.Random) -> None:
    """Its beginning is dropped at once, and what a snapshot needs afterwards."""
    backlog = Backlog(100_000, ID)
    large = rng.randbytes(5_000_000)
    backlog.feed(b"a" * 10)
    backlog.feed(large)
    assert backlog.kept_bytes == 100_000
    assert backlog.since(backlog.first_offset) == large[-100_000:]
    backlog.needed_from = backlog.offset
    backlog.feed(large)
    backlog.feed(b"b" * 10)
    assert backlog.since(5_000_011) == large + b"b" * 10
    backlog.needed_from = None
    backlog.feed(b"c" * 10)
    assert backlog.kept_bytes == 100_000
    assert backlog.since(backlog.first_offset) == (large + b"b" * 10 + b"c" * 10)[-100_000:]


def test_the_beginning_of_a_piece_is_copied_rarely() -> None:
    """A piece that is a little too large is left as it is."""
    backlog = Backlog(1_000_000, ID)
    backlog.feed(b"a" * 900_000)
    backlog.feed(b"b" * 300_000)
    assert backlog.kept_bytes == 1_200_000
    backlog.feed(b"c" * 200_000)
    assert backlog.kept_bytes == 1_400_000
    backlog.feed(b"d" * 100_000)
    assert backlog.kept_bytes == 1_000_000


def test_of_a_large_value_only_the_end_is_copied() -> None:
    backlog = Backlog(100_000, ID)
    large = b"a" * 50_000_000 + b"end"
    tracemalloc.start()
    try:
        backlog.feed(large)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert backlog.since(backlog.first_offset) == large[-100_000:]
    assert backlog.offset == len(large)
