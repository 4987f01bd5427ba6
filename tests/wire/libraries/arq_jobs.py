"""arq: its worker's settings, and its producer."""

import asyncio

import arq
import redis
from arq.connections import RedisSettings

from tests.wire.libraries import book

SETTINGS = RedisSettings.from_dsn(book.URL)


async def work(ctx: object, number: int) -> int:
    try:
        return book.work(number)
    except RuntimeError as error:
        raise arq.Retry(defer=0.1) from error


class WorkerSettings:
    functions = (work,)
    redis_settings = SETTINGS
    poll_delay = 0.05
    max_tries = 20


async def main() -> None:
    pool = await arq.create_pool(SETTINGS)

    async def enqueue(number: int) -> None:
        delay_s = book.delay_s(number) or None
        await pool.enqueue_job("work", number, _job_id=str(number), _defer_by=delay_s)

    await book.produce_async(enqueue, redis.ConnectionError, redis.TimeoutError)


if __name__ == "__main__":
    asyncio.run(main())
