"""A server's life as a process: how it begins to listen, and how it leaves."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.store.check import check_file
from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.store.file.test_opening import make_old

Start = Callable[..., HoldfastServer]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_folds(start_server: Start, number: signal.Signals) -> None:
    server = start_server()
    client = server.client()
    client.send(b"".join(encode_command("SET", f"k{n}", "v" * 100) for n in range(5000)))
    assert client.read_reply() == b"+OK\r\n"  # the others are on their way
    server.process.send_signal(number)
    answered = client.read_until_closed().count(b"+OK\r\n") + 1
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.stderr
    assert {*os.listdir(server.folder)} == {"stdout", "stderr", "holdfast.db"}
    assert check_file(Path(server.db)) == []
    server.start()
    client = server.client()
    for n in range(answered):
        assert client.command("EXISTS", f"k{n}") == b":1\r\n"
    assert b"holdfast_recovered_ops:0\r\n" in client.command("INFO", "persistence")


def test_a_closed_terminal_does_not_stop_it(start_server: Start) -> None:
    server = start_server(db=":memory:")
    client = server.client()
    server.process.send_signal(signal.SIGHUP)
    assert client.command("PING") == b"+PONG\r\n"
    assert server.terminate() == 0


def test_blocked_and_idle_clients_are_let_go(start_server: Start) -> None:
    server = start_server()
    blocked, idle = server.client(), server.client()
    blocked.send_command("BLPOP", "k", 0)
    assert idle.command("PING") == b"+PONG\r\n"
    assert server.terminate() == 0
    assert blocked.read_until_closed() == b""
    assert idle.read_until_closed() == b""


@pytest.mark.parametrize("words", [(), ("SAVE",), ("NOW", "FORCE")])
def test_shutdown(start_server: Start, words: tuple[str, ...]) -> None:
    server = start_server()
    client = server.client()
    client.send(encode_command("SET", "k", "v") + encode_command("SHUTDOWN", *words))
    assert client.read_until_closed() == b"+OK\r\n"
    assert server.process.wait(30) == 0
    server.start()
    assert server.client().command("GET", "k") == b"$1\r\nv\r\n"


@pytest.mark.parametrize("appendfsync", ["always", "everysec", "no"])
def test_shutdown_nosave_leaves_the_journal_and_loses_nothing(
    start_server: Start, appendfsync: str
) -> None:
    server = start_server("--appendfsync", appendfsync)
    client = server.client()
    client.send(encode_command("SET", "k", "v") + encode_command("SHUTDOWN", "NOSAVE"))
    assert client.read_until_closed() == b"+OK\r\n"
    assert server.process.wait(30) == 0
    server.start()
    client = server.client()
    assert client.command("GET", "k") == b"$1\r\nv\r\n"
    assert b"holdfast_recovered_ops:2\r\n" in client.command("INFO", "persistence")


def test_a_second_signal_leaves_at_once(start_server: Start) -> None:
    """While it waits for a client that does not read."""
    server = start_server("--shutdown-timeout", "600")
    slow, client = server.client(), server.client()
    client.command("SET", "big", b"x" * (1 << 20))
    slow.send(encode_command("GET", "big") * 100)
    assert slow.read_raw(1) == b"$"
    server.process.send_signal(signal.SIGTERM)
    assert client.read_until_closed() == b""
    assert server.running
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 1
    server.start()
    assert server.client().command("STRLEN", "big") == b":1048576\r\n"


def test_a_slow_client_does_not_hold_it_up_for_ever(start_server: Start) -> None:
    server = start_server("--shutdown-timeout", "0")
    slow, client = server.client(), server.client()
    client.command("SET", "big", b"x" * (1 << 20))
    slow.send(encode_command("GET", "big") * 100)
    assert slow.read_raw(1) == b"$"
    assert server.terminate() == 0


def test_unix_socket_and_pidfile(start_server: Start, tmp_path: Path) -> None:
    path, pidfile = tmp_path / "x.sock", tmp_path / "x.pid"
    options = ("--unixsocket", str(path), "--unixsocketperm", "770", "--pidfile", str(pidfile))
    server = start_server(*options)
    assert f"unix:{path} (db: " in server.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o770
    assert pidfile.read_text() == f"{server.pid}\n"
    with RawClient.connect_unix(str(path)) as client:
        assert client.command("PING") == b"+PONG\r\n"
    server.kill()  # leaves both behind
    assert path.exists()
    server.start()
    with RawClient.connect_unix(str(path)) as client:
        assert client.command("PING") == b"+PONG\r\n"
    assert server.terminate() == 0
    assert not path.exists()
    assert not pidfile.exists()


def test_a_pidfile_that_cannot_be_written_is_a_warning(start_server: Start, tmp_path: Path) -> None:
    """The stock redis.conf of Debian has one in a folder that only the service of Redis makes."""
    server = start_server("--pidfile", str(tmp_path / "none" / "x.pid"), db=":memory:")
    said = f"warning cannot write the pidfile {tmp_path}/none/x.pid: No such file or directory"
    before, _, _ = server.stderr.partition(said)
    assert " starts: " in before  # the first line says which Holdfast this is, and if it is slow
    assert said in server.stderr
    assert server.client().command("PING") == b"+PONG\r\n"
    assert server.terminate() == 0


def test_a_pidfile_whose_folder_is_gone_is_no_failure(start_server: Start, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    server = start_server("--pidfile", str(tmp_path / "run" / "x.pid"), db=":memory:")
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    (tmp_path / "run").touch()
    assert server.terminate() == 0
    assert "Traceback" not in server.stderr


def test_a_unix_socket_in_use_stays_whose_it_is(start_server: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "x.sock")
    server = start_server("--unixsocket", path)
    argv = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--db", ":memory:"]
    second = subprocess.run(
        [*argv, "--unixsocket", path], cwd=tmp_path, capture_output=True, text=True, timeout=20
    )
    assert second.returncode == 1
    assert second.stderr == f"holdfast: cannot listen on {path}: another server does\n"
    with RawClient.connect_unix(path) as client:
        assert client.command("PING") == b"+PONG\r\n"
    assert server.terminate() == 0


def test_info_knows_the_port_that_was_picked(start_server: Start) -> None:
    server = start_server(db=":memory:")
    assert b"tcp_port:%d\r\n" % server.port in server.client().command("INFO", "server")


def test_the_log_goes_to_a_file_and_follows_its_level(start_server: Start, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    server = start_server("--logfile", str(log), "--loglevel", "warning", db=":memory:")
    client = server.client()
    assert " notice " not in log.read_text()
    assert client.command("CONFIG", "SET", "loglevel", "verbose") == b"+OK\r\n"
    server.client().command("PING")
    assert server.terminate() == 0
    said = [line.split(" ", 3)[2:] for line in log.read_text().splitlines()]
    assert ["verbose", "client"] in [[level, text.split()[0]] for level, text in said]
    levels = {text.split()[0]: level for level, text in said}
    assert (levels["stopping:"], levels["stopped"]) == ("notice", "notice")
    assert server.stderr == ""


def test_the_server_says_when_it_is_not_compiled(tmp_path: Path) -> None:
    source = str(Path(__file__).parents[2] / "src")
    with HoldfastServer(tmp_path, db=":memory:", env={"PYTHONPATH": source}) as server:
        assert b"\nholdfast_compiled:0\r\n" in server.client().command("INFO", "server")
    first, *_ = server.stderr.splitlines()
    assert " warning not compiled, " in first
    assert first.endswith(": it runs from its source")


def test_relative_paths_start_from_dir(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    server = start_server("--dir", str(folder), db="inner.db")
    server.client().command("SET", "k", "v")
    wait_until((folder / "inner.db").exists, "the file is where it belongs")
    assert server.terminate() == 0


# Modules that a start must not import: each costs milliseconds, and a rarely used feature needs it.
LATER = {
    *("argparse", "ctypes", "dataclasses", "difflib", "hiredis", "importlib.resources", "json"),
    *("lupa", "secrets", "tempfile", "zipfile"),
    *("holdfast.client", "holdfast.crdt", "holdfast.embedded", "holdfast.replication.replicator"),
    *("holdfast.scripting.sandbox", "holdfast.server.net.busy_server", "holdfast.store.check"),
    *("holdfast.store.rdb", "holdfast.store.replicated"),
}
STARTED = """
import builtins, gc, os, sys

