"""The guide is a test: its examples run in order, and every option and script is explained."""

import asyncio
import inspect
from pathlib import Path

import pytest

from holdfast.coordination.lua_scripts import names
from holdfast.semaphore import Semaphore
from holdfast.semaphore.names import Names
from tests.harness.guide import run_examples
from tests.semaphore.conftest import place_of

GUIDE = Path(__file__).parents[2] / "docs" / "guide-semaphore.md"
TEXT = GUIDE.read_text()


@pytest.mark.parametrize("kind", ["redis", "holdfast"])
def test_the_examples_run(request: pytest.FixtureRequest, kind: str) -> None:
    """They make the client that they use."""
    asyncio.run(run_examples(GUIDE, TEXT, place_of(request, kind).url))


def test_every_option_key_and_script_is_explained() -> None:
    options = inspect.signature(Semaphore).parameters
    for option in options:
        assert f"`{option}`" in TEXT or option in ("name", "limit"), option
    for key in Names("adv-sem", "gpu").keys.values():
        assert f"`{key}`" in TEXT, key
    for name in names("holdfast.semaphore"):
        assert f"`{name}`" in TEXT, name
