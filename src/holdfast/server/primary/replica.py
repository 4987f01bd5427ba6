"""One replica, as the primary knows it."""

import enum
from typing import final

from holdfast.server.config.value_kinds import BufferLimit
from holdfast.server.sessions.session import Session

FUNCTIONS = b"functions"  # a part of a snapshot, as REPLCONF rdb-filter-only names it


class State(enum.Enum):
    """The value is the word in INFO and ROLE."""

    WAITS = "wait_bgsave"  # for a snapshot
    LOADS = "send_bulk"  # it is being sent one
    ONLINE = "online"  # it gets the commands as they are committed


@final
class Replica:
    """`held` are commands that were committed after the moment of its snapshot, until it has the
    snapshot. It is None until that moment is known."""

    def __init__(self, session: Session, now_s: float) -> None:
        self.session = session
        self.state = State.WAITS
        self.address = session.address.rpartition(":")[0]
        self.port = 0
        self.knows_eof = False
        self.knows_offsets = True
        self.shares_writing = False  # it gets the snapshot that is being written
        # It was sent all of a snapshot that ends with a mark. Redis finds the mark only if nothing
        # follows, so the stream begins when the replica says that it has the snapshot.
        self.has_mark = False
        self.knows_field_times = False  # of hashes: it reads snapshots that have them
        self.wants_snapshot_only = False
        # The parts of a snapshot that it wants, none of which are keys; None: all of it.
        self.parts: frozenset[bytes] | None = None
        self.held: list[bytes] | None = None
        self.held_bytes = 0
        self.acknowledged = 0  # the offset that it has, by its own word
        self.on_disk = 0  # likewise, the offset up to which it has synced
        self.acknowledged_s = now_s
        self._soft_since_s: float | None = None  # above the soft limit

    def hold(self, data: bytes) -> None:
        assert self.held is not None
        self.held.append(data)
        self.held_bytes += len(data)

    def take_held(self) -> list[bytes]:
        held, self.held, self.held_bytes = self.held or [], None, 0
        return held

    @property
    def waiting_bytes(self) -> int:
        """What it has to take in."""
        return self.held_bytes + self.session.output_bytes

    def is_slow(self, limit: BufferLimit, backlog_bytes: int, now_s: float) -> bool:
        """Whether it takes in less than is written here, for too long. It may have as much to take
        in as the backlog has: it would ask for just that again."""
        waiting_bytes = self.waiting_bytes
        if limit.hard_bytes and waiting_bytes > max(limit.hard_bytes, backlog_bytes):
            return True
        if not 0 < limit.soft_bytes < waiting_bytes:
            self._soft_since_s = None
            return False
        if self._soft_since_s is None:
            self._soft_since_s = now_s
        return now_s - self._soft_since_s > limit.soft_s
