"""The progress of statements that take long, and their interruption."""

from pathlib import Path

import apsw
import pytest

from holdfast.progress import BYTES
from holdfast.store.file import watching as watching_module
from holdfast.store.file.watching import ticking, watching

LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> apsw.Connection:
    """With two tables that are larger than the memory for pages."""
    monkeypatch.setattr(watching_module, "STEPS", 100)
    writer = apsw.Connection(str(tmp_path / "x.db"))
    for name, count in (("small", 1000), ("large", 9000)):
        writer.execute(f"CREATE TABLE {name} (value)")
        with writer:
            writer.executemany(f"INSERT INTO {name} VALUES (?)", [(b"x" * 100,)] * count)
    writer.close()
    reader = apsw.Connection(str(tmp_path / "x.db"), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("PRAGMA cache_size = 5")
    return reader


@pytest.mark.parametrize(
    ("query", "tables"),
    [("PRAGMA integrity_check", []), ("SELECT sum(length(value)) FROM small", ["small"])],
)
def test_it_goes_from_nothing_to_all(
    connection: apsw.Connection, query: str, tables: list[str]
) -> None:
    told: list[tuple[str, int, int, str]] = []
    with watching(connection, "looking", lambda *progress: told.append(progress), tables):
        assert connection.execute(query).get in ("ok", 100_000)
    done = [each[1] for each in told]
    (total,) = {each[2] for each in told}
    assert {(each[0], each[3]) for each in told} == {("looking", BYTES)}
    assert len(done) > 10
    assert done == sorted(done)
    assert done[0] < total / 2
    assert total * 0.9 < done[-1] <= total
    told.clear()
    assert connection.execute(query).get in ("ok", 100_000)
    assert told == [], "nothing is watched any more"


def test_a_statement_that_runs_for_ever_can_be_interrupted(connection: apsw.Connection) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ticking(connection, interrupt):
        _ = connection.execute(LONG).get
