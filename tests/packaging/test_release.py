"""scripts/release.py: its steps before the build. `make release` itself takes minutes."""

import tomllib
from pathlib import Path

import pytest

from scripts import release

CHANGELOG = """# Changelog

## [Unreleased]

### Added

- Something new.

## [0.3.0] - 2027-01-02

### Fixed

- A bug.

## [0.30.0] - 2027-01-01
"""


def test_the_notes_are_the_section_of_the_version() -> None:
    assert release.notes(CHANGELOG, "0.3.0") == "### Fixed\n\n- A bug.\n"


@pytest.mark.parametrize("version", ["0.2.0", "0.30.0", "0x3.0", "Unreleased"])
def test_a_release_without_notes_is_refused(version: str) -> None:
    with pytest.raises(SystemExit) as refusal:
        release.notes(CHANGELOG, version)
    sentence = str(refusal.value)
    assert sentence.startswith(f"release: CHANGELOG.md has no section '## [{version}]")
    assert "\n" not in sentence


def python(folder: Path, name: str, prints: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{prints}\n")
    path.chmod(0o755)
    return str(path)


def test_it_finds_each_supported_cpython_once(tmp_path: Path) -> None:
    first = python(tmp_path, "first", "echo cpython 3 12 final")
    newer = python(tmp_path, "newer", "echo cpython 3 13 final")
    others = [
        python(tmp_path, "again", "echo cpython 3 12 final"),
        python(tmp_path, "old", "echo cpython 3 10 final"),
        python(tmp_path, "other", "echo pypy 3 11 final"),
        python(tmp_path, "alpha", "echo cpython 3 14 alpha"),
        python(tmp_path, "shim", "echo not active >&2; exit 127"),
        str(tmp_path / "gone"),
    ]
    assert release.pythons([newer, first, *others]) == {(3, 12): first, (3, 13): newer}


def test_cibuildwheel_builds_for_the_versions_that_are_promised() -> None:
    pyproject = tomllib.loads((release.ROOT / "pyproject.toml").read_text())
    prefix = "Programming Language :: Python :: 3."
    promised = [
        f"cp3{line.removeprefix(prefix)}-*"
        for line in pyproject["project"]["classifiers"]
        if line.startswith(prefix)
    ]
    assert pyproject["tool"]["cibuildwheel"]["build"].split() == promised
    assert len(promised) >= 3
