"""Who listens to what, without sockets: what is kept, what it costs, what is taken back."""

import pytest

from holdfast.resp import encode2, encode3
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
def test_nothing_is_left_of_who_left(how: str) -> None:
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
    assert peer.session.gate == 0


def test_leaving_looks_only_at_ones_own() -> None:
    """However many others listen, to whatever: nobody walks through them."""
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


def test_who_quits_hears_nothing_more() -> None:
    setting = InProcess()
    peer = subscribed(setting)
    peer.send("QUIT")
    setting.peer().send("PUBLISH", "x", "hi")
    assert peer.replies() == [b"+OK\r\n"]
