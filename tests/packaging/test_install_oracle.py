"""scripts/install-oracle with an apt-get that is ours, on a PATH without redis-server."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import wait_until

SCRIPT = Path(__file__).parents[2] / "scripts/install-oracle"
TOOLS = ("sh", "chmod", "grep", "mktemp", "rm", "seq", "flock", "touch", "cat")

# What apt-get prints when another one runs, for its three locks.
LOCKED = [
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)",
    "E: Could not get lock /var/cache/apt/archives/lock. It is held by process 7 (apt-get)",
    "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)",
]

pytestmark = pytest.mark.skipif(not shutil.which("flock"), reason="flock is not installed")


def prepare(folder: Path, apt: str) -> None:
    for name in TOOLS:
        (folder / name).symlink_to(shutil.which(name) or "")
    programs = {
        "apt-get": f'echo "$@" >>calls\n{apt}',
        "id": "touch asked; echo 0",
        "sleep": "touch slept",
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\ncd {folder}\n{text}\n")
        (folder / name).chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder), "TMPDIR": str(folder), "POLICY_RC_D": str(folder / "policy")}


def run(folder: Path, apt: str) -> subprocess.CompletedProcess[str]:
    prepare(folder, apt)
    argv = ["sh", str(SCRIPT)]
    return subprocess.run(argv, env=environment(folder), cwd=folder, capture_output=True, text=True)


def calls(folder: Path) -> list[str]:
    lines = (folder / "calls").read_text().splitlines()
    return [line.split("Timeout=300 ")[1].split()[0] for line in lines]


INSTALLS = "touch redis-server; chmod +x redis-server"


@pytest.mark.parametrize("line", LOCKED)
def test_it_waits_while_another_apt_holds_a_lock(line: str, tmp_path: Path) -> None:
    apt = f'[ -e slept ] && {{ {INSTALLS}; exit 0; }}\necho "{line}" >&2; exit 100'
    done = run(tmp_path, apt)
    assert done.returncode == 0
    assert "SKIPPED" not in done.stderr
    assert calls(tmp_path) == ["install", "install"]
    assert not (tmp_path / "policy").exists()


def test_it_updates_the_lists_when_the_package_is_unknown(tmp_path: Path) -> None:
    apt = 'case "$*" in *update*) touch lists; exit 0;; esac\n'
    apt += f"[ -e lists ] && {{ {INSTALLS}; exit 0; }}\n"
    apt += "echo 'E: Unable to locate package' >&2; exit 100"
    assert "SKIPPED" not in run(tmp_path, apt).stderr
    assert calls(tmp_path) == ["install", "update", "install"]
    assert not (tmp_path / "slept").exists()


def test_it_gives_up_at_other_errors_and_says_why(tmp_path: Path) -> None:
    done = run(tmp_path, 'echo "E: Failed to fetch the lists" >&2; exit 100')
    assert done.returncode == 0
    assert "E: Failed to fetch the lists\n" in done.stderr
    assert "oracle tests will be SKIPPED" in done.stderr
    assert calls(tmp_path) == ["install", "update"]
    assert not {"policy", "slept"} & {*os.listdir(tmp_path)}


def test_two_at_once_install_once(tmp_path: Path) -> None:
    prepare(tmp_path, f"{INSTALLS}; exit 0")
    with (tmp_path / "install-oracle.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the first one
        with subprocess.Popen(
            ["sh", str(SCRIPT)], env=environment(tmp_path), cwd=tmp_path
        ) as second:
            wait_until((tmp_path / "asked").exists, "the second one has missed redis-server")
            (tmp_path / "redis-server").touch(0o755)
            fcntl.flock(lock, fcntl.LOCK_UN)
    assert second.returncode == 0
    assert not (tmp_path / "calls").exists()
