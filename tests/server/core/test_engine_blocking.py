"""Waiting and waking in the engine: which clients are served, when, in which order, and what is
left."""

import logging
from pathlib import Path

import pytest

from holdfast.commands.context import Context
from holdfast.commands.table import TABLE
from holdfast.resp import Reply
from holdfast.server.sessions.session import REPLIES_OFF, REPLY_SKIPPED
from holdfast.store.store import FileStore
from holdfast.store.values.list import List
from tests.harness.in_process import InProcess
from tests.store.refusal import refusing_writes

NIL, NIL_ARRAY = b"$-1\r\n", b"*-1\r\n"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
TOO_MANY = b"-ERR too many blocked clients\r\n"


@pytest.fixture
def setting() -> InProcess:
    return InProcess()


def bulks(*values: str) -> bytes:
    return b"*%d\r\n" % len(values) + b"".join(
        b"$%d\r\n%s\r\n" % (len(value), value.encode()) for value in values
    )


# -- order ------------------------------------------------------------------------------------


def test_the_client_that_waits_longest_is_served_first(setting: InProcess) -> None:
    first, second = setting.blocked("BLPOP", "k", 0), setting.blocked("BLPOP", "k", 0)
    pusher = setting.peer()
    assert pusher.command("RPUSH", "k", "a") == b":1\r\n"
    assert (first.replies(), second.replies()) == ([bulks("k", "a")], [])
    pusher.command("RPUSH", "k", "b")
    assert second.replies() == [bulks("k", "b")]
    setting.assert_nothing_left()


def test_a_push_of_n_elements_serves_n_waiters_and_leaves_the_rest(setting: InProcess) -> None:
    crowd = [setting.blocked("BLPOP", "k", 0) for _ in range(5)]
    pusher = setting.peer()
    assert pusher.command("RPUSH", "k", "a", "b", "c") == b":3\r\n"
    assert [peer.replies() for peer in crowd[:3]] == [[bulks("k", value)] for value in "abc"]
    assert [peer.is_waiting for peer in crowd[3:]] == [True, True]
    assert pusher.command("LPUSH", "k", "d", "e", "f", "g") == b":4\r\n"
    assert [peer.replies() for peer in crowd[3:]] == [[bulks("k", value)] for value in "gf"]
    assert pusher.command("LRANGE", "k", 0, -1) == bulks("e", "d")
    setting.assert_nothing_left()


def test_each_takes_from_its_own_end(setting: InProcess) -> None:
    left, right = setting.blocked("BLPOP", "k", 0), setting.blocked("BRPOP", "k", 0)
    setting.peer().send("RPUSH", "k", "a", "b", "c")
    assert left.replies() + right.replies() == [bulks("k", "a"), bulks("k", "c")]


def test_blmpop_takes_as_many_as_there_are_and_leaves_the_next_one_waiting(
    setting: InProcess,
) -> None:
    greedy = setting.blocked("BLMPOP", 0, 2, "x", "k", "LEFT", "COUNT", 10)
    patient = setting.blocked("BLPOP", "k", 0)
    setting.peer().send("RPUSH", "k", "a", "b", "c")
    assert greedy.replies() == [b"*2\r\n$1\r\nk\r\n" + bulks("a", "b", "c")]
    assert patient.is_waiting


def test_a_waiter_for_several_keys_keeps_its_place_in_each(setting: InProcess) -> None:
    several = setting.blocked("BLPOP", "x", "k", 0)
    one = setting.blocked("BLPOP", "k", 0)
    setting.peer().send("RPUSH", "k", "a")
    assert several.replies() == [bulks("k", "a")]
    assert one.is_waiting


def test_of_several_keys_ready_in_one_transaction_the_waiters_own_order_decides(
    setting: InProcess,
) -> None:
    waiter = setting.blocked("BLPOP", "first", "second", 0)
    pusher = setting.peer()
    pusher.transaction(("RPUSH", "second", "2"), ("RPUSH", "first", "1"))
    assert waiter.replies() == [bulks("first", "1")]
    assert pusher.command("LLEN", "second") == b":1\r\n"


