"""No secret that a client sends is shown: not in SLOWLOG, COMMANDLOG, MONITOR, ACL LOG, CLIENT LIST
and INFO, not in the server's log, whether the command succeeds, fails or has a bug."""

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.server.config.parameters import TABLE as PARAMS
from holdfast.server.config.parameters import Use
from holdfast.server.config.secrets import RULES, WITH_URL, without_secrets
from holdfast.server.config.value_kinds import Secret
from tests.harness import HoldfastServer, RedisServer
from tests.harness.in_process import InProcess
from tests.harness.processes import ServerProcess

SECRET = "hunter2hunter2"
PASSWORD = "right"  # of the default user

# Commands with a secret. Those in MISTAKEN have a mistake, so that Redis refuses them.
UNDERSTOOD = [
    f"AUTH {SECRET}",
    f"AUTH default {SECRET}",
    f"auth nobody {SECRET}",
    f"HELLO 3 AUTH default {SECRET}",
    f"HELLO 2 SETNAME AUTH AUTH default {SECRET}",
    f"HELLO 2 AUTH default {SECRET} SETNAME AUTH",
    f"HELLO 2 SETNAME x auth default {SECRET}",
    f"MIGRATE 127.0.0.1 1 key 0 10 AUTH {SECRET}",
    f"MIGRATE 127.0.0.1 1 key 0 10 COPY REPLACE AUTH2 user {SECRET}",
    f"MIGRATE 127.0.0.1 1  0 10 AUTH2 user {SECRET} KEYS key",
    f"ACL SETUSER bob on >{SECRET}",
    f"ACL SETUSER bob on >a <{SECRET}",
    f"ACL SETUSER bob {SECRET}",
    f"CONFIG SET masterauth {SECRET}",
    f"CONFIG SET hz 10 MasterUser {SECRET}",
]
MISTAKEN = [
    f"CONFIG SET requirepass {SECRET} nosuch x",
    f"CONFIG SET requirepass my {SECRET}",
    f"HELLO 2 AUTH default my {SECRET}",
    f"MIGRATE 127.0.0.1 1 key 0 10 AUTH my {SECRET}",
    f"AUTH a b {SECRET}",
    f"HELLO AUTH default {SECRET}",
    f"HELLO 9 AUTH default {SECRET}",
    f"HELLO 2 FOO AUTH default {SECRET}",
    f"HELLO 2 AUTH {SECRET}",
    f"MIGRATE 127.0.0.1 1 key 0 10 COPY AUTH2 {SECRET}",
    f"CONFIG SET tls-key-file-pass {SECRET}",
    f"CONFIG SET tls-client-key-file-pass {SECRET}",
    f"CONFIG SET peer {SECRET}",
    f"ACTIVE JOIN redis://user:{SECRET}@127.0.0.1:1",
    f"ACTIVE FORGET redis://user:{SECRET}@127.0.0.1:1/0",
    f"ACTIVE JOIN redis://user:p@{SECRET}@127.0.0.1:1",
    f"ACTIVE JOIN user:{SECRET}@127.0.0.1:1",
    f"ACTIVE JOIN redis:/user:{SECRET}@127.0.0.1:1",
    f"ACTIVE JOIN redis://127.0.0.1:1?password={SECRET}",
    f"ACTIVE JOIN redis://user:{SECRET}?@127.0.0.1:1",
    f"HELLO 2 SETNAME AUTH default {SECRET}",
    f"MIGRATE 127.0.0.1 1 key AUTH {SECRET} x",
    f"MIGRATE 127.0.0.1 1 key 0 AUTH2 user {SECRET}",
    f"MIGRATE 127.0.0.1 1  0 10 KEYS key AUTH {SECRET}",
    f"CONFIG SET hz masterauth {SECRET}",
    f"CONFIG SET requirepas {SECRET}",
    f"ACL DRYRUN default COMMAND GETKEYS AUTH {SECRET}",
    f"COMMAND GETKEYS AUTH {SECRET}",
    f"COMMAND GETKEYSANDFLAGS ACL SETUSER bob >{SECRET}",
    f"ACL DRYRUN default HELLO 3 AUTH default {SECRET}",
]
LOOKS = [
    *("SLOWLOG GET -1", "COMMANDLOG GET -1 large-request", "COMMANDLOG GET -1 large-reply"),
    *("ACL LOG", "CLIENT LIST", "INFO everything", "LATENCY DOCTOR"),
]
SIZES = ("request", "reply")


