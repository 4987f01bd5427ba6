"""SAQ: its worker's settings, and its producer."""

import asyncio
import sys
import time

import saq

from tests.web.readers.libraries import jobs

queue = saq.Queue.from_url(jobs.URL)


async def add(ctx: object, *, left: int, right: int) -> int:
    return jobs.add(left, right)


async def fail(ctx: object, *, why: str) -> None:
    jobs.fail(why)


async def hold(ctx: object, *, name: str) -> str:
    return await asyncio.to_thread(jobs.hold, name)


settings = {"queue": queue, "functions": [add, fail, hold], "concurrency": 1}


async def main() -> None:
    if sys.argv[1] == jobs.FIRST:
        await queue.enqueue("add", left=2, right=3, key="done")
        await queue.enqueue("fail", why="boom", key="failed")
        await queue.enqueue("hold", name="here", key="active", timeout=600)
    else:
        for number in range(3):
            await queue.enqueue("add", left=number, right=1, key=f"waiting-{number}")
        at_s = int(time.time()) + jobs.LATER_S
        await queue.enqueue("add", left=7, right=7, key="later", scheduled=at_s)


if __name__ == "__main__":
    asyncio.run(main())
