"""Damaged RDB files: one clear error, or values that the damage left sound; never more memory than
the file accounts for, and nothing changed."""

import random
import resource
import tracemalloc
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import HoldfastError
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.store.check import check
from holdfast.store.rdb.file_reader import RdbFileError
from tests.migration.damage import damaged, sources
from tests.store.rdb.rdb_bytes import records_of

NOW_MS = 1_700_000_000_000
MOST_BYTES = 1 << 20  # of files that have less than 2 kB


def read(rng: random.Random, data: bytes) -> str:
    """The error, if there is one."""
    try:
        records_of(data, rng.choice((1, 7, 100, 10_000)), knows_size=rng.random() < 0.5)
    except RdbFileError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        assert len(sentence) < 300
        return sentence
    return ""


def test_reading_a_damaged_file(rng: random.Random) -> None:
    whole = sources(rng)
    for data in whole:
        assert not read(rng, data), "without damage"
    errors = set()
    tracemalloc.start()
    try:
        for _ in range(400):
            data = damaged(rng, rng.choice(whole))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            errors.add(read(rng, data).partition(":")[2])
            assert tracemalloc.get_traced_memory()[1] - before < MOST_BYTES, data
    finally:
        tracemalloc.stop()
    assert len(errors) > 10, "the damage is of many kinds"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_reading_a_hundred_thousand_damaged_files(rng: random.Random) -> None:
    whole = sources(rng)
    read(rng, whole[0])
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100_000):
        read(rng, damaged(rng, rng.choice(whole)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 100 << 10


def import_some(rng: random.Random, folder: Path, count: int) -> None:
    """A database file keeps its content, or has a new one in which `holdfast check` finds no
    fault."""
    whole = sources(rng)
    source, db = folder / "dump.rdb", folder / "app.db"
    source.write_bytes(whole[0])
    options = ImportOptions(merges=True, skips_unknown=True)
    import_file(source, db, options, clock=ManualClock(NOW_MS))
    for _ in range(count):
        before = db.read_bytes()
        source.write_bytes(damaged(rng, rng.choice(whole)))
        try:
            import_file(source, db, options, clock=ManualClock(NOW_MS))
        except HoldfastError:
            assert db.read_bytes() == before
        else:
            assert check(db).problems == []
        assert sorted(path.name for path in folder.iterdir()) == ["app.db", "dump.rdb"]


def test_importing_a_damaged_file(rng: random.Random, tmp_path: Path) -> None:
    import_some(rng, tmp_path, 12)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_importing_many_damaged_files(rng: random.Random, tmp_path: Path) -> None:
    import_some(rng, tmp_path, 2000)
