"""What is in a file and its WAL, page by page."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.store.file.wal import lacks_pages
from holdfast.store.store import FileStore

PAGE = 4096
LOCK_PAGE = 1 + (1 << 30) // PAGE  # SQLite locks bytes of it and never writes it


def grow(path: Path, page_count: int) -> None:
    """Make a checkpointed file so many pages long. The new pages are a hole, so it is quick and
    takes no room on the disk. No table has them."""
    with open(path, "r+b") as file:
        file.truncate(page_count * PAGE)
        file.seek(28)
        file.write(page_count.to_bytes(4))


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[tuple[apsw.Connection, Path]]:
    """A file that ends three pages before its 1 GiB, and a WAL in which it passes them."""
    path = tmp_path / "x.db"
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("create table t (v)")
    connection.close()
    grow(path, LOCK_PAGE - 3)
    connection = apsw.Connection(str(path))
    connection.execute("insert into t values (zeroblob(?))", (10 * PAGE,))
    yield connection, path
    connection.close()


def test_the_page_at_1_gib_is_never_written_and_is_not_missing(
    grown: tuple[apsw.Connection, Path],
) -> None:
    connection, path = grown
    assert connection.pragma("page_count") > LOCK_PAGE
    assert path.stat().st_size < (LOCK_PAGE - 1) * PAGE
    assert not lacks_pages(connection, path)


def test_one_page_that_is_missing_beside_the_page_at_1_gib_is_missed(
    grown: tuple[apsw.Connection, Path],
) -> None:
    connection, path = grown
    os.truncate(path, path.stat().st_size - PAGE)
    assert lacks_pages(connection, path)


def test_a_file_that_passed_1_gib_in_its_wal_is_opened_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = FileStore(path)
    store.close()
    grow(path, LOCK_PAGE - 3)
    store = FileStore(path)
    value = os.urandom(50 * PAGE)
    store.keyspace.databases[0].set_string(b"k", value)
    store.commit()
    store.sync()
    store.abandon()
    assert path.stat().st_size < LOCK_PAGE * PAGE
    store = FileStore(path)
    try:
        key = store.keyspace.databases[0].find(b"k")
        assert key is not None
        assert key.value == value
    finally:
        store.close()


@pytest.mark.parametrize("seed", range(5))
def test_pages_that_were_freed_before_they_were_committed_are_not_missing(
    tmp_path: Path, seed: int
) -> None:
    """SQLite may skip pages without content when it has no WAL. With one it must not: the file
    would be shorter than it says."""
    rnd = random.Random(seed)
    path = tmp_path / "x.db"
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("wal_autocheckpoint", 0)
    connection.pragma("cache_size", 20)
    connection.execute("create table t (id integer primary key, v)")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    for _ in range(60):
        with connection:
            for _ in range(rnd.randrange(8)):
                if rnd.random() < 0.6:
                    nbytes = rnd.choice([10, 5_000, 50_000])
                    connection.execute("insert into t (v) values (zeroblob(?))", (nbytes,))
                else:
                    below = rnd.randrange(300)
                    connection.execute(
                        "delete from t where id % 300 between ? - 20 and ?", (below, below)
                    )
        if rnd.random() < 0.05:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        assert not lacks_pages(connection, path)
    connection.close()
