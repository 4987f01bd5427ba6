"""`Library`: how to read the queues of one library. A table of states gives most of it."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar

from holdfast.client import Client
from holdfast.web.readers.asking import Command, ask_one, number
from holdfast.web.readers.bounded import Part, list_parts, zset_parts
from holdfast.web.readers.queues.model import Count, Job, JobPage, QueueId, QueueState, Role
from holdfast.web.readers.scanning import scan

MOST_JOBS = 200  # on one page
_SCANS = 20  # calls of SCAN, if jobs have to be searched for
_MARK = re.compile(rb"\{(queue|prefix|id)\}")
_SCANNED = 500  # keys that one call reads


class Kind(Enum):
    """Where the ids of jobs in a state are, and how they are counted."""

    LIST = "list"  # the oldest first
    TAIL = "list, the oldest last"
    ZSET = "zset"
    DUE = "zset by time in ms, up to now"
    LATER = "zset by time in ms, after now"
    HASH = "hash"
    SEARCHED = "keys that match"  # too many to count
    COUNTED = "not listed"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where the jobs of one state are. `key` is a template with {queue} and {prefix}."""

    state: str
    role: Role
    kind: Kind
    key: bytes
    unit_ms: float = 1  # the unit of the scores of DUE and LATER


class Library(ABC):
    """A library of the table LIBRARIES. `state` of a queue needs one round trip, and one for its
    age."""

    name: ClassVar[str]
    title: ClassVar[str]
    shelves: ClassVar[tuple[Shelf, ...]]

    # -- counting -----------------------------------------------------------------------------

    def questions(self, queue: QueueId, now_ms: int) -> list[Command]:
        """The commands whose replies `state` gets: one for each shelf, then `extras`."""
        counted = [shelf for shelf in self.shelves if shelf.kind not in UNCOUNTED]
        return [self._count(shelf, queue, now_ms) for shelf in counted] + self.extras(queue, now_ms)

    def extras(self, queue: QueueId, now_ms: int) -> list[Command]:
        """Further commands, with replies of small and known size."""
        return []

    def state(self, queue: QueueId, replies: Sequence[Any], now_ms: int) -> QueueState | None:
        """The state; None if these keys are not a queue."""
        rest = iter(replies)
        counts = tuple(
            Count(each.state, each.role, None if each.kind in UNCOUNTED else number(next(rest)))
            for each in self.shelves
        )
        return self.refine(QueueState(queue, counts), list(rest), now_ms)

    def refine(self, state: QueueState, extras: list[Any], now_ms: int) -> QueueState:
        """The state with additions from the replies of `extras`."""
        return state

    async def prepare(self, client: Client) -> Any:
        """Data that `settle` needs for all queues of the library, read once for all of them."""
        return None

    async def settle(
        self, client: Client, state: QueueState, now_ms: int, prepared: Any
    ) -> QueueState:
        """The state with additions from further round trips."""
        return state

    async def oldest_ms(self, client: Client, queue: QueueId, now_ms: int) -> int | None:
        """The time since which the oldest waiting job waits."""
        waiting = next(each for each in self.shelves if each.role is Role.WAITING)
        page = await self.jobs(client, queue, waiting.state, 0, 1, now_ms)
        return page.jobs[0].enqueued_at_ms if page.jobs else None

    # -- jobs ---------------------------------------------------------------------------------

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        """Some jobs of a state: waiting ones with the oldest first, ended ones with the newest
        first.

        Raises UnshownError.
        """
        shelf = next((each for each in self.shelves if each.state == state), None)
        if shelf is None or shelf.kind is Kind.COUNTED:
            return JobPage(state, (), note=f"{self.title} keeps no list of these jobs")
        count = max(1, min(count, MOST_JOBS))
        if shelf.kind is Kind.SEARCHED:
            parts, is_part = await self._searched(client, shelf, queue, count)
        else:
            parts = await self._parts(client, shelf, queue, first, count + 1, now_ms)
            is_part = len(parts) > count
        found = await self.read(client, queue, shelf, parts[:count])
        return JobPage(state, tuple(found), is_part)

    @abstractmethod
    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        """The jobs of these elements of a shelf."""

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        """One job by its id, in any state; None if the library cannot find jobs by id."""
        return None

    # -- keys ---------------------------------------------------------------------------------

    def key(self, template: bytes, queue: QueueId, id: bytes = b"") -> bytes:
        """The template with its marks replaced, in one pass, because a name may contain the text of
        a mark."""
        values = {b"queue": queue.name, b"prefix": queue.prefix, b"id": id}
        return _MARK.sub(lambda match: values[match[1]], template)

    def keys(self, queue: QueueId) -> list[bytes]:
        """The keys that are parts of this queue, and so are not plain queues."""
        kinds = (Kind.SEARCHED, Kind.COUNTED)
        return [self.key(each.key, queue) for each in self.shelves if each.kind not in kinds]

    def _count(self, shelf: Shelf, queue: QueueId, now_ms: int) -> Command:
        key, now = self.key(shelf.key, queue), now_ms / shelf.unit_ms
        match shelf.kind:
            case Kind.LIST | Kind.TAIL:
                return ("LLEN", key)
            case Kind.DUE:
                return ("ZCOUNT", key, "-inf", now)
            case Kind.LATER:
                return ("ZCOUNT", key, f"({now}", "+inf")
            case Kind.HASH:
                return ("HLEN", key)
            case _:
                return ("ZCARD", key)

    async def _parts(
        self, client: Client, shelf: Shelf, queue: QueueId, first: int, count: int, now_ms: int
    ) -> list[Part]:
        key = self.key(shelf.key, queue)
        is_newest_first = shelf.role in (Role.FAILED, Role.DONE)
        match shelf.kind:
            case Kind.LIST:
                return await list_parts(client, key, first, count)
            case Kind.TAIL:
                return await list_parts(client, key, -1 - first, count, step=-1)
            case Kind.LATER:
                due = await ask_one(client, "ZCOUNT", key, "-inf", now_ms / shelf.unit_ms)
                return await zset_parts(client, key, (due or 0) + first, count)
            case Kind.DUE:
                due = await ask_one(client, "ZCOUNT", key, "-inf", now_ms / shelf.unit_ms)
                return await zset_parts(client, key, first, max(0, min(count, (due or 0) - first)))
            case Kind.HASH:
                _, flat = await ask_one(client, "HSCAN", key, 0, "COUNT", count) or (0, [])
                ids = list(flat) if isinstance(flat, dict) else flat[::2]
                return [Part(id, len(id)) for id in ids]
            case _:
                if is_newest_first:
                    return await zset_parts(client, key, -1 - first, count, step=-1)
                return await zset_parts(client, key, first, count)

    async def _searched(
        self, client: Client, shelf: Shelf, queue: QueueId, count: int
    ) -> tuple[list[Part], bool]:
        """Names of keys that match, as far as a limited search finds them."""
        found: dict[bytes, None] = {}
        cursor = "0"
        pattern = self.key(shelf.key, replace(queue, name=escaped(queue.name)))
        for _ in range(_SCANS):
            step = await scan(client, cursor, "MATCH", pattern, "COUNT", _SCANNED)
            if step is None:
                break
            cursor = step.cursor
            found.update(dict.fromkeys(step.names))
            if step.is_last or len(found) >= count:
                break
        is_part = cursor != "0" or len(found) > count
        return [Part(name, len(name)) for name in list(found)[:count]], is_part


UNCOUNTED = (Kind.SEARCHED, Kind.COUNTED)


def with_jobs(state: QueueState, name: str, jobs: int | None) -> QueueState:
    """The state with another number of jobs in one of its states."""
    counts = (replace(each, jobs=jobs) if each.state == name else each for each in state.counts)
    return replace(state, counts=tuple(counts))


def jobs_in(state: QueueState, name: str) -> int | None:
    return next((each.jobs for each in state.counts if each.state == name), None)


def ms_of(value: Any) -> int | None:
    """A time in ms since 1970, from a number in ms, a text with such a number, or ISO 8601."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    try:
        time_ms = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(time_ms) if math.isfinite(time_ms) and 0 < time_ms < 1e15 else None


def escaped(name: bytes) -> bytes:
    """A pattern for MATCH that finds only this name."""
    return b"".join(b"\\" + bytes([c]) if c in b"*?[]\\^" else bytes([c]) for c in name)
