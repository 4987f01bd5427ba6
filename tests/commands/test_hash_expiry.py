"""The expiry of hash fields, which the oracle does not know: replies and events are those of Redis
7.4, the order of arguments and its errors those of Redis 8.4. The clock stands still."""

from pathlib import Path

import pytest

from holdfast.server.core.cron import EXPIRE_SLICE
from holdfast.store.memory.expiry import expire_due
from holdfast.store.store import FileStore
from tests.commands.asking import ask
from tests.commands.listening import Listening
from tests.harness.in_process import InProcess, Peer

MANDATORY = b"ERR Mandatory argument FIELDS is missing or not at the right position"
NOT_POSITIVE = b"ERR Parameter `numFields` should be greater than 0"
NO_NUMBER = b"ERR Number of fields must be a positive integer"
MISMATCH = b"ERR The `numfields` parameter must match the number of arguments"
CUT_OFF = b"ERR FIELDS requires at least numfields and one field argument"
MANY_CONDITIONS = b"ERR Multiple condition flags specified"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
TOO_LATE = b"ERR invalid expire time in '%b' command"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"


def start(setting: InProcess | None = None) -> tuple[InProcess, Peer]:
    setting = setting or InProcess()
    peer = setting.peer()
    for command in ("HSET h a 1 b 2 c 3", "HPEXPIREAT h 1700000010500 FIELDS 1 b", "SET s string"):
        peer.command(*command.split())
    return setting, peer


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("HEXPIRE h 10 FIELDS 3 a b nope", [1, 1, -2]),
        ("hexpire h 10 nx fields 3 a b nope", [1, 0, -2]),
        ("HEXPIRE h 10 XX FIELDS 2 a b", [0, 1]),
        ("HEXPIRE h 10 GT FIELDS 2 a b", [0, 0]),
        ("HEXPIRE h 11 GT FIELDS 2 a b", [0, 1]),
        ("HPEXPIRE h 10500 GT FIELDS 1 b", [0]),
        ("HPEXPIRE h 10500 LT FIELDS 1 b", [0]),
        ("HEXPIRE h 10 LT FIELDS 2 a b", [1, 1]),
        ("HEXPIRE h 11 LT FIELDS 2 a b", [1, 0]),
        ("HEXPIRE h 10 FIELDS 2 a b NX", [1, 0]),
        ("HEXPIRE h 10 XX FIELDS 2 a b xx", [0, 1]),
        ("HEXPIRE h 10 FIELDS 2 FIELDS NX", [-2, -2]),
        ("HEXPIRE h 0 FIELDS 2 a nope", [2, -2]),
        ("HEXPIRE h 10 FIELDS 2 a a", [1, 1]),
        ("HEXPIRE h 0 FIELDS 2 a a", [2, -2]),
        ("HPEXPIREAT h 1700000000000 FIELDS 1 a", [2]),
        ("HEXPIREAT h 1 GT FIELDS 1 b", [0]),
        ("HEXPIRE missing 10 FIELDS 2 a b", [-2, -2]),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", [1]),
        ("HTTL h FIELDS 3 a b nope", [-1, 11, -2]),
        ("HPTTL h FIELDS 3 a b nope", [-1, 10500, -2]),
        ("HEXPIRETIME h FIELDS 3 a b nope", [-1, 1_700_000_011, -2]),
        ("HPEXPIRETIME h FIELDS 3 a b nope", [-1, 1_700_000_010_500, -2]),
        ("HTTL missing FIELDS 2 a b", [-2, -2]),
        ("HPERSIST h FIELDS 4 a b nope b", [-1, 1, -2, -1]),
        ("HPERSIST missing FIELDS 1 a", [-2]),
        # errors, in the order of the checks
        ("HEXPIRE h 10 FIELDS 1", b"ERR wrong number of arguments for 'hexpire' command"),
        ("HTTL h FIELDS 1", b"ERR wrong number of arguments for 'httl' command"),
        ("HPERSIST h FIELDS 1", b"ERR wrong number of arguments for 'hpersist' command"),
        ("HEXPIRE s x NOPE 0 a", WRONG_TYPE),
        ("HEXPIRE h x NOPE 0 a", NOT_AN_INTEGER),
        ("HEXPIRE missing x FIELDS 1 a", NOT_AN_INTEGER),
        ("HEXPIRE h -1 NOPE 0 a", b"ERR invalid expire time, must be >= 0"),
        ("HEXPIRE h 70368744178 NOPE 0 a", TOO_LATE % b"hexpire"),
        ("HEXPIRE h 70368744177 NOPE 0 a", TOO_LATE % b"hexpire"),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", TOO_LATE % b"hpexpireat"),
        ("HEXPIRE h 10 Nope 0 a", b"ERR unknown argument: Nope"),
        ("HEXPIRE h 10 FIELDS 0 a", NOT_POSITIVE),
        ("HEXPIRE h 10 FIELDS x a", NOT_POSITIVE),
        ("HEXPIRE h 10 FIELDS 2147483648 a", NOT_POSITIVE),
        ("HEXPIRE h 10 FIELDS 2 a", b"ERR wrong number of arguments"),
        ("HEXPIRE h 10 FIELDS 1 a b", b"ERR unknown argument: b"),
        ("HEXPIRE missing 10 FIELDS 1 a b", b"ERR unknown argument: b"),
        ("HEXPIRE h 10 FIELDS 1 a FIELDS 1 b", b"ERR FIELDS keyword specified multiple times"),
        ("HEXPIRE h 10 NX FIELDS 1", CUT_OFF),
        ("HEXPIRE h 10 NX XX GT", b"ERR missing FIELDS argument"),
        ("HEXPIRE h 10 NX XX FIELDS 1 a", MANY_CONDITIONS),
        ("HEXPIRE h 10 GT FIELDS 1 a LT", MANY_CONDITIONS),
        ("HTTL s NOPE 0 a", WRONG_TYPE),
        ("HTTL h NOPE 0 a", MANDATORY),
        ("HTTL h FIELDS 0 a", NO_NUMBER),
        ("HPERSIST h FIELDS x a", NO_NUMBER),
        ("HPERSIST s FIELDS x a", WRONG_TYPE),
        ("HPEXPIRETIME h FIELDS 2 a", MISMATCH),
    ],
)  # fmt: skip
def test_replies(command: str, reply: object) -> None:
    _, peer = start()
    assert ask(peer, command) == reply


