"""`QueueReader`: the queues of a server, read again and again, with little work each time."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.client import Client, ReplyTooLargeError
from holdfast.web.readers.asking import ask, ask_one, number
from holdfast.web.readers.bounded import UnshownError
from holdfast.web.readers.pace import COUNT, LEAST_CALLS, UNKNOWN, Pace
from holdfast.web.readers.queues.arq import Arq
from holdfast.web.readers.queues.bullmq import BullMq
from holdfast.web.readers.queues.celery import Celery, queues_bound
from holdfast.web.readers.queues.dramatiq import Dramatiq
from holdfast.web.readers.queues.flow import Flow, flow
from holdfast.web.readers.queues.known_places import FIRST_KEYS, INDEX, INDEXED
from holdfast.web.readers.queues.library import Library
from holdfast.web.readers.queues.model import Job, JobPage, QueueId, QueueState
from holdfast.web.readers.queues.plain import PlainList, Schedule, Stream
from holdfast.web.readers.queues.recognise import PLAIN, SET, recognise
from holdfast.web.readers.queues.rq import Rq
from holdfast.web.readers.queues.saq import Saq
from holdfast.web.readers.queues.search import Search
from holdfast.web.readers.scanning import scan

LIBRARIES: dict[str, Library] = {
    each.name: each
    for each in (
        Celery(),
        Rq(),
        Arq(),
        Saq(),
        Dramatiq(),
        BullMq(),
        PlainList(),
        Stream(),
        Schedule(),
    )
}
MOST_BESIDE = 8  # queues whose further questions are sent at the same time


@dataclass(frozen=True, slots=True)
class Measured:
    """A queue, and how it changes. `at_s`: the time of the measurement, from a clock that never
    goes back."""

    at_s: float
    state: QueueState
    flow: Flow | None = None


@dataclass(frozen=True, slots=True)
class QueuesView:
    """All queues that were measured.

    `found`: how many queues were found; some may not be measured yet. `share`: the part of the keys
    that was read, in the first round. `blocked_clients`: clients that wait in a blocking command,
    on any key; None if unknown.
    """

    queues: tuple[Measured, ...]
    found: int
    share: float
    blocked_clients: int | None = None
    is_full: bool = False


class QueueReader:
    """The queues of one server for one user. Methods raise HoldfastError if the server does not
    answer.

    `look` costs the server a limited time, for any number of keys: some calls of SCAN, and the
    counters of some queues. Call it only when a page needs it.
    """

    def __init__(self, client: Client, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic_s = monotonic_s
        self._search = Search()
        self._measured: dict[QueueId, Measured] = {}
        self._index_cursor: str | None = None  # of a walk through INDEX; None: none is under way
        self._index_rounds = -1  # rounds of the search that were over when the last walk began
        self._looking = asyncio.Lock()

    async def look(self, pace: Pace = UNKNOWN) -> QueuesView:
        """Continue the search, measure some queues again (they take turns), and return all known
        queues."""
        async with self._looking:  # so that two tabs do not search twice
            keys, info = await ask(self._client, [("DBSIZE",), ("INFO", "clients")])
            calls = pace.calls_in(self._search.rounds)
            used = await self._look_at_known_places(calls)
            for _ in range(max(LEAST_CALLS, calls - used)):
                if not await self._scan():
                    break
            await self._measure(self._due(pace.measured))
        return QueuesView(
            queues=tuple(sorted(self._measured.values(), key=lambda each: each.state.id)),
            found=len(self._search.found),
            share=self._search.share(keys or 0),
            blocked_clients=_blocked(info),
            is_full=self._search.is_full,
        )

    async def queue(self, id: QueueId) -> Measured | None:
        """One queue, measured now; None if these keys are not a queue."""
        self._search.add(id)
        async with self._looking:
            await self._measure([id])
        return self._measured.get(id)

    async def jobs(self, id: QueueId, state: str, first: int = 0, count: int = 50) -> JobPage:
        """Jobs in one of the states of `QueueState.counts`."""
        now_ms = await self._now_ms()
        library, first = library_of(id), max(0, first)
        try:
            return await library.jobs(self._client, id, state, first, count, now_ms)
        except UnshownError as error:
            return JobPage(state, (), True, str(error))

    async def job(self, id: QueueId, job_id: bytes) -> Job | None:
        """One job; None if it is gone, or if the library has no way to find it by id."""
        return await library_of(id).job(self._client, id, job_id)

    # -- search -------------------------------------------------------------------------------

    async def _look_at_known_places(self, calls: int) -> int:
        """Find queues without a search, once in each round of the search. Returns how many calls of
        that number it has used."""
        if self._index_rounds != self._search.rounds:
            self._index_rounds, self._index_cursor = self._search.rounds, "0"
            kinds = await ask(self._client, [("TYPE", key) for key in FIRST_KEYS])
            for kind, key in zip(kinds, FIRST_KEYS, strict=True):
                await self._found(_text(kind), [key])
        used = 0
        while self._index_cursor is not None and used < calls:
            used += 1
            cursor, names = await self._step_through_index(self._index_cursor)
            await self._found(INDEXED, names)
            self._index_cursor = None if cursor == "0" else cursor
        return used

    async def _step_through_index(self, cursor: str) -> tuple[str, list[bytes]]:
        """No names if the key is no set, or has a member that is no name: the search finds the
        queues, too."""
        try:
            reply = await ask_one(self._client, "SSCAN", INDEX, cursor, "COUNT", COUNT)
        except ReplyTooLargeError:
            reply = None
        return ("0", []) if reply is None else (_text(reply[0]), list(reply[1]))

    async def _found(self, kind: str, names: Iterable[bytes]) -> None:
        """Note the queues to which these keys belong. All keys have the same type."""
        for name in names:
            queue = self._search.add(recognise(kind, name))
            if queue is not None and queue.library == "celery" and kind == SET:
                await self._bind(queue)

    async def _scan(self) -> bool:
        """Do one call of SCAN. False: this round is over, or the user may not scan."""
        rounds = self._search.rounds
        kind, cursor = self._search.next()
        step = await scan(self._client, cursor, "COUNT", COUNT, "TYPE", kind)
        if step is None:
            return False
        self._search.scanned(kind, step.cursor)
        await self._found(kind, step.names)
        return self._search.rounds == rounds

    async def _bind(self, exchange: QueueId) -> None:
        """Find the queues of an exchange, which are in its binding. Sometimes they have other
        names."""
        names = await queues_bound(self._client, exchange.name)
        if exchange.name not in names:
            self._search.remove(exchange)
        for name in names:
            self._search.add(replace(exchange, name=name))

    # -- measure ------------------------------------------------------------------------------

    def _due(self, most: int) -> list[QueueId]:
        """The queues whose last measurement is oldest. Parts of other queues are left out."""
        parts = {
            key
            for id in self._search.found
            if id.library not in PLAIN
            for key in LIBRARIES[id.library].keys(id)
        }
        for id in [id for id in self._search.found if id.library in PLAIN and id.name in parts]:
            self._forget(id)
        known = self._measured
        order = sorted(
            self._search.found, key=lambda id: known[id].at_s if id in known else float("-inf")
        )
        return order[:most]

    async def _measure(self, ids: Iterable[QueueId]) -> None:
        now_ms, now_s = await self._now_ms(), self._monotonic_s()
        ids = list(ids)
        questions = [library_of(id).questions(id, now_ms) for id in ids]
        replies = await ask(self._client, [each for group in questions for each in group])
        prepared = {
            name: await LIBRARIES[name].prepare(self._client)
            for name in sorted({id.library for id in ids})
        }
        gate = asyncio.Semaphore(MOST_BESIDE)

        async def one(id: QueueId, answers: list[Any]) -> None:
            async with gate:
                library = library_of(id)
                state = library.state(id, answers, now_ms)
                if state is None or (id.library in PLAIN and not _has_any(state)):
                    self._forget(id)
                    return
                try:
                    state = await library.settle(self._client, state, now_ms, prepared[id.library])
                    state = await self._aged(library, state, now_ms)
                except UnshownError as error:
                    state = replace(state, notes=(*state.notes, str(error)))
                self._keep(now_s, state)

        start = 0
        tasks = []
        for id, group in zip(ids, questions, strict=True):
            tasks.append(one(id, replies[start : start + len(group)]))
            start += len(group)
        await asyncio.gather(*tasks)

    async def _aged(self, library: Library, state: QueueState, now_ms: int) -> QueueState:
        if state.oldest_ms is not None or not state.waiting:
            return state
        since = await library.oldest_ms(self._client, state.id, now_ms)
        return state if since is None else replace(state, oldest_ms=max(0, now_ms - since))

    def _keep(self, now_s: float, state: QueueState) -> None:
        before = self._measured.get(state.id)
        moved = None if before is None else flow(before.at_s, before.state, now_s, state)
        self._measured[state.id] = Measured(now_s, state, moved)

    def _forget(self, id: QueueId) -> None:
        self._search.remove(id)
        self._measured.pop(id, None)

    async def _now_ms(self) -> int:
        """The time of the server's clock; of ours, if the server does not tell it."""
        reply = await ask_one(self._client, "TIME")
        if reply is None:
            return int(time.time() * 1000)
        return int(reply[0]) * 1000 + int(reply[1]) // 1000


def library_of(id: QueueId) -> Library:
    """Raises KeyError if there is no such library."""
    return LIBRARIES[id.library]


def _has_any(state: QueueState) -> bool:
    return any(each.jobs for each in state.counts) or bool(state.groups)


def _text(reply: bytes | str | None) -> str:
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply or ""


def _blocked(info: bytes | str | None) -> int | None:
    for line in _text(info).splitlines():
        name, _, value = line.partition(":")
        if name == "blocked_clients":
            return number(value)
    return None
