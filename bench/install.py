"""`make bench-install`: how long a new user waits for the first PONG, in empty environments.

One way begins with `git clone` and compiles (`pip install .`), the other one begins with the wheel
that `make install` has built. pip may use its cache, so that the network counts little. The
table shows three sizes: of the wheel, of the installed package, and of the package with its
dependencies.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.common import ROOT, fail, machine, say, workplace
from bench.start import until_pong
from tests.harness.processes import free_port

QUIET = ("--disable-pip-version-check", "-q")


def run(*argv: str | Path) -> None:
    done = subprocess.run([*map(str, argv)], check=False, capture_output=True, text=True)
    if done.returncode:
        fail(f"{argv[0]} failed: {done.stderr[-1000:]}")


class Way:
    """The steps from nothing to the first PONG, each with the seconds that it takes."""

    def __init__(self, folder: Path) -> None:
        self.venv = folder / "venv"
        self.folder = folder
        self.steps_s: dict[str, float] = {}

    def step(self, name: str, action: Callable[[], object]) -> None:
        say(f"{self.folder.name}: {name}")
        started_s = time.perf_counter()
        action()
        self.steps_s[name] = time.perf_counter() - started_s

    def install_and_serve(self, what: Path) -> None:
        """Install a folder or a wheel with its dependencies, serve, and stop at the first PONG."""
        port = free_port()
        argv = [str(self.venv / "bin/holdfast"), "serve", "--port", str(port), "--db", "x.db"]
        self.step("python -m venv", lambda: run(sys.executable, "-m", "venv", self.venv))
        self.step("pip install", lambda: run(self.venv / "bin/pip", "install", *QUIET, what))
        self.step("holdfast serve", lambda: until_pong(argv, port, self.folder / "data"))


def size_mb(path: Path) -> float:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files) / 1e6


def measure(folder: Path, wheel: Path) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    clone, installed = Way(folder / "clone"), Way(folder / "wheel")
    clone.step("git clone", lambda: run("git", "clone", "-q", ROOT, folder / "source"))
    clone.install_and_serve(folder / "source")
    installed.install_and_serve(wheel)
    site = next(installed.venv.glob("lib/python*/site-packages"))
    without = sum(size_mb(each) for each in site.glob("pip*"))
    own = sum(size_mb(each) for each in site.glob("holdfast*"))
    sizes = {
        "wheel": size_mb(wheel),
        "installed": own,
        "with dependencies": size_mb(site) - without,
    }
    return {each.folder.name: each.steps_s for each in (clone, installed)}, sizes


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-install", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    args = parser.parse_args()
    wheels = [*(ROOT / "build/wheel").glob("*.whl")]
    if len(wheels) != 1 or not shutil.which("git"):
        fail("it needs git, and the wheel that `make install` builds")
    with workplace() as folder:
        ways, sizes = measure(folder, wheels[0])
    print("| from | seconds to the first PONG | of them |\n|---|---|---|")
    for name, steps_s in ways.items():
        parts = ", ".join(f"{step} {took_s:.1f}" for step, took_s in steps_s.items())
        print(f"| {name} | {sum(steps_s.values()):.1f} | {parts} |")
    print("\n" + ", ".join(f"{name}: {size:.1f} MB" for name, size in sizes.items()))
    if args.json is not None:
        text = json.dumps({"machine": machine(), "seconds": ways, "megabytes": sizes}, indent=1)
        (ROOT / args.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
