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


async def enqueue(number: int) -> None:
    delay_s = book.delay_s(number)
    await queue.enqueue(
        "work",
        number=number,
        key=str(number),
        retries=20,
        timeout=3,  # and then another worker tries
        scheduled=time.time() + delay_s if delay_s else 0,
    )


if __name__ == "__main__":
    asyncio.run(book.produce_async(enqueue, redis.ConnectionError, redis.TimeoutError))
