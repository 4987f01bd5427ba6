"""The assertions of _gate.c hold. Python compiles extensions without assertions (NDEBUG). So this
test compiles the gate with them, and runs tests of the gate on it in another process. An assertion
that does not hold ends that process."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "holdfast" / "scripting" / "_gate.c"
TESTS = "tests/scripting/test_gate.py"
CHOICE = "lupa or one_script or threads or forgotten or pass_through or ended_leaves"

RUN = f"""
import sys
import holdfast.scripting
holdfast.scripting.__path__.insert(0, sys.argv[1])
from holdfast.scripting import _gate
assert _gate.__file__.startswith(sys.argv[1])
import pytest
sys.exit(pytest.main([
    *("-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported"),
    *({TESTS!r}, "-k", {CHOICE!r}),
]))
"""


def compiler() -> str:
    name = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    if (
        sys.platform != "linux"
        or which(name) is None
        or not Path(sysconfig.get_path("include"), "Python.h").exists()
    ):
        pytest.skip("no Linux, no C compiler, or no headers of Python")
    return name


@pytest.mark.source_only
@pytest.mark.timeout(300)  # some seconds, and a compiler
def test_the_assertions_of_the_gate_hold(tmp_path: Path) -> None:
    library = tmp_path / f"_gate{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    build = [compiler(), "-shared", "-fPIC", "-UNDEBUG", include, str(SOURCE), "-o", str(library)]
    subprocess.run(build, check=True)
    assert b"PyGILState_Check" in library.read_bytes(), "the assertions are compiled"
    tests = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
