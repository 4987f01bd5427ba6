"""Mistakes of users, with real processes: one clear sentence on stderr, no traceback, and an
unchanged file. The exit code is 2 where the configuration is wrong, and 1 otherwise."""

import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.store.store import FileStore
from tests.harness import HoldfastServer

LOGGED = re.compile(r"\d{4}-\S+Z \d+ (notice|warning) ")


def serve(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "holdfast", "serve", "--port", "0", *args]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=50)


def complaint(result: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """The one sentence. Lines of the log may stand before it if the configuration is right."""
    assert result.returncode == code, result
    assert result.stdout == ""
    *logged, sentence = result.stderr.splitlines(keepends=True)
    assert sentence.startswith("holdfast: ")
    assert all(LOGGED.match(line) for line in logged), result.stderr
    assert code == 1 or not logged
    return sentence


def everything(folder: Path) -> dict[str, bytes | None]:
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


# -- options and configuration --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--prot", "7000"], "unknown option '--prot' (did you mean '--port'?)"),
        (["--appendfsync", "sometimes"], "option '--appendfsync': "),
        (["--maxmemory"], "option '--maxmemory': a value is missing"),
        (["--databases", "1025"], "option '--databases': "),
        (["--config", "missing.conf"], "cannot read configuration file missing.conf"),
        (["--config", "bad.conf"], "bad.conf, line 2: "),
        (["--config", "quotes.conf"], "quotes.conf, line 1: unbalanced quotes"),
        (["--aclfile", "missing.acl"], "missing.acl: No such file or directory\n"),
        (["--aclfile", "bad.conf"], "aclfile: bad.conf:1: line should start with user keyword"),
        (["--rename-command", "NOPE", "x"], "rename-command: there is no command 'nope'"),
        (["--tls-port", "1"], "tls-port needs a certificate"),
        (["--peer", "redis://127.0.0.1:1"], "peer and node-id are for servers with active-active"),
    ],
)
def test_options_and_configuration(tmp_path: Path, args: list[str], words: str) -> None:
    (tmp_path / "bad.conf").write_text("# fine\nprot 7000\n")
    (tmp_path / "quotes.conf").write_text('requirepass "secret\n')
    before = everything(tmp_path)
    assert words in complaint(serve(tmp_path, *args), 2)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--bind", "300.1.1.1"], "cannot listen on 300.1.1.1:0: "),
        (["--unixsocket", "taken"], "cannot listen on "),
        (["--unixsocket", "no/such/folder.sock"], "cannot listen on "),
        (["--logfile", "no/such/folder.log"], "no/such/folder.log: No such file or directory"),
    ],
)
def test_places_that_cannot_be_had(tmp_path: Path, args: list[str], words: str) -> None:
    """A later start may succeed with the same configuration, so this is no mistake in it."""
    (tmp_path / "taken").touch()
    before = everything(tmp_path)
    assert words in complaint(serve(tmp_path, *args))
    assert everything(tmp_path) == before


@pytest.mark.parametrize("url", ["memory://", "redis+cluster://127.0.0.1:1", "tcp://127.0.0.1:1"])
def test_the_url_of_a_peer_names_the_schemes_that_peers_have(tmp_path: Path, url: str) -> None:
    args = ["--active-active", "--node-id", "1", "--peer", url]
    said = complaint(serve(tmp_path, *args), 2)
    assert said == "holdfast: peer: a URL begins with one of redis://, rediss://, unix://\n"


def test_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = complaint(serve(tmp_path, "--port", str(port)))
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in sentence
    assert os.listdir(tmp_path) == []


# -- the file -------------------------------------------------------------------------------------


def text_file(path: Path) -> None:
    path.write_text("dear diary\n" * 100)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def foreign_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    connection.close()


def newer_database(path: Path) -> None:
    FileStore(path).close()
    connection = apsw.Connection(str(path))
    list(connection.execute("PRAGMA journal_mode = DELETE; PRAGMA user_version = 99"))
    connection.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (text_file, "is not a SQLite database"),
        (short_file, "is not a SQLite database"),
        (foreign_database, "is a SQLite database, but not one of Holdfast's"),
        (newer_database, "has schema version 99"),
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is not a regular file"),
    ],
)
def test_files_that_are_not_ours(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    """For every command that takes a file."""
    make(tmp_path / "x.db")
    before = everything(tmp_path)
    assert words in complaint(serve(tmp_path, "--db", "x.db"))
    for args in (["check", "x.db"], ["backup", "x.db", "y.db"], ["export", "--db", "x.db", "y"]):
        argv = [sys.executable, "-m", "holdfast", *args]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=50)
        assert words in complaint(done)
    assert everything(tmp_path) == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    sentence = complaint(serve(tmp_path, "--db", "nowhere/x.db"))
    assert "nowhere/x.db: No such file or directory" in sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch(0o000)
    assert "x.db: Permission denied" in complaint(serve(tmp_path, "--db", "x.db"))


def test_a_file_that_is_being_served(
    tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> None:
    server = start_server(db=tmp_path / "x.db")
    client = server.client()
    client.command("SET", "k", "v")
    sentence = complaint(serve(tmp_path, "--db", "x.db"))
    assert f"x.db is already open by process {server.pid}" in sentence
    assert client.command("GET", "k") == b"$1\r\nv\r\n"
    assert server.terminate() == 0


def test_a_file_with_two_names(tmp_path: Path, start_server: Callable[..., HoldfastServer]) -> None:
    """The second name has neither the lock nor the WAL of the first."""
    server = start_server(db=tmp_path / "x.db")
    server.client().command("SET", "k", "v")
    (tmp_path / "y.db").hardlink_to(tmp_path / "x.db")
    assert "y.db has 2 names (hard links)" in complaint(serve(tmp_path, "--db", "y.db"))
    assert {path.name for path in tmp_path.glob("y.db*")} == {"y.db"}
    argv = [sys.executable, "-m", "holdfast", "check", "y.db"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert "y.db: note: " in done.stdout
    assert "changes in the WAL of another name are not seen" in done.stdout
    assert server.terminate() == 0


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    FileStore(path).close()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    complaint(serve(tmp_path, "--db", "x.db"))


@pytest.fixture
def small_limit() -> Callable[[], None]:
    """Makes files of more than a few pages impossible, as a full disk would."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))


def test_a_disk_that_is_full_from_the_start(
    tmp_path: Path, small_limit: Callable[[], None]
) -> None:
    argv = [sys.executable, "-B", "-m", "holdfast", "serve", "--port", "0", "--db", "x.db"]
    result = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=50, preexec_fn=small_limit
    )
    assert "cannot open " in complaint(result)
    assert "x.db-lock" not in os.listdir(tmp_path)
