"""Output that answers no command: messages, invalidations, lines of MONITOR.

It leaves with the replies, when everything it could tell of is on disk. Where a batch fails its
replies become errors; this must not, for then a client would count one answer too many.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.resp import Reply

if TYPE_CHECKING:
    from holdfast.server.session import Session


# What a session is sent: bytes, but for one in this process, which takes replies as they are.
Output: TypeAlias = Any


class Unasked(bytes):
    """Stays when the batch fails: what was cached is invalid, at worst without need."""


class Published(Unasked):
    """Vanishes when the batch fails: what it tells of did not happen."""


NOTHING = Unasked(b"")  # keeps a session in its turn without anything to say


class Shared:
    """Things for many sessions, encoded once for each protocol among them."""

    __slots__ = ("_encoded", "_mark", "_values")

    def __init__(self, *values: Reply, mark: type[Unasked] = Unasked) -> None:
        self._values = values
        self._mark = mark
        # By how they are encoded: the items, and how many bytes they are.
        self._encoded: dict[Callable[[Reply], Output], tuple[list[Output], int]] = {}

    def send_to(self, *sessions: "Session") -> None:
        later = sessions[0].keyspace.later if sessions and self._mark is Published else None
        if later is not None:
            later.append(partial(self._send_in_order, sessions))  # by a script, which may yet fail
        else:
            self._send_in_order(sessions)

    def _send_in_order(self, sessions: "tuple[Session, ...]") -> None:
        if sessions:
            sessions[0].engine.pubsub.flush()
            self.send_now(sessions)

    def send_now(self, sessions: "Iterable[Session]") -> None:
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
        return [self._mark(item) for item in items], sum(map(len, items))
