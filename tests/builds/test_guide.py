"""The guide is a test: its examples run in order, its tables and its diagram are the code's."""

import ast
import asyncio
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import holdfast
from holdfast.builds import Build
from holdfast.builds.build import ANNOTATIONS
from holdfast.builds.states import diagram, reference

GUIDE = Path(__file__).parents[2] / "docs" / "guide-builds.md"
TEXT = GUIDE.read_text()


def test_the_examples_run(url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(url) as client:
            names: dict[str, Any] = {"client": client}
            for block in re.finditer(r"^```py\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
                source = "\n" * (TEXT[: block.start()].count("\n") + 1) + block[1]
                flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                code = compile(source, str(GUIDE), "exec", flags=flags, dont_inherit=True)
                result = eval(code, names)
                if inspect.isawaitable(result):
                    await result

    asyncio.run(scenario())


def test_the_diagram_and_the_states_are_the_tables() -> None:
    assert f"```mermaid\n{diagram()}```" in TEXT, "paste states.diagram() into the guide"
    assert reference() in TEXT, "paste states.reference() into the guide"


def test_everything_that_can_be_said_of_a_build_is_explained() -> None:
    for item in fields(Build):
        assert f"`{item.name}`" in TEXT or item.name in ("id", "job_id"), item.name
    for name in ANNOTATIONS:
        assert f"`{name}`" in TEXT
