"""The pure modules, each alone in Lua."""

from collections.abc import Callable
from typing import Any

import pytest
from lupa.luajit21 import lua_type

from tests.builds.lua_alone import PURE, Alone

MINUTE = 60_000


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_runs_where_there_is_no_redis(module: str) -> None:
    alone = Alone(module)
    assert alone.lua.globals()["redis"] is None
    functions = [key for key, value in alone.m.items() if lua_type(value) == "function"]
    assert functions, "it would be of no use"


# -- collapse ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collapse() -> Alone:
    return Alone("CollapseDecider")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ({"collapse": True, "id": 5}, None),
        ({"collapse": True, "id": 5, "last_running": 6}, "OLDER_THAN_LAST_RUNNING"),
        ({"collapse": True, "id": 5, "last_running": 5}, None),
        ({"collapse": True, "id": 5, "last_running": 4}, None),
        ({"collapse": True, "id": 5, "newest_waiting": 6}, "NEWER_BUILD_EXISTS"),
        ({"collapse": True, "id": 5, "newest_waiting": 5}, None),
        (
            {"collapse": True, "id": 5, "last_running": 9, "newest_waiting": 9},
            "OLDER_THAN_LAST_RUNNING",
        ),
        ({"collapse": False, "id": 5, "last_running": 6, "newest_waiting": 7}, None),
        ({"collapse": True, "id": 9, "newest_waiting": 10}, "NEWER_BUILD_EXISTS"),  # not as texts
    ],
)
def test_builds_that_newer_ones_make_pointless_have_a_reason(
    collapse: Alone, build: dict[str, Any], reason: str | None
) -> None:
    assert collapse("reason", build) == reason


def test_only_an_older_build_that_collapses_is_overtaken(collapse: Alone) -> None:
    assert collapse("is_overtaken", 4, True, 5)
    assert not collapse("is_overtaken", 6, True, 5)
    assert not collapse("is_overtaken", 4, False, 5)


@pytest.mark.parametrize(
    ("is_on", "build_id", "has_turn"),
    [(False, 3, True), (False, 4, False), (False, 2, True), (True, 7, True), (True, 6, False)],
)
def test_the_oldest_has_its_turn_or_the_newest_if_builds_collapse(
    collapse: Alone, is_on: bool, build_id: int, has_turn: bool
) -> None:
    waiting = {"oldest_waiting": 3, "newest_waiting": 7}
    assert collapse("has_turn", {"collapse": is_on, "id": build_id, **waiting}) is has_turn


@pytest.mark.parametrize("is_on", [True, False])
def test_a_build_that_waits_alone_has_its_turn(collapse: Alone, is_on: bool) -> None:
    assert collapse("has_turn", {"collapse": is_on, "id": 5})


# -- dependencies -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dependencies() -> Alone:
    return Alone("DependencyResolver")


def asks(alone: Alone, running: dict[str, list[str]]) -> Callable[..., Any]:
    def ask(now: int = 0, **build: Any) -> Any:
        facts = {
            "job": "j",
            "blocked_by": [],
            "blocked_by_self": True,
            "blocked_by_same_job": True,
            "same_job_wait_ms": 5 * MINUTE,
            "has_turn": True,
        }
        return alone("reason", facts | build, now, lambda job: alone.table(running.get(job, [])))

    return ask


def test_nothing_runs_so_it_may_go(dependencies: Alone) -> None:
    assert asks(dependencies, {})() is None


def test_running_builds_of_other_jobs_block_and_are_named(dependencies: Alone) -> None:
    ask = asks(dependencies, {"a": ["1", "2"], "b": ["3"], "c": ["4"]})
    said = ask(blocked_by=["b", "a", "quiet"])
    assert said == ("BLOCKED_BY_DEPENDENCIES", ["3", "1", "2"])


def test_a_job_is_no_dependency_of_itself(dependencies: Alone) -> None:
    assert asks(dependencies, {"j": ["1"]})(blocked_by=["j"], blocked_by_self=False) is None


def test_a_job_id_is_not_a_build_id(dependencies: Alone) -> None:
    ask = asks(dependencies, {"1": ["7"], "other": ["1"]})
    assert ask(blocked_by=["1"]) == ("BLOCKED_BY_DEPENDENCIES", ["7"])


