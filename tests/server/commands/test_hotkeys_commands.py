"""HOTKEYS as Redis 8.6 documents it."""

import pytest

from holdfast.server.features import hotkeys
from holdfast.server.features.hotkeys import Totals, request_bytes
from tests.commands.asking import ask
from tests.harness.in_process import InProcess, Peer
from tests.harness.rawclient import encode_command

START = "HOTKEYS START METRICS 2 CPU NET"


def facts(peer: Peer) -> dict[bytes, object]:
    reply = ask(peer, "HOTKEYS GET")
    assert isinstance(reply, list)
    (flat,) = reply
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_the_keys_that_cost_most() -> None:
    peer = InProcess().peer()
    assert ask(peer, "HOTKEYS GET") is None
    ask(peer, "SET before x")
    assert ask(peer, f"{START} COUNT 2") == b"OK"
    ask(peer, "SET product:1 Laptop")
    for _ in range(2):
        ask(peer, "GET product:1")
    ask(peer, "MGET a b")
    ask(peer, "PING")
    found = facts(peer)
    assert list(found) == [
        *(b"tracking-active", b"sample-ratio", b"selected-slots", b"all-commands-all-slots-us"),
        *(b"net-bytes-all-commands-all-slots", b"collection-start-time-unix-ms"),
        *(b"collection-duration-ms", b"total-cpu-time-user-ms", b"total-cpu-time-sys-ms"),
        *(b"total-net-bytes", b"by-cpu-time-us", b"by-net-bytes"),
    ]
    assert found[b"tracking-active"] == 1
    assert found[b"selected-slots"] == [[0, 16383]]
    set_, get, mget = 40 + 5, 28 + 12, 28 + 14
    assert found[b"by-net-bytes"] == [b"product:1", set_ + 2 * get, b"a", mget]
    assert found[b"total-net-bytes"] == set_ + 2 * get + 2 * mget
    assert ask(peer, "HOTKEYS STOP") == b"OK"
    assert ask(peer, "HOTKEYS STOP") is None
    ask(peer, "GET product:1")
    assert facts(peer)[b"by-net-bytes"] == found[b"by-net-bytes"]
    assert ask(peer, "HOTKEYS RESET") == b"OK"
    assert ask(peer, "HOTKEYS GET") is None


def test_only_the_metrics_that_were_asked_for() -> None:
    peer = InProcess().peer()
    ask(peer, "HOTKEYS START METRICS 1 NET")
    assert not {b"by-cpu-time-us", b"total-cpu-time-user-ms"} & facts(peer).keys()
    ask(peer, "HOTKEYS STOP")
    ask(peer, "HOTKEYS START METRICS 2 GPU CPU")
    assert not {b"by-net-bytes", b"total-net-bytes"} & facts(peer).keys()


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("HOTKEYS START", b"METRICS parameter is required"),
        ("HOTKEYS START METRICS", b"METRICS parameter is required"),
        ("HOTKEYS START COUNT 1 METRICS 1 CPU", b"METRICS parameter is required"),
        ("HOTKEYS START METRICS 0", b"METRICS count must be > 0 and <= 2"),
        ("HOTKEYS START METRICS 3 CPU NET", b"METRICS count must be > 0 and <= 2"),
        (
            "HOTKEYS START METRICS 2 CPU",
            b"METRICS count does not match number of metric types provided",
        ),
        ("HOTKEYS START METRICS 1 CPU NET", b"syntax error"),
        ("HOTKEYS START METRICS 1 GPU", b"METRICS no valid metrics passed. Supported: CPU|NET"),
        ("HOTKEYS START METRICS 2 CPU cpu", b"METRICS CPU defined more than once!"),
        ("HOTKEYS START METRICS 1 CPU COUNT 0", b"COUNT must be between 1 and 64"),
        ("HOTKEYS START METRICS 1 CPU COUNT 65", b"COUNT must be between 1 and 64"),
        ("HOTKEYS START METRICS 1 CPU DURATION 0", b"DURATION must be between 1 and 1000000"),
        ("HOTKEYS START METRICS 1 CPU SAMPLE 0", b"SAMPLE ratio must be positive"),
        (
            "HOTKEYS START METRICS 1 CPU SLOTS 1 5",
            b"SLOTS parameter cannot be used in non-cluster mode",
        ),
        ("HOTKEYS START METRICS 1 CPU SAMPLE", b"syntax error"),
        ("HOTKEYS STOP x", b"wrong number of arguments for 'hotkeys|stop' command"),
    ],
)
def test_errors(command: str, error: bytes) -> None:
    peer = InProcess().peer()
    assert ask(peer, command) == b"ERR " + error
    assert ask(peer, "HOTKEYS GET") is None


