"""Changes that belong together are one batch, even if a failure comes in the middle."""

from pathlib import Path

import pytest

from tests.faults.disk import Disk
from tests.faults.simulation import Simulation


@pytest.fixture
def simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulation:
    return Simulation(Disk(), tmp_path, monkeypatch)


def batches(simulation: Simulation) -> list[list[int]]:
    """The keys that each batch in the journal changes."""
    return [sorted({op[1] for op in ops}) for _, ops in simulation.store.journal.batches()]


@pytest.mark.parametrize("command", [b"BGSAVE", b"BGREWRITEAOF"])
def test_a_transaction_is_one_batch_even_if_it_saves(
    simulation: Simulation, command: bytes
) -> None:
    client = simulation.client()
    client.send([b"MULTI"], [b"SET", b"a", b"1"], [command], [b"SET", b"b", b"1"], [b"EXEC"])
    while simulation.loop.soon:
        simulation.loop.soon.popleft()()
    assert [len(keys) for keys in batches(simulation)] == [2]
    for _ in range(100):
        simulation.run()
        simulation.clock.advance(0.01)
    assert batches(simulation) == []  # the save included it
    simulation.stop()


def test_a_push_and_the_pops_it_allows_are_one_batch(simulation: Simulation) -> None:
    waiters = [simulation.client() for _ in range(2)]
    for waiter in waiters:
        waiter.send([b"BLMOVE", b"q", b"done", b"LEFT", b"RIGHT", b"0"])
    simulation.run()
    before = len(batches(simulation))
    simulation.client().send([b"RPUSH", b"q", b"x", b"y"])
    simulation.run()
    assert [waiter.replies for waiter in waiters] == [[b"x"], [b"y"]]
    assert len(batches(simulation)) == before + 1
    simulation.stop()


def test_a_reload_forgets_nothing_that_the_same_turn_did(simulation: Simulation) -> None:
    client = simulation.client()
    client.send([b"SET", b"a", b"1"], [b"DEBUG", b"RELOAD"], [b"GET", b"a"])
    simulation.run()
    assert client.replies == [b"OK", b"OK", b"1"]
    simulation.stop()
