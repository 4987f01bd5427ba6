"""RQ: its queue, and its producer."""

import sys
from datetime import timedelta

import redis
import rq

from tests.web.readers.libraries import jobs

queue = rq.Queue(connection=redis.Redis.from_url(jobs.URL))

if __name__ == "__main__":
    if sys.argv[1] == jobs.FIRST:
        queue.enqueue(jobs.add, 2, 3, job_id="done")
        queue.enqueue(jobs.fail, "boom", job_id="failed")
        queue.enqueue(jobs.hold, "here", job_id="active", job_timeout=600)
    else:
        first = [queue.enqueue(jobs.add, n, 1, job_id=f"waiting-{n}") for n in range(3)]
        queue.enqueue_in(timedelta(seconds=jobs.LATER_S), jobs.add, 7, 7, job_id="later")
        queue.enqueue(jobs.add, 5, 5, job_id="deferred", depends_on=first[0])
