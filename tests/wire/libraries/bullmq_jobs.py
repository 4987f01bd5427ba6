"""BullMQ: its producer, and its worker when called with `work`."""

import asyncio
import signal
import sys

import bullmq
import redis

from tests.wire.libraries import book

NAME = "jobs"


async def process(job: bullmq.Job, token: str) -> int:
    return book.work(job.data["number"])


async def work() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    options = {
        "connection": book.URL,
        "concurrency": 2,
        "lockDuration": round(book.PATIENCE_S * 1000),
        "stalledInterval": 500,
        "maxStalledCount": 10,
        "runRetryDelay": 100,
    }
    worker = bullmq.Worker(NAME, process, options)
    await stopped.wait()
    await worker.close()


async def main() -> None:
    queue = bullmq.Queue(NAME, {"connection": book.URL})

    async def enqueue(number: int) -> None:
        options = {
            "jobId": f"job-{number}",
            "delay": round(book.delay_s(number) * 1000),
            "attempts": 20,
            "backoff": {"type": "fixed", "delay": 100},
        }
        await queue.add("job", {"number": number}, options)

    await book.produce_async(enqueue, redis.ConnectionError, redis.TimeoutError)
    await queue.close()


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1] == "work" else main())
