"""The benchmark of clients measures our client. The other libraries are not installed here."""

import asyncio
import warnings

import pytest

from bench import client as bench
from tests.harness import RedisServer


def test_every_point_is_measured_and_shown(
    oracle: RedisServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "IDLE_CLIENTS", 5)

    async def scenario() -> dict[str, object]:
        return await bench.work(bench.Holdfast(oracle.port), 0.005)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its clients to the end
        result = asyncio.run(scenario())
    points = {f"{name} {tasks}" for name in ("PING", "SET", "GET") for tasks in (1, 8, 32, 256)}
    assert set(result) == points | {"100×GET 1", "100×GET 8", "idle"}
    bench.show({"holdfast": [result], "another": [result]})
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + 2 + 14 + 1
    assert " | 1.00 | 1.00 |" in table[4]  # as fast as itself


def test_the_libraries_that_take_part() -> None:
    assert list(bench.LIBRARIES) == ["holdfast", "redis-py", "coredis", "valkey-glide"]
