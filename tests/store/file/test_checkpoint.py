"""The WAL is copied into the file and used again from its start."""

from pathlib import Path

from holdfast.store.store import FileStore


def test_a_checkpoint_lets_the_wal_be_used_again_from_its_start(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    try:
        for number in range(100):
            store.keyspace.databases[0].set_string(b"%d" % number, b"." * 1000)
            store.commit()
        pages = store.wal_pages
        store.sync_and_checkpoint()
        store.keyspace.databases[0].set_string(b"after", b"")
        store.commit()
        assert store.wal_pages < pages / 2
        assert (tmp_path / "a.db").stat().st_size > 100 * 1000
    finally:
        store.close()