def test_one_session_at_a_time() -> None:
    peer = InProcess().peer()
    ask(peer, START)
    assert ask(peer, START) == b"ERR hotkey tracking session already in progress"
    assert ask(peer, "HOTKEYS RESET") == (
        b"ERR hotkey tracking session in progress, stop tracking first"
    )


def test_it_ends_by_itself() -> None:
    setting = InProcess()
    peer = setting.peer()
    ask(peer, f"{START} DURATION 5")
    setting.clock.advance(5.5)
    found = facts(peer)
    assert found[b"tracking-active"] == 0
    assert found[b"collection-duration-ms"] == 5000
    ask(peer, START)
    setting.clock.advance(5.5)
    assert facts(peer)[b"tracking-active"] == 1, "the timer was that of the session before"


def test_commands_are_observed_only_during_a_session() -> None:
    """A server that nobody observes is as quick as before."""
    setting = InProcess()
    engine, peer = setting.engine, setting.peer()
    before = engine.fast_ns, engine.invoker.slowlog_ns
    ask(peer, START)
    assert (engine.fast_ns, engine.invoker.slowlog_ns) == (0, 0)
    ask(peer, "CONFIG SET slowlog-log-slower-than 20000")
    assert (engine.fast_ns, engine.invoker.slowlog_ns) == (0, 0)
    ask(peer, "CONFIG SET slowlog-log-slower-than 10000")
    ask(peer, "HOTKEYS STOP")
    assert (engine.fast_ns, engine.invoker.slowlog_ns) == before
    assert ask(peer, "SLOWLOG LEN") == 0


def test_in_transactions_and_scripts() -> None:
    peer = InProcess().peer()
    ask(peer, START)
    peer.transaction(("SET", "in-exec", "x"), ("GET", "in-exec"))
    ask(peer, "EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 in-script")
    ask(peer, "LMPOP 9 wrong LEFT")  # the number of keys is wrong
    by_net = facts(peer)[b"by-net-bytes"]
    assert isinstance(by_net, list)
    assert set(by_net[::2]) == {b"in-exec", b"in-script"}


def test_samples() -> None:
    peer = InProcess().peer()
    ask(peer, f"{START} SAMPLE 10")
    for _ in range(300):
        ask(peer, "SET k v")
    found = facts(peer)
    assert found[b"sample-ratio"] == 10
    all_bytes, sampled = found[b"net-bytes-all-commands-all-slots"], found[b"total-net-bytes"]
    assert isinstance(all_bytes, int)
    assert isinstance(sampled, int)
    assert 0 < sampled < all_bytes / 4


def test_few_keys_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hotkeys, "MOST_KEYS", 10)
    totals = Totals()
    totals.add([b"hot"], 100)
    for number in range(1000):
        totals.add([b"%d" % number], 1)
        assert len(totals._of_key) <= 10
    assert totals.top(1) == [(b"hot", 100)]
    assert totals.total == 1100
    assert totals.top(3, unit=50) == [(b"hot", 2)]


def test_the_size_of_a_request() -> None:
    for argv in ([b"PING"], [b"SET", b"k", b"x" * 100_000], [b"a"] * 12):
        assert request_bytes(argv) == len(encode_command(*argv))
