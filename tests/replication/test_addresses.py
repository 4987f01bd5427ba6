"""Addresses of peers are in the file, their passwords are not; nor can others read the file."""

import json
import os
import stat
from pathlib import Path

import pytest

from holdfast.replication.addresses import bare
from holdfast.replication.replicator import Replicator
from holdfast.store.backup import backup
from tests.replication.nodes import Node

SECRET = "open-sesame"
URL = f"redis://user:{SECRET}@127.0.0.1:1"
PLACE = "redis://127.0.0.1:1"


def start(node: Node, *urls: str) -> Replicator:
    node.replicator = Replicator(node.engine, "test", list(urls))
    node.engine.turn.end()
    return node.replicator


def join(replicator: Replicator, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.replication.puller.Puller.start", lambda self: None)
        replicator.join(url)
    replicator.engine.turn.end()


def urls(replicator: Replicator) -> list[str]:
    return [puller.url for puller in replicator.pullers]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (URL, PLACE),
        (PLACE, PLACE),
        (f"rediss://:{SECRET}@host:7/2?protocol=3", "rediss://host:7/2?protocol=3"),
        (f"unix://:{SECRET}@/run/a%20b.sock?db=1", "unix:///run/a%20b.sock?db=1"),
        (f"redis://host?password={SECRET}&username=me&db=2", "redis://host?db=2"),
    ],
)
def test_an_address_without_its_login(url: str, place: str) -> None:
    assert bare(url) == place


def test_passwords_of_peers_are_not_in_the_file_nor_in_its_backups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    node = Node(1, path)
    replicator = start(node, f"redis://:{SECRET}@127.0.0.1:2")
    join(replicator, URL, monkeypatch)
    other = Node(2)
    start(other)
    for puller in replicator.pullers:  # notes the peers it has met
        puller._meet(other.replicator.hello())
    node.engine.turn.end()
    backup(path, tmp_path / "backup.db")
    node.restart(fold=True)
    assert urls(start(node)) == [URL], "it has not forgotten"
    for file in tmp_path.iterdir():
        assert (SECRET.encode() in file.read_bytes()) == (file.name == "a.db-peers"), file
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    node.close()


def test_a_peer_can_be_forgotten_after_its_password_was_removed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(1, tmp_path / "a.db")
    replicator = start(node)
    join(replicator, URL, monkeypatch)
    (tmp_path / "a.db-peers").unlink()
    replicator.forget_address(PLACE)
    assert urls(replicator) == []
    node.close()


def test_a_file_that_has_passwords_loses_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    node = Node(1, path)
    start(node)
    node.stage.note(b"joined", [URL])
    node.stage.note(b"urls", {URL: 2, "redis://127.0.0.1:2": 3})
    node.engine.turn.end()
    node.restart()
    replicator = start(node)
    assert urls(replicator) == [URL]
    assert [puller.node for puller in replicator.pullers] == [2]
    assert node.stage.facts[b"joined"] == [PLACE]
    assert node.stage.facts[b"urls"] == {PLACE: 2, "redis://127.0.0.1:2": 3}
    assert json.loads((tmp_path / "a.db-peers").read_text()) == {PLACE: URL}
    node.close()


def test_an_address_that_is_forgotten_takes_its_password_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(1, tmp_path / "a.db")
    replicator = start(node)
    join(replicator, URL, monkeypatch)
    assert (tmp_path / "a.db-peers").exists()
    assert node("ACTIVE", "FORGET", PLACE) == b"+OK\r\n", "the password need not be repeated"
    assert not (tmp_path / "a.db-peers").exists()
    assert urls(replicator) == []
    node.close()


def test_a_peer_can_be_given_another_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(1, tmp_path / "a.db")
    replicator = start(node, PLACE)
    join(replicator, URL, monkeypatch)
    assert urls(replicator) == [URL]
    node.restart()
    assert urls(start(node, PLACE)) == [URL]
    node.restart()
    configured = "redis://user:newer@127.0.0.1:1"
    assert urls(start(node, configured)) == [configured]
    node.close()


@pytest.mark.parametrize("content", ["", "[]", "{", "7"])
def test_logins_that_cannot_be_read_are_done_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    content: str,
) -> None:
    node = Node(1, tmp_path / "a.db")
    join(start(node), URL, monkeypatch)
    (tmp_path / "a.db-peers").write_text(content)
    node.restart()
    assert urls(start(node)) == [PLACE]
    assert "peers may refuse our login" in caplog.text
    node.close()


def test_a_folder_that_cannot_be_written_to_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(1, tmp_path / "a.db")
    replicator = start(node)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("holdfast.replication.addresses.replace_file", full)
    reply = node("ACTIVE", "JOIN", URL)
    assert reply.startswith(b"-ERR cannot write")
    assert SECRET.encode() not in reply
    assert urls(replicator) == []
    node.close()


def test_addresses_are_not_in_the_slow_log() -> None:
    node = Node(1)
    start(node)
    node("CONFIG", "SET", "slowlog-log-slower-than", 0)
    node("ACTIVE", "JOIN", f"redis://:{SECRET}@a,b")
    node("ACTIVE", "FORGET", URL)
    log = node("SLOWLOG", "GET", -1)
    assert b"slowlog-log-slower-than" in log
    assert SECRET.encode() not in log


@pytest.mark.parametrize("url", ["redis+cluster://a,b", "memory://", "holdfast:///x", "http://x"])
def test_a_url_of_no_single_server_cannot_be_joined(url: str) -> None:
    node = Node(1)
    start(node)
    assert node("ACTIVE", "JOIN", url).startswith(b"-ERR")
    assert node.stage.facts.get(b"joined", []) == []
