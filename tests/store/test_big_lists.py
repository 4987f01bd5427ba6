"""A list of a million elements: the rows that its commands load and write are counted, not
timed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.embedded import LocalDatabase, open_local
from holdfast.store.change.ops import Op
from holdfast.store.change.runs import rows_in
from holdfast.store.file.cold_lists import StoredLists
from holdfast.store.file.journal import Journal
from holdfast.store.values.list_chunks import CHUNK

LENGTH = 1_000_000
AT_ONCE = 20_000
MIDDLE = LENGTH // 2

pytestmark = [pytest.mark.source_only, pytest.mark.timeout(180)]


def element(index: int) -> bytes:
    return b"%d" % index


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the list, cleanly closed."""
    path = tmp_path_factory.mktemp("big") / "a.db"

    async def build() -> None:
        async with open_local(str(path)) as db:
            for start in range(0, LENGTH, AT_ONCE):
                await db.execute("RPUSH", "q", *map(element, range(start, start + AT_ONCE)))

    asyncio.run(build())
    return path


class Counts:
    """The rows loaded and the row operations committed since the last call."""

    def __init__(self) -> None:
        self._rows = 0
        self._ops = 0

    def rows(self) -> int:
        count, self._rows = self._rows, 0
        return count

    def ops(self) -> int:
        count, self._ops = self._ops, 0
        return count


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts = Counts()
    load, append = StoredLists._load, Journal.append

    def counting_load(*args: Any) -> list[tuple[int, bytes]]:
        rows = load(*args)
        counts._rows += len(rows)
        return rows

    def counting_append(journal: Journal, ops: list[Op]) -> int:
        counts._ops += sum(len(rows_in(op)) for op in ops)
        return append(journal, ops)

    monkeypatch.setattr(StoredLists, "_load", counting_load)
    monkeypatch.setattr(Journal, "append", counting_append)
    return counts


A_CHUNK = CHUNK + 2  # with the row on either side


def used_bytes(db: LocalDatabase) -> int:
    return db.engine.keyspace.used_bytes


def test_a_start_and_commands_in_the_middle_load_a_few_rows(built: Path, counts: Counts) -> None:
    async def look() -> None:
        async with open_local(str(built)) as db:
            assert counts.rows() == 0
            assert await db.execute("LLEN", "q") == LENGTH
            assert counts.rows() == 0
            assert await db.execute("LINDEX", "q", MIDDLE) == element(MIDDLE)
            assert counts.rows() <= A_CHUNK
            assert await db.execute("LINDEX", "q", -MIDDLE // 2) == element(LENGTH - MIDDLE // 2)
            assert counts.rows() <= A_CHUNK
            found = await db.execute("LRANGE", "q", MIDDLE + 9000, MIDDLE + 9099)
            assert found == [element(MIDDLE + 9000 + n) for n in range(100)]
            assert counts.rows() <= 2 * A_CHUNK
            counts.ops()
            assert await db.execute("LSET", "q", MIDDLE - 9000, element(MIDDLE - 9000)) == b"OK"
            assert (counts.rows() <= A_CHUNK, counts.ops()) == (True, 1)
            assert used_bytes(db) < 1_000_000

    asyncio.run(look())


def test_pushes_and_pops_at_both_ends_are_one_row_each(built: Path, counts: Counts) -> None:
    async def use() -> None:
        async with open_local(str(built)) as db:
            await db.execute("LPUSH", "q", "head")
            await db.execute("RPUSH", "q", "tail")
            assert (counts.rows(), counts.ops()) == (0, 2)
            assert await db.execute("LPOP", "q") == b"head"
            assert await db.execute("RPOP", "q") == b"tail"
            assert (counts.rows(), counts.ops()) == (0, 2)
            for index in range(500):
                assert await db.execute("LPOP", "q") == element(index)
                assert await db.execute("RPOP", "q") == element(LENGTH - 1 - index)
            assert counts.ops() == 1000
            assert counts.rows() <= 6 * A_CHUNK
            await db.execute("RPUSH", "q", *map(element, range(LENGTH - 500, LENGTH)))
            await db.execute("LPUSH", "q", *map(element, reversed(range(500))))
            assert (counts.rows(), counts.ops()) == (0, 1000)

    asyncio.run(use())


def test_linsert_by_a_near_pivot_loads_what_lies_before_it(built: Path, counts: Counts) -> None:
    async def use() -> None:
        async with open_local(str(built)) as db:
            counts.ops()
            assert await db.execute("LINSERT", "q", "AFTER", 100, "new") == LENGTH + 1
            assert (counts.rows() <= A_CHUNK, counts.ops()) == (True, 1)
            assert await db.execute("LINDEX", "q", 101) == b"new"
            assert await db.execute("LREM", "q", 1, "new") == 1
            assert (counts.rows() <= A_CHUNK, counts.ops()) == (True, 1)

    asyncio.run(use())


def test_a_list_that_was_changed_in_its_middle_is_not_walked_either(
    built: Path, counts: Counts
) -> None:
    """After LINSERT and LREM, arithmetic does not say any more where an index is."""

    async def use() -> None:
        async with open_local(str(built)) as db:
            await db.execute("LINSERT", "q", "AFTER", 100, "new")
            await db.execute("LREM", "q", 1, 200)
        counts.rows()
        async with open_local(str(built)) as db:
            assert await db.execute("LINDEX", "q", MIDDLE) == element(MIDDLE)
            assert await db.execute("LINDEX", "q", -MIDDLE // 2) == element(LENGTH - MIDDLE // 2)
            assert counts.rows() <= 2 * A_CHUNK
            counts.ops()
            assert await db.execute("LSET", "q", MIDDLE // 2, "changed") == b"OK"
            assert (counts.rows() <= A_CHUNK, counts.ops()) == (True, 1)
            await db.execute("LSET", "q", MIDDLE // 2, element(MIDDLE // 2))
            await db.execute("LREM", "q", 1, "new")
            await db.execute("LINSERT", "q", "AFTER", 199, 200)
            assert await db.execute("LINDEX", "q", 200) == element(200)
            assert used_bytes(db) < 1_000_000

    asyncio.run(use())
