"""A server that is killed, or loses its power, while it migrates a file of an older version: the
next one finds the old file or the new one, and all data."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.store.check import check_file
from holdfast.store.file import opening
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.store import FileStore
from holdfast.store.values.list import List
from holdfast.store.values.stream import Stream
from holdfast.store.values.zset import ZSet
from tests.faults.disk import Disk
from tests.store.consistency import check_settled
from tests.store.file.test_opening import make_old

SCORES = [b"0", b"3", b"6", b"1", b"4", b"7", b"more", b"2", b"5", b"8"]


def make_older(path: Path, version: int) -> None:
    """A file of that version; of this version, without the tables that came later."""
    if version < SCHEMA_VERSION:
        make_old(path, version)
        return
    make_old(path, version - 1)
    FileStore(path, keeps_copy=False).abandon()
    connection = apsw.Connection(str(path))
    for table in opening.ADDED_TABLES:
        connection.execute(f"DROP TABLE {table}")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


def verify(path: Path) -> None:
    assert check_file(path) == []
    store = FileStore(path, keeps_copy=False)
    database = store.keyspace.databases[0]
    scores = database.read_as(b"z", ZSet)
    assert scores is not None
    assert scores.members(0, 99) == SCORES
    elements = database.read_as(b"l", List)
    assert elements is not None
    assert list(elements) == [b"%d" % place for place in range(1, 901)]
    stream = database.read_as(b"s", Stream)
    assert stream is not None
    assert [number for number, _ in stream.range(0)] == [*range(2, 101)]
    store.close()
    check_settled(path)


def failing_at_each_step(
    folder: Path, version: int, fail: Callable[[Disk, Path], None], steps: range
) -> list[Path]:
    """Migrate a file, and note before some of its writes and syncs how the files would be found."""
    here = folder / "here"
    here.mkdir()
    make_older(here / "a.db", version)
    for path in here.iterdir():
        if path.name != "a.db":
            path.unlink()
    disk = Disk()
    disk.adopt(here)
    images: list[Path] = []
    done = 0

    def count() -> None:
        nonlocal done
        if done in steps:
            images.append(folder / f"image-{done}")
            fail(disk, images[-1])
        done += 1

    disk.on_io = count
    store = FileStore(here / "a.db", vfs=disk.name, keeps_copy=False)
    store.abandon()
    assert done > len(images) >= 3
    return images


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("version", [3, SCHEMA_VERSION - 1, SCHEMA_VERSION])
def test_a_migration_that_is_killed_loses_nothing(tmp_path: Path, version: int, start: int) -> None:
    def kill(disk: Disk, image: Path) -> None:
        shutil.copytree(tmp_path / "here", image)

    steps = range(start, 1000, 6)
    for image in failing_at_each_step(tmp_path, version, kill, steps):
        for name in ("a.db-lock", "a.db-shm"):
            (image / name).unlink(missing_ok=True)
        verify(image / "a.db")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", [3, SCHEMA_VERSION - 1, SCHEMA_VERSION])
def test_a_migration_without_power_loses_nothing(tmp_path: Path, version: int, seed: int) -> None:
    rng = random.Random(seed)

    def fail(disk: Disk, image: Path) -> None:
        disk.image(image, rng)

    for image in failing_at_each_step(tmp_path, version, fail, range(seed, 1000, 6)):
        verify(image / "a.db")
