"""The guide's walk-through is a test: its commands are sent, and its replies must come back."""

import re
from pathlib import Path

import pytest

from tests.harness import wait_until
from tests.replication.crew import CONVERGENCE_S, are_linked, ask, await_the_same, cluster

pytestmark = [pytest.mark.source_only, pytest.mark.timeout(300)]

GUIDE = Path(__file__).parents[2] / "docs" / "guide-active-active.md"


def test_the_walk_through(tmp_path: Path) -> None:
    blocks = re.findall(r"```text\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    parts = re.split(r"^(one|two)> (.*)\n", "".join(blocks), flags=re.MULTILINE)[1:]
    steps = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    assert len(steps) > 10
    with cluster(tmp_path, 2) as (one, two):
        wait_until(lambda: are_linked([one, two]), "both follow each other", CONVERGENCE_S)
        is_cut = False
        for who, command, expected in steps:
            if not is_cut:
                await_the_same([one, two])
            reply = ask(one if who == "one" else two, *command.split())
            is_cut = command == "ACTIVE PAUSE" or (is_cut and command != "ACTIVE RESUME")
            assert shown(reply) == expected, command


def shown(reply: bytes) -> str:
    """About as redis-cli shows it."""
    lines = reply.decode().split("\r\n")[:-1]
    return "".join(f"{line.lstrip(':+')}\n" for line in lines if line[0] not in "*$")
