"""A session on a wire: what it is sent is counted while it is produced, and bounded.

One turn can produce more than memory holds (a pipeline of GETs of something big), so whoever
asks for more than `client-output-buffer-limit` is cut off before the turn ends, not after.
"""

import sys
from typing import TYPE_CHECKING, Final

from holdfast.resp import WRITERS2, WRITERS3, Reply, written
from holdfast.server.config_kinds import BufferLimit
from holdfast.server.session import LINK, NEEDS_AUTH, PUBSUB, Session
from holdfast.server.unasked import NOTHING, Output

if TYPE_CHECKING:
    from holdfast.server.connection import Connection
    from holdfast.server.engine import Engine

# How much the socket has not sent is looked at when it was given so much since, or a part of the
# limit: to ask for it each time cost as much as to look a key up.
UNSEEN_BYTES: Final = 16 * 1024
UNSEEN_PART: Final = 16
# A link to another server bounds itself (replication/feeds.py). If it were cut off for what it is
# sent, it would be sent the same again, for ever.
OF_LINKS: Final = BufferLimit(0, 0, 0)
# A client that has not signed in is only sent errors. This is what redis-server keeps of them.
UNAUTHENTICATED_OUTPUT_BYTES: Final = 16 * 1024


def weight(reply: Reply) -> int:
    """About how many bytes a reply will be, before they are made."""
    if isinstance(reply, bytes):
        return len(reply)
    nbytes = 0
    if isinstance(reply, tuple):
        for text in reply:
            nbytes += len(text)
    elif isinstance(reply, list):
        for item in reply:
            nbytes += weight(item)
    elif isinstance(reply, dict):
        for name, item in reply.items():
            nbytes += len(name) + weight(item)
    else:
        nbytes = 16
    return nbytes


class WireSession(Session):
    __slots__ = (
        "_connection",
        "_hard_bytes",
        "_most_unseen_bytes",
        "_soft_since_s",
        "_unseen_bytes",
        "held_bytes",
        "room",
        "writers",
    )

    def __init__(
        self, engine: "Engine", connection: "Connection", address: str, local_address: str
    ) -> None:
        super().__init__(engine, connection, address, local_address)
        self._connection = connection
        self.writers = WRITERS2
        self.held_bytes = 0  # produced, and not yet given to the socket
        self.room = 0  # for more, when that was last looked at
        self._unseen_bytes = 0  # given to it since that was last asked how much it has not sent
        self._soft_since_s: float | None = None
        self.limits_changed()

    def use_protocol(self, version: int) -> None:
        super().use_protocol(version)
        self.writers = WRITERS3 if version == 3 else WRITERS2

    def proceed(self) -> bool:
        return self._connection.proceed(self)

    def send(self, value: Reply) -> None:
        if isinstance(value, (tuple, list, dict)) and self._is_too_much(value):
            return
        data = written(value, self.writers)
        out = self.out
        if not out:
            self.engine.turn.add(self)
        out.append(data)
        self.held_bytes = held_bytes = self.held_bytes + len(data)
        if held_bytes > self.room:
            self.overflows(0)

    def push(self, items: list[Output], nbytes: int) -> None:
        if self.closing:
            return
        out = self.out
        if not out:
            self.engine.turn.add(self)
        out += items
        self.held_bytes = held_bytes = self.held_bytes + nbytes
        if held_bytes > self.room:
            self.overflows(0)

    def _is_too_much(self, value: Reply) -> bool:
        """A tuple says nothing twice, so it is no more than what is stored. Weighing one of a
        hundred elements would cost a quarter of an LRANGE."""
        if type(value) is tuple and self.keyspace.used_bytes <= self.room - self.held_bytes:
            return False
        return self.overflows(weight(value))

    def overflows(self, nbytes: int) -> bool:
        if self.held_bytes + nbytes <= self.room:
            return False
        self.room = self._hard_bytes - self._connection.output_bytes  # it may have read since
        if self.held_bytes + nbytes <= self.room:
            return False
        self.out[:] = [NOTHING]  # it stays in the turn's list, with nothing to say
        self.held_bytes = 0
        self.abort()
        return True

    def deliver(self, replies: list[Output]) -> None:
        self._connection.deliver(replies)

    def delivered(self, nbytes: int) -> None:
        """So much was given to the socket."""
        self.held_bytes = self.held_bytes - nbytes if self.out else 0
        engine = self.engine
        self.last_active_s = engine.now_s
        engine.meter.output_bytes += nbytes
        self._unseen_bytes += nbytes
        if self._unseen_bytes > self._most_unseen_bytes:
            self._look_at_unsent(nbytes)

    def _look_at_unsent(self, nbytes: int) -> None:
        self._unseen_bytes = 0
        unsent_bytes = self._connection.output_bytes
        self.room = self._hard_bytes - unsent_bytes
        # Only what was there before this can have been there for too long.
        if self.room < 0 or (unsent_bytes > nbytes and self._is_slow(unsent_bytes)):
            self.abort()

    def _is_slow(self, unsent_bytes: int) -> bool:
        """Whether it has been above the soft limit for too long."""
        limit = self._limit
        if not 0 < limit.soft_bytes < unsent_bytes:
            self._soft_since_s = None
            return False
        if self._soft_since_s is None:
            self._soft_since_s = self.engine.now_s
        return self.engine.now_s - self._soft_since_s > limit.soft_s

    def look_after(self) -> None:
        idle_s = self.engine.config.timeout
        is_idle = self.engine.now_s - self.last_active_s > idle_s > 0
        is_listening = self.monitoring or self.kind == PUBSUB
        may_be_idle = not (self.is_waiting or self.backlog or is_listening or self.kind == LINK)
        if (
            (is_idle and may_be_idle)
            or self._is_slow(self.sink.output_bytes)
            or (self.gate & NEEDS_AUTH and self._is_late())
        ):
            self.abort()

    def _is_late(self) -> bool:
        """Whether the client has had enough time to sign in."""
        return self.engine.now_s - self.needs_auth_since_s > self.engine.config.auth_timeout > 0

    @property
    def _limit(self) -> BufferLimit:
        if self.kind == LINK:
            return OF_LINKS
        limits = self.engine.config.client_output_buffer_limit
        return limits.pubsub if self.kind == PUBSUB else limits.normal

    def limits_changed(self) -> None:
        self._hard_bytes = self._limit.hard_bytes or sys.maxsize
        if self.gate & NEEDS_AUTH:
            self._hard_bytes = min(self._hard_bytes, UNAUTHENTICATED_OUTPUT_BYTES)
        self._most_unseen_bytes = min(UNSEEN_BYTES, self._hard_bytes // UNSEEN_PART)
        self.room = self._hard_bytes - self.sink.output_bytes
        self._connection.limit_input(self)

    @property
    def output_bytes(self) -> int:
        return self.held_bytes + self._connection.output_bytes

    @property
    def may_be_evicted(self) -> bool:
        return self.kind != LINK and "e" not in self.flags  # CLIENT NO-EVICT

    @property
    def input_bytes(self) -> int:
        return self._connection.input_bytes
