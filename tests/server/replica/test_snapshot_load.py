"""The process that loads a snapshot may live longer than the server that started it."""

import asyncio
from pathlib import Path

import pytest

from holdfast.server.replica.position import Position
from holdfast.server.replica.snapshot_load import SnapshotLoad
from holdfast.store.rdb.primitives import string
from tests.migration.test_importing import names
from tests.store.rdb.rdb_bytes import rdb

START = Position(b"x" * 40, 0, 0)


async def load(target: Path, name: bytes) -> SnapshotLoad:
    """A snapshot with one key."""
    found = SnapshotLoad(target, 16, skips_unknown=False)
    await found.start()
    await found.begin(START, None)
    await found.feed(rdb(b"\x00" + string(name) + string(b"v")))
    await found.finish()
    return found


def test_a_process_whose_server_died_leaves_no_key_to_the_next_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no file yet when the next load removed what was left."""
    target = tmp_path / "app.db"
    monkeypatch.setattr(SnapshotLoad, "remove", lambda _: None)
    asyncio.run(load(target, b"of an earlier snapshot"))
    assert names(asyncio.run(load(target, b"new")).path) == [(0, b"new")]


def test_what_such_a_process_has_left_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "app.db"
    beside = [tmp_path / name for name in (".app.db.following", ".other.db.following-1a")]
    for path in (target, *beside):
        path.touch()
    asyncio.run(load(target, b"old"))
    last = asyncio.run(load(target, b"new"))
    assert {*tmp_path.iterdir()} == {target, *beside, last.path}
    last.stop()
    assert {*tmp_path.iterdir()} == {target, *beside}