@pytest.mark.parametrize(
    ("batch_size", "order"), [(1, "acbd"), (2, "abcd"), (3, "abcd")], ids=["1", "2", "3"]
)
def test_ready_keys_take_turns_by_the_wakeup_batch_size(batch_size: int, order: str) -> None:
    setting = InProcess({"blocking-wakeup-batch-size": str(batch_size)})
    for key in ("k1", "k1", "k2", "k2"):
        setting.blocked("BLMOVE", key, "log", "LEFT", "RIGHT", 0)
    pusher = setting.peer()
    pusher.transaction(("RPUSH", "k1", "a", "b"), ("RPUSH", "k2", "c", "d"))
    assert pusher.command("LRANGE", "log", 0, -1) == bulks(*order)
    setting.assert_nothing_left()


def test_a_chain_of_moves_runs_to_its_end(setting: InProcess) -> None:
    movers = [setting.blocked("BRPOPLPUSH", f"k{n}", f"k{n + 1}", 0) for n in range(5)]
    last = setting.blocked("BLPOP", "k5", 0)
    setting.peer().send("LPUSH", "k0", "x")
    assert [mover.replies() for mover in movers] == [[b"$1\r\nx\r\n"]] * 5
    assert last.replies() == [bulks("k5", "x")]
    setting.assert_nothing_left()


def test_a_move_onto_the_key_it_waits_for_does_not_wake_for_ever(setting: InProcess) -> None:
    rotating = setting.blocked("BLMOVE", "k", "k", "LEFT", "RIGHT", 0)
    waiting = setting.blocked("BLMOVE", "k", "k", "LEFT", "RIGHT", 0)
    pusher = setting.peer()
    pusher.command("RPUSH", "k", "a", "b", "c")
    assert rotating.replies() + waiting.replies() == [b"$1\r\na\r\n", b"$1\r\nb\r\n"]
    assert pusher.command("LRANGE", "k", 0, -1) == bulks("c", "a", "b")


# -- changes of an awaited key ----------------------------------------------------------------


def test_a_key_filled_and_emptied_in_one_transaction_wakes_no_client(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "k", 0)
    pusher = setting.peer()
    pusher.transaction(("RPUSH", "k", "a"), ("LPOP", "k"))
    pusher.transaction(("RPUSH", "k", "a"), ("DEL", "k"))
    assert waiter.is_waiting
    pusher.send("RPUSH", "k", "b")
    assert waiter.replies() == [bulks("k", "b")]


def test_a_transaction_is_seen_when_it_is_over(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "k", 0)
    setting.peer().transaction(("RPUSH", "k", "a"), ("LPUSH", "k", "b"), ("LPUSH", "k", "c"))
    assert waiter.replies() == [bulks("k", "c")]


@pytest.mark.parametrize(
    ("waiting", "reply"),
    [
        ("BLPOP k 0", bulks("k", "b")),
        ("BLMOVE k to LEFT LEFT 0", b"$1\r\nb\r\n"),
        ("BLMPOP 0 1 k LEFT", b"*2\r\n$1\r\nk\r\n" + bulks("b")),
    ],
)
def test_a_key_that_became_a_string_is_waited_for(
    setting: InProcess, waiting: str, reply: bytes
) -> None:
    waiter = setting.blocked(*waiting.split())
    pusher = setting.peer()
    pusher.command("SET", "k", "x")
    assert waiter.is_waiting
    pusher.transaction(("DEL", "k"), ("RPUSH", "k", "a"), ("DEL", "k"), ("SET", "k", "y"))
    assert waiter.is_waiting
    pusher.transaction(("DEL", "k"), ("RPUSH", "k", "b"))
    assert waiter.replies() == [reply]


