"""A session with a socket: its output is counted while it is produced, and bounded.

One turn can produce more output than memory holds (a pipeline of GETs of a large value). So a
client that asks for more than `client-output-buffer-limit` is closed before the turn ends, not
after.
"""

import sys
from typing import Final

from holdfast.resp import WRITERS2, WRITERS3, Reply, written
from holdfast.server.config.value_kinds import BufferLimit
from holdfast.server.sessions.out_of_band import NOTHING, Output
from holdfast.server.sessions.session import LINK, NEEDS_AUTH, PUBSUB, Session
from holdfast.server.sessions.session_host import SessionHost

# The session asks the socket for its unsent bytes only after it has given this number of bytes to
# it, or this part of the limit. To ask each time would cost as much as to find a key.
UNSEEN_BYTES: Final = 16 * 1024
UNSEEN_PART: Final = 16
# A link to another server bounds its output itself (replication/feeds.py). If it were closed
# because of its output, the other server would ask for the same output again, for ever.
OF_LINKS: Final = BufferLimit(0, 0, 0)
# A client that has not signed in gets only errors. The limit is that of redis-server. Bytes that
# the kernel has taken count, too, while more commands of the client come: the buffers of the kernel
# take megabytes, and until they are full, a client that never reads looks like one that reads.
UNAUTHENTICATED_OUTPUT_BYTES: Final = 16 * 1024


def weight(reply: Reply) -> int:
    """The approximate size of a reply in bytes, before it is encoded."""
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


