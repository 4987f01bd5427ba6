"""Every workload of `make bench` has its effect, and the benchmark fails if it has not."""

import os
import time

import pytest

from bench import common
from bench.common import ask
from bench.load import Listeners, run_load
from bench.workloads import CLIENTS, WORKLOADS, Workload
from tests.harness import HoldfastServer, RawClient, RedisServer, encode_command

SMALL = [
    *("LPOP", "HGETALL", "SADD", "ZPOPMIN", "XADD", "XREADGROUP", "PUBLISH_100", "MULTI_5"),
]


def by_name(name: str) -> Workload:
    return next(workload for workload in WORKLOADS if workload.name == name)


@pytest.mark.parametrize("name", SMALL)
def test_each_request_is_done_once(
    name: str, server: HoldfastServer, client: RawClient, oracle: RedisServer
) -> None:
    """The oracle is here because redis-benchmark comes with it."""
    workload = by_name(name)
    if name == "PUBLISH_100" and workload.fill is not None:
        workload.fill(client)
    sample = workload.measure("ours", server, client, 2, 4 * CLIENTS)
    assert sample.requests == 4 * CLIENTS
    assert sample.rps > 0


def test_new_keys_are_counted_with_the_work_that_the_server_put_off(
    server: HoldfastServer, client: RawClient, oracle: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is injected: the server is idle at once, and has used six seconds until then."""
    monkeypatch.setattr(common, "wait_until_idle", lambda pid: common.cpu_s(pid) + 6)
    workload = by_name("NEW_HSET")
    ask(client, "SET", "key", "of another database")
    for _ in range(2):
        sample = workload.measure("ours", server, client, 2, 4 * CLIENTS)
        assert sample.cpu_us_per_op >= 6e6 / (4 * CLIENTS)
    ask(client, "SELECT", 0)
    assert ask(client, "DBSIZE") == b":1\r\n"


def test_a_server_is_idle_when_it_uses_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, then waits for a core, then has nothing to do."""
    times = iter([(1.0, 1.0), (1.5, 1.5), (1.5, 3.4), (1.6, 3.6), (1.61, 3.7), (9.9, 9.9)])
    now = next(times)

    def go_on(_: float) -> None:
        nonlocal now
        now = next(times)

    monkeypatch.setattr(time, "sleep", go_on)
    monkeypatch.setattr(common, "cpu_s", lambda pid: now[0])
    monkeypatch.setattr(common, "busy_s", lambda pid: now[1])
    assert common.wait_until_idle(1) == 1.6


def test_a_process_is_busy_while_it_runs() -> None:
    before_s = common.busy_s(os.getpid())
    started_s = time.thread_time()
    while time.thread_time() - started_s < 0.02:
        pass
    assert common.busy_s(os.getpid()) - before_s > 0.015


def test_a_command_without_an_effect_is_noticed(server: HoldfastServer, client: RawClient) -> None:
    lazy = Workload("PING", ("PING",), grows=lambda client: 0)
    object.__setattr__(lazy, "run", lambda *args: None)
    with pytest.raises(SystemExit, match="answered 7 times, but done 0 times"):
        lazy.measure("ours", server, client, 1, 7)


def test_an_answer_that_is_another_ends_the_run(server: HoldfastServer, client: RawClient) -> None:
    argv = encode_command("ECHO", "x")
    with pytest.raises(SystemExit, match="the server answered"):
        run_load(server, [argv], b"$1\r\ny\r\n", requests=1, clients=1, pipeline=1)
    sample = run_load(server, [argv], b"$1\r\nx\r\n", requests=60, clients=3, pipeline=4)
    assert sample.requests == 60


def test_listeners_count_their_messages(server: HoldfastServer, client: RawClient) -> None:
    with Listeners(server.port, 3, "news") as listeners:
        assert client.command("PUBLISH", "news", "hello") == b":3\r\n"
        listeners.wait_for(len(encode_command("message", "news", "hello")))