def test_a_waiter_is_served_though_another_of_its_keys_became_a_string(setting: InProcess) -> None:
    pop = setting.blocked("BLPOP", "x", "k", 0)
    many = setting.blocked("BLMPOP", 0, 2, "x", "k", "RIGHT")
    pusher = setting.peer()
    pusher.command("SET", "x", "string")
    pusher.send("RPUSH", "k", "a", "b")
    assert pop.replies() == [bulks("k", "a")]
    assert many.replies() == [b"*2\r\n$1\r\nk\r\n" + bulks("b")]


def test_a_waiter_whose_limit_was_lowered_meanwhile_is_served(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "x", "y", 0)
    setting.set("blocking-max-keys-per-wait", 1)
    setting.peer().send("RPUSH", "y", "a")
    assert waiter.replies() == [bulks("y", "a")]


def test_an_element_that_expired_in_the_same_transaction_is_no_element(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "k", 0)
    database = setting.engine.keyspace.databases[0]
    pusher = setting.peer()
    pusher.pipeline(("MULTI",), ("RPUSH", "k", "a"))
    pusher.send("EXEC")
    assert waiter.replies() == [bulks("k", "a")]
    # The same once more, but dead by the time that waiters look.
    waiter.send("BLPOP", "k", 0)
    key, value = database.create_as(b"k", List)
    value.push_right([b"phantom"], setting.engine.keyspace)
    database.set_expiry(key, setting.clock.now_ms())
    setting.engine.blocking.serve_ready()
    assert waiter.is_waiting
    assert waiter.replies() == []


# -- a command that fails when it is woken ----------------------------------------------------


def test_a_move_that_cannot_arrive_is_an_error_and_the_element_stays(setting: InProcess) -> None:
    pusher = setting.peer()
    pusher.command("SET", "string", "x")
    mover = setting.blocked("BLMOVE", "k", "string", "LEFT", "LEFT", 0)
    popper = setting.blocked("BLPOP", "k", 0)
    assert pusher.command("RPUSH", "k", "a", "b") == b":2\r\n"
    assert mover.replies() == [WRONG_TYPE]
    assert popper.replies() == [bulks("k", "a")]
    assert pusher.command("LRANGE", "k", 0, -1) == bulks("b")
    setting.assert_nothing_left()