class Wire:
    """The connection of a session, seen from the session."""

    __slots__ = ()

    @property
    def output_bytes(self) -> int:
        """Bytes that the socket has got and not sent."""
        raise NotImplementedError

    @property
    def input_bytes(self) -> int:
        """The approximate size of the commands that have not run."""
        raise NotImplementedError

    def proceed(self, session: "WireSession") -> bool:
        """Run the client's share of commands. Returns whether more of them could run."""
        raise NotImplementedError

    def limit_input(self, session: "WireSession") -> None:
        """Bound the input of the client, as the configuration says now."""
        raise NotImplementedError

    def deliver(self, replies: list[bytes]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class WireSession(Session):
    __slots__ = (
        "_ahead_bytes",
        "_hard_bytes",
        "_most_unseen_bytes",
        "_soft_since_s",
        "_unseen_bytes",
        "_wire",
        "held_bytes",
        "room",
        "writers",
    )

    def __init__(self, host: SessionHost, wire: Wire, address: str, local_address: str) -> None:
        super().__init__(host, wire, address, local_address)
        self._wire = wire
        self.writers = WRITERS2
        self.held_bytes = 0  # output that the socket has not got yet
        self.room = 0  # bytes that may still be produced, when this was last computed
        self._unseen_bytes = 0  # bytes given to the socket since it was last asked
        # Bytes of replies to a client that has not signed in, since it last had no more commands.
        self._ahead_bytes = 0
        self._soft_since_s: float | None = None
        self.limits_changed()

    def use_protocol(self, version: int) -> None:
        super().use_protocol(version)
        self.writers = WRITERS3 if version == 3 else WRITERS2

    def proceed(self) -> bool:
        return self._wire.proceed(self)

    def send(self, value: Reply) -> None:
        if isinstance(value, (tuple, list, dict)) and self._is_too_much(value):
            return
        data = written(value, self.writers)
        out = self.out
        if not out:
            self.outgoing.add(self)
        out.append(data)
        self.held_bytes = held_bytes = self.held_bytes + len(data)
        if held_bytes > self.room:
            self.overflows(0)

    def push(self, items: list[Output], nbytes: int) -> None:
        if self.closing:
            return
        out = self.out
        if not out:
            self.outgoing.add(self)
        out += items
        self.held_bytes = held_bytes = self.held_bytes + nbytes
        if held_bytes > self.room:
            self.overflows(0)

    def _is_too_much(self, value: Reply) -> bool:
        """Whether a reply is too much for the client. A tuple contains no element twice, so it is
        at most as large as all stored data, and mostly need not be weighed: for a tuple of a
        hundred elements that would take a quarter of the time of an LRANGE."""
        if type(value) is tuple and self.keyspace.used_bytes <= self.room - self.held_bytes:
            return False
        return self.overflows(weight(value))

    def overflows(self, nbytes: int) -> bool:
        if self.held_bytes + nbytes <= self.room:
            return False
        self.room = self._hard_bytes - self._wire.output_bytes  # it grows when the client reads
        if self.held_bytes + nbytes <= self.room:
            return False
        self.out[:] = [NOTHING]  # the session stays in the list of the turn, without output
        self.held_bytes = 0
        self.abort()
        return True

    def deliver(self, replies: list[Output]) -> None:
        self._wire.deliver(replies)

    def delivered(self, nbytes: int) -> None:
        """Note that the socket has got this number of bytes."""
        self.held_bytes = self.held_bytes - nbytes if self.out else 0
        self.last_active_s = self.host.now_s
        self._unseen_bytes += nbytes
        if self._unseen_bytes > self._most_unseen_bytes:
            self._look_at_unsent(nbytes)

    def _look_at_unsent(self, nbytes: int) -> None:
        unsent_bytes = self._wire.output_bytes
        if self.modes & NEEDS_AUTH:
            self._ahead_bytes = self._ahead_bytes + self._unseen_bytes if self.is_runnable else 0
            unsent_bytes = max(unsent_bytes, self._ahead_bytes)
        self._unseen_bytes = 0
        self.room = self._hard_bytes - unsent_bytes
        # Only bytes that were there before this call can have been there for too long.
        if self.room < 0 or (unsent_bytes > nbytes and self._is_slow(unsent_bytes)):
            self.abort()

    def _is_slow(self, unsent_bytes: int) -> bool:
        """Whether the unsent output has been above the soft limit for too long."""
        limit = self._limit
        if not 0 < limit.soft_bytes < unsent_bytes:
            self._soft_since_s = None
            return False
        if self._soft_since_s is None:
            self._soft_since_s = self.host.now_s
        return self.host.now_s - self._soft_since_s > limit.soft_s

    def look_after(self) -> None:
        idle_s = self.host.config.timeout
        is_idle = self.host.now_s - self.last_active_s > idle_s > 0
        is_listening = self.monitoring or self.kind == PUBSUB
        may_be_idle = not (self.is_waiting or self.backlog or is_listening or self.kind == LINK)
        if (
            (is_idle and may_be_idle)
            or self._is_slow(self.sink.output_bytes)
            or (self.modes & NEEDS_AUTH and self._is_late())
        ):
            self.abort()

    def _is_late(self) -> bool:
        """Whether the time to sign in is over."""
        return self.host.now_s - self.needs_auth_since_s > self.host.config.auth_timeout > 0

    @property
    def _limit(self) -> BufferLimit:
        if self.kind == LINK:
            return OF_LINKS
        limits = self.host.config.client_output_buffer_limit
        return limits.pubsub if self.kind == PUBSUB else limits.normal

    def limits_changed(self) -> None:
        self._hard_bytes = self._limit.hard_bytes or sys.maxsize
        if self.modes & NEEDS_AUTH:
            self._hard_bytes = min(self._hard_bytes, UNAUTHENTICATED_OUTPUT_BYTES)
        self._most_unseen_bytes = min(UNSEEN_BYTES, self._hard_bytes // UNSEEN_PART)
        self.room = self._hard_bytes - self.sink.output_bytes
        self._wire.limit_input(self)

    @property
    def output_bytes(self) -> int:
        return self.held_bytes + self._wire.output_bytes

    @property
    def may_be_evicted(self) -> bool:
        return self.kind != LINK and "e" not in self.flags  # CLIENT NO-EVICT

    @property
    def input_bytes(self) -> int:
        return self._wire.input_bytes
