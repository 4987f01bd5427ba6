"""The guide is a test: its examples run in order, its tables and its diagram are the code's."""

import asyncio
from dataclasses import fields
from pathlib import Path

from holdfast.builds import Build
from holdfast.builds.build import ANNOTATIONS
from holdfast.builds.build_states import diagram, reference
from tests.harness.guide import run_examples

GUIDE = Path(__file__).parents[2] / "docs" / "guide-builds.md"
TEXT = GUIDE.read_text()


def test_the_examples_run(url: str) -> None:
    asyncio.run(run_examples(GUIDE, TEXT, url))


def test_the_diagram_and_the_states_are_the_tables() -> None:
    assert f"```mermaid\n{diagram()}```" in TEXT, "paste states.diagram() into the guide"
    assert reference() in TEXT, "paste states.reference() into the guide"


def test_everything_that_can_be_said_of_a_build_is_explained() -> None:
    for item in fields(Build):
        assert f"`{item.name}`" in TEXT or item.name in ("id", "job_id"), item.name
    for name in ANNOTATIONS:
        assert f"`{name}`" in TEXT
