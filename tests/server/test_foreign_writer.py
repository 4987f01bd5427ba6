"""Another program writes to the database file: clients wait for it, and the loop does not."""

import asyncio
from pathlib import Path

import apsw
import pytest

import holdfast


def test_the_loop_goes_on_while_another_program_writes(tmp_path: Path) -> None:
    async def main() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            other = apsw.Connection(str(tmp_path / "a.db"))
            other.execute("BEGIN IMMEDIATE")
            tasks = [asyncio.create_task(db.execute("INCR", "k")) for _ in range(3)]
            for _ in range(20):
                await asyncio.sleep(0)
            tasks.append(asyncio.create_task(db.execute("GET", "k")))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)  # nothing is told that is not committed
            other.execute("COMMIT")
            assert await asyncio.gather(*tasks) == [1, 2, 3, b"3"]
            other.close()

    asyncio.run(main())


def test_a_write_is_refused_when_another_program_writes_for_too_long(tmp_path: Path) -> None:
    async def main() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            assert await db.execute("SET", "k", "before") == b"OK"
            db.engine.turn.patience_s = 0.0
            other = apsw.Connection(str(tmp_path / "a.db"))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(holdfast.CommandError, match=r"MISCONF .*another program"):
                await db.execute("SET", "k", "refused")
            assert await db.execute("GET", "k") == b"before"
            other.execute("COMMIT")
            assert db.engine.store.probe()
            db.engine.storage_recovered()
            assert await db.execute("SET", "k", "after") == b"OK"
            other.close()

    asyncio.run(main())


def test_a_database_that_is_closed_meanwhile_answers_first(tmp_path: Path) -> None:
    async def main() -> None:
        db = holdfast.open(tmp_path / "a.db")
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(db.execute("SET", "k", "v"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(db.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        other.execute("COMMIT")
        other.close()
        assert await writing == b"OK"
        await closing

    asyncio.run(main())
