"""XADD IDMP and IDMPAUTO, XCFGSET: a message that comes again is not added again. Replies and
errors: as Redis 8.6 documents."""

from typing import Any

import pytest

from holdfast.store.values.stream import Stream
from tests.commands.streams.talk import Talk

FIELDS = ["idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked", "iids-added"]


def info(talk: Talk, name: str = "k") -> dict[str, Any]:
    flat = talk(f"XINFO STREAM {name}")
    return dict(zip(flat[::2], flat[1::2], strict=True))


def tracked(talk: Talk) -> tuple[int, ...]:
    """Producers, ids; and how many were added and came again."""
    shown = info(talk)
    names = ("pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")
    return tuple(shown[name] for name in names)


def test_a_message_that_comes_again_is_not_added_again() -> None:
    talk = Talk()
    first = talk("XADD k IDMP p 1 * a b")
    assert talk.events() == [("new", "k"), ("xadd", "k")]
    assert talk("XADD k IDMP p 1 * other fields") == first
    assert talk.events() == []
    second = talk("XADD k NOMKSTREAM IDMP p 2 MAXLEN 9 * a b")
    assert second != first
    assert talk("XADD k IDMP q 1 * a b") not in (first, second)
    assert talk("XLEN k") == 3
    assert tracked(talk) == (2, 3, 3, 1)


def test_a_message_that_comes_again_trims_nothing() -> None:
    talk = Talk("XADD k IDMP p 1 * a b", "XADD k * a b")
    talk("XADD k IDMP p 1 MAXLEN 0 * a b")
    assert talk("XLEN k") == 2


def test_a_deleted_entry_is_not_added_again() -> None:
    talk = Talk()
    first = talk("XADD k IDMP p 1 * a b")
    assert talk(f"XDEL k {first}") == 1
    assert talk("XADD k IDMP p 1 * a b") == first
    assert talk("XLEN k") == 0


def test_the_id_of_idmpauto_follows_from_the_fields_in_any_order() -> None:
    talk = Talk()
    first = talk("XADD k IDMPAUTO p * a 1 b 2")
    assert talk("XADD k IDMPAUTO p * b 2 a 1") == first
    others = ["a 1 b 3", "a 1", "a 2 b 1", "a1b 2", "a 1b b 2", "a 1 b 2 a 1"]
    ids = {talk(f"XADD k IDMPAUTO p * {fields}") for fields in others}
    assert len(ids | {first}) == len(others) + 1
    assert talk("XADD k IDMPAUTO q * a 1 b 2") not in ids | {first}


def test_ids_are_forgotten_after_a_time() -> None:
    talk = Talk()
    first = talk("XADD k IDMP p 1 * a b")
    talk.pass_time(99.999)
    assert talk("XADD k IDMP p 1 * a b") == first
    talk.pass_time(0.001)
    assert tracked(talk) == (0, 0, 1, 1)
    assert talk("XADD k IDMP p 1 * a b") != first
    assert tracked(talk) == (1, 1, 2, 1)


def test_only_so_many_ids_of_a_producer_are_kept() -> None:
    talk = Talk("XADD k * a b", "XCFGSET k IDMP-MAXSIZE 3")
    ids = [talk(f"XADD k IDMP p {number} * a b") for number in range(5)]
    talk("XADD k IDMP q 0 * a b")
    assert tracked(talk)[:2] == (2, 4)
    assert [talk(f"XADD k IDMP p {number} * a b") for number in (4, 3, 2)] == ids[:1:-1]
    assert talk("XADD k IDMP p 0 * a b") not in ids


def test_forgotten_ids_leave_memory_and_file_when_others_come() -> None:
    talk = Talk(*(f"XADD k IDMP p{number} 1 * a b" for number in range(9)))
    talk.pass_time(200)
    for number in range(20):
        talk(f"XADD k IDMP new {number} * a b")
    stream = talk.setting.engine.keyspace.databases[0].read_as(b"k", Stream)
    assert stream is not None
    assert stream.idempotence is not None
    assert list(stream.idempotence.producers) == [b"new"]


def test_other_settings_forget_all_ids_and_the_same_settings_none() -> None:
    talk = Talk("XADD k IDMP p 1 * a b")
    for command, iids in (
        *(("XCFGSET k IDMP-DURATION 100", 1), ("XCFGSET k idmp-maxsize 100 IDMP-DURATION 100", 1)),
        *(("XCFGSET k IDMP-MAXSIZE 7", 0),),
    ):
        assert talk(command) == "OK"
        assert tracked(talk)[1] == iids
    shown = info(talk)
    assert [shown[name] for name in FIELDS] == [100, 7, 0, 0, 1]
    assert talk.events() == []


