"""arq: its worker's settings, and its producer."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import arq
from arq.connections import RedisSettings

from tests.web.readers.libraries import jobs

SETTINGS = RedisSettings.from_dsn(jobs.URL)


async def add(ctx: object, left: int, right: int) -> int:
    return jobs.add(left, right)


async def fail(ctx: object, why: str) -> None:
    jobs.fail(why)


async def hold(ctx: object, name: str) -> str:
    return await asyncio.to_thread(jobs.hold, name)


class WorkerSettings:
    functions = (add, fail, hold)
    redis_settings = SETTINGS
    poll_delay = 0.05
    max_jobs = 1
    health_check_interval = 1


async def main() -> None:
    pool = await arq.create_pool(SETTINGS)
    if sys.argv[1] == jobs.FIRST:
        # Jobs of the same millisecond run in the order of their ids: "active" would be the first.
        before = datetime.now(UTC) - timedelta(seconds=1)
        await pool.enqueue_job("add", 2, 3, _job_id="done", _defer_until=before)
        await pool.enqueue_job("fail", "boom", _job_id="failed", _defer_until=before)
        await pool.enqueue_job("hold", "here", _job_id="active")
    else:
        for number in range(3):
            await pool.enqueue_job("add", number, 1, _job_id=f"waiting-{number}")
        await pool.enqueue_job("add", 7, 7, _job_id="later", _defer_by=jobs.LATER_S)


if __name__ == "__main__":
    asyncio.run(main())
