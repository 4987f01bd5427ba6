"""The log as an operator has it: lines, levels, rotation, and no secret."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import UnavailableError
from holdfast.operation.logs import JsonLines, LogWriter, TextLines, event, logging_to
from tests.harness import HoldfastServer, wait_until

Start = Callable[..., HoldfastServer]

log = logging.getLogger("holdfast.tests")
HEAD = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ "
    "(debug|verbose|notice|warning|error) "
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


@pytest.fixture
def writer(path: Path) -> Iterator[LogWriter]:
    with logging_to(str(path), "text", "verbose") as writer:
        yield writer


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("holdfast", logging.INFO, "", 0, message, None, None)


# -- lines ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("writer")
def test_a_line_has_time_process_level_and_sentence(path: Path) -> None:
    log.info("hello %s", "world")
    log.log(15, "more")
    log.debug("too much")
    lines = path.read_text().splitlines()
    assert [HEAD.sub("", line) for line in lines] == ["hello world", "more"]
    assert [line.split()[1:3] for line in lines] == [
        [str(os.getpid()), "notice"],
        [str(os.getpid()), "verbose"],
    ]


def test_a_value_cannot_look_like_another_line() -> None:
    line = TextLines().format(record("key a\nb\r\x1b[31m\u2028\udcff"))
    assert line.endswith(r" notice key a\nb\r\x1b[31m\u2028\udcff")


@pytest.mark.usefixtures("writer")
def test_the_lines_of_a_traceback_are_indented(path: Path) -> None:
    try:
        raise ValueError("one\n2026-01-01T00:00:00.000Z 1 notice forged")
    except ValueError as error:
        log.error("failed", exc_info=error)
    first, *others = path.read_text().splitlines()
    assert first.endswith(" error failed")
    assert others
    assert all(line.startswith("    ") for line in others)


def test_json_is_one_object_a_line(path: Path) -> None:
    with logging_to(str(path), "json", "notice"):
        log.info("ready\non %s", "x", extra=event("ready", listeners=["a"]))
        log.error("failed", exc_info=ValueError("bad"))
    ready, failed = map(msgspec.json.decode, path.read_bytes().splitlines())
    assert HEAD.match(f"{ready.pop('time')} {ready.pop('pid')} {ready['level']} ")
    assert ready == {
        "level": "notice",
        "logger": "holdfast.tests",
        "message": "ready\non x",
        "event": "ready",
        "listeners": ["a"],
    }
    assert failed["level"] == "error"
    assert failed["traceback"] == "ValueError: bad"


def test_json_names_bytes_that_are_not_utf8() -> None:
    """File names may have such bytes; Python has half characters for them."""
    strange = record("on \udcff")
    strange.event = {"event": "ready", "listeners": ["\udc80"]}
    line = msgspec.json.decode(JsonLines().format(strange))
    assert (line["message"], line["listeners"]) == ("on \\udcff", ["\\udc80"])


def test_journald_is_told_the_level_of_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd says in JOURNAL_STREAM which file stderr is."""
    program = (
        "import logging; from holdfast.operation.logs import logging_to\n"
        "with logging_to('', 'text', 'notice'):\n"
        "    logging.getLogger('holdfast').warning('careful')\n"
        "    logging.getLogger('holdfast').info('fine')"
    )
    with (tmp_path / "journal").open("w+b") as stderr:
        status = os.fstat(stderr.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        subprocess.run([sys.executable, "-c", program], stderr=stderr, check=True)
    assert (tmp_path / "journal").read_text() == "<4>careful\n<5>fine\n"


# -- rotation -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("writer")
def test_a_renamed_file_gets_a_successor(path: Path) -> None:
    log.info("before")
    path.rename(f"{path}.1")
    log.info("after")
    assert path.read_text().endswith(" notice after\n")
    assert Path(f"{path}.1").read_text().endswith(" notice before\n")
    path.unlink()
    log.info("again")
    assert path.read_text().endswith(" notice again\n")


@pytest.mark.usefixtures("writer")
def test_a_truncated_file_begins_anew(path: Path) -> None:
    """As logrotate's copytruncate leaves it."""
    log.info("before")
    os.truncate(path, 0)
    log.info("after")
    assert path.read_text().startswith("2")
    assert path.read_text().endswith(" notice after\n")


def test_a_folder_that_is_gone_stops_nothing(tmp_path: Path, capfd: Any) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    with logging_to(str(folder / "x.log"), "text", "notice"):
        shutil.rmtree(folder)
        log.info("into the old file")
        log.info("into the old file")
        assert capfd.readouterr().err.count("cannot write") == 1
        folder.mkdir()
        log.info("here again")
        assert (folder / "x.log").read_text().endswith(" notice here again\n")


def test_lost_lines_are_counted(path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    with logging_to(str(path), "text", "notice") as writer:
        monkeypatch.setattr(writer, "_fd", os.open("/dev/full", os.O_WRONLY))
        monkeypatch.setattr(writer, "_is_in_place", lambda: True)
        log.info("lost")
        log.info("lost")
        assert "No space left on device" in capfd.readouterr().err
        monkeypatch.setattr(writer, "_fd", os.open(path, os.O_WRONLY | os.O_APPEND))
        log.info("kept")
    assert [HEAD.sub("", line) for line in path.read_text().splitlines()] == [
        "kept",
        "2 lines of the log are lost",
    ]


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(UnavailableError, match=r"cannot write .*/x.log: No such file"),
        logging_to(str(tmp_path / "no" / "x.log"), "text", "notice"),
    ):
        pass


# -- a server -------------------------------------------------------------------------------------


def objects(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_a_server_logs_its_life(start_server: Start, path: Path) -> None:
    server = start_server("--logfile", str(path), "--log-format", "json", "--timeout", "7")
    client = server.client()
    client.command("SET", "k", "v")
    server.kill()
    server.start()
    assert server.terminate() == 0
    lines = objects(path)
    first = [each for each in lines if each["pid"] != server.pid]
    second = [each for each in lines if each["pid"] == server.pid]
    events = [each["event"] for each in second if each.get("event") != "not_compiled"]
    assert events == ["start", "opened", "ready", "stopping", "stopped"]
    by_event = {each["event"]: each for each in second}
    assert by_event["start"]["version"] in server.stdout
    assert by_event["start"]["sqlite"][0] == "3"
    opened = by_event["opened"]
    assert opened["file"] == server.db
    assert (opened["recovered_batches"], opened["keys"]) == (1, 1)
    assert opened["recovered_ops"] > 0
    assert opened["seconds"] >= 0
    assert by_event["ready"]["listeners"][0] == f"127.0.0.1:{server.port}"
    assert by_event["ready"]["appendfsync"] == "always"
    assert by_event["stopping"]["reason"] == "SIGTERM"
    assert "stopping" not in [each["event"] for each in first], "it was killed"


def test_a_start_that_fails_is_in_the_log(tmp_path: Path, path: Path) -> None:
    (tmp_path / "x.db").write_text("dear diary\n" * 100)
    serve = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--logfile", str(path)]
    done = subprocess.run(
        [*serve, "--log-format", "json", "--db", str(tmp_path / "x.db")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == f"holdfast: {tmp_path}/x.db is not a SQLite database\n"
    last = objects(path)[-1]
    assert (last["level"], last["event"]) == ("critical", "failed")
    assert last["reason"] in done.stderr


def test_shutdown_says_who_asked(start_server: Start, path: Path) -> None:
    server = start_server("--logfile", str(path), db=":memory:")
    client = server.client()
    client.send_command("SHUTDOWN")
    assert server.process.wait(30) == 0
    assert re.search(r" notice stopping: SHUTDOWN of 127\.0\.0\.1:\d+\n", path.read_text())


def test_sighup_reopens_the_log(start_server: Start, path: Path) -> None:
    server = start_server("--logfile", str(path), db=":memory:")
    path.rename(f"{path}.1")
    server.process.send_signal(signal.SIGHUP)
    wait_until(path.exists, "the log is there again")
    assert server.client().command("PING") == b"+PONG\r\n"
    assert server.terminate() == 0
    assert " stopped after " in path.read_text()
    assert " stopped after " not in Path(f"{path}.1").read_text()


def test_a_huge_value_is_cut(start_server: Start, path: Path) -> None:
    server = start_server("--logfile", str(path), db=":memory:")
    proc_title = "x" * (1 << 20)
    reply = server.client().command("CONFIG", "SET", "proc-title-template", proc_title)
    assert reply == b"+OK\r\n"
    assert 300 < max(map(len, path.read_text().splitlines())) < 1000


def test_levels_change_while_it_runs(start_server: Start, path: Path) -> None:
    server = start_server("--logfile", str(path), db=":memory:")
    client = server.client()
    for level, seen in (("warning", ""), ("verbose", "client"), ("notice", "")):
        client.command("CONFIG", "SET", "loglevel", level)
        size = path.stat().st_size
        with server.client() as other:
            other.command("PING")
        client.command("PING")
        assert (seen in path.read_text()[size:]) if seen else path.stat().st_size == size


def test_no_line_has_a_secret(start_server: Start, path: Path, tmp_path: Path) -> None:
    secrets = ["hunter2", "open-sesame", "swordfish", "xyzzy"]
    (tmp_path / "pass").write_text("hunter2\n")
    (tmp_path / "pass").chmod(0o644)
    server = start_server(
        *("--logfile", str(path), "--loglevel", "debug", "--requirepass-file"),
        *(str(tmp_path / "pass"), "--masterauth", "swordfish"),
    )
    client = server.client()
    assert client.command("AUTH", "hunter2") == b"+OK\r\n"
    client.command("CONFIG", "SET", "requirepass", "open-sesame", "maxmemory", "1gb")
    client.command("ACL", "SETUSER", "x", ">xyzzy")
    assert server.terminate() == 0
    text = path.read_text()
    assert "(redacted) maxmemory 1gb" in text
    assert "chmod 600" in text
    assert [secret for secret in secrets if secret in text + server.stderr + server.stdout] == []
