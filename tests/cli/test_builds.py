"""`holdfast builds`, from the outside."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.builds import Build, BuildQueue
from holdfast.cli.main import main
from tests.harness import HoldfastServer, RawClient

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def builds(server: HoldfastServer, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an action on a queue with four builds; its exit code, stdout and stderr."""
    url = f"redis://127.0.0.1:{server.port}"

    async def fill() -> None:
        async with holdfast.connect(url) as client:
            queue = BuildQueue(client, "ci")
            await queue.enqueue(Build(1, "compile", annotations={"branch": "main"}))
            await queue.start(1, worker="w")
            await queue.enqueue(Build(2, "compile"))
            await queue.enqueue(Build(3, "test", blocked_by=["compile"]))
            await queue.enqueue(Build(4, "lint"))
            await queue.start(4)
            await queue.complete(4, success=False, reason="7 problems")

    with RawClient.connect(server.port) as raw:
        raw.command("FLUSHALL")
    asyncio.run(fill())

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["builds", *argv, "--url", url, "--queue", "ci"])
        return (code, *capsys.readouterr())

    return run


def test_a_list_is_a_table(builds: Run) -> None:
    code, out, _ = builds("list")
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
    assert code == 0
    assert rows[0] == ["id", "job", "state", "why", "attempt", "for"]
    assert rows[1][:5] == ["4", "lint", "FAILURE", "7 problems", "1"]
    assert rows[2][:4] == ["3", "test", "BLOCKED", "BLOCKED_BY_DEPENDENCIES 1"]
    assert [row[0] for row in rows[1:]] == ["4", "3", "2", "1"]


