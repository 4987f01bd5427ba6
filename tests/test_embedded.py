"""holdfast.open: the engine in this process."""

import asyncio
import contextlib
import enum
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.resp import Reply


def test_two_tasks_block_and_wake_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            waiting = asyncio.create_task(db.execute("BLPOP", "q", 0))
            await asyncio.sleep(0)
            assert await db.execute("LPUSH", "q", "x") == 1
            assert await waiting == [b"q", b"x"]

    asyncio.run(main())


def test_written_keys_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    async def write() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            await db.execute("SET", "k", 1.5)

    async def read() -> object:
        async with holdfast.open(tmp_path / "a.db") as db:
            return await db.execute("GET", "k")

    asyncio.run(write())
    assert asyncio.run(read()) == b"1.5"


def test_a_file_that_is_open_is_refused_with_the_process_that_has_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with holdfast.open(tmp_path / "a.db"):
            with pytest.raises(holdfast.StoreInUseError, match="already open by process"):
                holdfast.open(tmp_path / "a.db")

    asyncio.run(main())


# In a process of their own: to fork a test's process, with all its threads, would be a gamble.
FORKS = """
import asyncio, os, sys
import holdfast

db = holdfast.open(sys.argv[1])  # as at the top of a module that a forking server loads first


async def use(task):
    try:
        print(await task(), flush=True)
    except holdfast.HoldfastError as error:
        print(error, flush=True)
    finally:
        await db.close()


for _ in range(2):
    if not os.fork():
        asyncio.run(use(lambda: db.execute("INCR", "n")))
        os._exit(0)
    os.wait()
asyncio.run(use(lambda: db.execute("INCR", "n")))
"""


def test_forked_processes_are_refused_and_do_no_harm(tmp_path: Path) -> None:
    argv = [sys.executable, "-W", "error", "-c", FORKS, str(tmp_path / "a.db")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50)
    refusal = "the database was opened before a fork: open it in the process that uses it"
    assert (done.stdout.splitlines(), done.stderr) == ([refusal, refusal, "1"], "")


def test_error_replies_are_raised_and_replies_are_plain_python() -> None:
    async def main() -> None:
        async with holdfast.open(":memory:") as db:
            with pytest.raises(holdfast.CommandError, match="wrong number of arguments"):
                await db.execute("GET")
            await db.execute("RPUSH", "l", "a", "b")
            async with db.session() as session:
                assert await session.execute("MULTI") == b"OK"
                await session.execute("LRANGE", "l", 0, -1)
                await session.execute("BLPOP", "none", 0)
                assert await session.execute("EXEC") == [[b"a", b"b"], None]

    asyncio.run(main())


def test_commands_that_change_their_session_want_one_of_their_own() -> None:
    async def main() -> None:
        async with holdfast.open(":memory:") as db:
            with pytest.raises(holdfast.HoldfastError, match="MULTI changes the session"):
                await db.execute("MULTI")
            with pytest.raises(holdfast.HoldfastError, match="PREPARE changes the session"):
                await db.execute("HIMPORT", "PREPARE", "person", "name", "age")
            async with db.session() as session:
                await session.execute("SELECT", 3)
                await session.execute("SET", "k", "in 3")
            assert await db.execute("GET", "k") is None

    asyncio.run(main())


def test_a_cancelled_call_takes_nothing_away() -> None:
    async def main() -> None:
        async with holdfast.open(":memory:") as db:
            waiting = asyncio.create_task(db.execute("BLPOP", "q", 0))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await db.execute("RPUSH", "q", "kept")
            assert await db.execute("LPOP", "q") == b"kept"

    asyncio.run(main())


def test_cancelled_calls_leave_no_session_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with holdfast.open(tmp_path / "a.db") as db:
            for command in (("BLPOP", "q", 0), ("SET", "k", "v")) * 10:
                call = asyncio.create_task(db.execute(*command))
                await asyncio.sleep(0)
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await call
            await db.execute("PING")
            assert len(db.engine.sessions) == 1

    asyncio.run(main())


def test_a_call_that_waits_when_the_database_closes_fails() -> None:
    async def main() -> None:
        db = holdfast.open(":memory:")
        waiting = asyncio.create_task(db.execute("BLPOP", "q", 0))
        async with db.session() as session:
            patient = asyncio.create_task(session.execute("BLPOP", "q", 5))
            await asyncio.sleep(0)
            await db.close()
            for task in (waiting, patient):
                await asyncio.wait([task], timeout=10)
                assert task.done()
                with pytest.raises(holdfast.HoldfastError, match="is closed"):
                    await task

    asyncio.run(main())


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize("wrong", [None, True, bytearray(b"x"), memoryview(b"x"), [1], "\udc80"])
def test_an_invalid_argument_is_refused_and_the_session_goes_on(wrong: object) -> None:
    async def main() -> None:
        async with holdfast.open(":memory:") as db, db.session() as session:
            for execute in (db.execute, session.execute):
                with pytest.raises((TypeError, UnicodeEncodeError)):
                    await execute("SET", "k", wrong)  # type: ignore[arg-type]
            async with asyncio.timeout(10):
                assert await session.execute("ECHO", Level.HIGH) == b"3"

    asyncio.run(main())


def test_a_closed_database_says_so() -> None:
    async def main() -> None:
        db = holdfast.open(":memory:")
        await db.close()
        await db.close()
        with pytest.raises(holdfast.HoldfastError, match="is closed"):
            await db.execute("PING")

    asyncio.run(main())


def test_options_are_configuration(tmp_path: Path) -> None:
    async def main() -> None:
        async with holdfast.open(tmp_path / "a.db", appendfsync="everysec") as db:
            assert await db.execute("CONFIG", "GET", "appendfsync") == {b"appendfsync": b"everysec"}
        with pytest.raises(holdfast.ConfigError, match="appendfsnc"):
            holdfast.open(tmp_path / "b.db", appendfsnc="no")
        assert not (tmp_path / "b.db").exists()

    asyncio.run(main())


@pytest.mark.parametrize(
    "options",
    [
        {"replicaof": "127.0.0.1 6379"},
        {"active_active": "yes", "node_id": 1},
        {"peer": "redis://127.0.0.1:6380"},
    ],
)
def test_replication_is_refused(options: dict[str, str | int], tmp_path: Path) -> None:
    with pytest.raises(holdfast.ConfigError, match="an embedded database does not replicate"):
        holdfast.open(tmp_path / "a.db", **options)
    assert not (tmp_path / "a.db").exists()


def test_a_session_of_ones_own_hears_messages() -> None:
    async def main() -> tuple[list[Reply], list[Reply]]:
        pushed: list[Reply] = []
        async with holdfast.open(":memory:") as db, db.session() as session:
            session.listen(pushed.append)
            answer = await session.execute("SUBSCRIBE", "x", "y")
            assert await db.execute("PUBLISH", "x", "hello") == 1
            assert await session.execute("PUBLISH", "y", "again") == 1
            await session.execute("CLIENT", "TRACKING", "ON")
            await session.execute("GET", "k")
            await db.execute("SET", "k", "v")
            assert await session.execute("GET", "k") == b"v"
            assert isinstance(answer, list)
            return list(answer), pushed

    answer, pushed = asyncio.run(main())
    assert answer == [[b"subscribe", b"x", 1], [b"subscribe", b"y", 2]]
    assert pushed == [
        [b"message", b"x", b"hello"],
        [b"message", b"y", b"again"],
        [b"invalidate", [b"k"]],
    ]
