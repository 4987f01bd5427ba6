"""CLAIM, MAXCOUNT and MAXSIZE of XREADGROUP and XREAD: which entries come, in which order, and when
a client that waits gets them. Replies and errors: as Redis 8.4 and 8.10 document."""

from typing import Any

import pytest

from tests.commands.streams.talk import Talk, parsed
from tests.harness.in_process import Peer

START = [*(f"XADD k {number} a b" for number in range(1, 7)), "XGROUP CREATE k g 0", "SET s v"]
READ = "XREADGROUP GROUP g bob"
NULL = None


def shown(reply: Any) -> list[Any]:
    """Without the fields: id, idle time and count of each entry of the only stream."""
    ((_, entries),) = reply
    return [[entry[0], *entry[2:]] for entry in entries]


def answered(peer: Peer) -> Any:
    (reply,) = peer.replies()
    return parsed(reply)


@pytest.fixture
def talk() -> Talk:
    """alice got 1 and 2 eight seconds ago, 3 three seconds ago; 4 to 6 are new."""
    talk = Talk(*START)
    talk("XREADGROUP GROUP g alice COUNT 2 STREAMS k >")
    talk.pass_time(5)
    talk("XREADGROUP GROUP g alice COUNT 1 STREAMS k >")
    talk.pass_time(3)
    talk.events()
    return talk


@pytest.mark.parametrize(
    ("options", "entries"),
    [
        (
            "CLAIM 5000",
            [["1-0", 8000, 1], ["2-0", 8000, 1], ["4-0", 0, 0], ["5-0", 0, 0], ["6-0", 0, 0]],
        ),
        ("CLAIM 3000 COUNT 3", [["1-0", 8000, 1], ["2-0", 8000, 1], ["3-0", 3000, 1]]),
        ("COUNT 3 CLAIM 8000", [["1-0", 8000, 1], ["2-0", 8000, 1], ["4-0", 0, 0]]),
        ("COUNT 1 CLAIM 0", [["1-0", 8000, 1]]),
        ("CLAIM 8001 COUNT 1", [["4-0", 0, 0]]),
        ("COUNT 2", [["4-0"], ["5-0"]]),
    ],
)
def test_entries_that_are_idle_come_first(talk: Talk, options: str, entries: list[Any]) -> None:
    assert shown(talk(f"{READ} {options} STREAMS k >")) == entries
    assert talk.events() == [("xgroup-createconsumer", "k")]
    own = [entry[0] for entry in talk("XPENDING k g - + 99 bob")]
    assert own == sorted(entry[0] for entry in entries)


def test_a_claimed_entry_was_delivered_once_more(talk: Talk) -> None:
    talk(f"{READ} COUNT 1 CLAIM 100 STREAMS k >")
    assert talk("XPENDING k g - + 1") == [["1-0", "bob", 0, 2]]
    talk.pass_time(1)
    assert shown(talk(f"{READ} COUNT 2 CLAIM 1000 STREAMS k >")) == [
        *(["2-0", 9000, 1], ["3-0", 4000, 1])
    ]
    assert shown(talk(f"{READ} COUNT 1 CLAIM 1000 STREAMS k >")) == [["1-0", 1000, 2]]


def test_returned_entries_come_before_all_others_in_the_order_of_their_return(talk: Talk) -> None:
    talk("XNACK k g FAIL IDS 1 3")
    talk("XNACK k g FATAL IDS 2 2 3")
    assert [entry[0] for entry in shown(talk(f"{READ} CLAIM 1 COUNT 4 STREAMS k >"))] == [
        *("2-0", "3-0", "1-0", "4-0")
    ]


def test_deleted_entries_are_not_claimed_and_stay_pending(talk: Talk) -> None:
    talk("XDEL k 1 4")
    assert [entry[0] for entry in shown(talk(f"{READ} CLAIM 1 COUNT 3 STREAMS k >"))] == [
        *("2-0", "3-0", "5-0")
    ]
    assert talk("XPENDING k g - + 1") == [["1-0", "alice", 8000, 1]]


