"""Ends the process of a test that outlives its time limit.

pytest-timeout raises an exception in the test. An event loop logs an exception that is raised in a
callback and goes on, so a test that hangs there would hang for ever. A thread in C, which does not
need the GIL, ends such a process; pytest-xdist starts another one and reports the test.
"""

import faulthandler
import sys
from collections.abc import Iterator

import pytest

GRACE_S = 30.0  # for the work of a test after its limit, such as stopping servers


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "seconds after its time limit in which a test may still end by itself"
    parser.addini("timeout_grace", help_text, default=str(GRACE_S))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    limit_s = limit_of(item)
    if limit_s:
        grace_s = float(item.config.getini("timeout_grace"))
        stderr = sys.__stderr__ or sys.stderr  # pytest-xdist replaces sys.stderr
        faulthandler.dump_traceback_later(limit_s + grace_s, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_of(item: pytest.Item) -> float:
    """The time limit of a test; 0: none."""
    mark = item.get_closest_marker("timeout")
    if mark is not None:
        return float(mark.args[0] if mark.args else mark.kwargs["timeout"])
    return float(item.config.getini("timeout") or 0)
