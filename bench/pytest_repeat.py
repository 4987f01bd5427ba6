"""Runs each test several times, for bench/pytest_servers.py: `pytest -p bench.pytest_repeat`."""

import os

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.fixturenames.append("repetition")
    metafunc.parametrize("repetition", range(int(os.environ["HOLDFAST_BENCH_TIMES"])))