def test_an_argument_of_any_bytes_is_shown_as_it_is() -> None:
    _, peer = start()
    reply = peer.command("HEXPIRE", "h", 10, b"\xff\xfe", "FIELDS", 1, "a")
    assert reply == b"-ERR unknown argument: \xff\xfe\r\n"


def test_a_refused_command_changes_nothing() -> None:
    _, peer = start()
    ask(peer, "HEXPIRE h 0 FIELDS 2 a")
    ask(peer, "HPERSIST h FIELDS 2 b")
    assert ask(peer, "HTTL h FIELDS 2 a b") == [-1, 11]


def test_a_field_vanishes_when_its_time_comes() -> None:
    setting, peer = start()
    setting.clock.advance(10.499)
    assert ask(peer, "HGET h b") == b"2"
    setting.clock.advance(0.001)
    assert ask(peer, "HGET h b") is None
    assert ask(peer, "HLEN h") == 2
    assert ask(peer, "HGETALL h") == [b"a", b"1", b"c", b"3"]
    assert ask(peer, "HTTL h FIELDS 1 b") == [-2]
    assert ask(peer, "HSETNX h b 4") == 1
    assert ask(peer, "HTTL h FIELDS 1 b") == [-1]


@pytest.mark.parametrize(
    "look",
    [
        *("HGETALL h", "HKEYS h", "HVALS h", "HMGET h b", "HEXISTS h b", "HSTRLEN h b", "HLEN h"),
        *("HSCAN h 0", "HRANDFIELD h 9", "HRANDFIELD h 9 WITHVALUES", "HDEL h b"),
        "HPTTL h FIELDS 1 b",
    ],
)  # fmt: skip
def test_no_command_sees_an_expired_field(look: str) -> None:
    setting, peer = start()
    plain = InProcess().peer()
    plain.command("HSET", "h", "a", 1, "c", 3)
    setting.clock.advance(10.5)
    assert ask(peer, look) == ask(plain, look)


