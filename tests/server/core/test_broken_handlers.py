"""A handler with a bug: which clients get an error, and which of its changes stay."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.commands.table import TABLE, Handler
from holdfast.resp import Reply
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess
from tests.server.wire import WireServer

INTERNAL = b"-ERR internal error, see the server's log\r\n"
Break = Callable[..., None]


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[InProcess]:
    store = FileStore(tmp_path / "a.db")
    yield InProcess({"appendfsync": "no"}, store)
    store.close()
    assert check_file(tmp_path / "a.db") == []


@pytest.fixture
def break_handler(monkeypatch: pytest.MonkeyPatch) -> Break:
    """`break_handler("rpush")`: from now on it fails after it has done its work, or before."""

    def break_handler(name: str, *, before: bool = False) -> None:
        handler: Handler = TABLE[name].handler

        def broken(session: object, argv: list[bytes]) -> Reply:
            if not before:
                handler(session, argv)
            raise IndexError("a bug")

        monkeypatch.setattr(TABLE[name], "handler", broken)

    return break_handler


def test_the_changes_of_a_broken_handler_are_undone(
    setting: InProcess, break_handler: Break
) -> None:
    peer, other = setting.peer(), setting.peer()
    peer.command("RPUSH", "list", "a")
    break_handler("rpush")
    other.send("SET", "k", "v")
    peer.pipeline(("RPUSH", "list", "b"), ("LRANGE", "list", 0, -1))
    replies = peer.replies()
    assert replies[0].startswith(b"-MISCONF ")
    assert b"rpush failed half way" in replies[0]
    assert other.replies() == [replies[0]]  # of the same turn, so it is not there either
    assert replies[1] == b"*1\r\n$1\r\na\r\n"
    setting.engine.storage_recovered()
    assert other.command("SET", "k", "w") == b"+OK\r\n"
    assert other.command("DBSIZE") == b":2\r\n"


def test_where_nothing_was_done_no_other_client_is_concerned(
    setting: InProcess, break_handler: Break
) -> None:
    peer, other = setting.peer(), setting.peer()
    break_handler("rpush", before=True)
    other.send("SET", "k", "v")
    peer.send("RPUSH", "list", "b")
    assert (peer.replies(), other.replies()) == ([INTERNAL], [b"+OK\r\n"])
    assert (
        peer.transaction(("SET", "k", "w"), ("RPUSH", "list", "b")) == b"*2\r\n+OK\r\n" + INTERNAL
    )


def test_a_transaction_is_taken_back_as_a_whole(setting: InProcess, break_handler: Break) -> None:
    peer = setting.peer()
    peer.command("SET", "k", "v")
    break_handler("rpush")
    commands = ("SET", "k", "w"), ("RPUSH", "list", "a"), ("SET", "other", "x")
    assert peer.transaction(*commands).startswith(b"-MISCONF ")
    assert peer.command("GET", "k") == b"$1\r\nv\r\n"
    assert peer.command("DBSIZE") == b":1\r\n"


def test_a_client_that_waited_is_told_and_does_not_try_again(
    setting: InProcess, break_handler: Break
) -> None:
    waiter, pusher = setting.blocked("BLPOP", "list", 0), setting.peer()
    break_handler("blpop")
    assert pusher.command("RPUSH", "list", "a").startswith(b"-MISCONF ")
    (told,) = waiter.replies()
    assert told.startswith(b"-MISCONF ")
    setting.engine.storage_recovered()
    assert pusher.command("RPUSH", "list", "a") == b":1\r\n"
    setting.assert_nothing_left()


def test_a_script_is_taken_back_alone(setting: InProcess, break_handler: Break) -> None:
    peer, other = setting.peer(), setting.peer()
    break_handler("rpush")
    other.send("SET", "k", "v")
    peer.send("EVAL", "redis.call('SET', 'k', 'w') redis.call('RPUSH', 'list', 'a')", 0)
    assert (peer.replies(), other.replies()) == ([INTERNAL], [b"+OK\r\n"])
    assert peer.command("GET", "k") == b"$1\r\nv\r\n"


def test_in_memory_only_there_is_nothing_to_go_back_to(break_handler: Break) -> None:
    setting = InProcess()
    peer = setting.peer()
    break_handler("rpush")
    peer.pipeline(("SET", "k", "v"), ("RPUSH", "list", "a"), ("LLEN", "list"))
    assert peer.replies() == [b"+OK\r\n", INTERNAL, b":1\r\n"]


def test_what_it_changed_in_place_is_taken_back(setting: InProcess, break_handler: Break) -> None:
    """The second change of a large string in a batch takes the place of the first."""
    peer = setting.peer()
    peer.command("SET", "s", "x" * 5000)
    break_handler("append")
    peer.pipeline(("SETRANGE", "s", 0, "A"), ("APPEND", "s", "zzz"), ("STRLEN", "s"))
    replies = peer.replies()
    assert replies[1].startswith(b"-MISCONF ")
    assert replies[2] == b":5000\r\n"
    setting.engine.storage_recovered()


def failing(data: bytes) -> list[list[bytes]]:
    raise IndexError("a bug")


@pytest.mark.source_only
def test_a_client_that_cannot_be_read_leaves_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = WireServer()
    before, broken, after = server.connect(), server.connect(), server.connect()
    monkeypatch.setattr(broken.connection._parser, "feed", failing)
    for client in (before, broken, after):
        client.connection.data_received(b"*1\r\n$4\r\nPING\r\n")
    assert (before.read(), after.read()) == (b"+PONG\r\n", b"+PONG\r\n")
    assert broken.transport.state == "aborted"
    assert not server.engine.runnable


def test_a_client_that_cannot_be_written_to_leaves_and_the_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = WireServer()
    before, broken, after = server.connect(), server.connect(), server.connect()
    monkeypatch.setattr(broken.transport, "write", failing)
    for client in (before, broken, after):
        client.connection.data_received(b"*1\r\n$4\r\nPING\r\n")
    assert (before.read(), after.read()) == (b"+PONG\r\n", b"+PONG\r\n")
    assert broken.state == "aborted"
