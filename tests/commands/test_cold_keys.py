"""Commands that need only the row of a key do not load its value from the file."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.embedded import LocalDatabase
from holdfast.store.store import FileStore
from tests.store.consistency import check_counts, check_settled

COUNT = 100
LATER = 9_999_999_999
Command = tuple[str | int, ...]
FILLING: dict[str, list[Command]] = {
    "zset": [("ZADD", "k", n, f"m{n}") for n in range(COUNT)],
    "hash": [("HSET", "k", f"f{n}", n) for n in range(COUNT)],
    "set": [("SADD", "k", f"m{n}") for n in range(COUNT)],
    "stream": [("XADD", "k", f"1-{n + 1}", "a", "b" * 70) for n in range(COUNT)],
    "string": [("SET", "k", "a" * COUNT)],
    "list": [("RPUSH", "k", f"e{n}") for n in range(COUNT)],
}
COLLECTIONS = [kind for kind in FILLING if kind != "string"]
SIZE = {
    "zset": "ZCARD", "hash": "HLEN", "set": "SCARD", "stream": "XLEN", "string": "STRLEN",
    "list": "LLEN",
}  # fmt: skip
READING: dict[str, Command] = {
    "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "hash": ("HGETALL",),
    "set": ("SMEMBERS",),
    "stream": ("XRANGE", "-", "+"),
    "string": ("GET",),
    "list": ("LRANGE", 0, -1),
}
Use = Callable[[LocalDatabase], Awaitable[None]]


def use(path: Path, *uses: Use) -> None:
    """Run each command on cold keys, and check the file after each."""

    async def open_and_use(one: Use) -> None:
        async with holdfast.open(path) as db:
            await one(db)
            check_counts(db.engine.keyspace)

    for one in uses:
        asyncio.run(open_and_use(one))
        check_settled(path)


def filling(*commands: Command) -> Use:
    async def fill(db: LocalDatabase) -> None:
        for command in commands:
            await db.execute(*command)

    return fill


def hot_names(db: LocalDatabase, index: int = 0) -> set[bytes]:
    return set(db.engine.keyspace.databases[index].space.keys)


async def content(db: LocalDatabase, kind: str, name: str = "k") -> object:
    command, *options = READING[kind]
    return await db.execute(command, name, *options)


async def whole(db: LocalDatabase, kind: str, name: str = "k") -> None:
    """Loaded now, with all that `FILLING` put there."""
    assert await db.execute(SIZE[kind], name) == COUNT
    assert await content(db, kind, name)
    assert await db.execute(SIZE[kind], name) == COUNT


@pytest.mark.parametrize("kind", FILLING)
def test_type_exists_ttl_and_size_leave_a_cold_key_cold(tmp_path: Path, kind: str) -> None:
    async def ask(db: LocalDatabase) -> None:
        assert await db.execute("TYPE", "k") == kind.encode()
        assert await db.execute("EXISTS", "k", "k", "none") == 2
        assert await db.execute("TTL", "k") == -1
        assert await db.execute("TTL", "none") == -2
        for _ in range(2):
            assert await db.execute(SIZE[kind], "k") == COUNT
        assert await db.execute(SIZE[kind], "none") == 0
        with pytest.raises(holdfast.CommandError, match="WRONGTYPE"):
            await db.execute("LLEN" if kind != "list" else "SCARD", "k")
        assert hot_names(db) == set()
        assert await db.execute("TYPE", "none") == b"none"
        while await db.execute("EXISTS", "soon"):
            pass
        assert await db.execute("TYPE", "soon") == b"none"
        await whole(db, kind)

    use(tmp_path / "a.db", filling(*FILLING[kind], ("SET", "soon", "v", "PX", 1)), ask)


@pytest.mark.parametrize("kind", FILLING)
def test_touch_and_idle_time_leave_a_cold_key_cold(tmp_path: Path, kind: str) -> None:
    async def ask(db: LocalDatabase) -> None:
        assert await db.execute("TOUCH", "k", "k", "none") == 2
        assert await db.execute("OBJECT", "IDLETIME", "k") == 0
        assert await db.execute("OBJECT", "IDLETIME", "none") is None
        assert hot_names(db) == set()
        await whole(db, kind)

    use(tmp_path / "a.db", filling(*FILLING[kind]), ask)


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_size_is_counted_anew_when_the_key_has_changed(tmp_path: Path, kind: str) -> None:
    adding: dict[str, Command] = {
        "zset": ("ZADD", "k", 1, "more"),
        "hash": ("HSET", "k", "more", 1),
        "set": ("SADD", "k", "more"),
        "stream": ("XADD", "k", "9-9", "a", "b"),
        "list": ("LPUSH", "k", "more"),
    }

    async def change(db: LocalDatabase) -> None:
        assert await db.execute(SIZE[kind], "k") == COUNT
        await db.execute(*adding[kind])
        assert await db.execute(SIZE[kind], "k") == COUNT + 1
        await db.execute("SAVE")
        store = db.engine.store
        store.max_bytes = 1
        while store.make_room():
            pass
        assert hot_names(db) == set()
        assert await db.execute(SIZE[kind], "k") == COUNT + 1

    use(tmp_path / "a.db", filling(*FILLING[kind]), change)


@pytest.mark.parametrize("kind", COLLECTIONS)
@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_a_cold_key_is_removed_without_being_loaded(
    tmp_path: Path, kind: str, command: str
) -> None:
    async def remove(db: LocalDatabase) -> None:
        store = db.engine.store
        assert isinstance(store, FileStore)
        read: list[str] = []

        def note(cursor: object, sql: str, bindings: object) -> bool:
            read.append(sql)
            return True

        before = db.engine.keyspace.used_bytes
        store._connection.exec_trace = note
        assert await db.execute(command, "k", "none") == 1
        store._connection.exec_trace = None
        assert read, "its row"
        assert [sql for sql in read if "ORDER BY key_id" in sql] == [], "its elements"
        assert (hot_names(db), db.engine.keyspace.used_bytes) == (set(), before)
        assert await db.execute("EXISTS", "k") == 0
        assert await db.execute("DBSIZE") == 0
        assert await db.execute("KEYS", "*") == []

    async def gone(db: LocalDatabase) -> None:
        assert await db.execute("EXISTS", "k") == 0
        assert await db.execute("DBSIZE") == 0

    use(tmp_path / "a.db", filling(*FILLING[kind]), remove, gone)


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_cold_key_gets_an_expiry_without_being_loaded(tmp_path: Path, kind: str) -> None:
    async def expire(db: LocalDatabase) -> None:
        assert await db.execute("EXPIRE", "k", 100, "XX") == 0
        assert await db.execute("EXPIREAT", "k", LATER) == 1
        assert await db.execute("EXPIRETIME", "k") == LATER
        assert await db.execute("PEXPIRE", "none", 1) == 0
        assert await db.execute("SCAN", 0, "TYPE", kind) == [b"0", [b"k"]]
        assert await db.execute(SIZE[kind], "k") == COUNT
        assert hot_names(db) == set()
        check_counts(db.engine.keyspace)

    async def persist(db: LocalDatabase) -> None:
        assert await db.execute("EXPIRETIME", "k") == LATER
        assert await db.execute("PERSIST", "k") == 1
        assert await db.execute("PERSIST", "k") == 0
        assert await db.execute("TTL", "k") == -1
        assert hot_names(db) == set()
        await whole(db, kind)  # the row is not folded yet

    async def expire_at_once(db: LocalDatabase) -> None:
        assert await db.execute("TTL", "k") == -1
        assert await db.execute("PEXPIRE", "k", -1) == 1
        assert await db.execute("EXISTS", "k") == 0
        assert hot_names(db) == set()

    use(tmp_path / "a.db", filling(*FILLING[kind]), expire, persist, expire_at_once)


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_cold_key_expires_without_being_loaded(tmp_path: Path, kind: str) -> None:
    async def expire(db: LocalDatabase) -> None:
        assert await db.execute("PEXPIRE", "k", 1) == 1
        while await db.execute("DBSIZE"):
            assert hot_names(db) == set()
            await asyncio.sleep(0)
        assert await db.execute("EXISTS", "k") == 0

    async def gone(db: LocalDatabase) -> None:
        assert await db.execute("DBSIZE") == 0

    use(tmp_path / "a.db", filling(*FILLING[kind]), expire, gone)


FAILING = {
    "DEL": "redis.call('DEL', 'k')",
    "EXPIRE": "redis.call('EXPIRE', 'k', 100)",
    "EXPIRE, then use": "redis.call('EXPIRE', 'k', 100) redis.call('COPY', 'k', 'l')",
    "RENAME": "redis.call('RENAME', 'k', 'l')",
    "RENAME, then use": "redis.call('RENAME', 'k', 'l') redis.call('COPY', 'l', 'k')",
    "MOVE": "redis.call('MOVE', 'k', 1)",
    "DEL and SET": "redis.call('DEL', 'k') redis.call('SET', 'k', 1)",
    "SET": "redis.call('SET', 'k', 1)",
    "EXPIRE and FLUSHALL": "redis.call('EXPIRE', 'k', 100) redis.call('FLUSHALL')",
}


@pytest.mark.parametrize("kind", COLLECTIONS)
@pytest.mark.parametrize("failing", FAILING)
def test_a_failing_script_gives_a_cold_key_back(tmp_path: Path, kind: str, failing: str) -> None:
    async def fail(db: LocalDatabase) -> None:
        for _ in range(2):
            with pytest.raises(holdfast.CommandError, match="and fails"):
                await db.execute("EVAL", FAILING[failing] + " error('and fails')", 0)
        if "use" not in failing:
            assert hot_names(db) == set()
        assert await db.execute("TTL", "k") == -1
        assert await db.execute("KEYS", "*") == [b"k"]
        check_counts(db.engine.keyspace)
        await whole(db, kind)

    async def go_on(db: LocalDatabase) -> None:
        assert await db.execute("TTL", "k") == -1
        assert await db.execute("KEYS", "*") == [b"k"]
        await whole(db, kind)

    use(tmp_path / "a.db", filling(*FILLING[kind]), fail, go_on)


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_cold_key_is_renamed_and_moved_without_being_loaded(tmp_path: Path, kind: str) -> None:
    async def rename(db: LocalDatabase) -> None:
        assert await db.execute("RENAME", "k", "l") == b"OK"
        assert await db.execute("RENAMENX", "l", "other") == 0
        assert await db.execute("EXISTS", "k") == 0
        assert await db.execute("EXPIREAT", "l", LATER) == 1
        assert await db.execute("MOVE", "l", 1) == 1
        assert await db.execute("EXISTS", "l") == 0
        assert (hot_names(db), hot_names(db, 1)) == ({b"other"}, set())

    async def look(db: LocalDatabase) -> None:
        await db.execute("SWAPDB", 0, 1)
        assert await db.execute("KEYS", "*") == [b"l"]
        assert await db.execute("EXPIRETIME", "l") == LATER
        await whole(db, kind, "l")

    async def overwrite(db: LocalDatabase) -> None:
        assert await db.execute("RENAME", "l", "k") == b"OK"
        assert await db.execute("COPY", "k", "copy") == 1
        await whole(db, kind, "copy")
        await whole(db, kind)

    async def set_over(db: LocalDatabase) -> None:
        await db.execute("SET", "copy", "v", "KEEPTTL")
        assert await db.execute("EXPIRETIME", "copy") == LATER
        assert await db.execute("SUNIONSTORE", "k", "none") == 0
        assert hot_names(db) == {b"copy"}

    async def look_again(db: LocalDatabase) -> None:
        assert await db.execute("KEYS", "*") == [b"copy"]
        assert await db.execute("GET", "copy") == b"v"

    commands = [*FILLING[kind], ("SET", "other", 1)]
    use(tmp_path / "a.db", filling(*commands), rename, look, overwrite, set_over, look_again)


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_transaction_on_a_cold_key_loads_nothing(tmp_path: Path, kind: str) -> None:
    async def transact(db: LocalDatabase) -> None:
        async with db.session() as session:
            await session.execute("WATCH", "k")
            await session.execute("MULTI")
            await session.execute("EXPIREAT", "k", LATER)
            await session.execute("RENAME", "k", "l")
            await session.execute(SIZE[kind], "l")
            assert await session.execute("EXEC") == [1, b"OK", COUNT]
            await session.execute("WATCH", "l")
            await db.execute("DEL", "l")
            await session.execute("MULTI")
            await session.execute("DEL", "l")
            assert await session.execute("EXEC") is None
        assert hot_names(db) == set()

    async def gone(db: LocalDatabase) -> None:
        assert await db.execute("DBSIZE") == 0

    use(tmp_path / "a.db", filling(*FILLING[kind]), transact, gone)


def test_a_cold_list_that_is_renamed_serves_the_clients_that_wait_for_it(tmp_path: Path) -> None:
    async def serve(db: LocalDatabase) -> None:
        waiting = asyncio.ensure_future(db.execute("BLPOP", "l", 0))
        await asyncio.sleep(0)
        await db.execute("RENAME", "k", "l")
        assert await waiting == [b"l", b"e0"]
        assert await db.execute("LLEN", "l") == COUNT - 1

    async def look(db: LocalDatabase) -> None:
        assert await db.execute("LLEN", "l") == COUNT - 1

    use(tmp_path / "a.db", filling(*FILLING["list"]), serve, look)


def test_a_cold_stream_that_is_removed_lets_its_readers_go(tmp_path: Path) -> None:
    async def remove(db: LocalDatabase) -> None:
        read = db.execute("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "k", ">")
        reading = asyncio.ensure_future(read)
        await asyncio.sleep(0)
        keyspace = db.engine.keyspace
        await db.execute("SAVE")
        keyspace.evict(keyspace.databases[0].space.keys[b"k"])
        assert await db.execute("DEL", "k") == 1
        with pytest.raises(holdfast.CommandError, match="UNBLOCKED"):
            await reading

    commands = [*FILLING["stream"], ("XGROUP", "CREATE", "k", "g", "$")]
    use(tmp_path / "a.db", filling(*commands), remove)


def test_memory_below_its_size_does_not_have_a_collection_loaded(tmp_path: Path) -> None:
    async def touch(db: LocalDatabase) -> None:
        keyspace = db.engine.keyspace
        await db.execute("CONFIG", "SET", "maxmemory", 500)
        for _ in range(3):
            assert await db.execute("EXPIRE", "k", 1000) == 1
            assert await db.execute("PERSIST", "k") == 1
            assert await db.execute("ZCARD", "k") == COUNT
            assert keyspace.used_bytes <= 500
        await db.execute("SAVE")
        while db.engine.store.make_room():
            pass
        check_counts(keyspace)

    use(tmp_path / "a.db", filling(*FILLING["zset"]), touch)


def test_a_row_that_was_kept_is_forgotten_like_a_key(tmp_path: Path) -> None:
    async def forget(db: LocalDatabase) -> None:
        keyspace, store = db.engine.keyspace, db.engine.store
        assert await db.execute("EXPIREAT", "k", LATER) == 1
        assert keyspace.used_bytes > 0
        await db.execute("SAVE")
        store.max_bytes = 1
        while store.make_room():
            pass
        assert keyspace.used_bytes == 0
        assert await db.execute("EXPIRETIME", "k") == LATER
        check_counts(keyspace)
        await whole(db, "zset")

    use(tmp_path / "a.db", filling(*FILLING["zset"]), forget)


@pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL"])
def test_rows_that_were_kept_are_flushed(tmp_path: Path, command: str) -> None:
    async def flush(db: LocalDatabase) -> None:
        await db.execute("EXPIRE", "k", 1000)
        await db.execute(command)
        assert db.engine.keyspace.used_bytes == 0
        assert await db.execute("EXISTS", "k") == 0

    use(tmp_path / "a.db", filling(*FILLING["zset"]), flush, filling(("SET", "a", 1)))


def test_a_cold_hash_whose_fields_have_expired_is_no_key(tmp_path: Path) -> None:
    async def ask(db: LocalDatabase) -> None:
        while await db.execute("EXISTS", "h"):
            assert await db.execute("EXPIRE", "h", 100) in (0, 1)
        assert await db.execute("TYPE", "h") == b"none"
        assert await db.execute("TTL", "h") == -2
        assert await db.execute("HLEN", "h") == 0
        assert await db.execute("DEL", "h") == 0

    fill = filling(("HSET", "h", "f", "v"), ("HPEXPIRE", "h", 200, "FIELDS", 1, "f"))
    use(tmp_path / "a.db", fill, ask)


def test_a_cold_hash_is_as_long_as_it_has_living_fields(tmp_path: Path) -> None:
    async def ask(db: LocalDatabase) -> None:
        while await db.execute("HLEN", "h") != 1:
            pass
        assert await db.execute("HKEYS", "h") == [b"g"]

    commands: list[Command] = [
        ("HSET", "h", "f", "v", "g", "v"),
        ("HPEXPIRE", "h", 200, "FIELDS", 1, "f"),
    ]
    use(tmp_path / "a.db", filling(*commands), ask)
