"""RQ: the queue of its jobs, and its producer."""

from datetime import timedelta

import redis
import rq

from tests.wire.libraries import book

queue = rq.Queue(connection=redis.Redis.from_url(book.URL))


def enqueue(number: int) -> object:
    options = {"args": (number,), "job_id": str(number), "retry": rq.Retry(max=20)}
    if delay_s := book.delay_s(number):
        return queue.enqueue_in(timedelta(seconds=delay_s), book.work, **options)
    return queue.enqueue(book.work, **options)


if __name__ == "__main__":
    book.produce(enqueue, redis.ConnectionError)
