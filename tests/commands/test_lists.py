"""The events of list commands; a refused command changes nothing. tests/wire compares the replies;
tests/server/core/test_engine_blocking.py tests the replies to waiting clients."""

from collections.abc import Iterator

import hiredis
import pytest

from holdfast.store.memory.database import Database
from holdfast.store.memory.events import MISS, NEW
from tests.blocking.talk import block
from tests.harness import RawClient, RedisServer
from tests.harness.in_process import InProcess

Event = tuple[bytes, bytes]
CHANGES = [
    "LPUSH new a b",
    "RPUSH new a",
    "LPUSHX k x",
    "RPUSHX k x y",
    "RPUSHX missing x",
    "LPOP k",
    "RPOP k 2",
    "LPOP k 0",
    "RPOP k 10",
    "LPOP one",
    "LPOP missing",
    "LSET k 0 x",
    "LSET k 9 x",
    "LINSERT k BEFORE b x",
    "LINSERT k BEFORE nope x",
    "LREM k 0 a",
    "LREM k 0 nope",
    "LREM one 0 x",
    "LTRIM k 0 -1",
    "LTRIM k 1 1",
    "LTRIM k 5 9",
    "LTRIM missing 0 1",
    "LMOVE k other LEFT RIGHT",
    "LMOVE k new RIGHT LEFT",
    "LMOVE k k LEFT RIGHT",
    "LMOVE one one LEFT RIGHT",
    "LMOVE one other LEFT LEFT",
    "LMOVE missing other LEFT LEFT",
    "RPOPLPUSH one new",
    "LMPOP 2 missing k RIGHT COUNT 2",
    "LMPOP 1 k LEFT COUNT 5",
    "BLPOP one 0",
    "BRPOP k 0",
    "BLMOVE k other RIGHT LEFT 0",
    "BRPOPLPUSH one other 0",
    "BLMPOP 0 1 k RIGHT COUNT 9",
    "LRANGE k 0 -1",
    "LPOS k a",
]
WAITING = [
    "BLPOP new 0",
    "BRPOP missing new 0",
    "BLMOVE new other LEFT RIGHT 0",
    "BLMOVE new new LEFT RIGHT 0",
    "BRPOPLPUSH new target 0",
    "BLMPOP 0 1 new LEFT COUNT 2",
]
START = ["DEL k one other new target", "RPUSH k a b a c", "RPUSH one x", "RPUSH other y z"]


class Listening:
    """The engine, and the keyspace events it has published."""

    def __init__(self) -> None:
        self.setting = InProcess()
        self.peer = self.setting.peer()
        self.events: list[Event] = []
        keyspace = self.setting.engine.keyspace
        keyspace.notify_kinds = ~(NEW | MISS)
        keyspace.notify = self._announced

    def _announced(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        self.events.append((event, name))


@pytest.fixture(scope="module")
def loud_oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    folder = tmp_path_factory.mktemp("loud")
    with RedisServer(folder, "--notify-keyspace-events", "EA") as server:
        yield server


def expected(server: RedisServer, commands: list[str], waiting: str | None = None) -> list[Event]:
    """The events that redis-server publishes for the last of these commands."""
    client, listener = server.client(), server.client()
    for command in commands[:-1]:
        client.command(*command.split())
    if waiting is not None:
        block(server.client(), *waiting.split())
    listener.command("PSUBSCRIBE", "__keyevent@0__:*")
    client.command(*commands[-1].split())
    client.command("SET", "the-end", "x")
    events: list[Event] = []
    while not events or events[-1][1] != b"the-end":
        events.append(announced(listener))
    return events[:-1]


def announced(listener: RawClient) -> Event:
    reader = hiredis.Reader()
    reader.feed(listener.read_reply())
    _, _, channel, name = reader.gets()
    return channel.partition(b":")[2], name


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    ours = Listening()
    for command in START:
        ours.peer.command(*command.split())
    ours.events.clear()
    ours.peer.command(*change.split())
    assert ours.events == expected(loud_oracle, [*START, change])


@pytest.mark.oracle
@pytest.mark.parametrize("waiting", WAITING)
def test_a_woken_command_is_announced_as_redis_does(loud_oracle: RedisServer, waiting: str) -> None:
    ours = Listening()
    for command in START:
        ours.peer.command(*command.split())
    ours.setting.blocked(*waiting.split())
    ours.events.clear()
    ours.peer.command("RPUSH", "new", "1", "2")
    assert ours.events == expected(loud_oracle, [*START, "RPUSH new 1 2"], waiting)


@pytest.mark.parametrize(
    "refused",
    [
        "LPUSH s a",
        "RPUSHX s a",
        "LPOP k -1",
        "LPOP k x",
        "LPOP k 1 2",
        "LSET k 9 x",
        "LSET k x x",
        "LINSERT k BESIDE a x",
        "LREM k x a",
        "LTRIM k 0 x",
        "LMOVE k s LEFT LEFT",
        "LMOVE k other LEFT UP",
        "LMOVE s k LEFT LEFT",
        "RPOPLPUSH k s",
        "LMPOP 1 k UP",
        "LMPOP 1 k LEFT COUNT 0",
        "LMPOP 2 s k LEFT",
        "BLPOP k never",
        "BLPOP s k 0",
        "BRPOP k -1",
        "BLMOVE k other LEFT LEFT never",
        "BLMOVE k s LEFT LEFT 0",
        "BRPOPLPUSH k other -1",
        "BLMPOP never 1 k LEFT",
        "BLMPOP 0 1 k LEFT COUNT x",
    ],
)
def test_a_refused_command_changes_nothing(refused: str) -> None:
    ours = Listening()
    for command in [*START, "SET s string"]:
        ours.peer.command(*command.split())
    ours.events.clear()
    ours.peer.send(*refused.split())
    assert ours.setting.engine.keyspace.ops == []
    assert ours.events == []
    (reply,) = ours.peer.replies()
    assert reply[:1] == b"-"
    ours.setting.assert_nothing_left()