@pytest.fixture
def world() -> InProcess:
    limits = ("slowlog-log-slower-than", *(f"commandlog-{what}-larger-than" for what in SIZES))
    return InProcess({"requirepass": PASSWORD, **dict.fromkeys(limits, "0")})


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def shown(world: InProcess, *commands: str) -> bytes:
    """Everything that others can see of these commands."""
    monitor, client, looker = world.peer(), world.peer(), world.peer()
    for peer in (monitor, client, looker):
        peer.command("AUTH", PASSWORD)
    assert monitor.command("MONITOR") == b"+OK\r\n"
    for command in commands:
        client.command(*command.split(" "))
    world.engine.turn.end()
    seen = b"".join(monitor.replies())
    return seen + b"".join(looker.command(*look.split(" ")) for look in LOOKS)


@pytest.mark.parametrize("command", [*UNDERSTOOD, *MISTAKEN])
def test_a_secret_is_never_shown(
    world: InProcess, log: pytest.LogCaptureFixture, command: str
) -> None:
    seen = shown(world, command)
    assert command.split(" ")[0].encode() in seen  # the command itself is there
    assert SECRET.encode() not in seen
    assert SECRET not in log.text


@pytest.mark.parametrize("command", [*UNDERSTOOD, *MISTAKEN])
def test_a_secret_of_a_transaction_is_never_shown(
    world: InProcess, log: pytest.LogCaptureFixture, command: str
) -> None:
    assert SECRET.encode() not in shown(world, "MULTI", command, "EXEC")
    assert SECRET not in log.text


@pytest.mark.source_only
@pytest.mark.parametrize("command", [*UNDERSTOOD, *MISTAKEN])
def test_a_secret_of_a_command_with_a_bug_is_never_shown(
    world: InProcess,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    found, _ = world.engine.commands.find([word.encode() for word in command.split(" ")])

    def broken(session: object, argv: list[bytes]) -> None:
        raise IndexError("a bug")

    if found.name != "auth":
        monkeypatch.setattr(found, "handler", broken)
    assert SECRET.encode() not in shown(world, command)
    assert SECRET not in log.text


def test_renamed_commands_keep_their_secrets() -> None:
    """Names that `rename-command` gives: the command counts, not its name."""
    assert without_secrets("auth", [b"xauth", b"pw"]) == [b"xauth", b"(redacted)"]


def test_arguments_that_are_no_secret_are_shown(world: InProcess) -> None:
    seen = shown(world, "CONFIG SET hz 11", "ACL GETUSER default", "HELLO 2 SETNAME me")
    for words in (b"$2\r\nhz\r\n$2\r\n11", b"GETUSER\r\n$7\r\ndefault", b"SETNAME\r\n$2\r\nme"):
        assert words in seen


def test_the_table_has_every_command_whose_syntax_speaks_of_a_secret() -> None:
    """By the reference, which has the syntax of all of them."""
    reference = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    syntaxes = re.findall(r"^```\n(.+?)\n```", reference, re.DOTALL | re.MULTILINE)
    assert len(syntaxes) > 200
    of_secrets = {
        tuple(syntax.lower().split()[:2])
        for syntax in syntaxes
        if re.search(r"\b(password|auth|url|rule)\b", syntax, re.IGNORECASE)
    }
    known = {*RULES, *WITH_URL}
    assert {words for words in of_secrets if words[0] == "auth"}
    assert [words for words in of_secrets if not {words[0], "|".join(words)} & known] == []


def test_the_table_has_every_parameter_that_is_a_password() -> None:
    secret = {param.name for param in PARAMS if param.use & Use.SECRET}
    assert {param.name for param in PARAMS if isinstance(param.kind, Secret)} <= secret
    assert {param.name for param in PARAMS if param.name.endswith(("pass", "auth"))} <= secret


# -- as redis-server ------------------------------------------------------------------------------


@pytest.fixture
def both(
    tmp_path: Path, start_server: Callable[..., HoldfastServer]
) -> Iterator[list[ServerProcess]]:
    options = ("--requirepass", PASSWORD, "--slowlog-log-slower-than", "0")
    with RedisServer(tmp_path / "redis", *options) as redis:
        yield [start_server(*options), redis]


def logged(server: ServerProcess, commands: list[str]) -> list[list[bytes]]:
    """Their arguments, as SLOWLOG GET has them."""
    with server.client() as client:
        client.command("AUTH", PASSWORD)
        client.command("SLOWLOG", "RESET")
        for command in commands:
            client.command(*command.split(" "))
        return [
            re.findall(rb"\$\d+\r\n(.*?)\r\n", entry)[:-2]  # without address and name
            for entry in re.split(rb"\*6\r\n", client.command("SLOWLOG", "GET", -1))[1:]
        ]


def test_redis_server_redacts_the_same_arguments(both: list[ServerProcess]) -> None:
    commands = [command for command in UNDERSTOOD if "HELLO 3" not in command]
    ours, theirs = (logged(server, commands) for server in both)
    assert len(ours) > len(commands)  # SLOWLOG RESET is there, too
    assert ours == theirs
