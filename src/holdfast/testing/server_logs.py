"""The report of a failed test has the logs of its servers, as it has the output of the test."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.testing.servers import Servers


class ServerLogs:
    """A pytest plugin for runs that have servers."""

    def __init__(self, servers: "Servers") -> None:
        self._servers = servers

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._servers.logs.begin()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self) -> "Iterator[None]":
        made: Any = yield
        report: pytest.TestReport = made.get_result()
        if report.failed:
            for port, lines in self._servers.logs.tails():
                report.sections.append((f"Captured log of holdfast, port {port}", lines))
