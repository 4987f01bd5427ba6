"""The command line from the outside: its output, the stream it prints to, and the exit code.

The functions that do the work of `serve` and `check` are replaced here.
"""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from holdfast import __version__
from holdfast.cli.main import COMMANDS, main
from holdfast.errors import StorageError
from holdfast.server.config.config import Config
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.store import FileStore

Capture = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]
Fake = Callable[[str, str, Callable[..., object]], None]


@pytest.fixture
def run(capsys: Capture) -> Run:
    """Runs a command line; its exit code, stdout and stderr."""

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a function in the place of `module.name`."""

    def fake(module: str, name: str, function: Callable[..., object]) -> None:
        stand_in = ModuleType(module)
        setattr(stand_in, name, function)
        monkeypatch.setitem(sys.modules, module, stand_in)

    return fake


@pytest.fixture
def served(fake: Fake) -> list[Config]:
    """The configurations that were served."""
    configs: list[Config] = []

    def serve(config: Config, **options: object) -> int:
        configs.append(config)
        return 0

    fake("holdfast.daemon", "run", serve)
    return configs


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"holdfast {__version__}\n", "")


@pytest.mark.parametrize("argv", [(), ("--help",), ("-h",), ("help",)])
def test_help_names_every_command(run: Run, argv: tuple[str, ...]) -> None:
    code, out, err = run(*argv)
    assert (code, err) == (0, "")
    for command in COMMANDS:
        assert f"  {command.name} " in out
        assert command.summary in out


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_has_help(run: Run, name: str) -> None:
    code, out, err = run(name, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: holdfast {name} ")
    assert max(map(len, out.splitlines())) <= 80
    assert run("help", name) == (0, out, "")


def test_the_guide_has_the_fields_of_every_command_with_json(run: Run) -> None:
    guide = (Path(__file__).parents[2] / "docs/guide-operating.md").read_text()
    names = [command.name for command in COMMANDS if "--json" in run(command.name, "--help")[1]]
    assert "compare" in names
    assert [name for name in names if f"\n| `holdfast {name}" not in guide] == []


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["srve"], "unknown command 'srve' (did you mean 'serve'?)"),
        (["xyzzy"], "unknown command 'xyzzy' (see 'holdfast --help')"),
        (["--verison"], "unknown option '--verison' (did you mean '--version'?)"),
        (["serve", "--foo", "1"], "unknown option '--foo'"),
        (["serve", "--prot", "1"], "unknown option '--prot' (did you mean '--port'?)"),
        (["serve", "--port"], "option '--port': a value is missing"),
        (["serve", "--config"], "option '--config': a value is missing"),
        (["serve", "--config", "--port"], "option '--config': a value is missing"),
        (["serve", "--port", "1", "--config=a", "--config", "b"],
         "more than one configuration file is given; a file can include others"),
        (["serve", "-p", "1"], "unexpected argument '-p'"),
        (["serve", "/nonexistent"],
         "cannot read configuration file /nonexistent: No such file or directory"),
        (["check"], "the following arguments are required: FILE (see 'holdfast check --help')"),
        (["check", "a", "b"], "unrecognized arguments: b (see 'holdfast check --help')"),
        (["backup", "--fast", "a", "b"],
         "unknown option '--fast' (see 'holdfast backup --help')"),
        (["backup", "--rwa"], "unknown option '--rwa' (did you mean '--raw'?)"),
        (["check", "--jsn=1"], "unknown option '--jsn' (did you mean '--json'?)"),
        (["ping", "-x"], "unknown option '-x' (see 'holdfast ping --help')"),
        (["ping", "--timeout", "-1"], "--timeout is a number of seconds above 0"),
        (["builds", "show"], "show takes the id of a build (see 'holdfast builds --help')"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_command_line_is_one_sentence_and_exits_with_2(
    run: Run, argv: list[str], sentence: str
) -> None:
    assert run(*argv) == (2, "", f"holdfast: {sentence}\n")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["check", "/nonexistent"], "cannot read /nonexistent: No such file or directory"),
        (["check", "/"], "cannot read /: Is a directory"),
        (["check", "/dev/null"], "cannot read /dev/null: it is not a regular file"),
        (["backup", "/nonexistent", "x"], "cannot read /nonexistent: No such file or directory"),
    ],
)
def test_a_failure_is_one_sentence_and_exits_with_1(
    run: Run, argv: list[str], sentence: str
) -> None:
    assert run(*argv) == (1, "", f"holdfast: {sentence}\n")


def test_a_broken_line_is_one_sentence(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("port 1\nhz 10 20\n")
    said = f"holdfast: {file}, line 2: directive 'hz': wrong number of arguments\n"
    assert run("serve", "--config", str(file)) == (2, "", said)


def test_serve_reads_file_and_options(run: Run, served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("port 1\nhz 20\n")
    argv = ["--bind", "127.0.0.1", "::1", "--save", "", "--port", "0", "--requirepass", "x"]
    for how in ([str(file), *argv], ["--config", str(file), *argv], [*argv, f"--config={file}"]):
        assert run("serve", *how) == (0, "", "")
        config = served.pop()
        assert (config.port, config.hz, config.bind) == (0, 20, ("127.0.0.1", "::1"))
        assert (config.requirepass, config.file) == (b"x", file)
    assert run("serve") == (0, "", "")
    assert served.pop().file is None
    assert run("serve", str(file), "--requirepass", str(file)) == (0, "", "")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (StorageError("x.db is not a Holdfast file"), "x.db is not a Holdfast file"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "Address already in use"),
        (PermissionError(errno.EACCES, "Permission denied", "a.db"), "a.db: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (StorageError("two\nlines"), "two lines"),
    ],
)
def test_a_server_that_fails_says_why(
    run: Run, fake: Fake, error: Exception, sentence: str
) -> None:
    def fail(config: Config, **options: object) -> int:
        raise error

    fake("holdfast.daemon", "run", fail)
    assert run("serve") == (1, "", f"holdfast: {sentence}\n")


def test_a_bug_is_not_swallowed(fake: Fake) -> None:
    def fail(config: Config, **options: object) -> int:
        raise ZeroDivisionError

    fake("holdfast.daemon", "run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["serve"])


def test_version_as_json(run: Run) -> None:
    code, out, err = run("--version", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out).keys() == {"version", "compiled", "python"}
    assert json.loads(out)["version"] == __version__
    sentence = "holdfast: --version takes --json or nothing, not '--jsn'\n"
    assert run("--version", "--jsn") == (2, "", sentence)


Found = tuple[list[str], list[str]]


@pytest.mark.parametrize(
    ("found", "code", "lines"),
    [
        (([], []), 0, ["no problems found"]),
        (([], ["so and so"]), 0, ["note: so and so", "no problems found"]),
        ((["row 1 is lost", "so is row 2"], []), 1, ["row 1 is lost", "so is row 2"]),
    ],
)
def test_check_prints_problems(
    run: Run, fake: Fake, tmp_path: Path, found: Found, code: int, lines: list[str]
) -> None:
    file = tmp_path / "x.db"
    file.touch()
    fake("holdfast.store.check", "check", lambda path, progress: found)
    assert run("check", str(file)) == (code, "".join(f"{file}: {line}\n" for line in lines), "")
    got_code, out, err = run("check", str(file), "--json")
    assert (got_code, err) == (code, "")
    problems, notes = found
    assert json.loads(out) == {
        "file": str(file), "ok": not problems, "problems": problems, "notes": notes
    }  # fmt: skip


def test_backup_copies_to_a_new_file(run: Run, tmp_path: Path) -> None:
    source, folder = tmp_path / "x.db", tmp_path / "to"
    FileStore(source).close()
    folder.mkdir()
    for dest in (tmp_path / "y.db", folder):
        new = folder / "x.db" if dest == folder else dest
        code, out, err = run("backup", str(source), str(dest))
        assert (code, err) == (0, "")
        assert out == f"{source} copied to {new} ({new.stat().st_size:,} bytes)\n"
        again = f"holdfast: {new} exists; a backup does not overwrite anything\n"
        assert run("backup", str(source), str(dest)) == (1, "", again)
    nowhere = tmp_path / "no"
    for words in (["backup", str(source)], ["export", "--db", str(source)]):
        for named in (f"{nowhere}/", f"{nowhere}/y.db"):
            code, out, err = run(*words, named)
            assert (code, out) == (1, "")
            assert err == f"holdfast: cannot write {named}: there is no folder {nowhere}\n"
            assert not nowhere.exists()


@pytest.mark.parametrize("argv", [["check"], ["backup"]])
def test_an_empty_file_has_no_database(run: Run, tmp_path: Path, argv: list[str]) -> None:
    file = tmp_path / "x.db"
    file.touch()
    dest = [str(tmp_path / "y.db")] if argv == ["backup"] else []
    said = f"holdfast: {file} is empty: it has no database\n"
    assert run(*argv, str(file), *dest) == (1, "", said)
    assert file.stat().st_size == 0


def test_backup_says_when_it_is_not_folded(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "x.db"
    store = FileStore(source)
    store.keyspace.databases[0].set_string(b"k", b"v")
    store.commit()
    store.abandon()
    dest = tmp_path / "raw.db"
    note = "it is not folded, as asked: its views may lack the newest changes"
    code, out, err = run("backup", str(source), str(dest), "--raw")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{dest}: note: {note}"
    for words, name, is_folded in (([], "a.db", True), (["--raw"], "b.db", False)):
        dest = tmp_path / name
        code, out, err = run("backup", str(source), str(dest), "--json", *words)
        assert (code, err) == (0, "")
        assert json.loads(out) == {
            "source": str(source), "backup": str(dest), "bytes": dest.stat().st_size,
            "schema_version": SCHEMA_VERSION, "folded": is_folded,
            "notes": [] if is_folded else [note],
        }  # fmt: skip


def test_a_backup_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM comes when the copy is begun: a service manager stops a backup like this."""
    FileStore(tmp_path / "x.db").close()
    (tmp_path / "to").mkdir()
    code = (
        "import os, signal, sys; from holdfast.store.file import copying;"
        "copying.new_token = lambda: os.kill(os.getpid(), signal.SIGTERM) or b'';"
        "from holdfast.cli.main import main; sys.exit(main())"
    )
    argv = [sys.executable, "-c", code, "backup", "x.db", "to"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize("words", [["check"], ["check", "--json"], ["backup"], ["serve", "--db"]])
def test_a_name_that_is_not_utf8_is_one_sentence(tmp_path: Path, words: list[str]) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.db"
    os.close(os.open(path, os.O_CREAT))
    more = ["y.db"] if words == ["backup"] else ["--port", "0"] if words[0] == "serve" else []
    argv: list[str | bytes] = [sys.executable, "-m", "holdfast", *words, path, *more]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=50)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"its name is not UTF-8\n" in done.stderr
    assert b"Traceback" not in done.stderr


def test_interrupting_is_quiet(run: Run, fake: Fake) -> None:
    def interrupt(config: Config, **options: object) -> int:
        raise KeyboardInterrupt

    fake("holdfast.daemon", "run", interrupt)
    assert run("serve") == (130, "", "")


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--foo"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "holdfast: unknown option '--foo'\n"


def test_output_into_a_closed_pipe_is_no_traceback() -> None:
    read = f"{sys.executable} -m holdfast --help | true"
    done = subprocess.run(["sh", "-c", read], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_output_is_no_failure(tmp_path: Path, closed: str) -> None:
    FileStore(tmp_path / "x.db").close()
    run = f"{sys.executable} -m holdfast check x.db {closed}"
    done = subprocess.run(["sh", "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("" if ">&-" in closed.split() else "x.db: no problems found\n")


def test_asking_for_the_version_does_not_load_a_server() -> None:
    code = (
        "import sys; from holdfast.cli.main import main; main(['--version']);"
        "print([name for name in sys.modules if 'holdfast.server' in name or name == 'apsw'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"holdfast {__version__}\n[]\n", done.stderr
