"""BullMQ: its producer, and its worker when called with `work`."""

import asyncio
import sys

import bullmq

from tests.web.readers.libraries import jobs

NAME = "mail"


async def process(job: bullmq.Job, token: str) -> object:
    if job.name == "hold":
        return await asyncio.to_thread(jobs.hold, job.data["name"])
    return getattr(jobs, job.name)(**job.data)


async def work() -> None:
    worker = bullmq.Worker(NAME, process, {"connection": jobs.URL, "concurrency": 1})
    await asyncio.Event().wait()
    await worker.close()


async def main() -> None:
    queue = bullmq.Queue(NAME, {"connection": jobs.URL})
    if sys.argv[1] == jobs.FIRST:
        await queue.add("add", {"left": 2, "right": 3}, {"jobId": "job-done"})
        await queue.add("fail", {"why": "boom"}, {"jobId": "job-failed"})
        await queue.add("hold", {"name": "here"}, {"jobId": "job-active"})
    else:
        for number in range(3):
            await queue.add("add", {"left": number, "right": 1}, {"jobId": f"waiting-{number}"})
        await queue.add("add", {"left": 9, "right": 9}, {"jobId": "urgent", "priority": 5})
        later = {"jobId": "later", "delay": jobs.LATER_S * 1000}
        await queue.add("add", {"left": 7, "right": 7}, later)
    await queue.close()


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1] == "work" else main())