def test_entries_can_be_claimed_where_nothing_is_new(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    assert shown(talk(f"{READ} CLAIM 5000 STREAMS k >")) == [["1-0", 8000, 1], ["2-0", 8000, 1]]
    assert talk(f"{READ} CLAIM 5000 STREAMS k >") is NULL
    assert talk(f"{READ} CLAIM 5000 NOACK STREAMS k >") is NULL


def test_noack_is_about_new_entries_only(talk: Talk) -> None:
    assert len(shown(talk(f"{READ} CLAIM 5000 NOACK STREAMS k >"))) == 5
    assert [entry[0] for entry in talk("XPENDING k g - + 99 bob")] == ["1-0", "2-0"]


def test_the_history_of_a_consumer_claims_nothing(talk: Talk) -> None:
    assert talk(f"{READ} CLAIM 0 STREAMS k 0") == [["k", []]]
    assert talk("XREADGROUP GROUP g alice CLAIM 0 COUNT 1 STREAMS k 0") == [
        ["k", [["1-0", ["a", "b"]]]]
    ]


def test_the_reply_in_the_third_protocol() -> None:
    talk = Talk(*START, "XREADGROUP GROUP g alice COUNT 1 STREAMS k >", protocol=3)
    assert talk(f"{READ} CLAIM 0 COUNT 2 STREAMS k >") == {
        "k": [["1-0", ["a", "b"], 0, 1], ["2-0", ["a", "b"], 0, 0]]
    }


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (
            "XREAD CLAIM 5 STREAMS k 0",
            "The CLAIM option is only supported by XREADGROUP.",
        ),
        (f"{READ} CLAIM x STREAMS k >", "min-idle-time is not an integer or out of range"),
        (f"{READ} CLAIM -1 STREAMS k >", "min-idle-time must be a positive integer"),
        (f"{READ} STREAMS k > CLAIM", "Unbalanced"),
        ("XREAD MAXCOUNT 0 STREAMS k 0", "MAXCOUNT must be a positive integer"),
        ("XREAD MAXCOUNT x STREAMS k 0", "MAXCOUNT must be a positive integer"),
        ("XREAD MAXSIZE -1 STREAMS k 0", "MAXSIZE must be a positive integer"),
        ("XREAD MAXCOUNT 2 COUNT 3 STREAMS k 0", "MAXCOUNT must be greater than or equal to COUNT"),
        (f"{READ} COUNT 3 MAXCOUNT 2 STREAMS k >", "MAXCOUNT must be greater than or equal"),
    ],
)
def test_errors(talk: Talk, command: str, error: str) -> None:
    talk.peer.send(*command.split())
    assert talk.setting.engine.keyspace.ops == []
    (reply,) = talk.peer.replies()
    assert reply.startswith(f"-ERR {error}".encode())


# -- waiting ----------------------------------------------------------------------------------


