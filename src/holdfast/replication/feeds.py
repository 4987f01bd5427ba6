"""The server's side of a link: our log, as far as a peer can take it in. No I/O: what is to be
sent goes to `send`, and leaves when it is on disk."""

from collections import deque
from collections.abc import Callable, Iterator

from holdfast.crdt.dots import Vector
from holdfast.replication.messages import BEGIN, COMPLETE, KEYS, RECORDS, Hello, pack
from holdfast.store.replicated import Replication, SnapshotKey

MESSAGE_BYTES = 128 * 1024
WINDOW_BYTES = 1 << 20  # sent and not taken in yet: more would only wait in buffers


class Feed:
    """`cursor` is the number of the log's next record that the peer may need. What others wrote it
    mostly gets from themselves, so their records are held back for a while: up to `_limit` all may
    leave, and so may what one of our own records may depend on. It is dropped when the peer says
    that it has it, and sent when that takes too long (`relay`)."""

    def __init__(
        self, replication: Replication, hello: Hello, send: Callable[[list[bytes]], None]
    ) -> None:
        self.replication = replication
        self.node, self.replica = hello.node, hello.replica
        self._seen: Vector = hello.vector
        self._send = send
        self._sent: deque[int] = deque()  # bytes of messages that were not taken in yet
        self._sent_bytes = 0
        self._taken = 0
        self.total_bytes = 0
        self._snapshot: Iterator[SnapshotKey] | None = None
        self._is_begun = True  # has the peer been told of the snapshot?
        self._vector: Vector = {}
        log = replication.log
        self.cursor = log.start
        self._limit = self._held = log.start + len(log)
        if not replication.can_serve(hello.vector):
            self._snapshot = replication.snapshot()
            self._vector = dict(replication.vector)
            self.cursor = log.start + len(log)
            self._is_begun = False

    @property
    def lag_ops(self) -> int:
        """How many records it may still lack."""
        log = self.replication.log
        return log.start + len(log) - max(self.cursor, log.start) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """Whether `pump` would send anything, if the peer keeps up."""
        return self._snapshot is not None or self.cursor < self._end

    @property
    def _end(self) -> int:
        """Up to there all may leave."""
        log = self.replication.log
        return min(max(self._limit, self.replication.own_end), log.start + len(log))

    @property
    def is_holding(self) -> bool:
        """Whether it is time to wait for `relay`."""
        log = self.replication.log
        return self.cursor < log.start + len(log)

    def relay(self) -> None:
        """Called again and again: what was there the last time has waited long enough."""
        log = self.replication.log
        self._limit, self._held = self._held, log.start + len(log)

    def acknowledged(self, vector: Vector, taken: int) -> None:
        self._seen = vector
        while self._taken < taken and self._sent:
            self._taken += 1
            self._sent_bytes -= self._sent.popleft()

    def pump(self) -> None:
        """Send what there is, as long as the peer keeps up."""
        while self._sent_bytes < WINDOW_BYTES:
            parts = self._snapshot_part() if self._snapshot is not None else self._records()
            if parts is None:
                return
            self._say(parts)

    def _say(self, parts: list[bytes]) -> None:
        nbytes = sum(map(len, parts))
        self._sent.append(nbytes)
        self._sent_bytes += nbytes
        self.total_bytes += nbytes
        self._send(parts)

    def _records(self) -> list[bytes] | None:
        log, seen = self.replication.log, self._seen
        cursor = max(self.cursor, log.start)
        end = self._end
        parts, nbytes = [RECORDS], 0
        while cursor < end and nbytes < MESSAGE_BYTES:
            origin, seq, _, _, data = log.at(cursor)
            cursor += 1
            # Its own it has, though it may not have said so yet.
            if origin != self.replica and seen.get(origin, 0) < seq:
                parts.append(data)
                nbytes += len(data)
        self.cursor = cursor
        return parts if nbytes else None

    def _snapshot_part(self) -> list[bytes]:
        assert self._snapshot is not None
        if not self._is_begun:  # not before the peer is answered, so not when this is made
            self._is_begun = True
            return [BEGIN, pack(self._vector)]
        parts, nbytes = [KEYS], 0
        for key in self._snapshot:
            parts.append(pack(key))
            nbytes += len(parts[-1])
            if nbytes >= MESSAGE_BYTES:
                return parts
        if nbytes:
            return parts
        self._snapshot = None
        return [COMPLETE, pack(self._vector)]
