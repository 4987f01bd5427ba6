"""SAQ: its worker's settings, and its producer."""

import asyncio
import time

import redis
import saq

from tests.wire.libraries import book

queue = saq.Queue.from_url(book.URL)


async def work(ctx: object, *, number: int) -> int:
    return book.work(number)


settings = {
    "queue": queue,
    "functions": [work],
    "concurrency": 1,
    "timers": {"schedule": 1, "sweep": int(book.PATIENCE_S)},
}


async def main() -> None:
    loop = asyncio.get_running_loop()

    def enqueue(number: int) -> object:
        job = queue.enqueue(
            "work",
            number=number,
            key=str(number),
            retries=20,
            timeout=3,  # and then somebody else has a try
            scheduled=time.time() + book.delay_s(number) if book.delay_s(number) else 0,
        )
        return asyncio.run_coroutine_threadsafe(job, loop).result()

    await asyncio.to_thread(book.produce, enqueue, redis.ConnectionError, redis.TimeoutError)


if __name__ == "__main__":
    asyncio.run(main())