def test_a_waiting_client_gets_an_entry_when_it_is_idle_for_long_enough(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    waiting = talk.waiting(f"{READ} BLOCK 0 CLAIM 10000 STREAMS k >")
    talk.pass_time(1.999)
    assert waiting.replies() == []
    talk.pass_time(0.001)
    assert shown(answered(waiting)) == [["1-0", 10000, 1], ["2-0", 10000, 1]]
    assert not waiting.is_waiting
    talk.setting.assert_nothing_left()
    assert [entry[1] for entry in talk("XPENDING k g - + 99")] == ["bob", "bob", "alice"]


def test_it_looks_again_when_others_have_taken_the_entry(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    waiting = talk.waiting(f"{READ} BLOCK 0 CLAIM 10000 STREAMS k >")
    talk("XCLAIM k g alice 0 1 2")
    talk.pass_time(2)
    assert waiting.replies() == []
    talk.pass_time(5)  # 3 is ten seconds old
    assert shown(answered(waiting)) == [["3-0", 10000, 1]]
    talk.setting.assert_nothing_left()


def test_it_gets_a_new_entry_and_a_returned_one_at_once(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    plain = talk.waiting("XREADGROUP GROUP g carol BLOCK 0 STREAMS k >")
    first, second = (talk.waiting(f"{READ} BLOCK 0 CLAIM 99999 STREAMS k >") for _ in range(2))
    assert talk("XNACK k g FAIL IDS 1 2") == 1
    now_ms = talk.setting.clock.now_ms()
    assert shown(answered(first)) == [["2-0", now_ms, 1]]
    assert (plain.replies(), second.replies()) == ([], [])
    talk("XADD k 7 a b")
    assert shown(answered(plain)) == [["7-0"]]
    talk("XADD k 8 a b")
    assert shown(answered(second)) == [["8-0", 0, 0]]
    talk.setting.assert_nothing_left()


def test_it_waits_for_the_first_of_several_streams(talk: Talk) -> None:
    for command in ("XGROUP SETID k g 6", "XGROUP CREATE other g 0 MKSTREAM", "XADD other 1 a b"):
        talk(command)
    talk("XREADGROUP GROUP g alice STREAMS other >")
    waiting = talk.waiting(f"{READ} BLOCK 60000 CLAIM 9000 COUNT 1 STREAMS other k > >")
    talk.pass_time(0.999)
    assert waiting.replies() == []
    talk.pass_time(0.001)
    assert answered(waiting) == [["k", [["1-0", ["a", "b"], 9000, 1]]]]
    talk.setting.assert_nothing_left()


def test_the_wait_ends_although_nothing_was_claimed(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    waiting = talk.waiting(f"{READ} BLOCK 1000 CLAIM 99999 STREAMS k >")
    talk.pass_time(1)
    assert answered(waiting) is NULL
    talk.setting.assert_nothing_left()
    waiting = talk.waiting(f"{READ} BLOCK 0 CLAIM 99999 STREAMS k >")
    waiting.leave()
    talk.setting.assert_nothing_left()


def test_without_pending_entries_it_looks_again_now_and_then(talk: Talk) -> None:
    """An entry that becomes pending without a new one in the stream is noticed, too."""
    for command in ("XACK k g 1 2 3", "XGROUP SETID k g 6"):
        talk(command)
    waiting = talk.waiting(f"{READ} BLOCK 0 CLAIM 0 STREAMS k >")
    talk("XCLAIM k g alice 0 1 FORCE")
    assert waiting.replies() == []
    talk.pass_time(0.1)
    assert shown(answered(waiting)) == [["1-0", 100, 2]]
    talk.setting.assert_nothing_left()


def test_a_paused_server_gives_nothing_away(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    waiting = talk.waiting(f"{READ} BLOCK 0 CLAIM 10000 STREAMS k >")
    talk("CLIENT PAUSE 3000 WRITE")
    talk.pass_time(2.5)
    assert waiting.replies() == []
    talk.pass_time(0.6)
    assert [entry[0] for entry in shown(answered(waiting))] == ["1-0", "2-0"]


def test_a_group_that_is_destroyed_ends_the_wait(talk: Talk) -> None:
    talk("XGROUP SETID k g 6")
    waiting = talk.waiting(f"{READ} BLOCK 0 CLAIM 99999 STREAMS k >")
    talk("XGROUP DESTROY k g")
    assert str(answered(waiting)).startswith("NOGROUP")
    talk.setting.assert_nothing_left()


# -- limits of a whole reply ------------------------------------------------------------------

STREAMS = [f"XADD {name} {number} field value" for name in "xyz" for number in range(1, 4)]
GROUPS = [f"XGROUP CREATE {name} g 0" for name in "xyz"]


def counts(reply: Any) -> dict[str, int]:
    return {name: len(entries) for name, entries in reply or []}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("MAXCOUNT 3", {"x": 3}),
        ("MAXCOUNT 4", {"x": 3, "y": 1}),
        ("COUNT 2 MAXCOUNT 3", {"x": 2, "y": 1}),
        ("MAXCOUNT 99 COUNT 2", {"x": 2, "y": 2, "z": 2}),
        ("MAXCOUNT 2 COUNT 2", {"x": 2}),
        ("COUNT 0 MAXCOUNT 1", {"x": 1}),
        ("MAXSIZE 1", {"x": 1}),
        ("MAXSIZE 60", {"x": 2}),
        ("MAXSIZE 150", {"x": 3, "y": 1}),
        ("MAXSIZE 150 COUNT 1", {"x": 1, "y": 1, "z": 1}),
        ("MAXSIZE 99999 MAXCOUNT 5", {"x": 3, "y": 2}),
        ("MAXSIZE 60 MAXCOUNT 5", {"x": 2}),
    ],
)
def test_a_reply_ends_at_its_limits(options: str, expected: dict[str, int]) -> None:
    talk = Talk(*STREAMS, *GROUPS)
    assert counts(talk(f"XREAD {options} STREAMS x y z 0 0 0")) == expected
    assert counts(talk(f"{READ} {options} STREAMS x y z > > >")) == expected
    pending = {name: talk(f"XPENDING {name} g")[0] for name in "xyz"}
    assert pending == {name: expected.get(name, 0) for name in "xyz"}
    assert counts(talk(f"{READ} {options} STREAMS x y z 0 0 0")) == expected


def test_a_client_that_reads_on_gets_everything() -> None:
    talk = Talk(*STREAMS, *GROUPS)
    got = []
    while reply := talk(f"{READ} MAXSIZE 1 STREAMS x y z > > >"):
        ((name, ((entry_id, _),)),) = reply
        got.append((name, entry_id))
    assert got == [(name, f"{number}-0") for name in "xyz" for number in range(1, 4)]


def test_claimed_entries_count_for_the_limits(talk: Talk) -> None:
    claimed = shown(talk(f"{READ} CLAIM 1 MAXCOUNT 4 STREAMS k >"))
    assert [entry[0] for entry in claimed] == ["1-0", "2-0", "3-0", "4-0"]
    talk.pass_time(1)
    assert len(shown(talk(f"{READ} CLAIM 1000 MAXSIZE 1 STREAMS k >"))) == 1
    talk.pass_time(1)
    assert len(shown(talk(f"{READ} CLAIM 1000 MAXSIZE 60 STREAMS k >"))) == 2


def test_a_woken_client_has_the_limits_too() -> None:
    talk = Talk("XGROUP CREATE k g 0 MKSTREAM")
    reader = talk.waiting("XREAD BLOCK 0 MAXCOUNT 2 STREAMS k 0")
    consumer = talk.waiting(f"{READ} BLOCK 0 MAXCOUNT 1 STREAMS k >")
    talk.peer.transaction(*(("XADD", "k", number, "a", "b") for number in range(1, 4)))
    assert [len(answered(peer)[0][1]) for peer in (reader, consumer)] == [2, 1]
