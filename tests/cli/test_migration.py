"""`holdfast import` and `holdfast export` as a user sees them: sentences, exit codes, JSON."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.main import main
from tests.harness import wait_until
from tests.migration.conftest import text
from tests.migration.conftest import write_rdb as write_rdb
from tests.migration.test_importing import with_module

Run = Callable[..., tuple[int, str, str]]
WriteRdb = Callable[..., Path]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`main` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        return code, *capsys.readouterr()

    return call


def test_in_and_out(run: Run, write_rdb: WriteRdb) -> None:
    write_rdb([text(b"a"), text(b"b", database=2), text(b"dead", at_ms=1)])
    assert run("import", "dump.rdb", "--db", "app.db") == (
        0,
        "dump.rdb: 2 keys (2 string) imported into app.db\n1 had expired\n",
        "",
    )
    code, out, err = run("export", "--db", "app.db", "out.rdb")
    size = Path("out.rdb").stat().st_size
    assert (code, err) == (0, "")
    assert out == f"app.db: 2 keys (2 string) exported to out.rdb ({size} bytes)\n"


def test_json(run: Run, write_rdb: WriteRdb) -> None:
    write_rdb([text(b"a"), text(b"b", database=2), text(b"dead", at_ms=1)])
    code, out, err = run("import", "dump.rdb", "--db", "app.db", "--match", "[ad]*", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "source": "dump.rdb",
        "db": "app.db",
        "dry_run": False,
        "keys": 1,
        "types": {"string": 1},
        "databases": [0],
        "libraries": 0,
        "expired": 1,
        "unmatched": 1,
        "present": 0,
        "left_out": 0,
        "problems": [],
        "notes": [],
    }
    code, out, err = run("export", "--db", "app.db", "out.rdb", "--json")
    found = json.loads(out)
    assert (found["db"], found["target"], found["keys"]) == ("app.db", "out.rdb", 1)
    assert found["bytes"] == Path("out.rdb").stat().st_size


def test_a_dry_run_names_what_does_not_fit(run: Run) -> None:
    Path("dump.rdb").write_bytes(with_module())
    code, out, err = run("import", "dump.rdb", "--db", "app.db", "--dry-run")
    assert (code, err) == (1, "")
    assert out == (
        "left out: key 'vectors' of database 0 is of the type vectorset of a module, which"
        " Holdfast does not have\n"
        "dump.rdb: 1 key (1 string) would go into app.db\n"
        "1 did not fit\n"
    )
    assert run("import", "dump.rdb", "--db", "app.db", "--dry-run", "--skip-unknown")[0] == 0
    assert sorted(os.listdir()) == ["dump.rdb"]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["import"], "the following arguments are required: SOURCE, --db (see 'holdfast import"),
        (["import", "x"], "the following arguments are required: --db"),
        (["import", "x", "--db", "y", "--db-map", "1"], "--db-map takes two numbers, such as 1:0"),
        (["import", "x", "--db", "y", "--db-map", "1:-2"], "--db-map takes two numbers"),
        (["import", "x", "--db", "y", "--db-map=1:2", "--db-map=1:3"], "names database 1 twice"),
        (["import", "x", "--db", "y", "--merge", "--replace"], "not allowed with argument"),
        (
            ["import", "x", "--db", "y", "--databases", "0"],
            "--databases is a number from 1 to 1,024",
        ),
        (["import", "x", "--db", "y", "--databases", "1025"], "--databases is a number from 1 to"),
        (["import", "redis://h:x", "--db", "y"], "the port in the URL is no whole number"),
        (["import", "x", "--db", "y", "--via", "scan"], "--via and --follow are for servers"),
        (["import", "redis://h", "--db=y", "--follow", "--dry-run"], "--follow needs PSYNC"),
        (["import", "x", "--db", ":memory:"], "--db takes a file"),
        (["export", "--db", "y", "memory://"], "a server has a URL such as redis://host:6379"),
        (["import", "http://host", "--db", "y"], "such as redis://host:6379, not http://"),
        (["export", "--db", "y", "redis://h:0"], "the port is 0; it must be between 1 and 65535"),
        (["export", "--db", "y", "redis://h", "--format=redis8"], "--format is for files"),
        (["export", "--db", "y", "z", "--format", "rdb"], "invalid choice: 'rdb'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exits_with_2(
    run: Run, argv: list[str], sentence: str
) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("holdfast: ")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["import", "missing", "--db", "y"], "cannot read missing: No such file or directory"),
        (["import", "there", "--db", "no/y"], "/no/y: No such file or directory"),
        (["import", "there", "--db", "y"], "there is not an RDB file"),
        (["import", ".", "--db", "y"], ". has no manifest of append-only files"),
        (["import", "there", "--db", "there"], "there is not a SQLite database"),
        (["export", "--db", "missing", "z"], "cannot read missing: No such file or directory"),
        (["export", "--db", "there", "there"], "there is the database file: name another file"),
        (["export", "--db", "there", "there", "--replace"], "there is the database file"),
        (["export", "--db", "there", "/dev/null", "--replace"], "/dev/null is not a regular file"),
        (["export", "--db", "there", "."], ". is a folder; name the file in it"),
        (["export", "--db", "there", "z"], "there is not a SQLite database"),
        (["export", "--db", "there", "no/z"], "cannot write no/z: there is no folder no"),
    ],
)
def test_a_failure_is_one_sentence_and_exits_with_1(
    run: Run, argv: list[str], sentence: str
) -> None:
    Path("there").write_text("nothing that anybody knows" * 10)
    code, out, err = run(*argv)
    assert (code, out) == (1, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert os.listdir() == ["there"]


def test_names_that_are_not_utf8(write_rdb: WriteRdb, tmp_path: Path) -> None:
    """Keys may have such names, and so may RDB files. SQLite opens no such file."""
    write_rdb([text(b"\xff\n"), text(b"\xfe")]).rename(
        os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    )

    def run(*words: str | bytes) -> tuple[int, bytes]:
        argv: list[str | bytes] = [sys.executable, "-m", "holdfast", *words]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=50)
        return done.returncode, done.stderr

    assert run("import", b"\xff", "--db", "app.db", "--match", b"\xff*") == (0, b"")
    code, error = run("import", b"\xff", "--db", b"\xff.db")
    assert (code, b"its name is not UTF-8\n" in error) == (1, True)
    assert run("export", "--db", "app.db", b"\xfe.rdb") == (0, b"")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupted_import_leaves_nothing(
    write_rdb: WriteRdb, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    data = write_rdb([text(b"%d" % number) for number in range(100)]).read_bytes()
    folder, pipe = tmp_path / "data", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    argv = [sys.executable, "-m", "holdfast", "import", str(pipe), "--db", str(folder / "app.db")]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        pipe.open("wb") as file,
    ):
        file.write(data[:-50])
        file.flush()
        wait_until((folder / ".app.db.importing").exists, "the import has begun")
        process.send_signal(number)
        out, err = process.communicate(timeout=50)
    assert (process.returncode, out, err) == (code, b"", b"")
    assert list(folder.iterdir()) == []
