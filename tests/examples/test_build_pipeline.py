"""The build pipeline: stages run in their order, each once, although the server is killed."""

import asyncio
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import holdfast
from tests.examples.example import TIMEOUT_S, Example
from tests.harness import wait_until
from tests.harness.spawned import ROOT

pytestmark = pytest.mark.timeout(300)  # of a busy machine
FOLDER = ROOT / "examples" / "build_pipeline"
WORK, RUN = "python pipeline.py work", "python pipeline.py run"


def test_stages_run_in_order_and_a_failure_stops_the_later_ones(
    example: Example, tmp_path: Path
) -> None:
    async def enqueue_other_builds() -> None:
        """As the README of Holdfast does. The jobs have the names of stages."""
        async with holdfast.connect(f"redis://127.0.0.1:{example.server.port}") as client:
            await holdfast.BuildQueue(client).enqueue(holdfast.Build(1, "compile"))

    asyncio.run(enqueue_other_builds())
    worker = example.start(WORK)
    example.wait_for(worker, "ready")
    example.run(RUN, "1")
    example.wait_for(worker, "compiling")
    example.server.crash()
    example.run(RUN, "1")  # nothing is enqueued twice
    example.wait_for(worker, "deployed")
    words = re.compile("^(?:compil|test|lint|deploy)(?:ing|ed)", re.MULTILINE)
    said = words.findall(example.output(worker))
    assert said[:2] == ["compiling", "compiled"]
    assert sorted(said[2:6]) == ["linted", "linting", "tested", "testing"]
    assert said[6:] == ["deploying", "deployed"]

    red = tmp_path / "red.toml"
    text = (example.path / "pipeline.toml").read_text()
    red.write_text(text.replace("echo linting", "exit 1").replace("sleep 1", "true"))
    example.run(RUN, "2", str(red))

    def states() -> dict[str, str]:
        """Of the newest build of each job."""
        said = example.run("holdfast builds list --queue pipeline", "--color", "never")
        return {job: state for _, job, state, *_ in map(str.split, reversed(said.splitlines()[1:]))}

    ended = {"compile": "SUCCESS", "test": "SUCCESS", "lint": "FAILURE", "deploy": "FAILURE"}
    wait_until(lambda: states() == ended, "deploy does not run without lint", TIMEOUT_S)
    assert example.output(worker).count("deployed") == 1

    worker.terminate()
    assert worker.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        ("[a]", 'a is no stage: a stage has a command, run = "…"'),
        ("a = 1", 'a is no stage: a stage has a command, run = "…"'),
        ('[a]\nrun = "true"\nneeds = ["b"]', "a needs b, which is no stage"),
        ('[a]\nrun = "true"\nneeds = ["a"]', "stages need each other: a, a"),
        ('[a]\nrun = "true"\nneeds = 5', 'a: needs is a list of stages, such as ["build"]'),
    ],
)
def test_a_pipeline_that_can_never_run(
    pipeline: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    stages = importlib.import_module("stages")
    with pytest.raises(ValueError, match=re.escape(sentence)):
        list(stages.builds_of(tomllib.loads(pipeline), 1))
