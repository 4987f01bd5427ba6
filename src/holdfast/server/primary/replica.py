"""One replica, as the primary knows it."""

import enum
from typing import final

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
        self.wants_snapshot_only = False
        # The parts of a snapshot that it wants, none of which are keys; None: all of it.
        self.parts: frozenset[bytes] | None = None
        self.held: list[bytes] | None = None
        self.held_bytes = 0
        self.acknowledged = 0  # the offset that it has, by its own word
        self.acknowledged_s = now_s

    def hold(self, data: bytes) -> None:
        assert self.held is not None
        self.held.append(data)
        self.held_bytes += len(data)

    def take_held(self) -> list[bytes]:
        held, self.held, self.held_bytes = self.held or [], None, 0
        return held
