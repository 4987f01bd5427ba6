"""The source distribution and the wheel that `make install` has built, as a user's pip would, and
the wheels of machines that cannot compile.

For the latter the translation to C is replaced, which takes most of the time.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from holdfast._version import __version__
from tests.harness import HoldfastServer

ROOT = Path(__file__).parents[2]
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
NO_INDEX = "could not find a version", "no matching distribution", "connection"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("PYTHONPATH" in os.environ, reason="PURE=1 and PYTHONPATH build no wheel"),
]


def run(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=200
    )


def pip(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    options = ("--disable-pip-version-check", "--no-input")
    return run(sys.executable, "-m", "pip", *options, *argv, cwd=cwd, **env)


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def can_compile() -> bool:
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(compiler.split()[0]) is not None and headers.exists()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(only(ROOT / "build/sdist", "*.tar.gz")) as file:
        file.extractall(folder, filter="data")
    return only(folder, "*")


@pytest.fixture
def own_source(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "source"))


def test_the_source_distribution_has_what_a_build_needs_and_no_more(source: Path) -> None:
    found = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    listed = run("git", "ls-files", "src", cwd=ROOT).stdout.split()
    made = {name for name in found if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    top = ["CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "SECURITY.md"]
    top += ["docs/holdfast.1", "pyproject.toml", "setup.py"]
    assert {*listed} <= found
    assert {name for name in found - made if not name.startswith("src/")} == {*top}
    assert {Path(name).suffix for name in found if name.startswith("src/holdfast/")} == {
        *(".c", ".lua", ".py", ".pyi", ".sql", ".typed"),
        *(".css", ".html", ".js", ".svg"),  # the dashboard
    }


@pytest.mark.skipif(not can_compile(), reason="there is no C compiler, or no headers of Python")
def test_a_build_in_isolation_is_compiled() -> None:
    wheel = only(ROOT / "build/wheel", "*.whl")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"holdfast-{__version__}-{TAG}-{TAG}-{platform}.whl"
    names = zipfile.ZipFile(wheel).namelist()
    libraries = [name for name in names if name.endswith(".so")]
    for part in (
        "holdfast_store__mypyc",
        "resp/requests",
        "scripting/_gate",
        "rdb/_rdb",
        "resp/_bulks",
        "_score_index",
        "_sorted_names",
        "_string_parts",
        "_xxh3",
    ):
        assert any(part in name for name in libraries), part
    assert "holdfast/not_compiled" not in names
    assert not [name for name in names if name.endswith(".c")]


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    wheel = only(ROOT / "build/wheel", "*.whl")
    venv = tmp_path / "venv"
    assert (
        run(sys.executable, "-m", "venv", "--without-pip", str(venv), cwd=tmp_path).returncode == 0
    )
    done = pip("--python", str(venv), "install", "-q", str(wheel), cwd=tmp_path)
    if done.returncode and any(words in done.stderr.lower() for words in NO_INDEX):
        pytest.skip("the dependencies cannot be fetched: there is no package index")
    assert done.returncode == 0, done.stderr
    expected = "--compiled" if can_compile() else "--not-compiled"
    smoke = str(ROOT / "scripts/smoke.py")
    done = run(str(venv / "bin/python"), smoke, expected, cwd=tmp_path, PYTHONSAFEPATH="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(venv) in done.stdout
    assert (venv / "share/man/man1/holdfast.1").exists()


# How each machine differs from one that can compile: (part of the file name, reason, environment,
# what is done before the build).
CANNOT = {
    "told not to": ("HOLDFAST_PURE", "HOLDFAST_PURE was set", {"HOLDFAST_PURE": "1"}, ""),
    "no compiler": ("no_C_compiler", "no C compiler (no-such-cc)", {"CC": "no-such-cc"}, ""),
    "no headers": (
        "no_headers_of_Python",
        "the headers of Python were missing",
        {},
        "import sysconfig; sysconfig.get_path = lambda *_: '/nowhere'",
    ),
    "no mypy": (
        "no_mypy",
        "mypyc could not be imported",
        {},
        "sys.modules['mypyc.build'] = None",
    ),
    "mypy refuses": (
        "mypy_found_errors",
        "mypy found errors",
        {},
        "stand_in.mypycify = lambda *_, **__: sys.exit(1)",
    ),
    "compiler fails": ("the_compiler_failed", "the C compiler failed", {"CC": "false"}, ""),
}
BUILD = """
import sys, types
from setuptools import Extension, build_meta
stand_in = types.ModuleType("mypyc.build")
stand_in.mypycify = lambda *_, **__: [Extension("holdfast_x", ["x.c"])]
sys.modules["mypyc.build"] = stand_in
{before}
build_meta.build_wheel("out")
"""
MODULE = """
#include <Python.h>
static struct PyModuleDef x = {PyModuleDef_HEAD_INIT, "holdfast_x", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_holdfast_x(void) { return PyModule_Create(&x); }
"""


def build(source: Path, before: str = "", **env: str) -> zipfile.ZipFile:
    (source / "x.c").write_text(MODULE)
    done = run(sys.executable, "-c", BUILD.format(before=before), cwd=source, **env)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(only(source / "out", "*.whl"))


@pytest.mark.parametrize("machine", CANNOT)
def test_a_wheel_that_is_not_compiled_says_why(machine: str, own_source: Path) -> None:
    words, reason, env, before = CANNOT[machine]
    if machine == "compiler fails" and not can_compile():
        pytest.skip("there is no compiler that could fail")
    wheel = build(own_source, before, **{"CC": "cc", **env} if machine == "no headers" else env)
    assert wheel.filename is not None
    name = f"holdfast-{__version__}-0_not_compiled_{words}-py3-none-any.whl"
    assert Path(wheel.filename).name == name
    assert reason in wheel.read("holdfast/not_compiled").decode()
    info = wheel.read(f"holdfast-{__version__}.dist-info/WHEEL").decode()
    assert "Root-Is-Purelib: true" in info
    assert "holdfast/resp/requests.py" in wheel.namelist()
    assert not [each for each in wheel.namelist() if each.endswith(".so")]


@pytest.mark.skipif(not can_compile(), reason="there is no C compiler, or no headers of Python")
def test_a_reason_does_not_outlive_its_build(own_source: Path) -> None:
    build(own_source, CC="false")
    shutil.rmtree(own_source / "out")
    wheel = build(own_source)
    assert wheel.filename is not None
    assert f"-{TAG}-{TAG}-" in wheel.filename
    assert "holdfast/not_compiled" not in wheel.namelist()


def test_pip_and_the_server_say_that_nothing_is_compiled(own_source: Path, tmp_path: Path) -> None:
    """pip hides the output of a build that succeeds, and shows the name of the wheel."""
    options = ("--no-deps", "--no-build-isolation", "--target", str(tmp_path / "installed"))
    done = pip("install", *options, str(own_source), cwd=tmp_path, CC="no-such-cc")
    assert done.returncode == 0, done.stderr
    assert "_not_compiled_no_C_compiler-py3-none-any.whl" in done.stdout
    env = {"PYTHONPATH": str(tmp_path / "installed")}
    with HoldfastServer(tmp_path / "server", db=":memory:", env=env) as server:
        first, *_ = server.stderr.splitlines()
    assert first.endswith("there was no C compiler (no-such-cc)")


@pytest.mark.skipif("PYTHONPATH" in os.environ, reason="servers run from src")
@pytest.mark.skipif(
    shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="nothing to compile with",
)
def test_what_the_tests_use_is_compiled(tmp_path: Path) -> None:
    """Where the compiler refuses a module, the whole package is installed as it is. All other tests
    would pass all the same."""
    script = "from holdfast.server import version as v; print(v.why_not_compiled())"
    argv = [sys.executable, "-c", f"{script}; exit(not v.IS_COMPILED)"]
    found = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
