"""The state that tracking keeps; and it costs nothing while no client tracks."""

from tests.harness.in_process import InProcess


def test_nothing_is_announced_while_no_client_tracks() -> None:
    setting = InProcess()
    keyspace = setting.engine.keyspace
    peer, other = setting.peer(3), setting.peer(3)
    assert keyspace.notify_kinds == 0
    peer.command("CLIENT", "TRACKING", "ON")
    other.command("CLIENT", "TRACKING", "ON", "BCAST")
    assert keyspace.notify_kinds != 0
    peer.command("CLIENT", "TRACKING", "OFF")
    assert keyspace.notify_kinds != 0
    other.leave()
    assert keyspace.notify_kinds == 0


def test_a_client_that_tracked_leaves_nothing_behind() -> None:
    setting = InProcess()
    peer = setting.peer(3)
    peer.pipeline(("CLIENT", "TRACKING", "ON"), ("MGET", "a", "b"))
    other = setting.peer(3)
    other.command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "x", "PREFIX", "y")
    tracking = setting.engine.tracking
    assert (tracking.total_keys, tracking.total_items, tracking.total_prefixes) == (2, 2, 2)
    other.leave()
    peer.leave()
    assert (tracking.total_keys, tracking.total_items, tracking.total_prefixes) == (0, 0, 0)
    assert len(tracking) == 0


def test_changes_of_one_turn_are_broadcast_together() -> None:
    setting = InProcess()
    tracker, writer = setting.peer(3), setting.peer()
    tracker.command("CLIENT", "TRACKING", "ON", "BCAST")
    writer.pipeline(("SET", "b", 1), ("SET", "a", 1), ("SET", "b", 2))
    assert tracker.replies() == [
        b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ]


def test_a_malformed_command_is_not_remembered() -> None:
    setting = InProcess()
    peer = setting.peer(3)
    peer.command("CLIENT", "TRACKING", "ON")
    assert peer.command("SINTERCARD", 99, "a").startswith(b"-")
    assert setting.engine.tracking.total_keys == 0


def test_keys_that_time_takes_are_told() -> None:
    setting = InProcess()
    peer, other = setting.peer(3), setting.peer()
    other.command("SET", "k", "v", "PX", 100)
    peer.pipeline(("CLIENT", "TRACKING", "ON"), ("GET", "k"))
    peer.replies()
    setting.clock.advance(1)
    assert other.command("GET", "k") == b"$-1\r\n"
    assert peer.replies() == [b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"]
