"""`holdfast dashboard`: mistakes are one sentence, and it is not public without a password."""

import socket
from pathlib import Path

import pytest

from holdfast.cli.main import main
from tests.harness import HoldfastServer


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["dashboard", *words])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    return code, err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "--port is a number from 0 to 65535"),
        (["--port", "x"], "invalid int value"),
        (["http://localhost"], "a URL begins with one of"),
        (["redis+cluster://a:1,b:2"], "a URL begins with one of"),
        (["--tls-cert", "cert.pem"], "--tls-cert and --tls-key belong together"),
        (["--tls-cert", "/no/cert.pem", "--tls-key", "/no/key.pem"], "No such file"),
        (["--history", "/proc/nothing/history.db"], "cannot open /proc/nothing/history.db"),
        (["--bind", "256.0.0.1"], "--bind 256.0.0.1"),
    ],
)
def test_a_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    sentence: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_URL", "redis://127.0.0.1:1")
    more = [] if "--port" in words else ["--port", "0"]
    code, err = complaint(capsys, *words, *more)
    assert code in (1, 2)
    assert sentence in err


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("redis://127.0.0.1:1", "--port", port, "--history", str(tmp_path / "h.db"))
        code, err = complaint(capsys, *words)
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in err


def test_it_is_not_public_without_a_password(
    capsys: pytest.CaptureFixture[str], server: HoldfastServer
) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    code, err = complaint(capsys, url, "--port", "0", "--bind", "0.0.0.0")
    assert code == 2
    assert "the server has no password: set requirepass, or bind to 127.0.0.1" in err


def test_it_is_not_public_if_the_password_cannot_be_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("redis://127.0.0.1:1", "--port", "0", "--bind", "0.0.0.0")
    code, err = complaint(capsys, *words)
    assert code == 2
    assert "it cannot be checked whether the server has a password" in err
