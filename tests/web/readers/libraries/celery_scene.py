"""Celery: its application, and its producer."""

import sys

from celery import Celery

from tests.web.readers.libraries import jobs

app = Celery("scene", broker=jobs.URL, backend=jobs.URL)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"queue_order_strategy": "priority"},
)
add, fail, hold = (app.task(each, name=each.__name__) for each in (jobs.add, jobs.fail, jobs.hold))

if __name__ == "__main__":
    if sys.argv[1] == jobs.FIRST:
        add.apply_async((2, 3), task_id="done")
        fail.apply_async(("boom",), task_id="failed")
        hold.apply_async(("here",), task_id="active")
    else:
        for number in range(3):
            add.apply_async((number, 1), task_id=f"waiting-{number}")
        add.apply_async((9, 9), task_id="urgent", priority=3)
        add.apply_async((7, 7), task_id="later", countdown=jobs.LATER_S)
        add.apply_async((8,), {"right": 8}, task_id="unheard", queue="mail")
