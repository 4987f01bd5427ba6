"""Queues and jobs as values, in the words of the library that made them. No I/O."""

from dataclasses import dataclass
from enum import Enum

from holdfast.web.readers.bodies import Body, name_text


class Role(Enum):
    """What a state of a library means, so that all libraries fit into one table."""

    WAITING = "waiting"
    ACTIVE = "active"
    DELAYED = "delayed"
    FAILED = "failed"
    DONE = "done"
    OTHER = "other"


@dataclass(frozen=True, slots=True, order=True)
class QueueId:
    """`prefix`: what the library's keys begin with, if that can be configured."""

    library: str
    name: bytes
    prefix: bytes = b""

    @property
    def text(self) -> str:
        """The name for people."""
        return name_text(self.name)


@dataclass(frozen=True, slots=True)
class Count:
    """So many jobs are in this state. None: the library does not count them, or the user may not
    ask."""

    state: str
    role: Role
    jobs: int | None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a stream's group."""

    name: str
    pending: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. `lag`: entries not delivered yet; None if the server cannot tell."""

    name: str
    lag: int | None
    pending: int
    consumers: tuple[Consumer, ...]
    entries_read: int | None = None
    more_consumers: int = 0  # that were not asked for


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue now. `oldest_ms`: how long its oldest waiting job has waited (or is overdue).

    `consumers`: workers that serve it. `added` and `finished`: counters that only grow. None: it
    is not known.
    """

    id: QueueId
    counts: tuple[Count, ...] = ()
    oldest_ms: int | None = None
    consumers: int | None = None
    added: int | None = None
    finished: int | None = None
    groups: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()

    def jobs(self, role: Role) -> int | None:
        """All jobs of this role; None if no state of it is known."""
        known = [each.jobs for each in self.counts if each.role is role and each.jobs is not None]
        return sum(known) if known else None

    @property
    def waiting(self) -> int | None:
        return self.jobs(Role.WAITING)

    @property
    def active(self) -> int | None:
        return self.jobs(Role.ACTIVE)

    @property
    def delayed(self) -> int | None:
        return self.jobs(Role.DELAYED)

    @property
    def failed(self) -> int | None:
        return self.jobs(Role.FAILED)

    @property
    def pending(self) -> int:
        """Jobs that are still to be finished."""
        roles = (Role.WAITING, Role.ACTIVE, Role.DELAYED)
        return sum(self.jobs(role) or 0 for role in roles)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `call`: what it runs, as text. Times are in ms since 1970."""

    id: str
    state: str
    call: str = ""
    body: Body | None = None
    enqueued_at_ms: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    due_at_ms: int | None = None
    attempt: int | None = None
    error: str = ""
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs of one state, the oldest first. `is_part`: there are more than those looked at."""

    state: str
    jobs: tuple[Job, ...]
    is_part: bool = False
    note: str = ""
