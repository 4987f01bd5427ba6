"""A command that a user may not run has no effect on any way to run it: directly, queued, in
scripts and functions, behind and after a wait, while a script is busy. (test_oracle_acl.py compares
the errors.)"""

from collections.abc import Callable, Iterator

import pytest

from tests.harness import HoldfastServer, RawClient, wait_until
from tests.harness.in_process import InProcess, Peer

# Commands that wait, the commands that fill their key, and a command that shows that nothing was
# taken.
WAITS = [
    ("BLPOP key 0", "RPUSH key x", "LLEN key"),
    ("BRPOP other key 0", "RPUSH key x", "LLEN key"),
    ("BLMOVE key free LEFT LEFT 0", "RPUSH key x", "LLEN key"),
    ("BLMOVE free key LEFT LEFT 0", "RPUSH free x", "LLEN free"),
    ("BRPOPLPUSH key free 0", "RPUSH key x", "LLEN key"),
    ("BLMPOP 0 1 key LEFT", "RPUSH key x", "LLEN key"),
    ("BZPOPMIN key 0", "ZADD key 1 x", "ZCARD key"),
    ("BZPOPMAX key 0", "ZADD key 1 x", "ZCARD key"),
    ("BZMPOP 0 1 key MIN", "ZADD key 1 x", "ZCARD key"),
    ("XREAD BLOCK 0 STREAMS key $", "XADD key 1-1 f v", "XLEN key"),
]
# Changes of the user's rules that take away the right to run these commands.
CHANGES = ["resetkeys ~free", "nocommands", "-@blocking", "clearselectors reset on >p"]


@pytest.fixture
def setting() -> InProcess:
    return InProcess()


@pytest.fixture
def admin(setting: InProcess) -> Peer:
    admin = setting.peer()
    assert do(admin, "ACL SETUSER al on >p +@all ~* &*") == b"+OK\r\n"
    return admin


def do(peer: Peer | RawClient, line: str) -> bytes:
    return peer.command(*line.split())


def user(setting: InProcess) -> Peer:
    peer = setting.peer()
    assert peer.command("AUTH", "al", "p") == b"+OK\r\n"
    return peer


def is_denied(reply: bytes) -> bool:
    return reply.startswith((b"-NOPERM ", b"-ERR The user executing the script can't "))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("wait", "fill", "count"), WAITS)
def test_a_waiting_client_is_checked_again(
    setting: InProcess, admin: Peer, wait: str, fill: str, count: str, change: str
) -> None:
    waiting, later = user(setting), setting.peer()
    waiting.send(*wait.split())
    assert len(setting.engine.blocking.waiters) == 1
    do(admin, f"ACL SETUSER al {change}")
    do(admin, fill)
    (reply,) = waiting.replies()
    assert is_denied(reply)
    assert len(setting.engine.blocking.waiters) == 0
    assert do(admin, count) == b":1\r\n"
    # The element is for the next client that may take it.
    if not wait.startswith("XREAD"):
        assert do(later, wait)[:1] in (b"*", b"$")
        assert do(admin, count) == b":0\r\n"
    setting.assert_nothing_left()


def test_a_group_keeps_entries_that_its_reader_may_not_read_any_more(
    setting: InProcess, admin: Peer
) -> None:
    do(admin, "XGROUP CREATE key g $ MKSTREAM")
    waiting = user(setting)
    line = "XREADGROUP GROUP g c BLOCK 0 STREAMS key >"
    waiting.send(*line.split())
    assert waiting.is_waiting
    do(admin, "ACL SETUSER al resetkeys")
    do(admin, "XADD key 1-1 f v")
    assert is_denied(waiting.replies()[0])
    assert do(admin, "XPENDING key g").startswith(b"*4\r\n:0\r\n")
    assert b"1-1" in do(admin, "XREADGROUP GROUP g d STREAMS key >")


def test_an_element_that_a_client_may_no_longer_take_goes_to_the_next_waiter(
    setting: InProcess, admin: Peer
) -> None:
    first, second = user(setting), setting.blocked("BLPOP", "key", 0)
    first.send("BLPOP", "key", 0)
    third = setting.blocked("BLPOP", "key", 0)
    do(admin, "ACL SETUSER al -blpop")
    admin.command("RPUSH", "key", "x", "y")
    assert second.replies() == [b"*2\r\n$3\r\nkey\r\n$1\r\nx\r\n"]
    assert is_denied(first.replies()[0])
    assert third.replies() == [b"*2\r\n$3\r\nkey\r\n$1\r\ny\r\n"]


def test_the_default_user_is_asked_again_too(setting: InProcess, admin: Peer) -> None:
    waiting = setting.blocked("BLPOP", "key", 0)
    do(user(setting), "ACL SETUSER default -blpop")
    admin.command("RPUSH", "key", "x")
    assert is_denied(waiting.replies()[0])
    assert admin.command("LLEN", "key") == b":1\r\n"


