"""The files in contrib/: the tools for each format accept them, and the names in them exist.

No image is built and no service is started here: that needs Docker and systemd as process 1.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import BY_NAME
from holdfast.cli.ping_command import parser as ping_parser
from holdfast.server.config.config import Config
from holdfast.server.config.environment import VARIABLES

CONTRIB = Path(__file__).parents[2] / "contrib"
UNIT = CONTRIB / "holdfast.service"
DOCKERFILE = CONTRIB / "Dockerfile"
COMPOSE = CONTRIB / "compose.yaml"


def tool(name: str) -> str:
    """A program on the PATH, or beside this Python."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def values(name: str) -> list[str]:
    """Of one setting in the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


# -- systemd --------------------------------------------------------------------------------------


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there: systemd-analyze looks for it."""
    path = tmp_path / "holdfast.service"
    path.write_text(UNIT.read_text().replace("/opt/holdfast/bin/holdfast", sys.executable))
    return path


def test_systemd_accepts_the_unit(unit: Path) -> None:
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", str(unit)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_is_hardened(unit: Path) -> None:
    """0 is best, 10 is worst. 1.4 when this was written."""
    analyze = [tool("systemd-analyze"), "security", "--offline=true", "--threshold=15", str(unit)]
    done = subprocess.run(analyze, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-200:]


def test_the_unit_runs_what_there_is() -> None:
    (start,) = values("ExecStart")
    _, command, *options = shlex.split(start)
    assert command in BY_NAME
    environ = dict(line.split("=", 1) for line in values("Environment"))
    assert environ.keys() <= VARIABLES.keys()
    assert Config.from_sources(None, options).supervised == "systemd"
    assert values("Type") == ["notify"]
    assert values("RestartPreventExitStatus") == ["2"]


# -- Docker ---------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def of_kind(name: str) -> list[str]:
    return [rest for kind, rest in instructions() if kind == name]


def test_hadolint_accepts_the_dockerfile() -> None:
    done = subprocess.run([tool("hadolint"), str(DOCKERFILE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_checks_itself_and_is_not_root() -> None:
    assert len(of_kind("FROM")) == 2, "the compiler stays in the first stage"
    final = instructions()[[kind for kind, _ in instructions()].index("FROM", 1) :]
    assert "gcc" not in str(final)
    assert of_kind("USER") == ["999:999"]
    assert of_kind("VOLUME") == ["/data"]
    (check,) = of_kind("HEALTHCHECK")
    words = re.findall(r'"([^"]*)"', check)
    assert words[:2] == ["holdfast", "ping"]
    ping_parser().parse_args(words[2:])
    (environ,) = of_kind("ENV")
    named = dict(each.split("=", 1) for each in environ.split())
    assert {name for name in named if name.startswith("HOLDFAST_")} <= VARIABLES.keys()
    assert named["HOLDFAST_DIR"] == "/data"


def test_the_schema_of_compose_accepts_the_file() -> None:
    check = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_compose_names_what_there_is() -> None:
    text = COMPOSE.read_text()
    (dockerfile,) = re.findall(r"dockerfile: (.*)", text)
    assert (COMPOSE.parent.parent / dockerfile).samefile(DOCKERFILE)
    assert {*re.findall(r"HOLDFAST_\w+", text)} <= VARIABLES.keys()
    assert "/run/secrets/holdfast_password" in text
