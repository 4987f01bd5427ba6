"""The tests of a program that used fakeredis pass on Holdfast; only their fixture has changed."""

from pathlib import Path

import pytest

from tests.testing.projects import run_project

EXAMPLE = Path(__file__).parent / "example"


@pytest.mark.parametrize(
    ("plugin", "libraries"), [("with_holdfast", []), ("with_fakeredis", ["fakeredis"])]
)
def test_the_example_passes(plugin: str, libraries: list[str]) -> None:
    done = run_project(EXAMPLE, "-p", plugin, libraries=libraries)
    assert done.code == 0, done.text
    assert len(done.results) == 12
    assert set(done.results.values()) == {"PASSED"}


def test_the_fixtures_differ_in_one_place() -> None:
    """The test of the program does not know which server it has."""
    files = {path.name for path in EXAMPLE.glob("*.py")}
    assert files == {"mailroom.py", "test_mailroom.py", "with_fakeredis.py", "with_holdfast.py"}
    for name in ("mailroom.py", "test_mailroom.py"):
        assert "fakeredis" not in (EXAMPLE / name).read_text().partition('"""\n')[2]
