"""XDELEX, XACKDEL, and trims that say what becomes of references. No redis-server 7.0 knows them:
the replies and errors are those that the documentation and the source of Redis 8 state."""

import pytest

from tests.commands.streams.talk import Talk

ENTRIES = [f"XADD k {number} a b" for number in range(1, 6)]
# g has read all entries and acknowledged 1 and 2; h has read 1 to 3 and acknowledged 1.
START = [
    *ENTRIES,
    *("XGROUP CREATE k g 0", "XGROUP CREATE k h 0"),
    *("XREADGROUP GROUP g c STREAMS k >", "XREADGROUP GROUP h c COUNT 3 STREAMS k >"),
    *("XACK k g 1 2", "XACK k h 1", "SET s v"),
]


def ids(talk: Talk) -> list[str]:
    return [entry_id for entry_id, _ in talk("XRANGE k - +")]


def pending(talk: Talk, group: str) -> list[str]:
    return [entry[0] for entry in talk(f"XPENDING k {group} - + 99")]


@pytest.mark.parametrize(
    ("command", "reply", "left", "of_g", "of_h"),
    [
        ("XDELEX k IDS 2 2 9", [1, -1], "1 3 4 5", "3 4 5", "2 3"),
        ("XDELEX k KEEPREF IDS 2 2 2", [1, -1], "1 3 4 5", "3 4 5", "2 3"),
        ("XDELEX k IDS 2 3 4 DELREF", [1, 1], "1 2 5", "5", "2"),
        ("XDELEX k ACKED IDS 5 1 2 3 4 9", [1, 2, 2, 2, 2], "2 3 4 5", "3 4 5", "2 3"),
        ("XDELEX k acked ids 1 1-0", [1], "2 3 4 5", "3 4 5", "2 3"),
        ("XACKDEL k g IDS 2 3 1", [1, -1], "1 2 4 5", "4 5", "2 3"),
        ("XACKDEL k h DELREF IDS 1 3", [1], "1 2 4 5", "4 5", "2"),
        ("XACKDEL k h ACKED IDS 2 2 3", [1, 2], "1 3 4 5", "3 4 5", ""),
        ("XACKDEL k g ACKED IDS 1 4", [2], "1 2 3 4 5", "3 5", "2 3"),
        ("XACKDEL k nope IDS 2 x y", [-1, -1], "1 2 3 4 5", "3 4 5", "2 3"),
        ("XDELEX none IDS 2 x y", [-1, -1], "1 2 3 4 5", "3 4 5", "2 3"),
        ("XTRIM k MAXLEN 2 DELREF", 3, "4 5", "4 5", ""),
        ("XTRIM k DELREF MINID 3", 2, "3 4 5", "3 4 5", "3"),
        ("XTRIM k MAXLEN 0 KEEPREF", 5, "", "3 4 5", "2 3"),
        ("XTRIM k MAXLEN 0 ACKED", 1, "2 3 4 5", "3 4 5", "2 3"),
        ("XTRIM k ACKED MINID ~ 9", 1, "2 3 4 5", "3 4 5", "2 3"),
        ("XTRIM k MAXLEN ~ 0 LIMIT 2 ACKED", 0, "1 2 3 4 5", "3 4 5", "2 3"),
        ("XTRIM k MAXLEN ~ 4 DELREF", 1, "2 3 4 5", "3 4 5", "2 3"),
        ("XADD k ACKED MAXLEN 0 6 a b", "6-0", "2 3 4 5 6", "3 4 5", "2 3"),
        ("XADD k MINID 4 DELREF 6 a b", "6-0", "4 5 6", "4 5", ""),
        ("XADD k KEEPREF 6 a b", "6-0", "1 2 3 4 5 6", "3 4 5", "2 3"),
    ],
)
def test_what_goes_and_what_stays(
    command: str, reply: object, left: str, of_g: str, of_h: str
) -> None:
    talk = Talk(*START)
    assert talk(command) == reply
    expected = [[f"{number}-0" for number in numbers.split()] for numbers in (left, of_g, of_h)]
    assert [ids(talk), pending(talk, "g"), pending(talk, "h")] == expected


def test_an_entry_without_groups_is_not_referenced() -> None:
    talk = Talk(*ENTRIES)
    assert talk("XDELEX k ACKED IDS 1 1") == [1]
    assert talk("XTRIM k MAXLEN 1 ACKED") == 3


