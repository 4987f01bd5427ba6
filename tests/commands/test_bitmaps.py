"""The events of bitmap and HyperLogLog commands; a refused command changes nothing. tests/wire
compares the replies."""

import pytest

from tests.commands.listening import Listening, published
from tests.harness import RedisServer
from tests.harness.in_process import InProcess

START = ["SET s foobar", "SET e z", "RPUSH l a b", "SET t v EXAT 33000000000", "PFADD h a b c"]
CHANGES = [
    *("SETBIT s 1 1", "SETBIT s 1 0", "SETBIT s 100 0", "SETBIT new 5 0", "SETBIT new 5 1"),
    *("GETBIT s 0", "GETBIT new 0", "BITCOUNT new", "BITPOS new 1", "BITOP NOT s s"),
    *("BITOP AND new s e", "BITOP AND l missing", "BITOP OR new missing", "BITOP OR t s missing"),
    *("BITFIELD s GET u8 0", "BITFIELD s SET u8 0 102", "BITFIELD s SET u8 0 1 SET u8 8 1"),
    *("BITFIELD new GET u8 0", "BITFIELD new SET u8 0 0", "BITFIELD_RO new GET u8 0"),
    *("BITFIELD new OVERFLOW FAIL SET u2 0 4", "BITFIELD s OVERFLOW FAIL SET u2 90 4"),
    *("PFADD new", "PFADD new a", "PFADD h a", "PFADD h z", "PFCOUNT h", "PFCOUNT new"),
    *("PFMERGE h new", "PFMERGE new h", "PFMERGE new", "PFCOUNT h new"),
]


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


@pytest.mark.parametrize(
    "refused",
    [
        *("SETBIT s 1 2", "SETBIT l 1 1", "SETBIT s -1 1", "BITOP AND e s l", "BITOP NOT e s t"),
        *(
            "BITFIELD s SET u8 0 1 SET u8 0 x",
            "BITFIELD s SET u8 0 1 NOPE",
            "BITFIELD l SET u1 0 1",
        ),
        *("BITFIELD_RO s SET u8 0 1", "PFADD s a", "PFADD l a", "PFMERGE h s", "PFMERGE e h"),
    ],
)
def test_a_refused_command_changes_nothing(refused: str) -> None:
    setting = InProcess()
    peer = setting.peer()
    for command in START:
        peer.command(*command.split())
    keyspace = setting.engine.keyspace
    before = {name: key.value for name, key in keyspace.databases[0].space.keys.items()}
    dirty = keyspace.dirty
    assert peer.command(*refused.split())[:1] == b"-"
    assert {name: key.value for name, key in keyspace.databases[0].space.keys.items()} == before
    assert (keyspace.dirty, keyspace.ops) == (dirty, [])
