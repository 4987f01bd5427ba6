"""The server's side of a link: our log, as far as a peer can take it in. No I/O: what is to be
sent goes to `send`, and leaves when it is on disk."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.crdt.dots import Vector
from holdfast.replication.messages import (
    BEGIN,
    BEHIND,
    COMPLETE,
    FOLLOWS,
    KEYS,
    MESSAGE_BYTES,
    PIECE,
    RECORDS,
    STARTS,
    Hello,
    pack,
)
from holdfast.store.replicated import Replication, SnapshotKey

WINDOW_BYTES = 1 << 20  # sent and not taken in yet: more would only wait in buffers
# Looked at before others have their turn, about ten milliseconds' work: keys of a snapshot, which
# may have to be read from the file, and records, which the peer may have already.
PUMP_KEYS = 250
PUMP_RECORDS = 5000


class Large(NamedTuple):
    """A part that is larger than a message, and how much of it was sent. A record is read from the
    log piece by piece; it may be cut there, if the peer was removed meanwhile."""

    nbytes: int
    record: int | None  # its number in the log
    key: bytes  # of a snapshot, if it is no record
    sent_bytes: int = 0


class Feed:
    """`cursor` is the number of the log's next record that the peer may need. What others wrote it
    mostly gets from themselves, so their records are held back for a while: up to `_limit` all may
    leave, and so may what one of our own records may depend on. It is dropped when the peer says
    that it has it, and sent when that takes too long (`relay`).

    A peer that lacks more than the log has needs a snapshot. It is told so (BEHIND) and asks for it
    when it takes none from elsewhere; afterwards our log may do."""

    def __init__(
        self,
        replication: Replication,
        hello: Hello,
        send: Callable[[list[bytes]], None],
        message_bytes: int = MESSAGE_BYTES,
    ) -> None:
        self.replication = replication
        self.node, self.replica, self.life = hello.node, hello.replica, hello.life
        self._seen: Vector = hello.vector
        self._send = send
        self._message_bytes = message_bytes
        self._sent: deque[int] = deque()  # bytes of messages that were not taken in yet
        self._sent_bytes = 0
        self._taken = 0
        self.total_bytes = 0
        self._large: Large | None = None
        self._snapshot: Iterator[SnapshotKey] | None = None
        self._vector: Vector = {}  # what we had seen when it began
        self._first: list[list[bytes]] = []  # messages that leave before all others
        self._looks_left = PUMP_RECORDS  # before others have their turn
        log = replication.log
        self.cursor = log.start
        self._limit = self._held = log.start + len(log)
        self._is_behind = not replication.can_serve(hello.vector)
        if self._is_behind:
            self._first.append([BEHIND, pack(log.base)])

    @property
    def lag_ops(self) -> int:
        """How many records it may still lack."""
        log = self.replication.log
        return log.start + len(log) - max(self.cursor, log.start) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """Whether `pump` would send anything, if the peer keeps up."""
        return bool(
            self._first
            or self._large is not None
            or self._snapshot is not None
            or (not self._is_behind and self.cursor < self._end)
        )

    @property
    def _end(self) -> int:
        """Up to there all may leave."""
        log = self.replication.log
        return min(max(self._limit, self.replication.own_end), log.start + len(log))

    @property
    def is_holding(self) -> bool:
        """Whether it is time to wait for `relay`."""
        log = self.replication.log
        return not self._is_behind and self.cursor < log.start + len(log)

    def relay(self) -> None:
        """Called again and again: what was there the last time has waited long enough."""
        log = self.replication.log
        self._limit, self._held = self._held, log.start + len(log)

    def acknowledged(self, vector: Vector, taken: int, takes_snapshot: bool = False) -> None:
        self._seen = vector
        while self._taken < taken and self._sent:
            self._taken += 1
            self._sent_bytes -= self._sent.popleft()
        if self._is_behind and takes_snapshot:
            self._catch_up(vector)

    def _catch_up(self, vector: Vector) -> None:
        replication, log = self.replication, self.replication.log
        self._is_behind = False
        if replication.can_serve(vector):
            self.cursor = log.start
            self._first.append([FOLLOWS, pack(replication.vector)])
        else:
            self.cursor = log.start + len(log)
            self._vector = dict(replication.vector)
            self._snapshot = replication.snapshot()
            self._first.append([BEGIN, pack(self._vector)])

    def pump(self) -> bool:
        """Send what there is, as long as the peer keeps up. Whether it is to be called again when
        others have had their turn."""
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
        """The next message; None if there is none, or none yet."""
        if self._first:
            return self._first.pop(0)
        if self._is_behind:
            return None  # until it asks for a snapshot
        if self._large is not None and (piece := self._piece(self._large)):
            return [PIECE, piece]
        if self._snapshot is None and self._is_left_behind:
            self._is_behind = True
            return [BEHIND, pack(self.replication.log.base)]
        return self._snapshot_part() if self._snapshot is not None else self._records()

    @property
    def _is_left_behind(self) -> bool:
        """Whether the log was cut where this peer still needed it."""
        replication = self.replication
        return self.cursor < replication.log.start and not replication.can_serve(self._seen)

    def _start(self, large: Large) -> list[bytes]:
        self._large = large
        return [STARTS, pack((KEYS if large.record is None else RECORDS, large.nbytes))]

    def _piece(self, large: Large) -> bytes:
        """The next one; none if the log has lost the record, of which the peer has a part then and
        forgets it when the next one starts."""
        start, size = large.sent_bytes, self._message_bytes
        number = large.record
        if number is None:
            piece = large.key[start : start + size]
        elif number < self.replication.log.start:
            piece = b""
        else:
            piece = self.replication.log.read(number, start, size)
        sent_bytes = start + len(piece)
        is_whole = sent_bytes == large.nbytes
        self._large = None if is_whole or not piece else large._replace(sent_bytes=sent_bytes)
        if is_whole and number is not None:
            self.cursor = number + 1
        return piece

    def _records(self) -> list[bytes] | None:
        log, seen, most = self.replication.log, self._seen, self._message_bytes
        cursor = max(self.cursor, log.start)
        end = self._end
        parts, nbytes = [RECORDS], 0
        while cursor < end and nbytes < most and self._looks_left > 0:
            self._looks_left -= 1
            record = log.at(cursor)
            # Its own it has, though it may not have said so yet.
            if record.origin != self.replica and seen.get(record.origin, 0) < record.seq:
                if record.nbytes > most:
                    if not nbytes:
                        self.cursor = cursor  # until its last piece has left
                        return self._start(Large(record.nbytes, cursor, b""))
                    break  # what is before it leaves first
                parts.append(self.replication.log.read(cursor))
                nbytes += record.nbytes
            cursor += 1
        self.cursor = cursor
        return parts if nbytes else None

    def _snapshot_part(self) -> list[bytes]:
        assert self._snapshot is not None
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
