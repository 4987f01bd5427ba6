"""`holdfast --print-completion`, in a real shell, and the man page, which has the same source."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import COMMANDS, main
from scripts import generate_man

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def script(capsys: Capture) -> str:
    assert main(["--print-completion", "bash"]) == 0
    return capsys.readouterr().out


def completed(script: str, *words: str) -> set[str]:
    """The words that bash offers for the last word of a command line."""
    line = "(holdfast " + " ".join(f"'{word}'" for word in words) + ")"
    ask = f'COMP_WORDS={line}; COMP_CWORD={len(words)}; _shtab_holdfast; echo "${{COMPREPLY[@]}}"'
    argv = ["bash", "--norc", "-c", f"{script}\n{ask}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return {*done.stdout.split()}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
class TestBash:
    def test_it_completes_commands(self, script: str) -> None:
        assert completed(script, "") >= {command.name for command in COMMANDS}
        assert completed(script, "ba") == {"backup"}

    def test_it_completes_options(self, script: str) -> None:
        assert completed(script, "serve", "--app") == {"--appendfsync"}
        assert "--url" in completed(script, "builds", "--")

    def test_it_completes_values(self, script: str) -> None:
        assert completed(script, "serve", "--appendfsync", "e") == {"everysec"}
        assert completed(script, "builds", "re") == {"replay", "retry"}

    def test_it_completes_file_names(self, script: str, tmp_path: Path) -> None:
        path = str(tmp_path / "my.db")
        Path(path).touch()
        assert completed(script, "check", path[:-3]) == {path}
        assert completed(script, "serve", "--db", path[:-3]) == {path}


def test_zsh_has_a_script_too(capsys: Capture) -> None:
    assert main(["--print-completion", "zsh"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("#compdef holdfast\n")
    assert all(f"{command.name}:" in out for command in COMMANDS)


@pytest.mark.parametrize("words", [[], ["tcl"], ["bash", "zsh"]])
def test_it_takes_one_shell(words: list[str], capsys: Capture) -> None:
    assert main(["--print-completion", *words]) > 0
    assert capsys.readouterr() == (
        "",
        "holdfast: --print-completion takes the name of a shell: bash or zsh\n",
    )


def test_without_shtab_it_says_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) > 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install shtab" in err


def test_the_man_page_is_up_to_date() -> None:
    assert generate_man.TARGET.read_text() == generate_man.generate(), "run `make docs`"


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_finds_nothing_wrong_with_the_man_page() -> None:
    argv = ["groff", "-man", "-Tascii", "-ww", str(generate_man.TARGET)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(".\x08", "", done.stdout)  # bold, as a typewriter does it
    for command in COMMANDS:
        assert f"   holdfast {command.name}\n" in text
