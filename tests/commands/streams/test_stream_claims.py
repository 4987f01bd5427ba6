"""XNACK, and pending entries that no consumer has. Replies and errors: as Redis 8.8 documents."""

from typing import Any

import pytest

from tests.commands.streams.talk import Talk

HIGHEST = (1 << 63) - 1
START = [
    *(f"XADD k {number} a b" for number in range(1, 6)),
    "XGROUP CREATE k g 0",
    "XREADGROUP GROUP g alice COUNT 3 STREAMS k >",
    "XCLAIM k g alice 0 2 RETRYCOUNT 7",
    "SET s v",
]


def pending(talk: Talk) -> list[Any]:
    """Id, consumer and deliveries of each, without the time."""
    return [[entry[0], entry[1], entry[3]] for entry in talk("XPENDING k g - + 99")]


def test_a_returned_entry_stays_pending_without_a_consumer() -> None:
    talk = Talk(*START)
    talk.pass_time(5)
    assert talk("XNACK k g FAIL IDS 2 3 1") == 2
    assert talk("XPENDING k g") == [3, "1-0", "3-0", [["alice", "1"]]]
    assert talk("XPENDING k g - + 99") == [
        *(["1-0", "", -1, 1], ["2-0", "alice", 5000, 7], ["3-0", "", -1, 1])
    ]
    assert talk("XPENDING k g IDLE 99999 - + 99") == [["1-0", "", -1, 1], ["3-0", "", -1, 1]]
    assert talk("XPENDING k g - + 99 alice") == [["2-0", "alice", 5000, 7]]
    assert talk("XREADGROUP GROUP g alice STREAMS k 0") == [["k", [["2-0", ["a", "b"]]]]]
    assert talk("XINFO CONSUMERS k g")[0][:4] == ["name", "alice", "pending", 1]
    (group,) = talk("XINFO STREAM k FULL")[-1]
    assert group[8:12] == ["pel-count", 3, "nacked-count", 2]
    assert group[13][0] == ["1-0", "", 0, 1]


@pytest.mark.parametrize(
    ("command", "reply", "deliveries"),
    [
        ("XNACK k g SILENT IDS 2 1 2", 2, {"1-0": 0, "2-0": 6}),
        ("XNACK k g FAIL IDS 1 2", 1, {"2-0": 7}),
        ("XNACK k g FATAL IDS 1 2", 1, {"2-0": HIGHEST}),
        ("XNACK k g fatal RETRYCOUNT 4 ids 2 1 2", 2, {"1-0": 4, "2-0": 4}),
        ("XNACK k g SILENT IDS 1 2 RETRYCOUNT 0", 1, {"2-0": 0}),
        ("XNACK k g FAIL IDS 3 1 1 1", 3, {"1-0": 1}),
        ("XNACK k g FAIL IDS 2 4 9", 0, {}),
        ("XNACK k g FAIL IDS 2 4 9 FORCE", 1, {"4-0": 0}),
        ("XNACK k g SILENT FORCE IDS 1 4", 1, {"4-0": 0}),
        ("XNACK k g FATAL FORCE IDS 1 4", 1, {"4-0": HIGHEST}),
        ("XNACK k g FAIL IDS 1 9 IDS 1 1", 1, {"1-0": 1}),
    ],
)
def test_how_often_a_returned_entry_counts_as_delivered(
    command: str, reply: int, deliveries: dict[str, int]
) -> None:
    talk = Talk(*START)
    assert talk(command) == reply
    returned = {entry_id: count for entry_id, consumer, count in pending(talk) if not consumer}
    assert returned == deliveries
    assert talk.events() == []


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("XNACK k g FAIL IDS 1", "ERR wrong number of arguments for 'xnack' command"),
        ("XNACK none g x y z w", "NOGROUP No such key 'none' or consumer group 'g'"),
        ("XNACK k h FAIL IDS 1 1", "NOGROUP No such key 'k' or consumer group 'h'"),
        ("XNACK s g x y z w", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XNACK k g NOPE IDS 1 1", "ERR mode must be SILENT, FAIL, or FATAL"),
        ("XNACK k g FAIL IDS 0 1", "ERR numids must be a positive integer"),
        ("XNACK k g FAIL IDS 2147483648 1", "ERR numids must be a positive integer"),
        ("XNACK k g FAIL IDS 2 1", "ERR number of IDs doesn't match numids"),
        ("XNACK k g FAIL IDS 1 1 2", "ERR Unrecognized XNACK option '2'"),
        ("XNACK k g FAIL IDS 1 1 RETRYCOUNT", "ERR Unrecognized XNACK option 'RETRYCOUNT'"),
        ("XNACK k g FAIL IDS 1 1 RETRYCOUNT -1", "ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK k g FAIL IDS 1 1 RETRYCOUNT x", "ERR value is not an integer or out of range"),
        ("XNACK k g FAIL FORCE FORCE FORCE", "ERR syntax error, expected IDS keyword"),
        ("XNACK k g FAIL IDS 2 1 x", "ERR Invalid stream ID specified as stream command argument"),
    ],
)
def test_a_refused_command_changes_nothing(command: str, error: str) -> None:
    talk = Talk(*START)
    talk.peer.send(*command.split())
    assert talk.setting.engine.keyspace.ops == []
    (reply,) = talk.peer.replies()
    assert reply == f"-{error}\r\n".encode()


