"""`make release`: the files of a release in dist/, built, checked and tried out.

The source distribution, a wheel of it for each CPython of this machine from 3.11 on, and the notes
from CHANGELOG.md. Nothing is uploaded. A wheel is built in isolation, must be compiled, and must
pass scripts/smoke.py in an empty environment. The configuration of cibuildwheel in pyproject.toml
is for other machines.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Never

from holdfast._version import __version__

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
OLDEST = (3, 11)
ASK = "import sys; print(sys.implementation.name, *sys.version_info[:2], sys.version_info[3])"


def fail(sentence: str) -> Never:
    sys.exit(f"release: {sentence}")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a program of the command line


def run(*argv: str | Path, cwd: Path = ROOT) -> str:
    """Run a program and return its output. If it fails, exit with the last lines of that output."""
    words = [str(word) for word in argv]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words,
        check=False,
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        fail(f"{' '.join(words)} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading. Exits if there is none."""
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        fail(
            f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD' with entries:"
            " move those of [Unreleased] there first"
        )
    return found[1].strip() + "\n"


def pythons(candidates: Iterable[str]) -> dict[tuple[int, int], str]:
    """The first working CPython of each version that Holdfast supports."""
    found: dict[tuple[int, int], str] = {}
    for path in candidates:
        try:
            asked = subprocess.run(
                [path, "-c", ASK], check=False, capture_output=True, text=True, timeout=20
            )
        except OSError:
            continue
        name, *numbers = asked.stdout.split() or ["none"]  # a shim of pyenv may fail
        if name == "cpython" and numbers[2] == "final":
            version = (int(numbers[0]), int(numbers[1]))
            if version >= OLDEST:
                found.setdefault(version, path)
    return dict(sorted(found.items()))


def candidates() -> Iterator[str]:
    yield sys.executable
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield from sorted(map(str, Path(folder).glob("python3.[0-9][0-9]")))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(map(str, pyenv.glob("versions/*/bin/python3.[0-9][0-9]")), reverse=True)


def build_sdist() -> Path:
    code = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    run(sys.executable, "-c", code)
    return DIST / f"holdfast-{__version__}.tar.gz"


def build_wheel(python: str, sdist: Path, folder: Path) -> Path:
    """Build a wheel in isolation and try it out."""
    builder, empty = folder / "builder", folder / "empty"
    run(python, "-m", "venv", builder)
    pip = [str(builder / "bin/pip"), "--disable-pip-version-check"]
    made = folder / "made"
    run(*pip, "wheel", "--no-deps", "--no-cache-dir", "--wheel-dir", made, sdist)
    (wheel,) = made.glob("*.whl")
    if "not_compiled" in wheel.name:
        fail(f"{wheel.name} is not compiled, so it is no release for {python}")
    run(python, "-m", "venv", empty)
    run(empty / "bin/pip", "--disable-pip-version-check", "install", wheel)
    say(run(empty / "bin/python", ROOT / "scripts/smoke.py", "--compiled", cwd=folder).strip())
    return Path(shutil.move(wheel, DIST / wheel.name))


def placeholders() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [name for name, url in project["urls"].items() if ".example" in url]


def main() -> None:
    text = notes((ROOT / "CHANGELOG.md").read_text(), __version__)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sdist = build_sdist()
    wheels = []
    for version, python in pythons(candidates()).items():
        say(f"building a wheel for CPython {version[0]}.{version[1]} with {python}")
        with tempfile.TemporaryDirectory() as folder:
            wheels.append(build_wheel(python, sdist, Path(folder)))
    tools = ROOT / "build/release-venv/bin"
    say(run(tools / "twine", "check", "--strict", sdist, *wheels).strip())
    say(run(tools / "check-wheel-contents", *wheels).strip())
    (DIST / "RELEASE-NOTES.md").write_text(text)
    for path in sorted(DIST.iterdir()):
        say(f"{path.stat().st_size:>12,} {path.relative_to(ROOT)}")
    if names := placeholders():
        say(f"before an upload: [project.urls] has no real address for {', '.join(names)}")
    if any("-linux_" in wheel.name for wheel in wheels):
        say("before an upload: linux wheels run on this system; cibuildwheel makes portable ones")


if __name__ == "__main__":
    main()
