"""The examples of docs/guide-testing.md run, each as a file of tests."""

import re
from pathlib import Path

from tests.testing.projects import ROOT, run_project

GUIDE = ROOT / "docs" / "guide-testing.md"


def test_examples_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    tests = [block for block in blocks if "def test_" in block]
    assert len(tests) == 5
    for number, block in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(block)
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    )
    done = run_project(tmp_path, "-p", "no:cacheprovider", libraries=["pytest-asyncio"])
    assert done.code == 0, done.text
