"""A fixture for the examples."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.example import Example


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Example]:
    """The example that test_….py is named after, beside a server that is empty."""
    name = request.module.__name__.rpartition("test_")[2]
    with Example(name, tmp_path) as example:
        yield example
