"""SAQ: lists of keys, a schedule, and each job as JSON."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import Command, ask_one, number
from holdfast.web.readers.bodies import body_of, call_text, parse_object, text_of
from holdfast.web.readers.bounded import Part, string_parts
from holdfast.web.readers.queues.library import Kind, Library, Shelf, ms_of, with_jobs
from holdfast.web.readers.queues.model import Job, JobPage, QueueId, QueueState, Role

_MOST_WORKERS = 100  # whose figures are added
_ENDED = ("complete", "failed", "aborted")


class Saq(Library):
    """Ended jobs have keys, but are in no list. Workers count them."""

    name = "saq"
    title = "SAQ"
    shelves = (
        Shelf("queued", Role.WAITING, Kind.LIST, b"saq:{queue}:queued"),
        Shelf("active", Role.ACTIVE, Kind.LIST, b"saq:{queue}:active"),
        Shelf("scheduled", Role.DELAYED, Kind.LATER, b"saq:{queue}:incomplete", 1000),
        Shelf("failed", Role.FAILED, Kind.SEARCHED, b"saq:job:{queue}:*"),
        Shelf("complete", Role.DONE, Kind.SEARCHED, b"saq:job:{queue}:*"),
        Shelf("aborted", Role.OTHER, Kind.SEARCHED, b"saq:job:{queue}:*"),
    )

    def _count(self, shelf: Shelf, queue: QueueId, now_ms: int) -> Command:
        if shelf.state == "scheduled":  # a job without a time has the score 0
            return ("ZCOUNT", self.key(shelf.key, queue), "(0", "+inf")
        return super()._count(shelf, queue, now_ms)

    def extras(self, queue: QueueId, now_ms: int) -> list[Command]:
        return [("ZCOUNT", self.key(b"saq:{queue}:stats", queue), now_ms, "+inf")]

    def refine(self, state: QueueState, extras: list[Any], now_ms: int) -> QueueState:
        return replace(state, consumers=number(extras[0]))

    async def settle(
        self, client: Client, state: QueueState, now_ms: int, prepared: Any
    ) -> QueueState:
        """The figures of the living workers, since they started."""
        key = self.key(b"saq:{queue}:stats", state.id)
        workers = await ask_one(client, "ZRANGE", key, 0, _MOST_WORKERS - 1)
        if not workers:
            return state
        totals = dict.fromkeys(_ENDED, 0)
        for part in await string_parts(client, workers, 4096):
            stats = parse_object(part.data if part else None).get("stats")
            for name in totals:
                count = stats.get(name) if isinstance(stats, dict) else None
                totals[name] += count if isinstance(count, int) else 0
        for name, count in totals.items():
            state = with_jobs(state, name, count)
        note = "ended jobs are counted by the workers, since their start"
        return replace(state, finished=sum(totals.values()), notes=(note,))

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        if state == "scheduled":
            shelf = self.shelves[2]
            key = self.key(shelf.key, queue)
            unscheduled = await ask_one(client, "ZCOUNT", key, "-inf", 0) or 0
            parts = await self._parts(
                client,
                replace(shelf, kind=Kind.ZSET),
                queue,
                unscheduled + first,
                count + 1,
                now_ms,
            )
            found = await self.read(client, queue, shelf, parts[:count])
            return JobPage(state, tuple(found), len(parts) > count)
        page = await super().jobs(client, queue, state, first, count, now_ms)
        if state not in _ENDED:
            return page
        return replace(page, jobs=tuple(job for job in page.jobs if job.state == state))

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        found = await string_parts(client, [part.data for part in parts])
        prefix = self.key(b"saq:job:{queue}:", queue)
        return [
            _job(part.data.removeprefix(prefix), body, shelf.state)
            for part, body in zip(parts, found, strict=True)
        ]

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        (body,) = await string_parts(client, [self.key(b"saq:job:{queue}:{id}", queue, id)])
        return None if body is None else _job(id, body, "")


def _job(id: bytes, body: Part | None, state: str) -> Job:
    if body is None:
        return Job(body_of(id).text, state)
    fields = parse_object(body.data) if body.is_whole else {}
    due_s = fields.get("scheduled")
    attempts = fields.get("attempts")
    return Job(
        id=body_of(id).text,
        state=text_of(fields.get("status") or state, 40),
        call=call_text(fields["function"], None, fields.get("kwargs"))
        if "function" in fields
        else "",
        body=body_of(body.data, body.size),
        enqueued_at_ms=ms_of(fields.get("queued")),
        started_at_ms=ms_of(fields.get("started")),
        ended_at_ms=ms_of(fields.get("completed")),
        due_at_ms=int(due_s * 1000) if isinstance(due_s, int) and 0 < due_s < 1e12 else None,
        attempt=attempts if isinstance(attempts, int) else None,
        error=text_of(fields.get("error") or "", 8000),
    )
