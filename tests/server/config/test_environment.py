"""Configuration from the environment, and secrets from files."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.errors import CommandError, ConfigError
from holdfast.server.config.config import Config
from holdfast.server.config.environment import VARIABLES, strange_variables, variable_of
from holdfast.server.config.parameters import TABLE, Use
from tests.harness import HoldfastServer

ROOT = Path(__file__).parents[3]


def load(environ: dict[str, str], *options: str, file: Path | None = None) -> Config:
    return Config.from_sources(file, options, environ)


def test_every_parameter_has_a_variable() -> None:
    assert len({variable_of(param.name) for param in TABLE}) == len(TABLE)
    for param in TABLE:
        assert VARIABLES[variable_of(param.name)] is param
        assert re.fullmatch(r"HOLDFAST_[A-Z0-9_]+", variable_of(param.name))


def test_option_then_environment_then_file(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("port 1\nhz 11\ntimeout 21\n")
    environ = {"HOLDFAST_PORT": "2", "HOLDFAST_HZ": "12"}
    config = load(environ, "--port", "3", file=file)
    assert (config.port, config.hz, config.timeout) == (3, 12, 21)
    assert config.origins["port"] == "option '--port'"
    assert config.origins["hz"] == "environment variable HOLDFAST_HZ"
    assert config.origins["timeout"] == f"{file}, line 3"


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("BIND", "127.0.0.1 ::1", "bind", ("127.0.0.1", "::1")),
        ("SAVE", "900 1 300 10", "save", ((900, 1), (300, 10))),
        ("MAXMEMORY", "5mb", "maxmemory", 5 << 20),
        ("ACTIVE_ACTIVE", "yes", "active_active", True),
        ("PEER", "redis://a redis://b\nredis://c", "peer",
         ((b"redis://a",), (b"redis://b",), (b"redis://c",))),
        ("RENAME_COMMAND", 'FLUSHALL ""\nKEYS k', "rename_command",
         ((b"FLUSHALL", b""), (b"KEYS", b"k"))),
        ("USER", "a on nopass\n\nb off", "user", ((b"a", b"on", b"nopass"), (b"b", b"off"))),
        ("REQUIREPASS", ' a "b\\', "requirepass", b' a "b\\'),
        ("LUA_TIME_LIMIT", "7", "busy_reply_threshold", 7),
        ("PORT", "", "port", 6379),
    ],
)  # fmt: skip
def test_values(name: str, text: str, attribute: str, value: Any) -> None:
    assert getattr(load({f"HOLDFAST_{name}": text}), attribute) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("PORT", "six", "argument couldn't be parsed into an integer"),
        ("PORT", "70000", "argument must be between 0 and 65535 inclusive"),
        ("ACTIVE_ACTIVE", "true", "argument must be 'yes' or 'no'"),
        ("BIND", '"a', "unbalanced quotes"),
        ("RENAME_COMMAND", "KEYS", "wrong number of arguments"),
        ("SAVE", " ", "a value is missing"),
    ],
)
def test_a_bad_value_names_its_variable(
    name: str, text: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv(f"HOLDFAST_{name}", text)
    assert main(["serve"]) == 2
    said = f"holdfast: environment variable HOLDFAST_{name}: {reason}\n"
    assert capsys.readouterr() == ("", said)


def test_unknown_variables_are_named_and_do_no_harm() -> None:
    environ = {"HOLDFAST_PROT": "1", "HOLDFAST_XYZZY": "1", "HOLDFAST_SEED": "7", "OTHER": ""}
    environ["HOLDFAST_URL"] = "redis://127.0.0.1"  # for clients
    assert load(environ).warnings == [
        "the environment variable HOLDFAST_PROT has no effect (did you mean HOLDFAST_PORT?)",
        "the environment variable HOLDFAST_XYZZY has no effect",
    ]


def test_a_service_of_kubernetes_is_no_setting() -> None:
    """It has the name of its service in front, and every container of the namespace has them."""
    address = "tcp://10.0.0.7:6379"
    environ = {
        "HOLDFAST_PORT": address,
        "HOLDFAST_SERVICE_HOST": "10.0.0.7",
        "HOLDFAST_SERVICE_PORT": "6379",
        "HOLDFAST_SERVICE_PORT_REDIS": "6379",
        "HOLDFAST_PORT_6379_TCP": address,
        "HOLDFAST_PORT_6379_TCP_ADDR": "10.0.0.7",
    }
    config = load(environ)
    assert config.port == 6379
    (warning,) = config.warnings
    assert warning.startswith("HOLDFAST_PORT is ignored: it is the address of a service")


def test_all_variables_of_this_repository_are_known() -> None:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no clone")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    own = {Path(__file__).name, "environment.py", "test_docs.py"}
    found = {
        name
        for file in files
        if file.is_file() and file.name not in own
        for name in re.findall(r"HOLDFAST_[A-Z0-9_]*[A-Z0-9]\b", file.read_text(errors="replace"))
    }
    assert {"HOLDFAST_PURE", "HOLDFAST_NAME"} <= found
    found.remove("HOLDFAST_NAME")  # stands for all of them, in prose
    assert list(strange_variables(dict.fromkeys(found, "1"))) == []


def test_the_file_may_be_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "x.conf"
    file.write_text("prot 1\n")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(file))
    assert main(["serve"]) == 2
    assert f"{file}, line 1: unknown directive" in capsys.readouterr().err
    assert main(["serve", "--config", str(tmp_path / "none")]) == 2
    assert f"cannot read configuration file {tmp_path}/none" in capsys.readouterr().err


# -- secrets --------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"hunter2\n")
    path.chmod(0o600)
    return path


def test_every_secret_may_stand_in_a_file() -> None:
    secrets = {p.name for p in TABLE if Use.SECRET in p.use and Use.INERT not in p.use}
    assert {p.content_of for p in TABLE if p.content_of} == secrets
    assert {"requirepass", "tls-key-file-pass", "peer"} <= secrets


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"hunter2\n", b"hunter2"),
        (b"hunter2\r\n", b"hunter2"),
        (b"hunter2", b"hunter2"),
        (b' two words "\n', b' two words "'),
        (b"hunter2\n\n", b"hunter2\n"),
        (b"\xff\x00\n", b"\xff\x00"),
    ],
)
def test_the_line_end_of_the_file_is_no_part_of_the_secret(
    secret: Path, content: bytes, password: bytes
) -> None:
    secret.write_bytes(content)
    for config in (
        load({}, "--requirepass-file", str(secret)),
        load({"HOLDFAST_REQUIREPASS_FILE": str(secret)}),
        load({}, "--dir", str(secret.parent), "--requirepass-file", secret.name),
    ):
        assert config.requirepass == password
        assert config.warnings == []


def test_peers_with_their_logins_may_stand_in_a_file(secret: Path) -> None:
    secret.write_text("redis://a:b@c:1\n\nredis://d:e@f:2\n")
    config = load({}, "--peer", "redis://first", "--peer-file", str(secret))
    assert config.peer == ((b"redis://first",), (b"redis://a:b@c:1",), (b"redis://d:e@f:2",))


def test_a_later_source_wins_over_a_file(secret: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text(f"requirepass-file {secret}\n")
    assert load({}, file=file).requirepass == b"hunter2"
    assert load({"HOLDFAST_REQUIREPASS": "other"}, file=file).requirepass == b"other"
    file.write_text("requirepass other\n")
    environ = {"HOLDFAST_REQUIREPASS_FILE": str(secret)}
    assert load(environ, file=file).requirepass == b"hunter2"
    assert load(environ, "--requirepass", "third").requirepass == b"third"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"x" * 70000, "is larger than 65536 bytes"),
    ],
)
def test_a_file_without_a_secret_is_one_sentence(
    secret: Path, content: bytes | None, reason: str
) -> None:
    secret.unlink() if content is None else secret.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        load({"HOLDFAST_REQUIREPASS_FILE": str(secret)})
    assert str(caught.value).startswith("environment variable HOLDFAST_REQUIREPASS_FILE: ")
    assert "xxx" not in str(caught.value)


def test_a_secret_and_its_file_together_are_a_mistake(secret: Path) -> None:
    with pytest.raises(ConfigError, match="requirepass and requirepass-file are both given"):
        load({}, "--requirepass", "x", "--requirepass-file", str(secret))


def test_a_file_that_all_may_read_is_named(secret: Path) -> None:
    secret.chmod(0o644)
    (warning,) = load({}, "--requirepass-file", str(secret)).warnings
    assert "every user of this machine may read it: chmod 600" in warning
    assert "hunter2" not in warning


def test_rewriting_the_file_does_not_write_secrets_that_are_kept_elsewhere(
    secret: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.conf"
    file.write_text("port 1\n")
    for environ in (
        {"HOLDFAST_REQUIREPASS_FILE": str(secret)},
        {"HOLDFAST_REQUIREPASS": "hunter2"},
    ):
        config = load(environ, file=file)
        config.put("hz", "20")
        config.rewrite()
        assert "hz 20" in file.read_text()
        assert "hunter2" not in file.read_text()
    config.put("requirepass", "changed")
    with pytest.raises(CommandError, match="both given"):
        config.rewrite()  # the file has requirepass-file by now
    assert "changed" not in file.read_text()


def test_a_server_with_a_secret_from_its_environment(
    secret: Path, tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> None:
    env = {"HOLDFAST_REQUIREPASS_FILE": str(secret), "HOLDFAST_DATABASES": "3"}
    with HoldfastServer(tmp_path / "s", env=env) as server:
        client = server.client()
        assert client.command("PING").startswith(b"-NOAUTH")
        assert client.command("AUTH", "hunter2") == b"+OK\r\n"
        assert client.command("SELECT", "3").startswith(b"-ERR")
        command_line = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"hunter2" not in command_line
    assert os.fsencode(secret) not in command_line
