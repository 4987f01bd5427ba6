"""Where users come from and where they are kept: configuration, requirepass, the ACL file."""

from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.server.auth.acl import User
from holdfast.server.config.config import Config
from holdfast.server.core.users import configured_users
from tests.harness import HoldfastServer, RedisServer
from tests.harness.in_process import InProcess
from tests.harness.processes import ServerProcess

HASH = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of abc


def both(tmp_path: Path, *args: str, files: dict[str, str] | None = None) -> list[ServerProcess]:
    """Our server and the oracle, each with the same files in its folder."""
    servers: list[ServerProcess] = []
    for kind in (HoldfastServer, RedisServer):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        servers.append(kind(folder, *args))
    return servers


def same(servers: list[ServerProcess], *commands: str) -> bytes:
    """The last answer; each must be the same."""
    clients = [server.client() for server in servers]
    answer = b""
    for command in commands:
        ours, oracle = (client.command(*command.split()) for client in clients)
        assert ours == oracle, command
        answer = oracle
    for client in clients:
        client.close()
    return answer


FILE = f"""
user default on nopass ~* &* +@all
user al on #{HASH} ~a* resetchannels -@all +@hash (~b resetchannels -@all +get)

  user bo off +get\x20\x20
"""


def test_the_file(tmp_path: Path) -> None:
    servers = both(tmp_path, "--aclfile", "users.acl", files={"users.acl": FILE})
    with servers[0], servers[1]:
        same(servers, "ACL LIST", "AUTH al abc", "HSET a f v", "GET b", "GET a", "HGET b f")
        same(servers, "ACL SETUSER cy on >x +@all ~*", "ACL DELUSER bo", "ACL SAVE", "ACL LIST")
        texts = {(server.folder / "users.acl").read_text() for server in servers}
        assert len(texts) == 1
        same(servers, "ACL SETUSER cy off", "ACL SETUSER di", "ACL LOAD", "ACL LIST", "AUTH cy x")


BAD_FILES = {
    "a word": "user default on\nnope al on",
    "no name": "user",
    "a bad rule": "user al on nope +@all",
    "an unknown command": "user al +nope",
    "twice": "user al on\nuser al off",
    "two errors": "user al nope\nuser bo +nope",
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_changes_nothing(tmp_path: Path, text: str) -> None:
    servers = both(tmp_path, "--aclfile", "users.acl", files={"users.acl": FILE})
    with servers[0], servers[1]:
        for server in servers:
            (server.folder / "users.acl").write_text(text)
        clients = [server.client() for server in servers]
        ours, oracle = (client.command("ACL", "LOAD") for client in clients)
        assert ours.startswith(b"-ERR users.acl:")
        assert oracle.startswith(b"-ERR")
        assert ours.endswith(
            b"WARNING: ACL errors detected, no change to the previously active ACL rules was"
            b" performed\r\n"
        )
        same(servers, "ACL LIST")


def test_loading_sends_users_away_but_for_the_default_one(tmp_path: Path) -> None:
    servers = both(tmp_path, "--aclfile", "users.acl", files={"users.acl": FILE})
    with servers[0], servers[1]:
        for server in servers:
            default, al = server.client(), server.client()
            assert al.command("AUTH", "al", "abc") == b"+OK\r\n"
            assert default.command("ACL", "LOAD") == b"+OK\r\n"
            assert al.read_until_closed() == b""
            assert default.command("PING") == b"+PONG\r\n"


@pytest.mark.source_only
def test_lines_of_the_configuration_and_rewriting_them(tmp_path: Path) -> None:
    lines = f"user al on #{HASH} ~a* +@hash (+get ~b)\nuser default on >secret ~* &* +@all -keys\n"
    folder = tmp_path / "ours"
    folder.mkdir()
    file = folder / "holdfast.conf"
    file.write_text(lines)
    with HoldfastServer(folder, "--config", str(file), db=":memory:") as server:
        client = server.client()
        assert client.command("PING").startswith(b"-NOAUTH")
        assert client.command("AUTH", "secret") == b"+OK\r\n"
        assert client.command("KEYS", "*").startswith(b"-NOPERM")
        client.command("ACL", "SETUSER", "bo", "on", ">x", "+@string", "~*")
        client.command("ACL", "DELUSER", "al")
        listed = client.command("ACL", "LIST")
        assert client.command("CONFIG", "REWRITE") == b"+OK\r\n"
        server.restart()
        client = server.client()
        assert client.command("AUTH", "secret") == b"+OK\r\n"
        assert client.command("ACL", "LIST") == listed


@pytest.mark.source_only
def test_lines_are_read_alike(tmp_path: Path) -> None:
    lines = f"user al on #{HASH} ~a* +@hash (+get ~b)\nuser default on nopass ~* +@all -keys\n"
    for kind in (HoldfastServer, RedisServer):
        (tmp_path / f"{kind.__name__}.conf").write_text(lines)
    folders = tmp_path / "ours", tmp_path / "oracle"
    ours = HoldfastServer(folders[0], "--config", str(tmp_path / "HoldfastServer.conf"))
    oracle = RedisServer(folders[1], *_as_options(lines))
    with ours, oracle:
        same([ours, oracle], "ACL LIST", "ACL GETUSER default", "KEYS *", "PUBLISH x m")


def _as_options(lines: str) -> list[str]:
    """Each line as redis-server takes it from the command line."""
    return [
        word
        for line in lines.splitlines()
        for word in (f"--{line.split()[0]}", *line.split(" ")[1:])
    ]


def test_requirepass_is_the_default_users_password() -> None:
    users = configured_users(Config({"requirepass": "abc"}))
    assert list(users[b"default"].passwords) == [HASH.encode()]
    assert users[b"default"].is_unrestricted


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"user": "al nope"}, "user al: Syntax error"),
        ({"user": "al +nope"}, "user al: Unknown command or category name in ACL"),
        ({"aclfile": "/nowhere/at/all"}, "aclfile: "),
        ({"aclfile": "/nowhere", "user": "al on"}, "either in aclfile or in 'user' lines"),
    ],
)
def test_bad_configurations(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        configured_users(Config(options))


def test_the_log_groups_what_happens_within_a_minute() -> None:
    here = InProcess({"acllog-max-len": "2"})
    peer = here.peer()
    for name in ("x", "x", "y", "z"):
        peer.command("AUTH", name, "p")
    log = here.engine.users.log
    assert [(entry.username, entry.count) for entry in log] == [(b"z", 1), (b"y", 1)]
    peer.command("AUTH", "y", "p")
    assert [(entry.username, entry.count) for entry in log] == [(b"y", 2), (b"z", 1)]
    here.clock.advance(61)
    peer.command("AUTH", "y", "p")
    assert [(entry.username, entry.count) for entry in log] == [(b"y", 1), (b"y", 2)]


@pytest.mark.source_only
def test_a_change_of_a_user_makes_no_line_of_any_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line takes milliseconds, so a change among hundreds of users took a second. Only CONFIG
    REWRITE and ACL LIST need lines."""
    made = []

    def line_of(user: User) -> bytes:
        made.append(user.name)
        return b"user " + user.name

    monkeypatch.setattr("holdfast.server.core.users.line_of", line_of)
    peer = InProcess({}).peer()
    for name in ("al", "bo", "al"):
        assert peer.command("ACL", "SETUSER", name, "on", "+get") == b"+OK\r\n"
    assert peer.command("ACL", "DELUSER", "bo") == b":1\r\n"
    assert made == []
    peer.command("ACL", "LIST")
    assert made == [b"al", b"default"]