collected = []
gc.callbacks.append(lambda *_: "holdfast.daemon" in sys.modules and collected.append(1))

def ready(*_, **__):
    os.write(1, " ".join([*sys.modules, f"collected:{len(collected)}"]).encode())
    os._exit(0)

builtins.print = ready
from holdfast.cli.main import main
main(["serve", "--port", "0", "--db", "x.db"])
"""


def started(folder: Path) -> set[str]:
    """The modules of a server that has said that it is ready."""
    argv = [sys.executable, "-c", STARTED]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return {*done.stdout.split()}


def test_a_start_imports_what_every_server_needs_and_no_more(tmp_path: Path) -> None:
    modules = started(tmp_path)
    assert "holdfast.server.core.engine" in modules
    assert modules & LATER == set()


def test_a_start_does_not_look_for_garbage(tmp_path: Path) -> None:
    assert "collected:0" in started(tmp_path)


@pytest.mark.parametrize(
    ("options", "left"), [((), ["old.db", "old.db-version-3"]), (("--no-backup",), ["old.db"])]
)
def test_a_start_copies_a_file_before_it_migrates_it_unless_told_not_to(
    start_server: Start, tmp_path: Path, options: tuple[str, ...], left: list[str]
) -> None:
    path = tmp_path / "old" / "old.db"
    path.parent.mkdir()
    make_old(path, 3)
    server = start_server(*options, db=path)
    assert server.terminate() == 0
    assert sorted(os.listdir(path.parent)) == left