def test_a_bug_in_a_woken_command_is_not_the_pushers_problem(
    setting: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(c: Context, argv: list[bytes]) -> Reply:
        raise ZeroDivisionError

    victim = setting.blocked("BLPOP", "k", 0)
    next_one = setting.blocked("BRPOP", "k", 0)
    monkeypatch.setattr(TABLE["blpop"], "handler", broken)
    pusher = setting.peer()
    with caplog.at_level(logging.CRITICAL, "holdfast"):
        assert pusher.command("RPUSH", "k", "a") == b":1\r\n"
    assert victim.replies() == [b"-ERR internal error, see the server's log\r\n"]
    assert next_one.replies() == [bulks("k", "a")]
    setting.assert_nothing_left()


# -- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "resp2"),
    [
        (("BLPOP", "k"), NIL),
        (("BRPOP", "k"), NIL),
        (("BLMOVE", "k", "to", "LEFT", "LEFT"), NIL_ARRAY),
        (("BRPOPLPUSH", "k", "to"), NIL_ARRAY),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("seconds", [0.001, 0.2, 1, 3_000_000])
def test_a_timeout_passes_when_it_is_over_and_not_before(
    setting: InProcess, args: tuple[str, ...], resp2: bytes, seconds: float
) -> None:
    waiter = setting.blocked(*args, seconds)
    setting.clock.advance(seconds - 0.0001)
    assert waiter.replies() == []
    setting.clock.advance(0.0001)
    assert waiter.replies() == [resp2]
    setting.assert_nothing_left()


def test_blmpop_times_out_with_a_null_array(setting: InProcess) -> None:
    waiter = setting.blocked("BLMPOP", 5, 1, "k", "LEFT")
    setting.clock.advance(5)
    assert waiter.replies() == [NIL_ARRAY]


def test_resp3_has_one_null(setting: InProcess) -> None:
    peer = setting.peer(protocol=3)
    peer.send("BLPOP", "k", 1)
    setting.clock.advance(1)
    assert peer.replies() == [b"_\r\n"]


def test_zero_waits_for_ever(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "k", 0)
    assert setting.clock.pending_timers == 0
    setting.clock.advance(100 * 365 * 86400)
    assert waiter.is_waiting


@pytest.mark.parametrize("timeout", ["0.0000001", "1e-9", "0x0.0001p0"])
def test_a_tiny_timeout_is_not_for_ever(setting: InProcess, timeout: str) -> None:
    waiter = setting.blocked("BLPOP", "k", timeout)
    setting.clock.advance(0.001)
    assert waiter.replies() == [NIL]


@pytest.mark.parametrize("timeout", ["1e3", "9e15", "0x10"])
def test_a_timeout_may_be_any_number(setting: InProcess, timeout: str) -> None:
    setting.blocked("BLPOP", "k", timeout)
    assert setting.clock.pending_timers == 1


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        ("soon", b"-ERR timeout is not an integer or out of range\r\n"),
        ("", b"-ERR timeout is not an integer or out of range\r\n"),
        ("1 ", b"-ERR timeout is not an integer or out of range\r\n"),
        ("nan", b"-ERR timeout is not an integer or out of range\r\n"),
        ("inf", b"-ERR timeout is not an integer or out of range\r\n"),
        ("1e300", b"-ERR timeout is not an integer or out of range\r\n"),
        ("-1", b"-ERR timeout is negative\r\n"),
        ("-0.5", b"-ERR timeout is negative\r\n"),
        ("-inf", b"-ERR timeout is negative\r\n"),
    ],
)
def test_a_timeout_that_is_none_takes_nothing(
    setting: InProcess, timeout: str, error: bytes
) -> None:
    peer = setting.peer()
    peer.command("RPUSH", "k", "a")
    assert peer.command("BLPOP", "k", timeout) == error
    assert peer.command("BLMOVE", "k", "to", "LEFT", "LEFT", timeout) == error
    assert peer.command("BLMPOP", timeout, 1, "k", "LEFT") == error
    assert peer.command("LLEN", "k") == b":1\r\n"


def test_served_once_is_not_timed_out_as_well(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "k", 1)
    setting.peer().send("RPUSH", "k", "a")
    setting.clock.advance(2)
    assert waiter.replies() == [bulks("k", "a")]


def test_timed_out_takes_nothing_any_more(setting: InProcess) -> None:
    waiter = setting.blocked("BLPOP", "k", 1)
    setting.clock.advance(1)
    pusher = setting.peer()
    pusher.command("RPUSH", "k", "a")
    assert waiter.replies() == [NIL]
    assert pusher.command("LLEN", "k") == b":1\r\n"


# -- ending a wait ----------------------------------------------------------------------------


def test_unblocking_answers_once(setting: InProcess) -> None:
    peer = setting.blocked("BLPOP", "k", 10)
    waiter = peer.session.waiter
    assert waiter is not None
    assert setting.engine.blocking.unblock(waiter, waiter.block.on_timeout)
    assert not setting.engine.blocking.unblock(waiter, waiter.block.on_timeout)
    assert peer.replies() == [NIL]
    setting.assert_nothing_left()


def test_a_client_that_leaves_is_passed_over_and_forgotten(setting: InProcess) -> None:
    gone = setting.blocked("BLPOP", "k", "other", 10)
    stays = setting.blocked("BLPOP", "k", 10)
    gone.leave()
    assert setting.clock.pending_timers == 1
    setting.peer().send("RPUSH", "k", "a")
    assert (gone.replies(), stays.replies()) == ([], [bulks("k", "a")])
    setting.assert_nothing_left()


