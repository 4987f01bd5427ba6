"""Output that answers no command: messages, invalidations, lines of MONITOR.

It leaves with the replies, when everything it could tell of is on disk. Where a batch fails its
replies become errors; this must not, for then a client would count one answer too many.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from holdfast.resp import Reply

if TYPE_CHECKING:
    from holdfast.server.session import Session


class Unasked(bytes):
    """Stays when the batch fails: what was cached is invalid, at worst without need."""


class Published(Unasked):
    """Vanishes when the batch fails: what it tells of did not happen."""


NOTHING = Unasked(b"")  # keeps a session in its turn without anything to say


class Shared:
    """Something for many sessions, encoded once for each protocol among them."""

    __slots__ = ("_encoded", "_mark", "_value")

    def __init__(self, value: Reply, mark: type[Unasked] = Unasked) -> None:
        self._value = value
        self._mark = mark
        self._encoded: dict[Callable[[Reply], bytes], bytes] = {}

    def send_to(self, *sessions: "Session") -> None:
        later = sessions[0].keyspace.later if sessions and self._mark is Published else None
        if later is not None:
            later.append(partial(self._send_to, sessions))  # by a script, which may yet fail
        else:
            self._send_to(sessions)

    def _send_to(self, sessions: "tuple[Session, ...]") -> None:
        encoded = self._encoded
        for session in sessions:
            data = encoded.get(session.encode)
            if data is None:
                data = self._encode(session.encode)
            session.push(data)

    def _encode(self, encode: Callable[[Reply], bytes]) -> bytes:
        data = encode(self._value)
        if isinstance(data, bytes):  # else the session is in this process and takes values
            data = self._mark(data)
        self._encoded[encode] = data
        return data
