"""The semaphore around a GPU: at most two commands run, also when the server is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.example import TIMEOUT_S, Example, Process
from tests.harness import wait_until

pytestmark = pytest.mark.timeout(300)  # of a busy machine
ON_GPU = "python on_gpu.py"
# Runs until its file is gone.
TRAINING = """
echo "begin $0 $FENCING_TOKEN" >>log
while [ -e "$0" ]; do sleep 0.02; done
echo "end $0" >>log
"""


class Trainings:
    def __init__(self, example: Example, folder: Path) -> None:
        self._example = example
        self._folder = folder
        self._log = folder / "log"
        self._log.touch()
        self._started: list[str] = []

    def start(self, name: str) -> Process:
        """It waits for its slot, or has it."""
        (self._folder / name).touch()
        self._started.append(name)
        script = f'cd "{self._folder}"\n{TRAINING}'
        process = self._example.start(ON_GPU, "sh", "-c", script, name)
        self._example.wait_for(process, "waiting for a slot")
        return process

    def finish(self, name: str) -> None:
        (self._folder / name).unlink()

    def events(self) -> list[list[str]]:
        return [line.split() for line in self._log.read_text().splitlines()]

    def close(self) -> None:
        """Ends them all: a command outlives an on_gpu.py that was killed."""
        for name in self._started:
            (self._folder / name).unlink(missing_ok=True)

    def names(self, what: str) -> list[str]:
        return [event[1] for event in self.events() if event[0] == what]

    def wait_for(self, what: str, *names: str) -> None:
        wait_until(lambda: {*names} == {*self.names(what)}, f"{what} {names}", TIMEOUT_S)


@pytest.fixture
def trainings(example: Example, tmp_path: Path) -> Iterator[Trainings]:
    trainings = Trainings(example, tmp_path)
    yield trainings
    trainings.close()


def test_two_run_and_the_third_waits_for_its_turn(example: Example, trainings: Trainings) -> None:
    def is_waiting() -> bool:
        with example.server.client() as client:
            return client.command("ZCARD", "adv-sem:semaphore_waiting:{gpu}") == b":1\r\n"

    first, second = trainings.start("first"), trainings.start("second")
    trainings.wait_for("begin", "first", "second")
    third = trainings.start("third")
    wait_until(is_waiting, "the third waits", TIMEOUT_S)
    example.server.crash()
    wait_until(is_waiting, "the third waits still", TIMEOUT_S)
    assert third.poll() is None

    trainings.finish("first")
    trainings.wait_for("begin", "first", "second", "third")
    assert first.wait(TIMEOUT_S) == 0
    assert trainings.names("end") == ["first"]
    tokens = [int(event[2]) for event in trainings.events() if event[0] == "begin"]
    assert tokens[2] > max(tokens[:2])

    second.terminate()  # its command ends, and then its slot is free
    assert second.wait(TIMEOUT_S) == 1
    fourth = example.start(ON_GPU, "sh", "-c", "exit 3")
    assert fourth.wait(TIMEOUT_S) == 3
    assert third.poll() is None


def test_a_mistake_is_one_sentence(example: Example) -> None:
    missing = example.start(ON_GPU, "no-such-command")
    assert missing.wait(TIMEOUT_S) == 1
    assert example.output(missing).splitlines()[-1].startswith("on_gpu: [Errno 2] No such file")
    for url in ("redis://127.0.0.1:1", "http://127.0.0.1"):
        nowhere = example.start(ON_GPU, "true", HOLDFAST_URL=url)
        assert nowhere.wait(TIMEOUT_S) == 1
        (sentence,) = example.output(nowhere).splitlines()
        assert sentence.startswith("on_gpu: ")