def test_the_last_field_takes_the_hash_with_it() -> None:
    setting, peer = start()
    ask(peer, "HEXPIRE h 20 FIELDS 2 a c")
    setting.clock.advance(20)
    for look, nothing in [("EXISTS h", 0), ("TYPE h", b"none"), ("HLEN h", 0), ("DBSIZE", 1)]:
        assert ask(peer, look) == nothing
    assert ask(peer, "SADD h is now a set") == 4


def test_fields_expire_without_a_command() -> None:
    setting, peer = start()
    keyspace = setting.engine.keyspace
    for number in range(50):
        peer.command("HSET", f"many{number}", "f", 1, "stays", 1)
        peer.command("HPEXPIRE", f"many{number}", 100 + number, "FIELDS", 1, "f")
        peer.command("HSET", f"gone{number}", "f", 1)
        peer.command("HPEXPIRE", f"gone{number}", 100, "FIELDS", 1, "f")
    setting.clock.advance(60)
    setting.engine.refresh_clock()
    assert expire_due(keyspace, EXPIRE_SLICE) == 101
    space = keyspace.databases[0].space
    assert len(space) == 52
    assert [len(space.keys[b"many%d" % number].value) for number in range(50)] == [1] * 50
    assert len(space.keys[b"h"].value) == 2
    assert expire_due(keyspace, EXPIRE_SLICE) == 0


def test_many_fields_expire_in_slices() -> None:
    setting, peer = start()
    fields = [f"f{number}" for number in range(1200)]
    peer.command("HSET", "big", *(text for field in fields for text in (field, 1)))
    peer.command("HPEXPIRE", "big", 100, "FIELDS", 1200, *fields)
    peer.command("HSET", "big", "stays", 1)
    setting.clock.advance(1)
    setting.engine.refresh_clock()
    counts = [expire_due(setting.engine.keyspace, 500) for _ in range(4)]
    assert counts == [500, 500, 200, 0]
    assert ask(peer, "HKEYS big") == [b"stays"]


def test_a_later_deadline_is_not_forgotten_when_the_first_is_lifted() -> None:
    setting, peer = start()
    ask(peer, "HEXPIRE h 20 FIELDS 1 a")
    ask(peer, "HPERSIST h FIELDS 1 b")
    for passed_s in (11, 9):
        setting.clock.advance(passed_s)
        setting.engine.refresh_clock()
        expire_due(setting.engine.keyspace, EXPIRE_SLICE)
    key = setting.engine.keyspace.databases[0].space.keys[b"h"]
    assert not isinstance(key.value, bytes)
    assert len(key.value) == 2


@pytest.mark.parametrize(
    ("write", "ttl"),
    [
        *(("HSET h b 5", -1), ("HMSET h b 5", -1), ("HINCRBY h b 1", 11)),
        *(("HINCRBYFLOAT h b 1", 11), ("HSETNX h b 5", 11), ("HSET h a 5", 11)),
    ],
)  # fmt: skip
def test_a_write_of_a_field_lifts_its_expiry_or_keeps_it(write: str, ttl: int) -> None:
    _, peer = start()
    ask(peer, write)
    assert ask(peer, "HTTL h FIELDS 1 b") == [ttl]


