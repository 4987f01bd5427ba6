"""Builds and semaphores in use while a test looks at them, from a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

import holdfast
from holdfast import Build, BuildQueue, Semaphore, Worker
from holdfast.builds import BuildFailed, Run, State
from holdfast.client import Client

HOSTILE = "<script>document.title='owned'</script>"
T = TypeVar("T")
PATIENCE_S = 60


class Work:
    """`run` lets a coroutine run in the loop of the thread, and waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: BuildQueue) -> None:
        self._loop = loop
        self.queue = queue

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


async def some_builds(queue: BuildQueue) -> None:
    annotations = {"branch": "main", "commit": "4f2c91e", "note": HOSTILE}
    for build in range(1, 7):
        job = ("unit", "lint", "fail")[build % 3]
        await queue.enqueue(Build(build, job, annotations=annotations))
    await queue.enqueue(Build(10, "compile", annotations=annotations, priority=5))
    await queue.enqueue(Build(11, "test", blocked_by=["compile"]))
    await queue.enqueue(Build(12, "package", blocked_by=["compile", "test"]))
    await queue.enqueue(Build(13, "deploy", blocked_by=["package"], delay_s=5400))
    await queue.enqueue(Build(14, "compile"))
    await queue.enqueue(Build(15, HOSTILE, delay_s=86_400))


async def ended(queue: BuildQueue, count: int) -> None:
    while True:
        by_state = (await queue.stats()).by_state
        if sum(number for state, number in by_state.items() if state.is_final) >= count:
            break
        await asyncio.sleep(0.01)
    while (await queue.stats()).by_state[State.RUNNING] < 1:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.01)


async def wait_for_waiters(semaphore: Semaphore, count: int) -> None:
    while (await semaphore.stats())[0].waiting < count:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.01)


async def hold(client: Client, name: str, slots: int, stack: AsyncExitStack) -> None:
    """A semaphore without a free slot, and two clients that wait for one."""
    semaphore = Semaphore(client, name, slots)
    stack.push_async_callback(semaphore.close)
    for _ in range(slots):
        await semaphore.acquire()
    waiting = [asyncio.create_task(semaphore.acquire()) for _ in range(2)]
    for task in waiting:
        stack.callback(task.cancel)
    await wait_for_waiters(semaphore, 2)


@contextmanager
def at_work(port: int) -> Iterator[Work]:
    begun: Future[Work] = Future()
    stop: Future[None] = Future()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(holdfast.connect(f"redis://127.0.0.1:{port}"))
            queue = BuildQueue(client, "ci")
            is_over = asyncio.Event()

            async def handle(run: Run) -> None:
                """Builds called "fail" fail, others end at once; "compile" runs to the end."""
                if run.job_id == "fail":
                    raise BuildFailed("exit status 1")
                if run.job_id == "compile":
                    await is_over.wait()

            await stack.enter_async_context(Worker(queue, handle, name="builder-1", concurrency=2))
            stack.callback(is_over.set)  # before the worker waits for it
            await some_builds(queue)
            await ended(queue, 6)
            await hold(client, "licences", 3, stack)
            await hold(client, HOSTILE, 1, stack)
            begun.set_result(Work(asyncio.get_running_loop(), queue))
            await asyncio.wrap_future(stop)

    def live() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if begun.done():
                raise
            begun.set_exception(error)

    thread = threading.Thread(target=live, name="work")
    thread.start()
    try:
        yield begun.result(PATIENCE_S)
    finally:
        stop.set_result(None)
        thread.join()
