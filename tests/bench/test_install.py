"""The benchmark of installations: its steps and sums. The installations themselves are replaced."""

from pathlib import Path

import pytest

from bench import install
from bench.common import ROOT


def test_both_ways_end_with_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(*argv: str | Path) -> None:
        words = [str(word).replace(str(tmp_path), "") for word in argv]
        ran.append(" ".join(words[1:]))
        if "install" in words:
            site = Path(argv[0]).parent.parent / "lib/python3/site-packages"
            for name, size in {"holdfast/x.py": 3, "apsw/x.so": 2, "pip/x.py": 9}.items():
                (site / name).parent.mkdir(parents=True)
                (site / name).write_bytes(bytes(size * 1_000_000))

    def until_pong(argv: list[str], port: int, folder: Path) -> None:
        ran.append(" ".join(argv[1:2]))

    monkeypatch.setattr(install, "run", run)
    monkeypatch.setattr(install, "until_pong", until_pong)
    wheel = tmp_path / "holdfast.whl"
    wheel.write_bytes(bytes(1_000_000))
    ways, sizes = install.measure(tmp_path, wheel)
    quiet = " ".join(install.QUIET)
    assert ran == [
        f"clone -q {ROOT} /source",
        *("-m venv /clone/venv", f"install {quiet} /source", "serve"),
        *("-m venv /wheel/venv", f"install {quiet} /holdfast.whl", "serve"),
    ]
    last = ["python -m venv", "pip install", "holdfast serve"]
    assert {name: [*steps] for name, steps in ways.items()} == {
        "clone": ["git clone", *last],
        "wheel": last,
    }
    assert sizes == {"wheel": 1.0, "installed": 3.0, "with dependencies": 5.0}
