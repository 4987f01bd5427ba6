"""The valid arguments of a build. An invalid one is refused in one sentence."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

import holdfast
from holdfast.builds import BadBuildError, Build, BuildQueue, Run, Worker
from holdfast.builds.cron_expressions import BadCronError
from holdfast.client import ServerError


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 0},
        {"id": -1},
        {"id": 2**52 + 1},
        {"id": True},
        {"id": "1"},
        {"id": 1.5},
        {"job_id": ""},
        {"job_id": "a\nb"},
        {"job_id": None},
        {"job_id": b"a"},
        {"blocked_by": "a"},
        {"blocked_by": None},
        {"blocked_by": [""]},
        {"blocked_by": [str(n) for n in range(101)]},
        {"collapse": "maybe"},
        {"virtual": 1},
        {"timeout_min": 0},
        {"timeout_min": -1},
        {"timeout_min": "soon"},
        {"timeout_min": float("nan")},
        {"timeout_min": True},
        {"same_job_wait_min": -1},
        {"delay_s": float("inf")},
        {"backoff_s": None},
        {"retries": -1},
        {"retries": 1.5},
        {"priority": 1001},
        {"priority": "high"},
        {"freeze": "* * * * *"},
        {"freeze": 5},
        {"annotations": None},
        {"annotations": ["x"]},
        {"annotations": {"x/timeout": "long"}},
    ],
    ids=str,
)
def test_nonsense_is_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    said: dict[str, Any] = {"id": 1, "job_id": "a", **wrong}
    with pytest.raises(BadBuildError) as error:
        Build(**said)
    assert "\n" not in str(error.value)


def test_an_invalid_text_is_found_when_the_record_is_written() -> None:
    with pytest.raises(BadCronError):
        Build(1, "a", freeze=["often"]).fields()
    with pytest.raises(BadCronError, match="text"):
        Build(1, "a", freeze=[5]).fields()  # type: ignore[list-item]
    with pytest.raises(BadBuildError, match="JSON"):
        Build(1, "a", annotations={"x": object()}).fields()


def test_a_keyword_counts_more_than_an_annotation() -> None:
    annotations = {"ci/timeout": 5, "ci/blockedBySameJobWaitTime": "2", "collapseBuilds": True}
    build = Build(1, "a", annotations=annotations, timeout_min=7)
    assert (build.timeout_min, build.same_job_wait_min, build.collapse) == (7, 2, True)


def test_a_number_that_must_be_above_zero_is_checked() -> None:
    with pytest.raises(BadBuildError, match="timeout_min is a number above 0, not 0"):
        Build(1, "a", timeout_min=0)


@pytest.mark.parametrize("wrong", [{"keep_days": 0}, {"hold_min": 0}, {"keep_events": 1}], ids=str)
def test_queues_keep_things_for_a_while(wrong: dict[str, Any]) -> None:
    """A build that is forgotten as it ends could not even be answered for."""
    with pytest.raises(BadBuildError):
        BuildQueue(holdfast.connect("memory://"), **wrong)


def test_a_name_may_be_a_number() -> None:
    assert BuildQueue(holdfast.connect("memory://"), 5).key == "{5}"  # type: ignore[arg-type]


def test_a_job_may_be_a_number() -> None:
    assert Build(1, 77, blocked_by=[88]).fields()["blocked_by"] == "88"  # type: ignore[arg-type,list-item]


@pytest.mark.parametrize("name", ["", "a{b", "a}b", "a\nb"])
def test_queues_need_a_name(name: str) -> None:
    with pytest.raises(BadBuildError):
        BuildQueue(holdfast.connect("memory://"), name)


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"name": "a b"}, {"lease_s": 0}, {"name": ""}], ids=str
)
def test_workers_need_sense(wrong: dict[str, Any]) -> None:
    async def handler(run: object) -> None: ...

    with pytest.raises(BadBuildError):
        Worker(BuildQueue(holdfast.connect("memory://")), handler, **wrong)


@pytest.mark.parametrize("wrong", [{}, None, "a", Build], ids=repr)
def test_a_queue_takes_builds_only(wrong: Any) -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            queue = BuildQueue(client)
            with pytest.raises(TypeError, match="a queue takes a Build"):
                await queue.enqueue(wrong)
            with pytest.raises(TypeError, match="a queue takes a Build"):
                await queue.set_periodic("nightly", "0 0 * * *", wrong)

    asyncio.run(scenario())


def test_a_worker_needs_a_queue_and_a_handler() -> None:
    async def handler(run: object) -> None: ...

    client = holdfast.connect("memory://")
    wrong: Any = None
    with pytest.raises(TypeError, match="handler is a function of a Run, not None"):
        Worker(BuildQueue(client), wrong)
    wrong = client
    with pytest.raises(TypeError, match="takes builds from a BuildQueue"):
        Worker(wrong, handler)


def test_an_outcome_is_true_or_false_and_a_reason_may_be_an_exception() -> None:
    """`complete(1, "no")` would be a success otherwise."""

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            queue = BuildQueue(client)
            await queue.enqueue(Build(1, "a"))
            wrong: Any = "no"
            with pytest.raises(BadBuildError, match="success is true or false, not 'no'"):
                await queue.complete(1, wrong)
            with pytest.raises(BadBuildError, match="lease_s"):
                await queue.heartbeat([], wrong)
            reason: Any = OSError("no disk")
            await queue.abort(1, reason)
            record = await queue.get(1)
            assert record is not None
            assert record.reason == "no disk"

    asyncio.run(scenario())


def test_a_queue_needs_a_client() -> None:
    with pytest.raises(TypeError, match="no client"):
        BuildQueue("redis://localhost")


def test_questions_that_make_no_sense() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            queue = BuildQueue(client)
            with pytest.raises(BadBuildError, match="no state; the states are QUEUED"):
                await queue.list(state="DONE")
            with pytest.raises(BadBuildError, match="5 is no state"):
                await queue.list(state=5)  # type: ignore[arg-type]
            with pytest.raises(BadBuildError, match="limit"):
                await queue.list(limit=0)
            asks: list[Any] = [queue.get, queue.start, queue.abort, queue.retry, queue.events]
            for ask in asks:
                with pytest.raises(BadBuildError, match="a build's id"):
                    await ask("one")

    asyncio.run(scenario())


@pytest.mark.parametrize("field", ["id", "state", "annotations"])
def test_a_hash_that_is_no_record_is_told_in_a_sentence(field: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            queue = BuildQueue(client)
            await queue.enqueue(Build(1, "a"))
            await client.hset("{builds}:build:1", {field: "?"})
            with pytest.raises(BadBuildError, match="record of a build is damaged: "):
                await queue.get(1)
            await client.hdel("{builds}:build:1", field)
            with pytest.raises(BadBuildError, match="record of a build is damaged: "):
                await queue.get(1)

    asyncio.run(scenario())


def test_scripts_check_before_they_write() -> None:
    """Also arguments that do not come from our Python client."""

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            queue = BuildQueue(client)
            for fields in (["job"], ["retries", "1"], ["job", "a", "retries", "many"]):
                reply = await queue._run("enqueueBuild", id=1, once="", fields=fields)
                assert reply[1:3] == [b"REFUSE", b"BAD_BUILD"]
            await client.set("{builds}:waiting:a", "not ours")
            with pytest.raises(ServerError, match="WRONGTYPE"):
                await queue.enqueue(Build(1, "a"))
            assert await client.exec("KEYS", "{builds}*", into=list[str]) == ["{builds}:waiting:a"]

    asyncio.run(scenario())


def test_without_a_hash_tag_keys_have_the_bare_name() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            await BuildQueue(client, "q", hash_tag=False).enqueue(Build(1, "a"))
            assert await client.exists("q:build:1")
            await BuildQueue(client, "q").enqueue(Build(1, "a"))
            assert await client.exists("{q}:build:1", "{q}:build:events:1") == 2

    asyncio.run(scenario())


# -- handlers ---------------------------------------------------------------------------------


class Called:
    async def __call__(self, run: Run) -> None: ...

    async def method(self, run: Run) -> None: ...


async def takes_more(what: str, run: Run) -> None: ...


@pytest.mark.parametrize(
    "handler", [Called(), Called().method, partial(takes_more, "it"), partial(Called())]
)
def test_whatever_is_async_may_be_a_handler(handler: Any) -> None:
    Worker(BuildQueue(holdfast.connect("memory://")), handler)


def blocks(run: Run) -> None: ...


async def yields(run: Run) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    "handler",
    [blocks, lambda run: None, partial(blocks), partial(Called), Called, print, yields],
)
def test_a_handler_that_is_not_async_is_refused_when_the_worker_is_made(handler: Any) -> None:
    """It would block the signs of life of all other builds, and could not be cancelled."""
    with pytest.raises(TypeError, match="async def") as error:
        Worker(BuildQueue(holdfast.connect("memory://")), handler)
    assert "to_thread" in str(error.value)
