"""Output that is no reply to a command: messages, invalidations, lines of MONITOR.

It leaves with the replies, when every change that it reports is on disk. If a batch fails, its
replies become errors. This output must not become an error: the client would take that for a reply.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from holdfast.resp import Reply

# The output of a session: bytes, but values for a session in this process.
Output: TypeAlias = Any


class OutOfBand(bytes):
    """Output that stays if the batch fails: an invalidation without need does no harm."""


class Published(OutOfBand):
    """Output that is dropped if the batch fails: the change that it reports did not happen."""


NOTHING = OutOfBand(b"")  # keeps a session in the list of the turn, without output


class Listener(Protocol):
    """The part of a session that this file needs."""

    @property
    def encode(self) -> Callable[[Reply], Output]: ...

    def push(self, items: list[Output], nbytes: int) -> None: ...


class Shared:
    """Messages for many sessions, encoded once for each protocol. `PubSub.send` sends them after
    the messages that were published before.
    """

    __slots__ = ("_encoded", "_values", "mark")

    def __init__(self, *values: Reply, mark: type[OutOfBand] = OutOfBand) -> None:
        self._values = values
        self.mark = mark
        # For each encoding: the items, and their bytes together.
        self._encoded: dict[Callable[[Reply], Output], tuple[list[Output], int]] = {}

    def send_to(self, sessions: Iterable[Listener]) -> None:
        encoded = self._encoded
        for session in sessions:
            items = encoded.get(session.encode)
            if items is None:
                items = encoded[session.encode] = self._encode(session.encode)
            session.push(*items)

    def _encode(self, encode: Callable[[Reply], Output]) -> tuple[list[Output], int]:
        items: list[Output] = [encode(value) for value in self._values]
        if not isinstance(items[0], bytes):  # the session is in this process and takes values
            return items, 0
        return [self.mark(item) for item in items], sum(map(len, items))
