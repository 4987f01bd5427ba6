"""A worker that gets the message to drop a build before the reply to its claim."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import holdfast
from holdfast.builds import Build, BuildQueue, Decision, Run, State, Worker
from holdfast.client.topology.single import Single
from tests.builds.conftest import all_ended
from tests.client.fakes import hang_up_behind_reply, until


class SlowReplies(BuildQueue):
    """The reply to the claim of build 1 arrives after the worker was told to let go of it."""

    def __init__(self, client: object, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__(client)
        self.meanwhile = meanwhile
        self.was_told = asyncio.Event()

    async def claim(self, worker: str, lease_s: float) -> Decision:
        decision = await super().claim(worker, lease_s)
        if decision.build_id == 1 and not self.was_told.is_set():
            await self.meanwhile()
            await self.was_told.wait()
        return decision

    async def told(self, worker: str, timeout_s: float) -> tuple[int, int] | None:
        told = await super().told(worker, timeout_s)
        if told is not None:
            self.was_told.set()
        return told


@pytest.mark.parametrize("how", ["abort", "retry"])
def test_no_handler_begins_a_build_that_was_taken_back_before_its_claim_was_answered(
    url: str, how: str
) -> None:
    async def scenario() -> None:
        ran: list[tuple[int, int]] = []

        async def handler(run: Run) -> None:
            ran.append((run.build_id, run.attempt))

        async with holdfast.connect(url) as client:
            other = BuildQueue(client)
            queue = SlowReplies(client, lambda: getattr(other, how)(1))
            await queue.enqueue(Build(1, "a"))
            await queue.enqueue(Build(2, "b"))
            async with Worker(queue, handler):  # its one slot is free again for build 2
                await all_ended(queue)
            record = await queue.get(1)
            assert record is not None
        if how == "abort":
            assert ran == [(2, 1)]
            assert record.state is State.ABORTED
        else:
            assert sorted(ran) == [(1, 2), (2, 1)]

    asyncio.run(scenario())


class EagerTold(BuildQueue):
    """An abort is told in the very turn of the loop in which the claim is answered."""

    def __init__(self, client: object) -> None:
        super().__init__(client)
        self.aborted: asyncio.Future[tuple[int, int]] | None = None

    async def claim(self, worker: str, lease_s: float) -> Decision:
        decision = await super().claim(worker, lease_s)
        if decision.token is not None and self.aborted is not None:
            assert decision.build_id is not None
            await self.abort(decision.build_id)
            self.aborted.set_result((decision.build_id, decision.token))
        return decision

    async def told(self, worker: str, timeout_s: float) -> tuple[int, int] | None:
        self.aborted = asyncio.get_running_loop().create_future()
        return await self.aborted


def test_an_abort_that_arrives_with_the_answer_is_heard() -> None:
    async def scenario() -> None:
        ran: list[int] = []

        async def handler(run: Run) -> None:
            ran.append(run.build_id)
            await asyncio.Event().wait()

        async with holdfast.connect("memory://") as client:
            queue = EagerTold(client)
            async with Worker(queue, handler):
                await queue.enqueue(Build(1, "a"))
                await all_ended(queue)
        assert ran == []

    asyncio.run(scenario())


def test_a_worker_hears_of_aborts_after_the_connection_broke_that_it_listens_on(url: str) -> None:
    """The connection ends with the message about one build, and the worker listens on at once."""

    async def scenario() -> None:
        begun: list[int] = []
        cancelled: list[int] = []

        async def handler(run: Run) -> None:
            begun.append(run.build_id)
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(run.build_id)

        async with holdfast.connect(url) as client, holdfast.connect(url) as other:
            queue = BuildQueue(other)
            await queue.enqueue(Build(1, "a"))
            await queue.enqueue(Build(2, "b"))
            assert isinstance(client._caller, Single)
            leased = client._caller._leased
            # No sign of life tells it before the test is over.
            async with Worker(BuildQueue(client), handler, lease_s=600):
                await until(lambda: begun == [1] and any(each.pending[0] for each in leased))
                (listening,) = leased
                hang_up_behind_reply(listening)
                await queue.abort(1)
                await until(lambda: (begun, cancelled) == ([1, 2], [1]))
                assert not listening.is_connected
                await queue.abort(2)
                await until(lambda: cancelled == [1, 2])

    asyncio.run(scenario())
