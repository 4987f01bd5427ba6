"""Messages of a peer that have arrived and are not taken yet, in their order. No I/O."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.client.protocol.reply_parser import Push
from holdfast.errors import ProtocolError
from holdfast.replication.messages import COMPLETE, KEYS, PUSH

FIRST_PART = 2  # the index of the first part in a push, after PUSH and the kind of message
# a key of a snapshot counts as at least so many bytes, because small keys are work, too
KEY_BYTES = 256


class Inbox:
    """A queue of messages. A message is a reply or a push, which has a kind and any number of
    parts."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._at = FIRST_PART  # the next part of the first push
        self.pushes_taken = 0  # complete ones

    def __bool__(self) -> bool:
        return bool(self._messages)

    def put(self, messages: Iterable[Any]) -> None:
        self._messages += messages

    def slice(self, most_bytes: int) -> Iterator[tuple[bytes | None, Any]]:
        """Take about so many bytes: the kind and the data of each part, or None and a reply. The
        slice also ends after the last part of a snapshot, because the snapshot has to be finished
        first."""
        messages, left = self._messages, most_bytes
        while messages and left > 0:
            message = messages[0]
            if type(message) is not Push:
                yield None, message
                messages.popleft()
                continue
            if len(message) < FIRST_PART or message[0] != PUSH:
                raise ProtocolError("the peer sent a push of an unknown kind")
            kind = data_of(message[1])
            while self._at < len(message) and left > 0:
                part = data_of(message[self._at])
                left -= max(len(part), KEY_BYTES) if kind == KEYS else len(part)
                yield kind, part
                self._at += 1
            if self._at < len(message):
                return
            messages.popleft()
            self._at = FIRST_PART
            self.pushes_taken += 1
            if kind == COMPLETE:
                return

    def take_replies(self) -> list[Any]:
        """Take all replies; the pushes stay."""
        replies = [each for each in self._messages if type(each) is not Push]
        if replies:
            self._messages = deque(each for each in self._messages if type(each) is Push)
        return replies


def data_of(said: Any) -> bytes:
    if type(said) is not bytes:
        raise ProtocolError("the peer sent a message that is malformed")
    return said