def test_a_command_behind_a_wait_is_checked_when_it_runs(setting: InProcess, admin: Peer) -> None:
    admin.command("SET", "secret", "x")
    waiting = user(setting)
    waiting.pipeline(("BLPOP", "key", 0), ("GET", "secret"), ("SET", "secret", "y"), ("MULTI",))
    do(admin, "ACL SETUSER al resetkeys ~key -multi")
    admin.command("RPUSH", "key", "x")
    popped, *others = waiting.replies()
    assert popped == b"*2\r\n$3\r\nkey\r\n$1\r\nx\r\n"
    assert list(map(is_denied, others)) == [True, True, True]
    assert admin.command("GET", "secret") == b"$1\r\nx\r\n"


def test_a_queued_command_is_checked_again_when_it_runs(setting: InProcess, admin: Peer) -> None:
    peer = user(setting)
    peer.pipeline(
        ("MULTI",),
        ("SET", "secret", "x"),
        ("EVAL", "return redis.call('set', 'secret', 'y')", 0),
        ("PUBLISH", "channel", "x"),
        ("BLPOP", "secret", 0),
        ("SET", "free", "x"),
    )
    peer.replies()
    do(admin, "ACL SETUSER al resetkeys ~free resetchannels")
    reply = peer.command("EXEC")
    assert reply.startswith(b"*5\r\n-NOPERM ")
    assert reply.count(b"-NOPERM ") == 3
    assert reply.count(b"-ERR The user executing the script can't access") == 1
    assert reply.endswith(b"+OK\r\n")
    assert admin.command("EXISTS", "secret") == b":0\r\n"


FUNCTIONS = """#!lua name=lib
redis.register_function('read', function(keys) return redis.call('get', keys[1]) end)
redis.register_function('try', function(keys) return redis.pcall('set', keys[1], 'y') end)
redis.register_function('say', function() return redis.call('publish', 'channel', 'x') end)
redis.register_function('take', function() return redis.call('lpop', 'hidden') end)
"""


@pytest.mark.parametrize("call", ["read 1 secret", "try 1 secret", "say 0", "take 0"])
@pytest.mark.parametrize("is_queued", [False, True])
def test_functions_have_the_permissions_of_their_caller(
    setting: InProcess, admin: Peer, call: str, is_queued: bool
) -> None:
    admin.command("SET", "secret", "x")
    admin.command("RPUSH", "hidden", "x")
    listener = setting.peer()
    listener.command("SUBSCRIBE", "channel")
    assert admin.command("FUNCTION", "LOAD", FUNCTIONS) == b"$3\r\nlib\r\n"
    peer = user(setting)
    if is_queued:
        peer.command("MULTI")
        assert do(peer, f"FCALL {call}") == b"+QUEUED\r\n"
    do(admin, "ACL SETUSER al resetkeys ~free resetchannels")
    reply = do(peer, "EXEC" if is_queued else f"FCALL {call}")
    assert is_denied(reply.removeprefix(b"*1\r\n"))
    assert listener.replies() == []
    assert admin.command("GET", "secret") == b"$1\r\nx\r\n"
    assert admin.command("LLEN", "hidden") == b":1\r\n"


def test_a_script_is_not_let_through_for_having_waited(setting: InProcess, admin: Peer) -> None:
    """The script arrived behind a wait: rights for it and its commands are checked when it runs."""
    admin.command("SET", "secret", "x")
    peer = user(setting)
    peer.pipeline(("BLPOP", "key", 0), ("EVAL", "return redis.call('get', 'secret')", 0))
    do(admin, "ACL SETUSER al resetkeys ~key")
    admin.command("RPUSH", "key", "x")
    assert is_denied(peer.replies()[1])


@pytest.mark.parametrize("change", ["ACL DELUSER al", "CLIENT KILL USER al"])
def test_a_client_that_is_refused_waits_no_more(
    setting: InProcess, admin: Peer, change: str
) -> None:
    waiting = user(setting)
    waiting.send("BLPOP", "key", 0)
    do(admin, change)
    admin.command("RPUSH", "key", "x")
    assert admin.command("LLEN", "key") == b":1\r\n"
    assert waiting.replies() == []
    setting.assert_nothing_left()


@pytest.fixture
def busy(start_server: Callable[..., HoldfastServer]) -> Iterator[tuple[RawClient, RawClient]]:
    """An administrator and a user on a server that is in the middle of a long script."""
    server = start_server("--lua-time-limit", "1")
    admin, restricted, caller = server.client(), server.client(), server.client()
    do(admin, "ACL SETUSER al on >p +@all -script|kill -shutdown ~*")
    assert restricted.command("AUTH", "al", "p") == b"+OK\r\n"
    caller.send_command("EVAL", "while true do end", 0)
    wait_until(lambda: admin.command("PING").startswith(b"-BUSY"), "it is busy")
    yield admin, restricted
    assert admin.command("SCRIPT", "KILL") == b"+OK\r\n"
    assert b"killed" in caller.read_reply()


def test_while_a_script_is_busy(busy: tuple[RawClient, RawClient]) -> None:
    admin, restricted = busy
    assert is_denied(restricted.command("SCRIPT", "KILL"))
    assert is_denied(restricted.command("SHUTDOWN", "NOSAVE"))
    assert admin.command("PING").startswith(b"-BUSY")
