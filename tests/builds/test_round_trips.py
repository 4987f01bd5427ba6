"""A decision is one round trip, and an end and the start that it makes possible are few."""

import asyncio
from collections.abc import Awaitable

import holdfast
from holdfast.builds import Build, BuildQueue, Run, Worker
from holdfast.client.hooks import Hooks, RequestStart
from tests.client.fakes import until


class Count(Hooks):
    """What was sent, by its name."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def request_start(self, event: RequestStart) -> None:
        self.sent += [str(command[0]) for command in event.commands]


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


def test_from_the_end_of_one_build_to_the_start_of_the_next_are_two_round_trips(url: str) -> None:
    """The call that ends one build, which wakes the worker; and the worker's that starts the other.
    No timer takes part: whatever comes between is an answer to one of the two."""

    async def scenario() -> None:
        ender, waiter = Count(), Count()
        async with (
            holdfast.connect(url, hooks=[ender]) as client,
            holdfast.connect(url, hooks=[waiter]) as watched,
        ):
            queue = BuildQueue(client)
            started = asyncio.Event()

            async def handler(run: Run) -> None:
                started.set()

            await queue.enqueue(Build(1, "a"))
            await queue.start(1)
            await queue.enqueue(Build(2, "b", blocked_by=["a"]))
            await queue.complete(9)  # the server learns the script
            async with Worker(BuildQueue(watched), handler):
                await until(lambda: waiter.sent.count("BLPOP") == 2)
                ender.sent.clear()
                waiter.sent.clear()
                await queue.complete(1)
                await started.wait()
                assert ender.sent == ["EVALSHA"]
                assert waiter.sent[:1] == ["EVALSHA"]
                assert waiter.sent.count("EVALSHA") == 1

    asyncio.run(scenario())
