"""The file of finished builds: shared by dashboards, locked, damaged."""

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from bench.dashboard import record
from holdfast.builds import BuildRecord
from holdfast.errors import StorageError
from holdfast.web.readers.builds import BuildIndex


def some(first: int, count: int) -> list[tuple[BuildRecord, int]]:
    return [(record(n), 1_800_000_000_000 + n) for n in range(first, first + count)]


def test_two_dashboards_share_the_index(tmp_path: Path) -> None:
    one, other = BuildIndex(tmp_path / "index"), BuildIndex(tmp_path / "index")
    one.add("ci", some(0, 10))
    other.add("ci", some(5, 10))
    other.drop("ci", [1])
    assert one.count("ci") == other.count("ci") == 14
    assert len(one.search("ci", "worker")) == 14
    for index in (one, other):
        index.close()


def test_an_index_that_another_dashboard_writes_is_not_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    index = BuildIndex(path)
    index.add("ci", some(0, 10))
    index.close()
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    with pytest.raises(StorageError, match="locked"):
        BuildIndex(path)
    writer.close()
    again = BuildIndex(path)
    assert again.count("ci") == 10
    again.close()


def test_an_index_that_is_damaged_while_it_is_used_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = BuildIndex(path)
    index.add("ci", some(0, 2000))
    index.close()
    index = BuildIndex(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StorageError, match="filled anew"):
        index.search("ci", "worker")
    assert index.search("ci", "worker") == []
    index.add("ci", some(0, 3))
    assert len(index.search("ci", "worker")) == 3
    index.close()
