"""Celery: its application, its producer, and answers to further words on the command line."""

import json
import sys

import kombu.exceptions
from celery import Celery, chain, chord, group

from tests.wire.libraries import book

app = Celery("jobs", broker=book.URL, backend=book.URL)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": book.PATIENCE_S,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
)


def work(number: int) -> int:
    return book.work(number)


def add(numbers: list[int]) -> int:
    return sum(numbers)


work_task = app.task(
    work, name="work", autoretry_for=(RuntimeError,), default_retry_delay=0.1, max_retries=10
)
add_task = app.task(add, name="add")


def enqueue(number: int) -> object:
    return work_task.apply_async(
        (number,), task_id=str(number), countdown=book.delay_s(number) or None
    )


def results(count: int) -> list[int]:
    return [app.AsyncResult(str(number)).get(timeout=60) for number in range(count)]


def canvas() -> dict[str, object]:
    """Numbers from 100 on, so that they are no others'."""
    together = group(work_task.s(number) for number in range(100, 104)).apply_async()
    joined = chord([work_task.s(number) for number in range(200, 205)])(add_task.s())
    after = chain(work_task.s(3), work_task.s()).apply_async()
    return {
        "group": together.get(timeout=60),
        "chord": joined.get(timeout=60),
        "chain": after.get(timeout=60),
    }


if __name__ == "__main__":
    if sys.argv[1] == "results":
        print(json.dumps(results(int(sys.argv[2]))))  # noqa: T201 - the test reads it
    elif sys.argv[1] == "canvas":
        print(json.dumps(canvas()))  # noqa: T201
    else:
        book.produce(enqueue, kombu.exceptions.OperationalError)
