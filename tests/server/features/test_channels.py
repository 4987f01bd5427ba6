"""Subscriptions without sockets: the memory that they take, and its release."""

import pytest

from holdfast.resp import encode2, encode3
from holdfast.server.sessions.session import Session
from tests.harness.in_process import InProcess, Peer

MESSAGE2 = b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\nhi\r\n"
MESSAGE3 = b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\nhi\r\n"


def assert_nobody_listens(setting: InProcess) -> None:
    for topics in (
        setting.engine.pubsub.channels,
        setting.engine.pubsub.patterns,
        setting.engine.pubsub.shards,
    ):
        assert topics.topics == {}
        assert topics._names == {}


def subscribed(setting: InProcess, protocol: int = 2) -> Peer:
    peer = setting.peer(protocol)
    peer.pipeline(("SUBSCRIBE", "x", "y"), ("PSUBSCRIBE", "p*"), ("SSUBSCRIBE", "s"))
    peer.replies()
    return peer


def test_a_message_to_many_is_encoded_once_for_each_protocol() -> None:
    setting = InProcess()
    encoded: list[int] = []
    sessions = []
    for protocol, encode in ((2, encode2), (3, encode3)):

        def counting(value: object, protocol: int = protocol, encode: object = encode) -> bytes:
            encoded.append(protocol)
            return encode(value)  # type: ignore[operator, no-any-return]

        for _ in range(50):
            peer = setting.peer(protocol)
            peer.command("SUBSCRIBE", "x")
            peer.session.encode = counting
            sessions.append((peer, MESSAGE2 if protocol == 2 else MESSAGE3))
    assert setting.peer().command("PUBLISH", "x", "hi") == b":100\r\n"
    assert sorted(encoded) == [2, 3]
    for peer, message in sessions:
        assert peer.replies() == [message]


@pytest.mark.parametrize("how", ["RESET", "leave", "unsubscribe"])
def test_nothing_is_left_of_a_client_that_left(how: str) -> None:
    setting = InProcess()
    peer = subscribed(setting)
    if how == "leave":
        peer.leave()
    elif how == "RESET":
        peer.command("RESET")
    else:
        peer.pipeline(("UNSUBSCRIBE",), ("PUNSUBSCRIBE",), ("SUNSUBSCRIBE",))
    assert_nobody_listens(setting)
    assert peer.session.kind == "normal"
    assert peer.session.modes == 0


def test_leaving_looks_only_at_ones_own() -> None:
    """However many other clients listen to any channels: none of them is visited."""
    setting = InProcess()
    other = setting.peer()
    other.command("SUBSCRIBE", *[f"channel-{number}" for number in range(100)])
    peer = subscribed(setting)

    class NotToBeWalked(dict[bytes, object]):
        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("somebody walks through all channels")

        keys = values = items = __iter__  # type: ignore[assignment]

    topics = setting.engine.pubsub.channels
    topics.topics = NotToBeWalked(topics.topics)  # type: ignore[assignment]
    peer.leave()
    assert len(topics) == 100


def test_a_client_that_quits_gets_no_more_messages() -> None:
    setting = InProcess()
    peer = subscribed(setting)
    peer.send("QUIT")
    setting.peer().send("PUBLISH", "x", "hi")
    assert peer.replies() == [b"+OK\r\n"]


def texts(replies: list[bytes]) -> list[bytes]:
    return [reply.split(b"\r\n")[-2] for reply in replies]


def test_messages_of_a_turn_are_told_together_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = InProcess()
    pushes: list[int] = []
    push = Session.push

    def counted(session: Session, items: list[bytes], nbytes: int) -> None:
        pushes.append(len(items))
        push(session, items, nbytes)

    monkeypatch.setattr(Session, "push", counted)
    listener, publisher = subscribed(setting), setting.peer()
    publisher.pipeline(*(("PUBLISH", "x", number) for number in range(50)))
    assert publisher.replies() == [b":1\r\n"] * 50
    assert texts(listener.replies()) == [b"%d" % number for number in range(50)]
    assert pushes == [50]
    words = ["x1", "y2", "x3", "x4", "p5", "y6"]
    publisher.pipeline(*(("PUBLISH", word[0], word) for word in words))
    publisher.replies()
    assert texts(listener.replies()) == [word.encode() for word in words]


def test_a_message_comes_before_what_its_listener_is_answered_later() -> None:
    setting = InProcess()
    listener, publisher = subscribed(setting, protocol=3), setting.peer()
    publisher.send("SET", "k", "new")
    publisher.send("PUBLISH", "x", "hi")
    listener.send("GET", "k")
    publisher.send("PUBLISH", "x", "again")
    assert texts(listener.replies()) == [b"hi", b"new", b"again"]
    # Also before the reply to a wait, and before an invalidation.
    listener.send("BLPOP", "queue", 0)
    publisher.pipeline(("PUBLISH", "x", "1"), ("RPUSH", "queue", "2"), ("PUBLISH", "x", "3"))
    assert texts(listener.replies()) == [b"1", b"2", b"3"]
    listener.command("CLIENT", "TRACKING", "ON")
    listener.command("GET", "k")
    publisher.pipeline(("PUBLISH", "x", "1"), ("SET", "k", "v"), ("PUBLISH", "x", "3"))
    assert texts(listener.replies()) == [b"1", b"k", b"3"]


def test_a_client_that_subscribes_later_in_a_turn_gets_no_earlier_message() -> None:
    setting = InProcess()
    early, late, publisher = subscribed(setting), setting.peer(), setting.peer()
    publisher.send("PUBLISH", "x", "1")
    late.send("SUBSCRIBE", "x")
    publisher.send("PUBLISH", "x", "2")
    early.send("UNSUBSCRIBE", "x")
    publisher.send("PUBLISH", "x", "3")
    assert texts(early.replies())[:2] == [b"1", b"2"]
    assert texts(late.replies()) == [b":1", b"2", b"3"]
    publisher.send("PUBLISH", "y", "4")
    early.leave()
    assert publisher.replies()[-1] == b":1\r\n"


def test_messages_of_a_script_come_after_earlier_messages() -> None:
    setting = InProcess()
    listener, publisher = subscribed(setting), setting.peer()
    publisher.pipeline(
        ("PUBLISH", "x", "1"),
        ("EVAL", "redis.call('PUBLISH', 'x', '2') redis.call('PUBLISH', 'y', '3')", 0),
        ("PUBLISH", "x", "4"),
        ("EVAL", "redis.call('PUBLISH', 'x', '5') error('no')", 0),
        ("PUBLISH", "x", "6"),
    )
    publisher.replies()
    assert texts(listener.replies()) == [b"1", b"2", b"3", b"4", b"6"]