@pytest.mark.parametrize(
    "claim", ["XCLAIM k g bob 99999 1", "XAUTOCLAIM k g bob 99999 0", "XCLAIM k g bob 9 1 JUSTID"]
)
def test_a_returned_entry_can_be_claimed_at_once(claim: str) -> None:
    talk = Talk(*START, "XNACK k g FAIL IDS 1 1")
    talk(claim)
    count = 1 if "JUSTID" in claim else 2
    assert ["1-0", "bob", count] in pending(talk)
    assert ["2-0", "alice", 7] in pending(talk)


def test_the_highest_count_stays() -> None:
    talk = Talk(*START, "XNACK k g FATAL IDS 1 1", "XCLAIM k g bob 0 1")
    talk("XREADGROUP GROUP g bob STREAMS k 0")
    assert pending(talk)[0] == ["1-0", "bob", HIGHEST]


@pytest.mark.parametrize(
    "command",
    [
        "XACK k g 1",
        "XACKDEL k g IDS 1 1",
        "XDELEX k DELREF IDS 1 1",
        "XGROUP DESTROY k g",
        "DEL k",
    ],
)
def test_a_returned_entry_can_go(command: str) -> None:
    talk = Talk(*START, "XNACK k g FAIL IDS 1 1")
    assert talk(command) in (1, [1])
    talk("XGROUP CREATE k g 0 MKSTREAM")  # if it is gone, too
    assert "1-0" not in [entry[0] for entry in pending(talk)]


def test_deleting_its_last_consumer_leaves_a_returned_entry() -> None:
    talk = Talk(*START, "XNACK k g FAIL IDS 1 1")
    assert talk("XGROUP DELCONSUMER k g alice") == 2
    assert pending(talk) == [["1-0", "", 1]]


def test_a_consumer_without_a_name_is_none_of_them() -> None:
    talk = Talk(*START, "XNACK k g FAIL IDS 1 1")
    talk.peer.command("XCLAIM", "k", "g", "", 0, 2)
    assert talk("XPENDING k g") == [3, "1-0", "3-0", [["", "1"], ["alice", "1"]]]
    assert talk("XNACK k g FAIL IDS 1 2") == 1
    assert talk("XPENDING k g") == [3, "1-0", "3-0", [["alice", "1"]]]


def test_an_entry_read_again_after_setid_has_a_consumer() -> None:
    talk = Talk(*START, "XNACK k g FAIL IDS 2 1 3", "XGROUP SETID k g 0")
    talk("XREADGROUP GROUP g bob COUNT 1 STREAMS k >")
    assert pending(talk) == [["1-0", "bob", 1], ["2-0", "alice", 7], ["3-0", "", 1]]
