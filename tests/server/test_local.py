"""Messages to a session in this process."""

import asyncio

import holdfast
from holdfast.resp import Reply


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
