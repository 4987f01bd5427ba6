"""Queues and jobs as values, with the names that their library uses. No I/O."""

from dataclasses import dataclass
from enum import Enum

from holdfast.web.readers.bodies import Body, name_text


class Role(Enum):
    """The meaning of a state of a library, so that all libraries fit into one table."""

    WAITING = "waiting"
    ACTIVE = "active"
    DELAYED = "delayed"
    FAILED = "failed"
    DONE = "done"
    OTHER = "other"


@dataclass(frozen=True, slots=True, order=True)
class QueueId:
    """A queue. `prefix`: the beginning of the library's keys, if that can be configured."""

    library: str
    name: bytes
    prefix: bytes = b""

    @property
    def text(self) -> str:
        """The name to show."""
        return name_text(self.name)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of jobs in a state. None: the library does not count them, or the user may not
    read it."""

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
    """A consumer group. `lag`: entries not delivered yet; None if the server does not know it."""

    name: str
    lag: int | None
    pending: int
    consumers: tuple[Consumer, ...]
    entries_read: int | None = None
    more_consumers: int = 0  # consumers that were not read


@dataclass(frozen=True, slots=True)
class QueueState:
    """The current state of a queue. `oldest_ms`: for how long its oldest waiting job has waited (or
    is overdue).

    `consumers`: workers that serve it. `added` and `finished`: counters that only grow. None:
    unknown.
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
        """The number of jobs with this role; None if no state with this role is known."""
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
        """The number of jobs that are not finished."""
        roles = (Role.WAITING, Role.ACTIVE, Role.DELAYED)
        return sum(self.jobs(role) or 0 for role in roles)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `call`: the function call, as text. Times are in ms since 1970."""

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
    """Some jobs of one state, oldest first. `is_part`: there are more."""

    state: str
    jobs: tuple[Job, ...]
    is_part: bool = False
    note: str = ""