def test_references_to_a_deleted_entry_can_still_be_removed() -> None:
    talk = Talk(*START, "XDEL k 3 4")
    assert talk("XDELEX k DELREF IDS 1 3") == [-1]
    assert (pending(talk, "g"), pending(talk, "h")) == (["4-0", "5-0"], ["2-0"])
    assert talk("XACKDEL k g IDS 1 4") == [1]  # it was pending, so it counts as deleted


def test_kept_entries_count_when_a_stream_is_trimmed() -> None:
    """Nodes of two entries: a kept entry is no reason to stop, younger ones go in its place."""
    talk = Talk("CONFIG SET stream-node-max-entries 2", *START)
    assert talk("XACK k g 3 4 5") == 3
    assert talk("XGROUP SETID k h 5") == "OK"
    assert talk("XTRIM k MAXLEN 3 ACKED") == 2  # 2 and 3 are pending for h
    assert ids(talk) == ["2-0", "3-0", "5-0"]


@pytest.mark.parametrize(
    ("command", "events"),
    [
        ("XDELEX k IDS 3 1 2 9", ["xdel"]),
        ("XDELEX k ACKED IDS 1 2", []),
        ("XDELEX k DELREF IDS 1 9", []),
        ("XACKDEL k g IDS 2 3 4", ["xdel"]),
        ("XACKDEL k g ACKED IDS 1 5", []),
        ("XTRIM k MAXLEN 0 ACKED", ["xtrim"]),
        ("XTRIM k MINID 1 ACKED", []),
        ("XADD k DELREF MAXLEN 1 6 a b", ["xadd", "xtrim"]),
    ],
)
def test_events(command: str, events: list[str]) -> None:
    talk = Talk(*START)
    talk(command)
    assert talk.events() == [(event, "k") for event in events]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("XDELEX k IDS 1", "ERR wrong number of arguments for 'xdelex' command"),
        ("XACKDEL k g IDS 1", "ERR wrong number of arguments for 'xackdel' command"),
        ("XDELEX k IDS 0 1", "ERR Number of IDs must be a positive integer"),
        ("XDELEX k IDS x 1", "ERR Number of IDs must be a positive integer"),
        ("XDELEX k IDS 2 1", "ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX none IDS 2 1", "ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX k IDS 1 1 2", "ERR syntax error"),
        ("XDELEX k KEEPREF ACKED IDS 1 1", "ERR syntax error"),
        ("XDELEX k KEEPREF KEEPREF IDS 1 1", "ERR syntax error"),
        ("XDELEX k 1 2 3", "ERR syntax error"),
        ("XACKDEL k g ACKED IDS 1 1 DELREF", "ERR syntax error"),
        ("XACKDEL k g DELREF 1 IDS", "ERR syntax error"),
        (
            "XDELEX k IDS 2 1 x",
            "ERR Invalid stream ID specified as stream command argument",
        ),
        ("XACKDEL k g IDS 2 3 -", "ERR Invalid stream ID specified as stream command argument"),
        ("XDELEX s x x x", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XACKDEL s g x x x", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XTRIM k MAXLEN 1 ACKED DELREF", "ERR syntax error"),
        ("XTRIM k ACKED", "ERR wrong number of arguments for 'xtrim' command"),
        ("XTRIM k ACKED LIMIT 1", "ERR syntax error, LIMIT cannot be used without specifying a"),
        (
            "XADD k ACKED DELREF 6 a b",
            "ERR Invalid stream ID specified as stream command argument",
        ),
    ],
)
def test_a_refused_command_changes_nothing(command: str, error: str) -> None:
    talk = Talk(*START)
    talk.peer.send(*command.split())
    assert talk.setting.engine.keyspace.ops == []
    (reply,) = talk.peer.replies()
    assert reply.startswith(b"-" + error.encode())


def test_a_missing_option_has_its_own_error() -> None:
    talk = Talk(*START)
    assert talk("XACKDEL k g KEEPREF IDS 0 1") == "ERR Number of IDs must be a positive integer"
    assert talk.peer.command("XDELEX", "k", "KEEPREF", "IDS", "1").startswith(b"-ERR The `numids`")


def test_a_deletion_wakes_no_watcher_unless_the_stream_changes() -> None:
    talk = Talk(*START)
    other = talk.setting.peer()
    for command, goes_on in (("XACKDEL k g ACKED IDS 1 3", True), ("XDELEX k IDS 1 1", False)):
        other.command("WATCH", "k")
        talk(command)
        reply = other.transaction(("PING",))
        assert (reply == b"*1\r\n+PONG\r\n") is goes_on
