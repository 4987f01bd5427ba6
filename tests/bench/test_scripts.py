"""The benchmark of scripts runs; how fast is not asked here."""

from collections.abc import Callable
from pathlib import Path

from bench.scripts import CALLS, LIMIT_MS, LOOPS, Calls, measure_waits
from tests.harness import HoldfastServer


def test_calls_are_measured_beside_dispatches(tmp_path: Path) -> None:
    calls = Calls(tmp_path / "calls")
    found = calls.measure(rounds=1)
    calls.close()
    assert found.keys() == CALLS.keys()
    assert all(min(us.alone, us.dispatched, us.request) > 0 for us in found.values())


def test_waits_are_measured_until_the_script_is_killed(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--lua-time-limit", str(LIMIT_MS))
    for kind in ("SCRIPT", "FUNCTION"):
        waits = measure_waits(server, kind, LOOPS["a plain loop"], asks=2)
        assert min(waits.busy, waits.connect, waits.kill) > 0
