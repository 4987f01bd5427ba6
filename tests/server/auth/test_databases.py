"""Rules about databases, as Valkey 9 has them. tests/wire/test_valkey.py compares them with it."""

import pytest

from tests.commands.asking import ask
from tests.harness.in_process import InProcess, Peer

NOPERM = b"NOPERM No permissions to access database"


def restricted(*rules: str) -> tuple[InProcess, Peer]:
    setting = InProcess()
    peer = setting.peer()
    ask(peer, f"ACL SETUSER u on nopass +@all ~* &* {' '.join(rules)}")
    ask(peer, "AUTH u x")
    return setting, peer


@pytest.mark.parametrize(
    ("command", "is_allowed"),
    [
        ("GET k", False),
        ("KEYS *", False),
        ("DBSIZE", False),
        ("FLUSHDB", False),
        ("FLUSHALL", False),
        ("RANDOMKEY", False),
        ("SCAN 0", False),
        ("WATCH k", False),
        ("BLPOP k 1", False),
        ("HIMPORT SET k u 1", False),
        ("EVAL 'return 1' 1 k", False),
        ("SELECT 0", False),
        ("SWAPDB 3 4", False),
        ("MOVE k 4", False),
        ("SELECT 3", True),
        ("PING", True),
        ("PUBLISH c m", True),
        ("CONFIG GET save", True),
        ("INFO server", True),
        ("CLIENT ID", True),
    ],
)
def test_outside_of_the_databases(command: str, is_allowed: bool) -> None:
    _, peer = restricted("resetdbs", "db=3,5")
    assert (ask(peer, command) == NOPERM) != is_allowed


def test_within_the_databases() -> None:
    _, peer = restricted("db=3,5")
    ask(peer, "SELECT 3")
    assert ask(peer, "SET k v") == b"OK"
    assert ask(peer, "COPY k l DB 5") == 1
    assert ask(peer, "COPY k l REPLACE DB 4") == NOPERM
    assert ask(peer, "MOVE k 5") == 1
    assert ask(peer, "SWAPDB 3 5") == b"OK"
    assert ask(peer, "FLUSHDB") == b"OK"
    assert ask(peer, "FLUSHALL") == NOPERM


def test_a_selector_has_databases_of_its_own() -> None:
    _, peer = restricted("db=3", "(db=0 +get ~a*)")
    assert ask(peer, "GET abc") is None
    assert ask(peer, "GET xyz") == (
        b"NOPERM this user has no permissions to access one of the keys used as arguments"
    )
    assert ask(peer, "SET abc x") == (
        b"NOPERM this user has no permissions to run the 'set' command"
    )


def test_a_script_may_go_no_further_than_its_caller() -> None:
    _, peer = restricted("db=3")
    ask(peer, "SELECT 3")
    assert ask(peer, "EVAL \"return redis.call('SET', 'k', 'v')\" 0") == b"OK"
    for call in ("redis.call('SELECT', 0)", "redis.call('MOVE', 'k', 4)"):
        reply = ask(peer, f'EVAL "return {call}" 0')
        assert isinstance(reply, bytes)
        assert reply.startswith(b"ERR The user executing the script can't access the database")


def test_rules_that_change_while_a_transaction_is_queued() -> None:
    setting, peer = restricted("db=0")
    admin = setting.peer()
    ask(peer, "MULTI")
    ask(peer, "SET k v")
    ask(admin, "ACL SETUSER u db=3")
    reply = peer.command("EXEC")
    assert b"no permission to access the database" in reply
    assert ask(admin, "EXISTS k") == 0


def test_all_databases_again() -> None:
    setting, peer = restricted("db=3")
    admin = setting.peer()
    assert ask(peer, "GET k") == NOPERM
    ask(admin, "ACL SETUSER u alldbs")
    assert ask(peer, "GET k") is None
    assert setting.engine.users.by_name[b"u"].is_unrestricted


def test_a_file_keeps_the_rules() -> None:
    setting, _ = restricted("db=5,3", "(resetdbs +get)")
    line = next(line for line in setting.engine.users.lines() if line.startswith(b"user u "))
    other = InProcess()
    admin = other.peer()
    ask(admin, f"ACL SETUSER {line.decode().removeprefix('user ')}")
    assert line in other.engine.users.lines()
