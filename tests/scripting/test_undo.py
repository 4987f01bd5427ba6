"""A script that changes the same keys again and again, and fails: all keys are as before."""

from pathlib import Path

import pytest

from holdfast.resp import Reply
from holdfast.store.store import open_store
from tests.scripting.running import Running

SETUP = """
    SET s 1|SET large L|SET mortal 1 PX 100000|RPUSH l a b c
    HSET h f 1 g 2|HPEXPIRE h 90000 FIELDS 1 f
    SADD m a b|SADD n 1 2|ZADD z 1 a 2 b|XADD x 1-1 f v|XADD x 2-1 f v|XGROUP CREATE x g 0
    XREADGROUP GROUP g c COUNT 1 STREAMS x >|SETBIT bits 7 1|PFADD p a b
"""

CHANGES = {
    "a string": "INCR s|APPEND s x|SET s other|SET s 2 PX 500|PERSIST s"
    "|DEL s|SET s new|DEL s|SET s 1",
    "a large string": "APPEND large {long}|SETRANGE large 3 y|SET large x|APPEND large {long}",
    "an expiry": "PEXPIRE mortal 5|PERSIST mortal|PEXPIRE mortal 7|SET mortal 2",
    "a list": "RPUSH l d|LPUSH l z|LPOP l|LSET l 0 q|LINSERT l BEFORE b y"
    "|LREM l 0 c|RPOP l|LTRIM l 1 0",
    "a hash": "HSET h f 2 i 3|HINCRBY h f 5|HDEL h f|HSET h f 7"
    "|HPEXPIRE h 5 FIELDS 1 f|HDEL h f g i",
    "a set": "SADD m c|SREM m a|SADD m a|SMOVE m n b|SPOP n|SREM m a c",
    "a sorted set": "ZADD z 3 c|ZINCRBY z 5 a|ZREM z a|ZADD z 9 a|ZPOPMIN z|ZREMRANGEBYRANK z 0 -1",
    "a stream": "XADD x 3-1 f v|XDEL x 1-1|XADD x 4-1 f v|XTRIM x MAXLEN 1|XACK x g 1-1"
    "|XREADGROUP GROUP g d STREAMS x >|XGROUP SETID x g 0|XGROUP DESTROY x g|XGROUP CREATE x g 0",
    "bits and sketches": "SETBIT bits 9 1|BITFIELD bits SET u8 0 7|PFADD p c|PFMERGE p p",
    "another type": "DEL l|SET l text|DEL l|HSET l f v|DEL l|SADD l x",
    "a name": "RENAME s t|RENAME t u|SET s 5|RENAME u s|COPY z zz|ZADD zz 1 q|RENAME zz z",
    "a database": "SELECT 1|SET other 1|SELECT 0|SWAPDB 0 1|SET x 1|FLUSHDB|SET y 1"
    "|FLUSHALL|SET z 1",
}
ALL = "|".join(CHANGES.values())


def commands(text: str) -> list[list[bytes]]:
    lines = text.replace("\n", "|").split("|")
    return [
        [b"x" * 5000 if word == "{long}" else word.encode() for word in line.split()]
        for line in lines
        if line.split()
    ]


State = dict[tuple[bytes, Reply], list[Reply]]


def opened(path: Path) -> Running:
    return Running(open_store(str(path)))


def state(running: Running) -> State:
    """The content of the databases 0 and 1. (OBJECT ENCODING may stay that of a larger value.)"""
    seen: State = {}
    for index in (b"1", b"0"):
        running.do(b"SELECT", index)
        for name in running.many(b"KEYS", b"*"):
            assert isinstance(name, bytes)
            # DUMP has the members of a sorted set in no order.
            dump = [b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"]
            if running.do(b"TYPE", name) != b"zset":
                dump = [b"DUMP", name]
            seen[index, name] = [running.do(*dump), running.do(b"PEXPIRETIME", name)]
    return seen


@pytest.mark.parametrize("changes", [*CHANGES.values(), ALL], ids=[*CHANGES, "all of them"])
def test_a_script_that_fails_after_many_changes_has_changed_nothing(
    tmp_path: Path, changes: str
) -> None:
    running = opened(tmp_path / "a.db")
    for argv in commands(SETUP):
        running.do(*argv)
    running.engine.turn.end()
    running.do(b"SET", b"s", b"2")  # in the batch that is being built, before the script
    before, keyspace = state(running), running.engine.keyspace
    told = (list(keyspace.ops), keyspace.used_bytes, keyspace.dirty, list(keyspace.ready))

    calls = [
        "redis.call(" + ", ".join(f"'{word.decode()}'" for word in argv) + ")"
        for argv in commands(changes)
    ]
    for failure in (b"boom", b"Unknown"):
        script = "\n".join(
            [*calls, "error('boom')" if failure == b"boom" else "redis.call('nope')"]
        )
        assert failure in running.error(b"EVAL", script.encode(), b"0"), "it came so far"
        assert state(running) == before
        assert told == (keyspace.ops, keyspace.used_bytes, keyspace.dirty, keyspace.ready)

    running.engine.turn.end()
    running.engine.store.close()
    again = opened(tmp_path / "a.db")
    assert state(again) == before, "nor is any of it in the file"
    again.engine.store.close()
