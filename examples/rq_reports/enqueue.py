"""Enqueue reports: `python enqueue.py Rome Oslo` prints the ids of their jobs."""

import sys

from redis import Redis
from rq import Queue, Retry

from reports import write_report
from settings import QUEUES, REDIS_URL


def main(cities: list[str]) -> None:
    queue = Queue(QUEUES[0], connection=Redis.from_url(REDIS_URL))
    for city in cities:
        job = queue.enqueue(write_report, city, retry=Retry(max=3), result_ttl=86_400)
        print(f"{job.id} {city}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["Rome", "Oslo", "Lima"])
