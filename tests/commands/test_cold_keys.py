"""What needs only the row of a key does not load its value from the file."""

import asyncio
from pathlib import Path

import pytest

import holdfast

FILLING: dict[str, tuple[str | int, ...]] = {
    "zset": ("ZADD", "k", 1, "a"),
    "hash": ("HSET", "k", "a", 1),
    "set": ("SADD", "k", "a"),
    "stream": ("XADD", "k", "1-1", "a", 1),
    "string": ("SET", "k", "a"),
    "list": ("RPUSH", "k", "a"),
}


@pytest.mark.parametrize("kind", FILLING)
def test_type_and_exists_leave_a_cold_key_cold(tmp_path: Path, kind: str) -> None:
    async def fill() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            await db.execute(*FILLING[kind])
            await db.execute("SET", "soon", "v", "PX", 1)

    async def ask() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            assert await db.execute("TYPE", "k") == kind.encode()
            assert await db.execute("EXISTS", "k", "k", "none") == 2
            assert db.engine.keyspace.databases[0].space.keys == {}
            assert await db.execute("TYPE", "none") == b"none"
            while await db.execute("EXISTS", "soon"):
                pass
            assert await db.execute("TYPE", "soon") == b"none"
            assert await db.execute("DEL", "k") == 1
            assert await db.execute("TYPE", "k") == b"none"
            assert await db.execute("EXISTS", "k") == 0

    asyncio.run(fill())
    asyncio.run(ask())


def test_a_cold_hash_whose_fields_have_expired_is_no_key(tmp_path: Path) -> None:
    async def fill() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            await db.execute("HSET", "h", "f", "v")
            await db.execute("HPEXPIRE", "h", 200, "FIELDS", 1, "f")

    async def ask() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            while await db.execute("EXISTS", "h"):
                pass
            assert await db.execute("TYPE", "h") == b"none"

    asyncio.run(fill())
    asyncio.run(ask())
