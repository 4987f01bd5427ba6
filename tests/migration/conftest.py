"""Files to import, without a server: made by our own writer."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast.store.rdb.file_writer import FORMATS, RdbWriter
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.records import Entry

WriteRdb = Callable[..., Path]


def text(name: bytes, value: bytes = b"x", database: int = 0, at_ms: int | None = None) -> Entry:
    return Entry(database, name, Plain("string", value), at_ms)


@pytest.fixture
def write_rdb(tmp_path: Path) -> WriteRdb:
    def write(
        entries: Sequence[Entry], libraries: Sequence[bytes] = (), name: str = "dump.rdb"
    ) -> Path:
        blocks: list[bytes] = []
        writer = RdbWriter(blocks.append, FORMATS["redis8"])
        writer.begin({b"ctime": b"1700000000"})
        for code in libraries:
            writer.library(code)
        for entry in entries:
            writer.database(entry.database, 1, 0)
            writer.entry(entry.name, entry.value, entry.expires_at_ms)
        writer.end()
        path = tmp_path / name
        path.write_bytes(b"".join(blocks))
        return path

    return write
