"""The benchmark of the fold runs; how much a write costs is not asked here."""

import pytest

from bench.fold import LOADS, Cost, Writes, cost, row
from tests.harness import HoldfastServer, RawClient

SHARE = 1 / 1000


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.title)
def test_a_load_is_measured_and_nothing_of_it_is_left(
    load: Writes, server: HoldfastServer, client: RawClient
) -> None:
    found = cost(server, load.scaled(SHARE))
    assert found.longest_ms >= found.p99_ms > 0
    assert found.cpu_with_save_us >= found.cpu_us >= 0
    assert client.command("DBSIZE") == b":0\r\n"


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.title)
def test_a_load_has_as_many_writes_and_keys_as_it_says(load: Writes) -> None:
    small = load.scaled(SHARE)
    sent = b"".join(small.pieces())
    names = {part[:12] for part in sent.split(b"\r\n") if part.startswith(b"key:")}
    assert sent.count(b"\r\nSET\r\n") == small.count
    assert len(names) <= (small.keys or small.count)
    assert sent == b"".join(small.pieces()), "each server gets the same"


def test_the_table_has_medians_and_the_oldest_change() -> None:
    found = [Cost(number, 2 * number, number, 9, number, 1000) for number in (1, 2, 9)]
    assert row("x", "y", found) == "| x | y | 2.0 | 4.0 | 2.0 | 9.0 | 1,000 |"
