"""What replicas are sent for a command, without a replica: an engine in this process."""

import random

import pytest

from holdfast import all_commands as all_commands
from holdfast.commands.table import TABLE, Command
from holdfast.resp import RequestParser
from holdfast.server.primary.effect_log import EffectLog
from holdfast.server.primary.propagation import (
    ALWAYS,
    AS_THEY_CAME,
    EFFECTS,
    TRANSACTIONS,
)
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.value_codec import dump
from tests.commands.calls_of_redis_8 import FILL, Calls
from tests.harness.in_process import InProcess, Peer


class Primary:
    """An engine that notes effects. `sent` are the commands since the last look."""

    def __init__(self, **config: str) -> None:
        self.process = InProcess(config)
        engine = self.process.engine
        self.effects = EffectLog(engine.keyspace)
        engine.invoker.effects = self.effects
        engine.keyspace.on_removed = self.effects.removed
        self.peer: Peer = self.process.peer()

    def do(self, line: str) -> bytes:
        return self.peer.command(*line.split())

    @property
    def sent(self) -> list[str]:
        argvs = RequestParser().feed(self.effects.take())
        return [b" ".join(argv).decode("latin-1") for argv in argvs]


@pytest.fixture
def primary() -> Primary:
    primary = Primary()
    primary.do("SET warm up")
    assert primary.sent == ["SELECT 0", "SET warm up"]
    return primary


def every_command() -> list[Command]:
    return [each for entry in TABLE.values() for each in (entry, *entry.subcommands.values())]


def test_each_command_that_writes_stands_in_one_list() -> None:
    lists = [set(EFFECTS), AS_THEY_CAME, ALWAYS, TRANSACTIONS]
    writes = {
        each.name
        for each in every_command()
        if (each.is_write or "may_replicate" in each.flags) and not each.subcommands
    }
    named = set().union(*lists)
    assert writes - named == set(), "says what replicas are sent"
    assert named - writes - {"exec"} == set(), "is a command that writes"
    assert sum(map(len, lists)) == len(named), "stands in one list only"


STREAM = [
    *("XADD x 1-1 a b", "XGROUP CREATE x g 0", "XGROUP CREATE x h 0"),
    "XREADGROUP GROUP g c STREAMS x >",
]
STREAM_SENT = [
    *STREAM[:3],
    "XGROUP CREATECONSUMER x g c",
    "XCLAIM x g c 0 1-1 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1",
    "XGROUP SETID x g 1-1 ENTRIESREAD 1",
]


