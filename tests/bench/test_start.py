"""The benchmark of starts runs; how fast is not asked here."""

from pathlib import Path

import pytest

from bench import start as bench_start
from bench.start import FIRST, SERVERS, holdfast, measure
from holdfast.store.file.reading import reading


def test_a_start_ends_with_a_pong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_start, "KEYS", 1000)
    for _ in range(2):  # on a new database, and on the one that is there, which was filled
        start = holdfast(tmp_path / "place")
        assert start.cpu_ms > 0
        assert start.wall_ms > 0
        assert start.first_ms.keys() == FIRST.keys()
    with reading(tmp_path / "place" / "x.db") as connection:
        assert connection.execute("SELECT count(*) FROM strings").get == 1001


def test_each_server_starts_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    for name in SERVERS:

        def start(folder: Path, name: str = name) -> object:
            order.append((name, folder.name))
            return name

        monkeypatch.setitem(SERVERS, name, start)
    found = measure(tmp_path, rounds=2)
    assert order[:5] == [
        ("holdfast", "holdfast-0"),
        ("holdfast", "holdfast-0"),
        ("redis-server", "redis-server-0"),
        ("redis-server", "redis-server-0"),
        ("python", "python-0"),
    ]
    assert order[5:] == [(name, folder.replace("-0", "-1")) for name, folder in order[:5]]
    assert {name: len(starts) for name, starts in found.items()} == {
        "holdfast, new": 2,
        "holdfast, 100,000 keys": 2,
        "redis-server, new": 2,
        "redis-server, 100,000 keys": 2,
        "python, new": 2,
    }
