"""Messages of a peer, given out in slices."""

import pytest

from holdfast.client.protocol.reply_parser import Push
from holdfast.errors import ProtocolError
from holdfast.replication.inbox import KEY_BYTES, Inbox
from holdfast.replication.messages import COMPLETE, KEYS, PUSH, RECORDS


def push(kind: bytes, *parts: bytes) -> Push:
    return Push([PUSH, kind, *parts])


def test_a_slice_ends_when_it_has_enough_bytes_and_the_next_goes_on_there() -> None:
    inbox = Inbox()
    inbox.put([push(RECORDS, b"1" * 60, b"2" * 60, b"3" * 60), b"reply"])
    assert [part[:1] for _, part in inbox.slice(100)] == [b"1", b"2"]
    assert inbox.pushes_taken == 0
    assert list(inbox.slice(100)) == [(RECORDS, b"3" * 60), (None, b"reply")]
    assert inbox.pushes_taken == 1
    assert not inbox


def test_small_keys_of_a_snapshot_count_more_than_their_bytes() -> None:
    inbox = Inbox()
    inbox.put([push(KEYS, *[b"k"] * 10)])
    assert len(list(inbox.slice(4 * KEY_BYTES))) == 4


def test_a_complete_snapshot_ends_the_slice() -> None:
    inbox = Inbox()
    inbox.put([push(COMPLETE, b"x"), push(RECORDS, b"later")])
    assert list(inbox.slice(1000)) == [(COMPLETE, b"x")]
    assert list(inbox.slice(1000)) == [(RECORDS, b"later")]


def test_a_push_without_parts_counts_as_taken() -> None:
    inbox = Inbox()
    inbox.put([push(RECORDS)])
    assert list(inbox.slice(1000)) == []
    assert inbox.pushes_taken == 1


def test_replies_can_be_taken_while_pushes_wait() -> None:
    inbox = Inbox()
    inbox.put([push(RECORDS, b"1", b"2"), b"first", push(RECORDS, b"3"), b"second"])
    next(inbox.slice(1))
    assert inbox.take_replies() == [b"first", b"second"]
    assert [part for _, part in inbox.slice(1000)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    "message", [Push([PUSH]), Push([b"other", RECORDS]), Push([PUSH, RECORDS, 7]), Push([PUSH, 7])]
)
def test_a_malformed_push_is_an_error(message: Push) -> None:
    inbox = Inbox()
    inbox.put([message])
    with pytest.raises(ProtocolError):
        list(inbox.slice(1000))
