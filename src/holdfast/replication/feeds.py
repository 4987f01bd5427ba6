"""The end of a link that sends: it sends our log, as fast as the peer takes it. No I/O: messages go
to `send`, and leave when the data in them is on disk.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.crdt.dots import Vector, includes, join
from holdfast.replication.messages import (
    BEGIN,
    BEHIND,
    COMPLETE,
    FOLLOWS,
    KEYS,
    MESSAGE_BYTES,
    OWES,
    PIECE,
    RECORDS,
    STARTS,
    Hello,
    pack,
)
from holdfast.store.replicated.inbound import SnapshotKey
from holdfast.store.replicated.stage import ReplicationStage

WINDOW_BYTES = 1 << 20  # bytes on their way; more would only wait in buffers
# The work of one `pump` before clients get their turn, about ten milliseconds: keys of a snapshot,
# which may only be in the file, and records, which the peer may have already.
PUMP_KEYS = 250
PUMP_RECORDS = 5000


class Large(NamedTuple):
    """A part that is larger than a message, and how much of it was sent. A record is read from the
    log piece by piece. The log may cut the record meanwhile, if the peer was removed."""

    nbytes: int
    record: int | None  # its number in the log
    key: bytes  # the key of a snapshot; empty for a record
    sent_bytes: int = 0


class Feed:
    """Sends the log to one peer. `cursor` is the number of the first record in the log that the
    peer may need. Records of other servers usually reach the peer from these servers, so they are
    held back for a while. Records below `_limit` may leave. So may all records up to our own last
    one, which may depend on the records before it. A held record is dropped when the peer
    acknowledges it, and sent if that takes too long (`relay`).

    A peer needs a snapshot if it lacks records that the log does not have, because they were cut,
    or because this server itself has them from a snapshot. It is told so (BEHIND), and asks for a
    snapshot when no other peer sends one. After the snapshot of another peer our log may be enough.
    """

    def __init__(
        self,
        stage: ReplicationStage,
        hello: Hello,
        send: Callable[[list[bytes]], None],
        message_bytes: int = MESSAGE_BYTES,
    ) -> None:
        self.stage = stage
        self.node, self.replica, self.life = hello.node, hello.replica, hello.life
        self._seen: Vector = hello.vector
        self._send = send
        self._message_bytes = message_bytes
        self._sent: deque[int] = deque()  # the sizes of messages that the peer has not taken yet
        self._sent_bytes = 0
        self._taken = 0
        self.total_bytes = 0
        self._large: Large | None = None
        self._snapshot: Iterator[SnapshotKey] | None = None
        self._vector: Vector = {}  # the events that we had seen when the snapshot began
        self._told_owed: Vector = {}  # the owed events (see ReplicaState) that the peer was told
        self._first: list[list[bytes]] = []  # messages that are sent before all others
        self._looks_left = PUMP_RECORDS  # of the current `pump`
        log = stage.log
        self.cursor = log.start
        self._merges = log.merges
        self._limit = self._held = log.start + len(log)
        self._is_behind = not stage.can_serve(hello.vector)
        if self._is_behind:
            self._first.append([BEHIND, pack(log.base)])

    @property
    def lag_ops(self) -> int:
        """The number of records that the peer may still lack."""
        log = self.stage.log
        return log.start + len(log) - max(self.cursor, log.start) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """Whether `pump` would send anything, if the window has room."""
        return bool(
            self._first
            or self._large is not None
            or self._snapshot is not None
            or (not self._is_behind and self.cursor < self._end)
        )

    @property
    def _end(self) -> int:
        """Records below this number may be sent."""
        log = self.stage.log
        return min(max(self._limit, self.stage.own_end), log.start + len(log))

    @property
    def is_holding(self) -> bool:
        """Whether records are held back, so that `relay` has to be called later."""
        log = self.stage.log
        return not self._is_behind and self.cursor < log.start + len(log)

    def relay(self) -> None:
        """Called at intervals: records that were already held at the last call may be sent now."""
        log = self.stage.log
        self._limit, self._held = self._held, log.start + len(log)

    def acknowledged(self, vector: Vector, taken: int, takes_snapshot: bool = False) -> None:
        self._seen = vector
        while self._taken < taken and self._sent:
            self._taken += 1
            self._sent_bytes -= self._sent.popleft()
        if self._is_behind and takes_snapshot:
            self._catch_up(vector)

    def _catch_up(self, vector: Vector) -> None:
        stage, log = self.stage, self.stage.log
        self._is_behind = False
        self._merges = log.merges
        if stage.can_serve(vector):
            self.cursor = log.start
            self._first.append([FOLLOWS, pack(stage.vector)])
        else:
            self.cursor = log.start + len(log)
            self._vector = dict(stage.vector)
            self._told_owed = {}
            self._snapshot = stage.snapshot()
            self._first.append([BEGIN, pack(self._vector)])

    def pump(self) -> bool:
        """Send all there is, as long as the window has room. Returns True if there is more, and the
        caller should call again after clients had their turn."""
        self._looks_left = PUMP_RECORDS
        while self._sent_bytes < WINDOW_BYTES and self._looks_left > 0:
            parts = self._next()
            if parts is None:
                return self._looks_left <= 0 and self.has_news
            self._say(parts)
        return self._looks_left <= 0 and self.has_news

    def _say(self, parts: list[bytes]) -> None:
        nbytes = sum(map(len, parts))
        self._sent.append(nbytes)
        self._sent_bytes += nbytes
        self.total_bytes += nbytes
        self._send(parts)

    def _next(self) -> list[bytes] | None:
        """The next message; None if there is none yet."""
        if self._first:
            return self._first.pop(0)
        if self._is_behind:
            return None  # nothing until the peer asks for a snapshot
        if self._large is not None and (piece := self._piece(self._large)):
            return [PIECE, piece]
        if self._snapshot is not None:
            return self._snapshot_part()
        log = self.stage.log
        if self.cursor < log.start or self._merges != log.merges:
            # Records were cut from the log, or this server has them from a snapshot. A peer that
            # has not acknowledged them may need a snapshot; asking a peer that has them costs
            # little.
            if not log.can_serve(self._seen):
                self._is_behind = True
                return [BEHIND, pack(log.base)]
            self._merges = log.merges
        return self._records()

    def _start(self, large: Large) -> list[bytes]:
        self._large = large
        return [STARTS, pack((KEYS if large.record is None else RECORDS, large.nbytes))]

    def _piece(self, large: Large) -> bytes:
        """The next piece. b"" if the log has cut the record; the peer drops the pieces that it has
        when another part starts."""
        start, size = large.sent_bytes, self._message_bytes
        number = large.record
        if number is None:
            piece = large.key[start : start + size]
        elif number < self.stage.log.start:
            piece = b""
        else:
            piece = self.stage.log.read(number, start, size)
        sent_bytes = start + len(piece)
        is_whole = sent_bytes == large.nbytes
        self._large = None if is_whole or not piece else large._replace(sent_bytes=sent_bytes)
        if is_whole and number is not None:
            self.cursor = number + 1
        return piece

    def _records(self) -> list[bytes] | None:
        log, seen, most = self.stage.log, self._seen, self._message_bytes
        cursor = max(self.cursor, log.start)
        end = self._end
        parts, nbytes = [RECORDS], 0
        while cursor < end and nbytes < most and self._looks_left > 0:
            self._looks_left -= 1
            record = log.at(cursor)
            # The peer has its own records, even if it has not acknowledged them yet.
            if record.origin != self.replica and seen.get(record.origin, 0) < record.seq:
                if record.nbytes > most:
                    if not nbytes:
                        self.cursor = cursor  # the cursor stays here until the last piece is sent
                        return self._start(Large(record.nbytes, cursor, b""))
                    break  # the records before it are sent first
                parts.append(self.stage.log.read(cursor))
                nbytes += record.nbytes
            cursor += 1
        self.cursor = cursor
        return parts if nbytes else None

    def _snapshot_part(self) -> list[bytes]:
        assert self._snapshot is not None
        owed = self.stage.owed
        if not includes(self._told_owed, owed):
            self._told_owed = join(self._told_owed, owed)
            return [OWES, pack(owed)]
        parts, nbytes = [KEYS], 0
        for key in self._snapshot:
            self._looks_left -= PUMP_RECORDS // PUMP_KEYS
            data = pack(key)
            if len(data) > self._message_bytes:
                if nbytes:
                    self._say(parts)
                return self._start(Large(len(data), None, data))
            parts.append(data)
            nbytes += len(data)
            if nbytes >= self._message_bytes or self._looks_left <= 0:
                return parts
        if nbytes:
            return parts
        self._snapshot = None
        return [COMPLETE, pack(self._vector)]
