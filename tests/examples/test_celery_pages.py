"""Celery: tasks, the state of a chord and results outlive the server."""

import pytest

from tests.examples.example import TIMEOUT_S, Example

pytestmark = pytest.mark.timeout(300)  # of a busy machine


def test_a_book_is_bound_although_the_server_is_killed(example: Example) -> None:
    order = example.start("python order.py", "8")
    example.wait_for(order, "ordered ")
    example.server.crash()

    example.start("celery -A pages worker", "--concurrency", "1")
    assert order.wait(TIMEOUT_S) == 0
    assert "a book of 8 pages, from page 1 to page 8" in example.output(order)

    example.server.crash()  # the worker comes back by itself, and the result is there
    (key,) = [
        f"celery-task-meta-{line.split()[1]}"
        for line in example.output(order).splitlines()
        if line.startswith("ordered ")
    ]
    assert b"a book of 8 pages" in example.server.client().command("GET", key)
    assert "a book of 2 pages" in example.run("python order.py", "2")