def test_the_last_one_to_leave_leaves_the_element_in_the_list(setting: InProcess) -> None:
    gone = setting.blocked("BLPOP", "k", 0)
    gone.send("PING")  # more bytes behind it
    gone.leave()
    pusher = setting.peer()
    pusher.command("RPUSH", "k", "a")
    assert pusher.command("LRANGE", "k", 0, -1) == bulks("a")
    assert gone.replies() == []
    setting.assert_nothing_left()


# -- behind a command that waits --------------------------------------------------------------


def test_what_is_pipelined_behind_a_wait_is_answered_after_it(setting: InProcess) -> None:
    peer = setting.peer()
    peer.pipeline(("BLPOP", "k", 0), ("PING",), ("RPUSH", "other", "x"))
    peer.send("LLEN", "other")
    assert peer.replies() == []
    other = setting.peer()
    assert other.command("LLEN", "other") == b":0\r\n"
    other.send("RPUSH", "k", "a")
    assert peer.replies() == [bulks("k", "a"), b"+PONG\r\n", b":1\r\n", b":1\r\n"]


def test_one_wait_behind_another(setting: InProcess) -> None:
    peer = setting.peer()
    peer.pipeline(("BLPOP", "k", 0), ("BLPOP", "k", 5), ("PING",))
    pusher = setting.peer()
    pusher.command("RPUSH", "k", "a", "b")
    assert peer.replies() == [bulks("k", "a"), bulks("k", "b"), b"+PONG\r\n"]
    peer.pipeline(("BLPOP", "k", 0), ("BLPOP", "k", 5), ("PING",))
    pusher.command("RPUSH", "k", "c")
    assert peer.replies() == [bulks("k", "c")]
    assert peer.is_waiting
    setting.clock.advance(5)
    assert peer.replies() == [NIL, b"+PONG\r\n"]
    setting.assert_nothing_left()


def test_what_arrives_between_wake_and_backlog_keeps_its_place(setting: InProcess) -> None:
    peer = setting.peer()
    peer.pipeline(("BLPOP", "k", 0), ("PING", "first"))
    setting.peer().send("RPUSH", "k", "a")
    peer.send("PING", "second")
    assert peer.replies() == [bulks("k", "a"), b"$5\r\nfirst\r\n", b"$6\r\nsecond\r\n"]


def test_a_push_behind_a_wait_may_serve_another_client(setting: InProcess) -> None:
    relay = setting.peer()
    relay.pipeline(("BLPOP", "k", 0), ("RPUSH", "next", "x"))
    waiter = setting.blocked("BLPOP", "next", 0)
    setting.peer().send("RPUSH", "k", "a")
    assert relay.replies() == [bulks("k", "a"), b":1\r\n"]
    assert waiter.replies() == [bulks("next", "x")]


def test_replies_switched_off_still_pop(setting: InProcess) -> None:
    peer = setting.blocked("BLPOP", "k", 0)
    peer.session.reply_mode = REPLIES_OFF
    pusher = setting.peer()
    pusher.command("RPUSH", "k", "a", "b")
    assert peer.replies() == []
    assert not peer.is_waiting
    assert pusher.command("LRANGE", "k", 0, -1) == bulks("b")


def test_a_skipped_reply_is_that_of_the_wait_and_no_other(setting: InProcess) -> None:
    peer = setting.peer()
    peer.session.reply_mode = REPLY_SKIPPED  # as after CLIENT REPLY SKIP
    peer.pipeline(("BLPOP", "k", 0), ("PING",))
    setting.peer().send("RPUSH", "k", "a")
    assert peer.replies() == [b"+PONG\r\n"]


# -- where no command may wait ----------------------------------------------------------------


def test_inside_multi_no_command_waits(setting: InProcess) -> None:
    assert setting.peer().transaction(
        ("BLPOP", "k", 0),
        ("BRPOP", "k", 0),
        ("BLMOVE", "k", "to", "LEFT", "LEFT", 0),
        ("BRPOPLPUSH", "k", "to", 0),
        ("BLMPOP", 0, 1, "k", "LEFT"),
        ("RPUSH", "k", "a"),
        ("BLPOP", "k", 0),
    ) == b"*7\r\n" + NIL_ARRAY * 2 + NIL * 2 + NIL_ARRAY + b":1\r\n" + bulks("k", "a")
    setting.assert_nothing_left()