def test_settings_of_the_server_are_those_of_streams_that_begin() -> None:
    talk = Talk("CONFIG SET stream-idmp-duration 5 stream-idmp-maxsize 6", "XADD k IDMP p 1 * a b")
    talk("CONFIG SET stream-idmp-duration 50")
    assert [info(talk)[name] for name in FIELDS[:2]] == [5, 6]
    talk.pass_time(5)
    assert tracked(talk)[:2] == (0, 0)


def test_a_stream_that_never_used_it_looks_as_in_redis_7() -> None:
    talk = Talk("XADD k * a b")
    assert not set(FIELDS) & set(info(talk))
    assert not set(FIELDS) & {*talk("XINFO STREAM k FULL")[::2]}
    talk("XCFGSET k IDMP-MAXSIZE 100")
    assert set(FIELDS) <= set(info(talk))
    assert set(FIELDS) <= {*talk("XINFO STREAM k FULL")[::2]}


@pytest.mark.parametrize("move", ["COPY k moved", "RENAME k moved", "dump and restore"])
def test_a_stream_takes_its_ids_along(move: str) -> None:
    talk = Talk("XADD k * a b", "XCFGSET k IDMP-MAXSIZE 5", "XADD k IDMP p 1 * a b")
    before = info(talk)
    first = talk("XADD k IDMP p 1 * a b")
    if move.startswith("dump"):
        dumped = talk.peer.command("DUMP", "k").split(b"\r\n", 1)[1][:-2]
        talk.peer.command("RESTORE", "moved", 0, dumped)
    else:
        talk(move)
    assert info(talk, "moved") == before | {"iids-duplicates": 1}
    assert talk("XADD moved IDMP p 1 * a b") == first


def test_a_script_that_fails_leaves_no_id_behind() -> None:
    talk = Talk()
    script = "redis.call('XADD',KEYS[1],'IDMP','p','1','*','a','b') return redis.call('NOPE')"
    assert talk.peer.command("EVAL", script, 1, "k").startswith(b"-")
    assert talk("EXISTS k") == 0
    first = talk("XADD k IDMP p 2 * a b")
    talk.peer.command("EVAL", script, 1, "k")
    assert tracked(talk) == (1, 1, 1, 0)
    assert talk("XADD k IDMP p 2 * a b") == first


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("XADD k IDMP p 1 5 a b", "syntax error, IDMP/IDMPAUTO can be used only with auto-gen"),
        ("XADD k IDMPAUTO p 5-* a b", "syntax error, IDMP/IDMPAUTO can be used only with auto-gen"),
        ("XADD k IDMPAUTO p IDMP p 1 * a b", "syntax error, IDMP/IDMPAUTO specified multiple"),
        ("XADD k IDMP p 1 IDMP p 1 * a b", "syntax error, IDMP/IDMPAUTO specified multiple"),
        ("XADD k IDMP p 1 *", "wrong number of arguments for 'xadd' command"),
        ("XADD k IDMP p 1 x a b", "Invalid stream ID specified as stream command argument"),
        ("XADD s IDMP p 1 * a b", ""),
        ("XTRIM k IDMP p 1", "syntax error"),
        ("XCFGSET none IDMP-MAXSIZE 5", "no such key"),
        ("XCFGSET s IDMP-MAXSIZE 5", ""),
        ("XCFGSET k", "At least one parameter must be specified"),
        ("XCFGSET k IDMP-MAXSIZE", "syntax error"),
        ("XCFGSET k NOPE 5", "syntax error"),
        ("XCFGSET k IDMP-MAXSIZE 0", "IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET k IDMP-MAXSIZE 10001", "IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET k IDMP-DURATION 86401", "IDMP-DURATION must be between 1 and 86400 seconds"),
        ("XCFGSET k IDMP-DURATION x", "value is not an integer or out of range"),
        ("XCFGSET k IDMP-MAXSIZE 5 IDMP-MAXSIZE 5", "IDMP-MAXSIZE specified multiple times"),
    ],
)
def test_a_refused_command_changes_nothing(command: str, error: str) -> None:
    talk = Talk("XADD k * a b", "SET s v")
    talk.peer.send(*command.split())
    assert talk.setting.engine.keyspace.ops == []
    (reply,) = talk.peer.replies()
    assert reply.startswith(b"-ERR " + error.encode() if error else b"-WRONGTYPE")


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("IDMP", "", "1"), "IDMP requires a non-empty producer ID"),
        (("IDMP", "p", ""), "IDMP requires a non-empty idempotent ID"),
        (("IDMPAUTO", ""), "IDMPAUTO requires a non-empty producer ID"),
    ],
)
def test_names_are_not_empty(argv: tuple[str, ...], error: str) -> None:
    reply = Talk().peer.command("XADD", "k", *argv, "*", "a", "b")
    assert reply == f"-ERR syntax error, {error}\r\n".encode()
