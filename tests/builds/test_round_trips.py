"""A decision is one round trip. How many there are from the end of a build to the start of the
next is in test_origins_builds.py: test_9."""

import asyncio
from collections.abc import Awaitable

import holdfast
from holdfast.builds import Build, BuildQueue
from tests.builds.conftest import Count


def test_every_question_is_one_round_trip(url: str) -> None:
    async def scenario() -> None:
        count = Count()
        async with holdfast.connect(url, hooks=[count]) as client:
            queue = BuildQueue(client)

            async def life(first: int) -> list[Awaitable[object]]:
                one, two, three = first, first + 1, first + 2
                dependent = Build(two, "b", blocked_by=["a"], collapse=True)
                return [
                    queue.enqueue(Build(one, "a")),
                    queue.enqueue(dependent),
                    queue.enqueue(Build(three, "b", collapse=True)),
                    queue.claim("w", 30),
                    queue.heartbeat([(one, 1)], 30),
                    queue.start(one),
                    queue.retry(one),
                    queue.complete(one),
                    queue.check_timeouts(),
                    queue.stop(two),
                    queue.abort(three),
                    queue.get(one),
                    queue.list(),
                    queue.stats(),
                    queue.events(one),
                    queue.replay(one),
                ]

            for question in await life(1):  # the server learns the scripts
                await question
            for question in await life(11):
                count.sent.clear()
                await question
                assert count.sent == ["EVALSHA"]

    asyncio.run(scenario())