@pytest.mark.parametrize(
    ("commands", "sent"),
    [
        (["GET a"], []),
        (["SET a 1"], ["SET a 1"]),
        (["SET a 1 NX"], ["SET a 1"]),
        (["SET a 1 XX"], []),
        (["SET a 1 PXAT 4000000000000", "SET a 2 KEEPTTL"],
         ["SET a 1 PXAT 4000000000000", "SET a 2 PXAT 4000000000000"]),
        (["SET a 1", "SET a 2 IFEQ 1"], ["SET a 1", "SET a 2"]),
        (["MSETEX 2 a 1 b 2 PXAT 4000000000000"],
         ["SET a 1 PXAT 4000000000000", "SET b 2 PXAT 4000000000000"]),
        (["INCREX a BYINT 5"], ["SET a 5"]),
        (["SET a 1", "DELEX a IFEQ 1"], ["SET a 1", "DEL a"]),
        (["HSETEX h PXAT 4000000000000 FIELDS 1 f 1", "HGETEX h PERSIST FIELDS 1 f",
          "HGETDEL h FIELDS 1 f"],
         ["HSET h f 1", "HPEXPIREAT h 4000000000000 FIELDS 1 f", "HPERSIST h FIELDS 1 f",
          "HDEL h f"]),
        (["HSETEX h FIELDS 1 f 1 PXAT 4000000000000", "HEXPIREAT h 4000000001 FIELDS 1 f XX",
          "HGETEX h FIELDS 1 f PERSIST"],
         ["HSET h f 1", "HPEXPIREAT h 4000000000000 FIELDS 1 f",
          "HPEXPIREAT h 4000000001000 FIELDS 1 f", "HPERSIST h FIELDS 1 f"]),
        # HSET takes the time away. Replicas of version 7.0 and 7.2 do not know HPERSIST.
        (["HSETEX h FIELDS 2 f 1 g 2", "HSETEX h KEEPTTL FIELDS 1 f 2"],
         ["HSET h f 1 g 2", "HSET h f 2"]),
        (["HSETEX h PXAT 4000000000000 FIELDS 1 f 1", "HSETEX h KEEPTTL FIELDS 2 f 2 g 2",
          "HSETEX h FIELDS 1 f 3"],
         ["HSET h f 1", "HPEXPIREAT h 4000000000000 FIELDS 1 f", "HSET h f 2 g 2",
          "HPEXPIREAT h 4000000000000 FIELDS 1 f", "HSET h f 3"]),
        (["RPUSH l a b c", "LMOVEM l l LEFT RIGHT COUNT 2 OBO"],
         ["RPUSH l a b c", "LPOP l 2", "RPUSH l a b"]),
        (["RPUSH l a b c", "LMOVEM l m LEFT LEFT COUNT 2 BULK"],
         ["RPUSH l a b c", "LPOP l 2", "LPUSH m b a"]),
        (["SET a 1 PXAT 4000000000000"], ["SET a 1 PXAT 4000000000000"]),
        (["SET a 1 PXAT 1", "GET a"], ["SET a 1 PXAT 1", "DEL a"]),
        (["SET a 1", "GETSET a 2"], ["SET a 1", "SET a 2"]),
        (["SET a 1", "GETDEL a"], ["SET a 1", "DEL a"]),
        (["SET a 1", "PEXPIREAT a 4000000000000", "GETEX a PERSIST"],
         ["SET a 1", "PEXPIREAT a 4000000000000", "PERSIST a"]),
        (["SET a 1", "EXPIRE a -1"], ["SET a 1", "DEL a"]),
        (["INCRBYFLOAT a 0.5"], ["SET a 0.5 KEEPTTL"]),
        (["HINCRBYFLOAT h f 0.5"], ["HSET h f 0.5"]),
        (["DEL nothing"], []),
        (["SADD s a", "SPOP s"], ["SADD s a", "DEL s"]),
        (["RPUSH l a b", "BLPOP l 0"], ["RPUSH l a b", "LPOP l"]),
        (["RPUSH l a b", "BLMOVE l m LEFT RIGHT 0"], ["RPUSH l a b", "LMOVE l m LEFT RIGHT"]),
        (["RPUSH l a b", "BRPOPLPUSH l m 0"], ["RPUSH l a b", "RPOPLPUSH l m"]),
        (["RPUSH l a b c", "LMPOP 2 no l RIGHT COUNT 2"], ["RPUSH l a b c", "RPOP l 2"]),
        (["ZADD z 1 a", "BZMPOP 0 1 z MIN"], ["ZADD z 1 a", "ZPOPMIN z 1"]),
        (["ZADD z 1 a", "BZPOPMAX z 0"], ["ZADD z 1 a", "ZPOPMAX z"]),
        (["XADD x MAXLEN ~ 1 1-1 a b"], ["XADD x 1-1 a b", "XTRIM x MAXLEN = 1"]),
        (["XADD x NOMKSTREAM 1-1 a b", "XADD x KEEPREF MAXLEN 5 1-1 a b"],
         ["XADD x 1-1 a b", "XTRIM x MAXLEN = 1"]),
        (["XADD x IDMP p 1 MAXLEN ~ 5 * a b", "XADD x IDMP p 1 MAXLEN ~ 5 * a b",
          "XCFGSET x IDMP-MAXSIZE 5"],
         ["XADD x 1700000000000-0 a b", "XTRIM x MAXLEN = 1"]),
        (["XADD x IDMPAUTO p * a b"], ["XADD x 1700000000000-0 a b"]),
        ([*STREAM, "XDELEX x DELREF IDS 2 1-1 9-9"],
         [*STREAM_SENT, "XDEL x 1-1", "XACK x g 1-1 9-9", "XACK x h 1-1 9-9"]),
        ([*STREAM, "XDELEX x ACKED IDS 1 1-1", "XDELEX x IDS 1 9-9 KEEPREF"], STREAM_SENT),
        ([*STREAM, "XACKDEL x g ACKED IDS 2 1-1 9-9"], [*STREAM_SENT, "XACK x g 1-1"]),
        ([*STREAM, "XACKDEL x g IDS 1 1-1"], [*STREAM_SENT, "XACK x g 1-1", "XDEL x 1-1"]),
        ([*STREAM, "XNACK x g SILENT IDS 2 9-9 1-1"],
         [*STREAM_SENT, "XCLAIM x g  0 1-1 TIME 0 RETRYCOUNT 0 FORCE JUSTID LASTID 1-1"]),
        ([*STREAM, "XREADGROUP GROUP g d CLAIM 0 STREAMS x >"],
         [*STREAM_SENT, "XGROUP CREATECONSUMER x g d",
          "XCLAIM x g d 0 1-1 TIME 1700000000000 RETRYCOUNT 2 FORCE JUSTID LASTID 1-1",
          "XGROUP SETID x g 1-1 ENTRIESREAD 1"]),
        (["PUBLISH c hello"], ["PUBLISH c hello"]),
        (["SWAPDB 0 1"], ["SWAPDB 0 1"]),
    ],
)  # fmt: skip
def test_what_is_sent(primary: Primary, commands: list[str], sent: list[str]) -> None:
    for line in commands:
        primary.do(line)
    assert primary.sent == sent


