"""Classes of events that came after Redis 7, as Redis 8.10 documents them. All others are compared
with redis-server in tests/wire/test_oracle_notifications.py."""

import pytest

from tests.commands.asking import ask
from tests.commands.listening import Listening
from tests.harness.in_process import InProcess

OVERWRITTEN, TYPE_CHANGED = b"overwritten", b"type_changed"
UNKNOWN = (
    b"ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - "
    b"Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'."
)


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ("o", b"o"),
        ("coEK", b"ocKE"),
        ("ca$onK", b"$anocK"),
        ("VITSmh", b"hmSTIV"),
        ("KEAocn", b"AKE"),
        ("g$lshzxetdoKE", b"AKE"),
    ],
)
def test_flags_are_shown_in_the_order_of_redis(flags: str, shown: bytes) -> None:
    peer = InProcess().peer()
    ask(peer, f"CONFIG SET notify-keyspace-events {flags}")
    assert ask(peer, "CONFIG GET notify-keyspace-events") == [b"notify-keyspace-events", shown]


@pytest.mark.parametrize("flags", ["q", "KQ", "r", "'K E'", "?"])
def test_an_unknown_flag_is_refused_and_changes_nothing(flags: str) -> None:
    peer = InProcess({"notify-keyspace-events": "Ex"}).peer()
    assert ask(peer, f"CONFIG SET notify-keyspace-events {flags}") == UNKNOWN
    assert ask(peer, "CONFIG GET notify-keyspace-events") == [b"notify-keyspace-events", b"xE"]


def events_of(*lines: str) -> list[bytes]:
    """The events of the last line about the key `k`, with all classes on."""
    listening = Listening()
    peer = listening.peer()
    ask(peer, "CONFIG SET notify-keyspace-events EAnoc")
    for line in lines[:-1]:
        ask(peer, line)
    listening.events()
    ask(peer, lines[-1])
    return [event for _, event, key in listening.events() if key == b"k"]


FILL = ("SET s v", "RPUSH l a", "SADD set a", "ZADD z 1 a", "GEOADD g 13 38 x", "HSET h f v")


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("SET k v", b"set"),
        ("SET k v KEEPTTL", b"set"),
        ("GETSET k v", b"set"),
        ("MSET k v", b"set"),
        ("MSETEX 1 k v", b"set"),
        ("BITOP NOT k s", b"set"),
    ],
)
def test_a_string_overwrites_a_string_or_changes_the_type(line: str, event: bytes) -> None:
    assert events_of(*FILL, line) == [b"new", event]
    assert events_of(*FILL, "SET k old", line) == [OVERWRITTEN, event]
    if not line.startswith("GETSET"):
        assert events_of(*FILL, "RPUSH k a", line) == [OVERWRITTEN, TYPE_CHANGED, event]


@pytest.mark.parametrize(
    ("line", "same", "event"),
    [
        ("SUNIONSTORE k set", "SADD k x", b"sunionstore"),
        ("ZUNIONSTORE k 1 z", "ZADD k 1 x", b"zunionstore"),
        ("ZRANGESTORE k z 0 -1", "ZADD k 1 x", b"zrangestore"),
        ("GEOSEARCHSTORE k g FROMMEMBER x BYRADIUS 1 km", "ZADD k 1 x", b"geosearchstore"),
        ("SORT l ALPHA STORE k", "RPUSH k x", b"sortstore"),
    ],
)
def test_a_store_overwrites_what_was_there(line: str, same: str, event: bytes) -> None:
    assert events_of(*FILL, line) == [b"new", event]
    assert events_of(*FILL, same, line) == [OVERWRITTEN, event]
    assert events_of(*FILL, "SET k v", line) == [OVERWRITTEN, TYPE_CHANGED, event]


@pytest.mark.parametrize(
    ("line", "event"), [("RENAME s k", b"rename_to"), ("COPY s k REPLACE", b"copy_to")]
)
def test_a_key_that_takes_the_place_of_another_tells_it_last(line: str, event: bytes) -> None:
    assert events_of(*FILL, "SET k old", line) == [b"new", event, OVERWRITTEN]
    assert events_of(*FILL, "HSET k f v", line) == [b"new", event, OVERWRITTEN, TYPE_CHANGED]


def test_restore_tells_it_last_too() -> None:
    listening = Listening()
    peer = listening.peer()
    for line in ("CONFIG SET notify-keyspace-events Egoc", "SET s v", "HSET k f v"):
        ask(peer, line)
    payload = ask(peer, "DUMP s")
    assert isinstance(payload, bytes)
    peer.command("RESTORE", "k", 0, payload, "REPLACE")
    assert [event for _, event, _ in listening.events()] == [b"restore", OVERWRITTEN, TYPE_CHANGED]


@pytest.mark.parametrize(
    "line",
    [
        "APPEND k x",
        "SETRANGE k 1 x",
        "INCR k",
        "SETBIT k 1 1",
        "EXPIRE k 100",
        "SET k v NX",
        "SUNIONSTORE k none",
        "DEL k",
    ],
)
def test_changes_of_a_value_and_removals_overwrite_nothing(line: str) -> None:
    assert OVERWRITTEN not in events_of(*FILL, "SET k 1", line)


def test_a_replaced_hash_of_an_import_is_overwritten() -> None:
    fields = "HIMPORT PREPARE set f"
    assert events_of(fields, "HSET k g v", "HIMPORT SET k set v") == [OVERWRITTEN, b"hset"]


def test_a_script_that_fails_has_overwritten_nothing() -> None:
    script = "redis.call('SET', 'k', 'v')"
    assert events_of("RPUSH k a", f'EVAL "{script}" 0') == [OVERWRITTEN, TYPE_CHANGED, b"set"]
    assert events_of("RPUSH k a", f'EVAL "{script} error()" 0') == []