def test_a_client_that_watches_learns_of_a_woken_pop(setting: InProcess) -> None:
    setting.peer().command("RPUSH", "to", "x")
    watcher = setting.peer()
    watcher.command("WATCH", "to")
    setting.blocked("BLMOVE", "k", "to", "LEFT", "LEFT", 0)
    setting.peer().send("RPUSH", "k", "a")
    assert watcher.transaction(("PING",)) == NIL_ARRAY


# -- limits -----------------------------------------------------------------------------------


def test_waiters_per_key_are_limited(setting: InProcess) -> None:
    setting.set("blocking-max-waiters-per-key", 2)
    first = setting.blocked("BLPOP", "k", 0)
    setting.blocked("BRPOP", "k", "other", 0)
    peer = setting.peer()
    assert peer.command("BLMOVE", "k", "to", "LEFT", "LEFT", 0) == TOO_MANY
    assert peer.command("BLPOP", "free", "k", 7) == TOO_MANY
    assert b"free" not in setting.awaited
    assert setting.clock.pending_timers == 0
    peer.send("RPUSH", "k", "a")
    assert first.replies() == [bulks("k", "a")]
    setting.blocked("BLPOP", "k", 0)


def test_waiters_in_total_are_limited(setting: InProcess) -> None:
    setting.set("blocking-max-total-waiters", 2)
    crowd = [setting.blocked("BLPOP", f"k{n}", 0) for n in range(2)]
    peer = setting.peer()
    assert peer.command("BLPOP", "k2", 0) == TOO_MANY
    crowd[0].leave()
    setting.blocked("BLPOP", "k2", 0)


@pytest.mark.parametrize("has_element", [False, True], ids=["empty", "with element"])
def test_keys_per_wait_are_limited_whether_or_not_it_comes_to_waiting(
    setting: InProcess, has_element: bool
) -> None:
    setting.set("blocking-max-keys-per-wait", 2)
    peer = setting.peer()
    if has_element:
        peer.command("RPUSH", "a", "x")
    error = (
        b"-ERR too many keys to wait for, at most 2 are allowed (blocking-max-keys-per-wait)\r\n"
    )
    assert peer.command("BLPOP", "a", "b", "c", 0) == error
    assert peer.command("BRPOP", "a", "b", "c", 0) == error
    assert peer.command("BLMPOP", 0, 3, "a", "b", "c", "LEFT") == error
    assert peer.command("LMPOP", 3, "a", "b", "c", "RIGHT")[:1] == b"*"  # never waits
    setting.blocked("BLPOP", "x", "y", 0)


def test_a_wait_that_was_refused_is_answered_and_what_follows_runs(setting: InProcess) -> None:
    setting.set("blocking-max-total-waiters", 1)
    setting.blocked("BLPOP", "k", 0)
    peer = setting.peer()
    peer.pipeline(("BLPOP", "k", 0), ("PING",))
    assert peer.replies() == [TOO_MANY, b"+PONG\r\n"]


# -- storage that fails -----------------------------------------------------------------------


def test_a_pop_that_could_not_be_written_leaves_its_element_to_waiters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileStore(tmp_path / "db")
    setting = InProcess({"appendfsync": "no"}, store)
    first, second = setting.peer(), setting.peer()
    first.command("RPUSH", "k", "a")

    first.send("LPOP", "k")
    second.send("BLPOP", "k", 0)
    with refusing_writes(store, "journal"), caplog.at_level(logging.CRITICAL + 1):
        (reply,) = first.replies()
    assert reply.startswith(b"-MISCONF")
    assert second.is_waiting
    setting.engine.storage_recovered()
    assert second.replies() == [bulks("k", "a")]
    setting.assert_nothing_left()
    store.close()