@pytest.mark.parametrize("trim", ["XTRIM x MAXLEN 0 DELREF", "XADD x ACKED MINID ~ 9 2-1 a b"])
def test_a_trim_that_looks_at_groups_sends_the_stream(primary: Primary, trim: str) -> None:
    """In the form of Redis 7, also with a returned entry in it."""
    for line in [*STREAM, "XNACK x g FAIL IDS 1 1-1", "XACK x g 1-1", "XGROUP SETID x h 1-1"]:
        primary.do(line)
    primary.do("XCFGSET x IDMP-MAXSIZE 5")
    primary.effects.take()
    primary.do(trim)
    [restore] = RequestParser().feed(primary.effects.take())
    assert restore[:3] == [b"RESTORE", b"x", b"0"]
    assert (restore[3][0], restore[4]) == (19, b"REPLACE")


def test_the_options_of_a_group_read_come_in_any_order(primary: Primary) -> None:
    for line in ("XADD s 1-1 a b", "XGROUP CREATE s STREAMS 0"):
        primary.do(line)
    assert len(primary.sent) == 2
    primary.do("XREADGROUP COUNT 1 NOACK GROUP STREAMS c STREAMS s >")
    assert primary.sent == [
        "XGROUP CREATECONSUMER s STREAMS c",
        "XGROUP SETID s STREAMS 1-1 ENTRIESREAD 1",
    ]


def test_a_dump_of_a_newer_version_is_sent_in_the_form_of_redis_7(primary: Primary) -> None:
    fields = [(b"f", b"1", 4_000_000_000_000), (b"g", b"2", None)]
    payload = dump(Plain("hash", fields))
    assert payload[-10] == 12  # the version; Redis 7.0 reads up to 10
    primary.peer.command("RESTORE", "h", 4_000_000_000_001, payload, "ABSTTL")
    restore, time = RequestParser().feed(primary.effects.take())
    without_times = dump(Plain("hash", [(name, text, None) for name, text, _ in fields]))
    assert restore == [b"RESTORE", b"h", b"4000000000001", without_times, b"REPLACE", b"ABSTTL"]
    assert without_times[-10] == 10
    assert b" ".join(time) == b"HPEXPIREAT h 4000000000000 FIELDS 1 f"


def test_a_dump_that_redis_7_reads_is_sent_as_it_came(primary: Primary) -> None:
    payload = dump(Plain("set", [b"a", b"b"]))
    primary.peer.command("RESTORE", "s", 0, payload)
    assert RequestParser().feed(primary.effects.take()) == [[b"RESTORE", b"s", b"0", payload]]


def test_a_time_to_live_becomes_a_time(primary: Primary) -> None:
    primary.do("SET a 1 EX 10")
    primary.do("PEXPIRE a 5000")
    now_ms = primary.process.engine.keyspace.now_ms
    assert primary.sent == [f"SET a 1 PXAT {now_ms + 10_000}", f"PEXPIREAT a {now_ms + 5_000}"]


def test_a_list_that_is_turned_round_keeps_its_expiry(primary: Primary) -> None:
    primary.do("RPUSH l a b")
    primary.do("PEXPIREAT l 4000000000000")
    assert len(primary.sent) == 2
    primary.do("LMOVEM l l LEFT LEFT COUNT 2 OBO")
    (restore,) = primary.sent
    assert restore.startswith("RESTORE l 4000000000000 ")
    assert restore.endswith(" REPLACE ABSTTL")


def test_a_key_that_expires_is_deleted(primary: Primary) -> None:
    primary.do("SET a 1 PX 10")
    assert len(primary.sent) == 1
    primary.process.clock.advance(0.011)
    primary.do("GET a")
    assert primary.sent == ["DEL a"]


@pytest.mark.parametrize("line", ["SCAN 0", "RANDOMKEY"])
def test_keys_that_a_walk_finds_expired_are_deleted_one_by_one(primary: Primary, line: str) -> None:
    primary.process.engine.expires_actively = False
    for name in "ab":
        primary.do(f"SET {name} 1 PX 10")
    assert len(primary.sent) == 2
    primary.process.clock.advance(0.011)
    primary.do(line)
    assert sorted(primary.sent) == ["DEL a", "DEL b"]


def test_a_field_that_expires_is_deleted(primary: Primary) -> None:
    primary.do("HSET h f 1 g 2")
    primary.do("HPEXPIRE h 10 FIELDS 1 f")
    due_ms = primary.process.engine.keyspace.now_ms + 10
    assert primary.sent == ["HSET h f 1 g 2", f"HPEXPIREAT h {due_ms} FIELDS 1 f"]
    primary.process.clock.advance(0.011)
    primary.do("HGET h f")
    assert primary.sent == ["HDEL h f"]


