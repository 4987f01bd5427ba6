"""The events of RESTORE and SORT, the durability of a restored value, and the expiry of hash
fields, which redis-server 7.0 does not have. tests/wire compares the replies."""

from pathlib import Path

import pytest

from holdfast.store.store import FileStore
from tests.commands.listening import Listening, published
from tests.harness import RawClient, RedisServer
from tests.harness.in_process import InProcess, Peer

START = ["SET s v", "RPUSH l 2 1", "SADD m 1 2", "ZADD z 1 a", "HSET h f v", "XADD x 1-1 a b"]
SORTS = [
    "SORT l STORE d",
    "SORT l STORE s",
    "SORT missing STORE s",
    "SORT missing STORE d",
    "SORT l",
]


@pytest.mark.oracle
@pytest.mark.parametrize("change", SORTS)
def test_sort_announces_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


def dumped(peer: Peer, name: str) -> bytes:
    return peer.command("DUMP", name).partition(b"\r\n")[2][:-2]


@pytest.mark.oracle
@pytest.mark.parametrize("options", [(0,), (0, "REPLACE"), (1, "ABSTTL", "REPLACE"), (99999,)])
@pytest.mark.parametrize("name", ["new", "l"])
def test_restore_announces_as_redis_does(
    loud_oracle: RedisServer, name: str, options: tuple[int | str, ...]
) -> None:
    setting = Listening()
    peer = setting.peer()
    peer.command("SET", "s", "v")
    peer.command("RPUSH", "l", "a")
    value = dumped(peer, "s")
    setting.events()
    peer.command("RESTORE", name, options[0], value, *options[1:])
    with RawClient.connect(loud_oracle.port) as client:
        client.command("FLUSHALL")
        client.command("RPUSH", "l", "a")
        with RawClient.connect(loud_oracle.port) as listener:
            listener.command("PSUBSCRIBE", "__keyevent@*")
            client.command("RESTORE", name, options[0], value, *options[1:])
            client.command("PUBLISH", "__keyevent@end", "")
            theirs = []
            while b"__keyevent@end" not in (message := listener.read_reply()):
                event = message.split(b"__keyevent@0__:")[1].split(b"\r\n")[0]
                theirs.append((0, event, name.encode()))
    assert setting.events() == theirs


@pytest.mark.parametrize("name", ["s", "l", "m", "z", "h", "x"])
def test_a_restored_value_is_rows_like_any_other(name: str) -> None:
    """The same as a copy has, so that it lasts."""
    setting = InProcess()
    peer = setting.peer()
    for command in START:
        peer.command(*command.split())
    value = dumped(peer, name)
    peer.command("RESTORE", "restored", 0, value)
    assert dumped(peer, "restored") == value
    assert setting.engine.keyspace.used_bytes == sum(
        database.space.nbytes for database in setting.engine.keyspace.databases
    )


def test_fields_that_expire_survive() -> None:
    setting = InProcess()
    peer = setting.peer()
    peer.command("HSET", "h", "never", "1", "soon", "2", "late", "3")
    peer.command("HPEXPIREAT", "h", 33_000_000_000_000, "FIELDS", 1, "soon")
    peer.command("HPEXPIREAT", "h", 33_000_000_001_000, "FIELDS", 1, "late")
    value = dumped(peer, "h")
    peer.command("RESTORE", "again", 0, value)
    question = ("FIELDS", 3, "never", "soon", "late")
    ours = peer.command("HPEXPIRETIME", "again", *question)
    assert ours == peer.command("HPEXPIRETIME", "h", *question)
    assert b"33000000001000" in ours
    assert peer.command("HGETALL", "again") == peer.command("HGETALL", "h")


def test_waiting_clients_are_served() -> None:
    setting = InProcess()
    waiting = setting.blocked("BLPOP", "new", 0)
    peer = setting.peer()
    peer.command("RPUSH", "l", "a", "b")
    peer.command("RESTORE", "new", 0, dumped(peer, "l"))
    assert waiting.replies() == [b"*2\r\n$3\r\nnew\r\n$1\r\na\r\n"]
    waiting = setting.blocked("BLPOP", "sorted", 0)
    peer.command("SORT", "l", "ALPHA", "DESC", "STORE", "sorted")
    assert waiting.replies() == [b"*2\r\n$6\r\nsorted\r\n$1\r\nb\r\n"]


def test_a_key_that_was_idle_since_before_time_began_is_folded(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    peer = InProcess({"appendfsync": "no"}, store).peer()
    peer.command("SET", "s", "v")
    peer.command("RESTORE", "idle", 0, dumped(peer, "s"), "IDLETIME", (1 << 63) - 1)
    store.fold()
    assert store.keyspace.databases[0].space.packed_count == 2
    assert peer.command("GET", "idle") == b"$1\r\nv\r\n"
    store.close()
