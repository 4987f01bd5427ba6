"""arq: one sorted set by time, a pickle for each job. Its workers count the jobs that they have
run.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import Command, ask, ask_one
from holdfast.web.readers.bodies import body_of
from holdfast.web.readers.bounded import Part, string_parts
from holdfast.web.readers.queues.library import Kind, Library, Shelf, jobs_in, with_jobs
from holdfast.web.readers.queues.model import Job, JobPage, QueueId, QueueState, Role

_RESULT = b"arq:result:"
_MOST_LOOKED_AT = 200  # due jobs; for each, the server is asked whether it runs
_FIGURE = re.compile(rb"j_(complete|failed|retried|ongoing)=(\d{1,18})")


class Arq(Library):
    """A job stays in the sorted set while it runs; another key tells that it runs."""

    name = "arq"
    title = "arq"
    shelves = (
        Shelf("queued", Role.WAITING, Kind.DUE, b"{queue}"),
        Shelf("deferred", Role.DELAYED, Kind.LATER, b"{queue}"),
        Shelf("in progress", Role.ACTIVE, Kind.COUNTED, b"arq:in-progress:"),
        Shelf("failed", Role.FAILED, Kind.COUNTED, b""),
        Shelf("complete", Role.DONE, Kind.SEARCHED, b"arq:result:*"),
    )

    def extras(self, queue: QueueId, now_ms: int) -> list[Command]:
        # The health check of a worker is a line of about 80 characters.
        return [("GETRANGE", queue.name + b":health-check", 0, 200)]

    def refine(self, state: QueueState, extras: list[Any], now_ms: int) -> QueueState:
        figures = {name: int(count) for name, count in _FIGURE.findall(extras[0] or b"")}
        if not figures:
            note = "no worker has written its health check: how many jobs failed is not known"
            return replace(state, consumers=0, notes=(note,))
        done, failed = figures.get(b"complete", 0), figures.get(b"failed", 0)
        state = with_jobs(state, "failed", failed)
        note = "failed jobs are counted by the worker, since its start"
        return replace(state, finished=done + failed, notes=(note,))

    async def settle(
        self, client: Client, state: QueueState, now_ms: int, prepared: Any
    ) -> QueueState:
        """Running jobs do not count as waiting. Workers take due jobs in order, so running ones are
        among the first."""
        running = await self._running(client, state.id, now_ms)
        queued = jobs_in(state, "queued")
        state = with_jobs(state, "in progress", len(running))
        return with_jobs(state, "queued", None if queued is None else max(0, queued - len(running)))

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        if state not in ("queued", "in progress"):
            return await super().jobs(client, queue, state, first, count, now_ms)
        running = await self._running(client, queue, now_ms)
        shelf = self.shelves[0]
        if state == "in progress":
            found = await self.read(client, queue, self.shelves[2], running[first : first + count])
            return JobPage(state, tuple(found), len(running) > first + count)
        parts = await self._parts(client, shelf, queue, 0, first + count + len(running) + 1, now_ms)
        busy = {part.data for part in running}
        waiting = [part for part in parts if part.data not in busy][first:]
        found = await self.read(client, queue, shelf, waiting[:count])
        return JobPage(state, tuple(found), len(waiting) > count)

    async def _running(self, client: Client, queue: QueueId, now_ms: int) -> list[Part]:
        first = await self._parts(client, self.shelves[0], queue, 0, _MOST_LOOKED_AT, now_ms)
        there = await ask(client, [("EXISTS", b"arq:in-progress:" + part.data) for part in first])
        return [part for part, is_there in zip(first, there, strict=True) if is_there]

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        prefix = b"" if shelf.kind is Kind.SEARCHED else b"arq:job:"
        found = await string_parts(client, [prefix + part.data for part in parts])
        jobs = []
        for part, body in zip(parts, found, strict=True):
            time_ms = int(part.score) or None
            jobs.append(
                Job(
                    id=body_of(part.data.removeprefix(_RESULT)).text,
                    state=shelf.state,
                    body=None if body is None else body_of(body.data, body.size),
                    enqueued_at_ms=None if shelf.state == "deferred" else time_ms,
                    due_at_ms=time_ms if shelf.state == "deferred" else None,
                )
            )
        return jobs

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        for state, prefix in (("", b"arq:job:"), ("complete", _RESULT)):
            (body,) = await string_parts(client, [prefix + id])
            if body is not None:
                score = await ask_one(client, "ZSCORE", queue.name, id)
                time_ms = None if score is None else int(float(score))
                shown = body_of(body.data, body.size)
                return Job(body_of(id).text, state, body=shown, enqueued_at_ms=time_ms)
        return None
