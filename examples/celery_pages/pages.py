"""The Celery application: it renders the pages of a book, and binds them when all are there."""

import os

from celery import Celery

URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")

app = Celery("pages", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,  # a task leaves Holdfast when it is done, not when a worker takes it
    task_reject_on_worker_lost=True,  # the task of a worker that was killed runs again
    worker_prefetch_multiplier=1,  # a worker takes no tasks that others could begin
    broker_transport_options={"visibility_timeout": 600},  # above the longest task, in seconds
    broker_connection_retry_on_startup=True,
    result_backend_always_retry=True,  # a client that waits for a result outlives the server, too
    result_expires=86_400,
)


@app.task
def render(page: int) -> str:
    """A task may run twice, because its worker may die after the work and before it reports the
    end."""
    return f"page {page}"


@app.task
def bind(pages: list[str]) -> str:
    return f"a book of {len(pages)} pages, from {pages[0]} to {pages[-1]}"