def test_the_server_may_be_named_by_the_environment(
    server: HoldfastServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", f"redis://127.0.0.1:{server.port}")
    assert main(["builds", "list", "--queue", "empty"]) == 0
    assert capsys.readouterr() == ("no builds\n", "")
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1")
    assert main(["builds", "list"]) == 2
    assert capsys.readouterr().err.startswith("holdfast: HOLDFAST_URL: ")


def test_a_list_of_some(builds: Run) -> None:
    _, out, _ = builds("list", "--job", "compile", "--limit", "1")
    assert [line.split()[0] for line in out.splitlines()] == ["id", "2"]
    assert builds("list", "--state", "success")[1] == "no builds\n"
    code, _, err = builds("list", "--state", "over")
    assert (code, err.count("\n")) == (2, 1)
    assert "'over' is no state" in err


def test_color_where_it_is_wanted(builds: Run) -> None:
    assert "\x1b[31mFAILURE" in builds("list", "--color", "always")[1]
    assert "\x1b" not in builds("list")[1]


def test_show_events_and_replay(builds: Run) -> None:
    _, out, _ = builds("show", "1")
    assert re.search(r"^state +RUNNING$", out, re.MULTILINE)
    assert "{'branch': 'main'}" in out
    _, out, _ = builds("events", "3")
    assert [line.split()[2:4] for line in out.splitlines()] == [
        ["BuildEnqueued", "QUEUED"],
        ["BuildBlocked", "BLOCKED"],
    ]
    assert builds("replay", "4")[:2] == builds("show", "4")[:2]


def test_replay_tells_when_the_record_was_tampered_with(
    builds: Run, server: HoldfastServer
) -> None:
    with RawClient.connect(server.port) as raw:
        raw.command("HSET", "{ci}:build:2", "state", "SUCCESS")
    assert builds("replay", "2") == (1, "the record differs from its events\n", "")


def test_abort_and_retry(builds: Run) -> None:
    assert builds("abort", "1")[:2] == (0, "build 1: CLEANED\n")
    assert builds("abort", "1")[:2] == (0, "build 1: NOT_RUNNING\n")
    assert builds("retry", "4")[:2] == (0, "build 5: ENQUEUED\n")
    assert builds("retry", "3")[:2] == (1, "build 3: REFUSED BLOCKED: it has not run yet\n")


def test_to_abort_a_build_that_is_not_there_is_an_error_that_says_what_it_does(builds: Run) -> None:
    code, out, err = builds("abort", "99")
    assert (code, out) == (1, "")
    assert err == (
        "holdfast: there is no build 99 in the queue 'ci'; if it comes within 30 minutes, it is"
        " aborted then\n"
    )


def test_to_abort_a_build_that_has_ended_otherwise_says_so(builds: Run) -> None:
    assert builds("abort", "4")[:2] == (1, "build 4: ALREADY_CLEAN it had ended as FAILURE\n")


def test_stats(builds: Run) -> None:
    _, out, _ = builds("stats")
    assert out.splitlines()[0].split() == ["BLOCKED", "2", "RUNNING", "1", "FAILURE", "1"]
    assert out.splitlines()[1].startswith("on offer: 0  next due: 5")


def json_lines(result: tuple[int, str, str], code: int = 0) -> list[dict[str, Any]]:
    assert (result[0], result[2]) == (code, "")
    return [json.loads(line) for line in result[1].splitlines()]


def test_json_has_one_object_a_line(builds: Run) -> None:
    records = json_lines(builds("list", "--json"))
    assert [(each["id"], each["state"]) for each in records] == [
        (4, "FAILURE"), (3, "BLOCKED"), (2, "BLOCKED"), (1, "RUNNING"),
    ]  # fmt: skip
    assert records[1]["blockers"] == [1]
    assert records[3]["annotations"] == {"branch": "main"}
    assert json_lines(builds("list", "--state", "success", "--json")) == []
    assert json_lines(builds("show", "1", "--json")) == [records[3]]
    events = json_lines(builds("events", "3", "--json"))
    assert [(each["name"], each["state"]) for each in events] == [
        ("BuildEnqueued", "QUEUED"),
        ("BuildBlocked", "BLOCKED"),
    ]
    (stats,) = json_lines(builds("stats", "--json"))
    assert stats.keys() == {
        *("by_state", "on_offer", "next_due_s", "newest_id", "unfinished", "frozen_jobs")
    }
    assert (stats["by_state"]["BLOCKED"], stats["unfinished"]) == (2, 3)


def test_json_of_what_is_done(builds: Run, server: HoldfastServer) -> None:
    (replay,) = json_lines(builds("replay", "4", "--json"))
    assert (replay["build_id"], replay["is_same"]) == (4, True)
    assert replay["record"] == replay["replayed"]
    with RawClient.connect(server.port) as raw:
        raw.command("HSET", "{ci}:build:2", "state", "SUCCESS")
    (replay,) = json_lines(builds("replay", "2", "--json"), code=1)
    assert (replay["record"]["state"], replay["replayed"]["state"]) == ("SUCCESS", "BLOCKED")
    (aborted,) = json_lines(builds("abort", "1", "--json"))
    assert (aborted["build_id"], aborted["status"], aborted["state"]) == (1, "CLEANED", "ABORTED")
    (retried,) = json_lines(builds("retry", "3", "--json"), code=1)
    assert (retried["build_id"], retried["status"]) == (3, "REFUSED")


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (["demo", "--json"], 2, "--json is not for demo"),
        (["list", "--live", "--json"], 2, "--json is not for --live"),
        (["show", "77", "--json"], 1, "there is no build 77 in the queue 'ci'"),
        (["show"], 2, "show takes the id of a build (see 'holdfast builds --help')"),
        (["list", "1"], 2, "list takes no build (see 'holdfast builds --help')"),
        (["show", "77"], 1, "there is no build 77 in the queue 'ci'"),
        (["demo", "--speed", "0"], 2, "--speed is a number above 0"),
    ],
)
def test_an_error_is_one_sentence(builds: Run, argv: list[str], code: int, sentence: str) -> None:
    assert builds(*argv) == (code, "", f"holdfast: {sentence}\n")


@pytest.mark.parametrize("argv", [["run"], ["show", "x"], ["list", "--state", "nope"], []])
def test_bad_words_are_one_sentence_too(builds: Run, argv: list[str]) -> None:
    code, _, err = builds(*argv)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("url", "code"), [("redis://127.0.0.1:1", 1), ("http://127.0.0.1", 2), ("redis://a:b:c", 2)]
)
def test_no_server_is_one_sentence(url: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builds", "list", "--url", url]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_the_live_view_goes_on_until_it_is_interrupted(server: HoldfastServer) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    argv = [sys.executable, "-m", "holdfast", "builds", "list", "--live", "--url", url]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = 0
        while shown < 2:  # twice the whole view
            shown += process.stdout.readline().startswith("on offer")
        process.kill()


def test_the_demo_shows_what_the_queue_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builds", "demo", "--speed", "10", "--color", "always"]) == 0
    out = capsys.readouterr().out
    assert "30 of 30 records are the same as their events give" in out
    for word in ("BLOCKED_BY_DEPENDENCIES", "BLOCKED_BY_SAME_JOB", "TIMED_OUT", "VIRTUAL"):
        assert word in out
    for word in ("no machine is free", "7 problems", "\x1b[32mSUCCESS", "COLLAPSED"):
        assert word in out
