"""`holdfast ping` as a health check: 0 for PONG, 1 and one sentence for anything else."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.own_server import own_server, server_url
from tests.harness import HoldfastServer

Capture = pytest.CaptureFixture[str]
Start = Callable[..., HoldfastServer]


def test_pong(server: HoldfastServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["ping", f"redis://127.0.0.1:{server.port}"]) == 0
    assert capsys.readouterr() == ("PONG\n", "")
    monkeypatch.setenv("HOLDFAST_PORT", str(server.port))
    assert main(["ping"]) == 0
    assert capsys.readouterr() == ("PONG\n", "")
    assert main(["ping", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == {"reply", "ms"}
    assert answer["reply"] == "PONG"
    assert answer["ms"] > 0


def test_it_asks_the_server_that_the_environment_configures(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pass").write_text("hunter2\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.setenv("HOLDFAST_REQUIREPASS_FILE", str(tmp_path / "pass"))
    monkeypatch.setenv("HOLDFAST_UNIXSOCKET", str(tmp_path / "50%?#@.sock"))
    with HoldfastServer(tmp_path / "s", db=":memory:") as server:
        assert main(["ping"]) == 0
        assert capsys.readouterr() == ("PONG\n", "")
        monkeypatch.delenv("HOLDFAST_UNIXSOCKET")
        monkeypatch.setenv("HOLDFAST_BIND", "0.0.0.0 -::")
        monkeypatch.setenv("HOLDFAST_PORT", str(server.port))
        assert main(["ping"]) == 0
        assert capsys.readouterr() == ("PONG\n", "")
        monkeypatch.delenv("HOLDFAST_REQUIREPASS_FILE")
        assert main(["ping"]) == 1
    assert capsys.readouterr() == ("", "holdfast: no PONG: the server wants a password\n")


def test_a_server_that_does_not_answer(capsys: Capture) -> None:
    """It accepts, as the kernel does for a process that is stopped."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["ping", url, "--timeout", "0.05"]) == 1
    assert capsys.readouterr() == ("", "holdfast: no PONG within 0.05 s\n")


def test_a_port_where_nothing_listens(capsys: Capture) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert main(["ping", f"redis://127.0.0.1:{bound.getsockname()[1]}"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("holdfast: no PONG: ")


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1 -::1", "redis://127.0.0.1:7"),
        ("-::1", "redis://[::1]:7"),
        ("*", "redis://127.0.0.1:7"),
        ("0.0.0.0 ::", "redis://127.0.0.1:7"),
        ("::*", "redis://[::1]:7"),
        ("10.1.2.3", "redis://10.1.2.3:7"),
    ],
)
def test_where_it_asks(bind: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BIND", bind)
    monkeypatch.setenv("HOLDFAST_PORT", "7")
    assert own_server({}) == url


def test_the_server_may_be_named_by_the_environment(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "redis://10.1.2.3:4")
    monkeypatch.setenv("HOLDFAST_PORT", "7")
    assert server_url(None, {}) == "redis://10.1.2.3:4"
    assert server_url("redis://h", {}) == "redis://h"
    monkeypatch.setenv("HOLDFAST_URL", "redis+cluster://h")
    assert main(["ping"]) == 2
    said = "holdfast: HOLDFAST_URL: a URL begins with one of redis://, rediss://, unix://\n"
    assert capsys.readouterr() == ("", said)
    assert server_url(None, {}, is_one_server=False) == "redis+cluster://h"


def test_a_password_that_is_not_text(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pass").write_bytes(b"\xff\xfe\n")
    monkeypatch.setenv("HOLDFAST_REQUIREPASS_FILE", str(tmp_path / "pass"))
    assert main(["ping"]) == 2
    said = "holdfast: the password of the server is not UTF-8: give a URL\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["memory://"], "a URL begins with one of redis://, rediss://, unix://"),
        (["redis://h", "--timeout", "0"], "--timeout is a number of seconds above 0"),
        (["redis://h", "--timeout", "nan"], "--timeout is a number of seconds above 0"),
        (["redis://:secret@h:x"], "the port in the URL is no whole number"),
    ],
)
def test_mistakes(argv: list[str], sentence: str, capsys: Capture) -> None:
    assert main(["ping", *argv]) == 2
    assert capsys.readouterr() == ("", f"holdfast: {sentence}\n")