def test_any_call_of_redis_8_is_told_in_words_of_redis_7(rng: random.Random) -> None:
    """A replica has the same data then, whatever the arguments were and however they were run."""
    config = {"enable-debug-command": "yes"}
    for _ in range(8):
        primary, replica = Primary(**config), InProcess(config).peer()
        calls = Calls(rng, expires=False)
        begin = [[word.encode() for word in line] for line in FILL]
        for argv in [*begin, *(calls.next() for _ in range(40))]:
            match rng.randrange(4):
                case 0:
                    primary.peer.transaction(argv)
                case 1:
                    primary.peer.command("EVAL", "return redis.pcall(unpack(ARGV))", 0, *argv)
                case _:
                    primary.peer.command(*argv)
            for told in RequestParser().feed(primary.effects.take()):
                assert TABLE[told[0].decode().lower()].since < "7.1", (argv, told)
                assert not replica.command(*told).startswith(b"-"), (argv, told)
            data = primary.peer.command("DEBUG", "DIGEST")
            assert replica.command("DEBUG", "DIGEST") == data, argv


def test_a_transaction_is_sent_as_one(primary: Primary) -> None:
    primary.peer.transaction(("SET", "a", 1), ("GET", "a"), ("INCR", "a"))
    assert primary.sent == ["MULTI", "SET a 1", "INCR a", "EXEC"]
    primary.peer.transaction(("SET", "a", 1), ("GET", "a"))
    assert primary.sent == ["SET a 1"]
    primary.peer.transaction(("GET", "a"))
    assert primary.sent == []


def test_times_of_fields_cut_a_transaction(primary: Primary) -> None:
    """A Redis before 7.4 does not know their commands, and would refuse the whole transaction."""
    time = ("HPEXPIREAT", "h", 4000000000000, "FIELDS", 1, "f")
    sent_time = "HPEXPIREAT h 4000000000000 FIELDS 1 f"
    primary.peer.transaction(("HSET", "h", "f", 1), time, ("hpersist", "h", "FIELDS", 1, "f"))
    assert primary.sent == ["HSET h f 1", sent_time, "hpersist h FIELDS 1 f"]
    primary.peer.transaction(time, ("SET", "a", 1), ("INCR", "a"))
    assert primary.sent == [sent_time, "MULTI", "SET a 1", "INCR a", "EXEC"]
    primary.peer.transaction(("SET", "a", 1), ("SELECT", 1), ("INCR", "a"), ("SELECT", 0), time)
    assert primary.sent == ["MULTI", "SET a 1", "SELECT 1", "INCR a", "EXEC", "SELECT 0", sent_time]
    primary.peer.transaction(("INCR", "a"), time, ("INCR", "a"), ("INCR", "a"))
    assert primary.sent == ["INCR a", sent_time, "MULTI", "INCR a", "INCR a", "EXEC"]
    primary.peer.transaction(time, time)
    assert primary.sent == [sent_time, sent_time]


def test_a_script_is_sent_as_its_effects(primary: Primary) -> None:
    primary.peer.command("EVAL", "redis.call('SET', 'a', 1); redis.call('INCR', 'a')", 0)
    assert primary.sent == ["MULTI", "SET a 1", "INCR a", "EXEC"]


def test_a_script_that_fails_is_not_sent(primary: Primary) -> None:
    reply = primary.peer.command("EVAL", "redis.call('SET', 'b', 1); redis.call('nonsense')", 0)
    assert reply.startswith(b"-")
    assert primary.sent == []
    primary.peer.transaction(
        ("SET", "a", 1), ("EVAL", "redis.call('SET', 'b', 1); error('no')", 0), ("INCR", "a")
    )
    assert primary.sent == ["MULTI", "SET a 1", "INCR a", "EXEC"]


def test_a_key_that_expired_in_a_script_is_deleted_before_it_is_made_again(
    primary: Primary,
) -> None:
    primary.do("SET a 1 PX 10")
    assert len(primary.sent) == 1
    primary.process.clock.advance(0.011)
    primary.peer.command("EVAL", "redis.call('SET', 'a', 2)", 0)
    assert primary.sent == ["MULTI", "DEL a", "SET a 2", "EXEC"]


def test_the_database_is_selected_when_it_changes(primary: Primary) -> None:
    for line in ("SELECT 3", "SET a 1", "SET b 1", "SELECT 0", "SET c 1"):
        primary.do(line)
    assert primary.sent == ["SELECT 3", "SET a 1", "SET b 1", "SELECT 0", "SET c 1"]


def test_a_waiter_is_sent_after_the_command_that_woke_it(primary: Primary) -> None:
    primary.process.blocked("BLPOP", "l", 0)
    primary.do("RPUSH l a b")
    assert primary.sent == ["RPUSH l a b", "LPOP l"]