def test_its_own_job_blocks_it(dependencies: Alone) -> None:
    assert asks(dependencies, {"j": ["1"]})() == ("BLOCKED_BY_SAME_JOB", ["1"], None)


def test_without_self_blocking_it_goes_beside(dependencies: Alone) -> None:
    assert asks(dependencies, {"j": ["1"]})(blocked_by_self=False) is None


def test_beside_the_same_job_but_not_too_soon(dependencies: Alone) -> None:
    ask = asks(dependencies, {"j": ["1"]})
    off = {"blocked_by_self": False, "blocked_by_same_job": False, "last_started_at": 1000}
    at = 1000 + 5 * MINUTE
    assert ask(now=at - 1, **off) == ("BLOCKED_BY_SAME_JOB", ["1"], at)
    assert ask(now=at, **off) is None
    assert ask(now=at - 1, **off | {"blocked_by_self": True})[2] is None  # it waits for the end


def test_one_is_let_go_at_a_time(dependencies: Alone) -> None:
    ask = asks(dependencies, {"j": ["1"]})
    assert ask(blocked_by_self=False, ready="1") == ("BLOCKED_BY_SAME_JOB", ["1"])


def test_whose_turn_it_is_not_waits(dependencies: Alone) -> None:
    assert asks(dependencies, {})(has_turn=False) == ("NOT_ITS_TURN", [])


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({"j": ["a"], "a": ["b"]}, None),
        ({"j": ["j"]}, None),
        ({"j": ["a"], "a": ["j"]}, ["j", "a", "j"]),
        ({"j": ["x", "a"], "x": ["x"], "a": ["b", "c"], "c": ["j"]}, ["j", "a", "c", "j"]),
        ({"j": ["a"], "a": ["b"], "b": ["a"]}, None),  # a circle, but not through j
    ],
)
def test_circles_are_found(
    dependencies: Alone, edges: dict[str, list[str]], cycle: list[str] | None
) -> None:
    found = dependencies("cycle", "j", lambda job: dependencies.table(edges.get(job, [])))
    assert found == cycle


# -- timeouts ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def timeouts() -> Alone:
    return Alone("TimeoutDecider")


def test_limits(timeouts: Alone) -> None:
    assert timeouts("limit_ms", None) == 90 * MINUTE
    assert timeouts("limit_ms", 5) == 5
    assert timeouts("hold_ms", None, None) == 120 * MINUTE
    assert timeouts("hold_ms", None, 7 * MINUTE) == 7 * MINUTE
    assert timeouts("hold_ms", 10 * MINUTE, 7 * MINUTE) == 40 * MINUTE


def test_the_pause_doubles_up_to_an_hour(timeouts: Alone) -> None:
    assert [timeouts("backoff_ms", n, 5000) for n in (1, 2, 3)] == [5000, 10_000, 20_000]
    assert timeouts("backoff_ms", 50, 5000) == 60 * MINUTE


RUNNING = {"state": "RUNNING", "limit_at": 100, "attempt": 1, "retries": 1}


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ({"state": "SUCCESS", "is_final": True}, ("CLEANUP", "COMPLETED")),
        ({"state": "BLOCKED", "owner": "7"}, ("CLEANUP", "NOT_RUNNING")),
        ({"state": "BLOCKED"}, ("CLEANUP", "NOTHING_RUNNING")),
        (RUNNING, ("SKIP", "RUNNING")),
        (RUNNING | {"limit_at": 50}, ("TIMEOUT", "TIMED_OUT")),
        (RUNNING | {"limit_at": 51}, ("SKIP", "RUNNING")),
        (RUNNING | {"lease_until": 51}, ("SKIP", "RUNNING")),
        (RUNNING | {"lease_until": 50}, ("RETRY", "WORKER_LOST")),
        (RUNNING | {"lease_until": 50, "attempt": 2}, ("TIMEOUT", "WORKER_LOST")),
        (RUNNING | {"lease_until": 50, "limit_at": 50}, ("TIMEOUT", "TIMED_OUT")),
    ],
)
def test_decisions_about_timeouts(
    timeouts: Alone, build: dict[str, Any], said: tuple[str, str]
) -> None:
    assert timeouts("decide", build, 50) == said