@pytest.mark.parametrize("way", ["RENAME h other", "COPY h other", "MOVE h 1", "COPY h other DB 1"])
def test_expiry_goes_where_the_hash_goes(way: str) -> None:
    setting, peer = start()
    ask(peer, way)
    if way[-1] == "1":
        ask(peer, "SELECT 1")
    name = "h" if way.startswith("MOVE") else "other"
    assert ask(peer, f"HPTTL {name} FIELDS 2 a b") == [-1, 10500]
    setting.clock.advance(11)
    setting.engine.refresh_clock()
    assert expire_due(setting.engine.keyspace, EXPIRE_SLICE) >= 1
    assert ask(peer, f"HKEYS {name}") == [b"a", b"c"]


def test_an_encoding_of_its_own() -> None:
    _, peer = start()
    assert ask(peer, "OBJECT ENCODING h") == b"listpackex"
    ask(peer, "HPERSIST h FIELDS 1 b")
    assert ask(peer, "OBJECT ENCODING h") == b"listpack"


@pytest.mark.parametrize(
    ("command", "events"),
    [
        ("HEXPIRE h 10 FIELDS 2 a b", [b"hexpire"]),
        ("HPEXPIREAT h 1700000020000 NX FIELDS 1 a", [b"hexpire"]),
        ("HEXPIRE h 10 XX FIELDS 1 a", []),
        ("HEXPIRE h 10 FIELDS 1 nope", []),
        ("HEXPIRE h 0 FIELDS 1 a", [b"hdel"]),
        ("HEXPIRE h 0 FIELDS 3 a b c", [b"hdel", b"del"]),
        ("HPERSIST h FIELDS 1 b", [b"hpersist"]),
        ("HPERSIST h FIELDS 1 a", []),
    ],
)  # fmt: skip
def test_events(command: str, events: list[bytes]) -> None:
    listening = Listening()
    start(listening)
    listening.events()
    (announced,) = listening.announce([command])
    assert announced == [(0, event, b"h") for event in events]


def test_expired_fields_are_announced_and_watchers_told() -> None:
    listening = Listening()
    _, peer = start(listening)
    ask(peer, "HEXPIRE h 20 FIELDS 2 a c")
    ask(peer, "WATCH h")
    listening.clock.advance(11)
    listening.events()
    ask(peer, "HLEN h")
    assert listening.events() == [(0, b"hexpired", b"h")]
    ask(peer, "MULTI")
    assert ask(peer, "EXEC") is None
    listening.clock.advance(11)
    ask(peer, "HSETNX h a 1")
    assert [event for _, event, _ in listening.events()] == [b"hexpired", b"del", b"new", b"hset"]


def in_file(path: Path) -> tuple[InProcess, FileStore]:
    store = FileStore(path)
    return InProcess({"appendfsync": "no"}, store), store


def test_the_file_knows_the_expiry(tmp_path: Path) -> None:
    """Expiry is restored from the journal and from the tables, also for hashes that no command
    loads."""
    path = tmp_path / "x.db"
    setting, store = in_file(path)
    _, peer = start(setting)
    peer.command("HSET", "soon", "z", 1, "f", 1, "a", 1)
    peer.command("HPEXPIRE", "soon", 100, "FIELDS", 1, "f")
    store.abandon()

    setting, store = in_file(path)
    peer = setting.peer()
    assert ask(peer, "HPTTL soon FIELDS 2 f a") == [100, -1]
    assert ask(peer, "HKEYS soon") == [b"z", b"f", b"a"]
    store.close()

    setting, store = in_file(path)
    assert not store.keyspace.databases[0].space.keys
    setting.clock.advance(1)
    setting.engine.refresh_clock()
    assert expire_due(store.keyspace, EXPIRE_SLICE) == 1
    setting.engine.turn.end()
    store.fold()
    assert expire_due(store.keyspace, EXPIRE_SLICE) == 0
    peer = setting.peer()
    assert ask(peer, "HKEYS soon") == [b"z", b"a"]
    assert ask(peer, "HPTTL h FIELDS 1 b") == [9500]
    store.close()
