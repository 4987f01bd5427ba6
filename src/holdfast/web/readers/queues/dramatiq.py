"""Dramatiq: lists of ids, and the messages as JSON in a hash beside each list."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import Command, ask, ask_one
from holdfast.web.readers.bodies import body_of, call_text, parse_object, text_of
from holdfast.web.readers.bounded import Part, body_of_part, field_parts
from holdfast.web.readers.queues.library import Kind, Library, Shelf, jobs_in, ms_of, with_jobs
from holdfast.web.readers.queues.model import Job, JobPage, QueueId, QueueState, Role

_MOST_WORKERS = 50
_MESSAGES = {
    "waiting": b"{prefix}:{queue}.msgs",
    "unacked": b"{prefix}:{queue}.msgs",
    "delayed": b"{prefix}:{queue}.DQ.msgs",
    "dead": b"{prefix}:{queue}.XQ.msgs",
}


class Dramatiq(Library):
    """A message is in the hash until it is acknowledged. So workers have those messages of the hash
    that are not in the list."""

    name = "dramatiq"
    title = "Dramatiq"
    shelves = (
        Shelf("waiting", Role.WAITING, Kind.LIST, b"{prefix}:{queue}"),
        Shelf("unacked", Role.ACTIVE, Kind.HASH, b"{prefix}:{queue}.msgs"),
        Shelf("delayed", Role.DELAYED, Kind.HASH, b"{prefix}:{queue}.DQ.msgs"),
        Shelf("dead", Role.FAILED, Kind.ZSET, b"{prefix}:{queue}.XQ"),
    )

    def refine(self, state: QueueState, extras: list[Any], now_ms: int) -> QueueState:
        stored, waiting = jobs_in(state, "unacked"), jobs_in(state, "waiting")
        unacked = None if stored is None or waiting is None else max(0, stored - waiting)
        return with_jobs(state, "unacked", unacked)

    def keys(self, queue: QueueId) -> list[bytes]:
        return [*super().keys(queue), self.key(b"{prefix}:{queue}.DQ", queue)]

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        if state != "unacked":
            return await super().jobs(client, queue, state, first, count, now_ms)
        ids = await self._unacked(client, queue, count + 1)
        parts = [Part(id, len(id)) for id in ids]
        found = await self.read(client, queue, self.shelves[1], parts[:count])
        return JobPage(state, tuple(found), len(parts) > count)

    async def _unacked(self, client: Client, queue: QueueId, count: int) -> list[bytes]:
        """Ids that the newest workers hold. Each worker has a set for each queue."""
        heartbeats = self.key(b"{prefix}:__heartbeats__", queue)
        workers = await ask_one(client, "ZREVRANGE", heartbeats, 0, _MOST_WORKERS - 1) or []
        acks = queue.prefix + b":__acks__."
        commands: list[Command] = [
            ("SSCAN", acks + worker + b"." + queue.name, 0, "COUNT", count) for worker in workers
        ]
        replies = await ask(client, commands)
        return [id for reply in replies if reply for id in reply[1]][:count]

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        key = self.key(_MESSAGES[shelf.state], queue)
        found = await field_parts(client, [(key, part.data) for part in parts])
        jobs = [
            _job(part.data, message, shelf.state)
            for part, message in zip(parts, found, strict=True)
        ]
        if shelf.state == "dead":  # the score is the time at which it ended
            jobs = [
                replace(job, ended_at_ms=int(part.score))
                for job, part in zip(jobs, parts, strict=True)
            ]
        return jobs

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        states = ("waiting", "delayed", "dead")
        keys = [self.key(_MESSAGES[state], queue) for state in states]
        found = await field_parts(client, [(key, id) for key in keys])
        for state, message in zip(states, found, strict=True):
            if message is not None:
                return _job(id, message, state)
        return None


def _job(id: bytes, message: Part | None, state: str) -> Job:
    fields = parse_object(message.data) if message is not None else {}
    options = fields.get("options")
    options = options if isinstance(options, dict) else {}
    retries = options.get("retries")
    return Job(
        id=body_of(id).text,
        state=state,
        call=call_text(fields["actor_name"], fields.get("args"), fields.get("kwargs"))
        if "actor_name" in fields
        else "",
        body=body_of_part(message),
        enqueued_at_ms=ms_of(fields.get("message_timestamp")),
        due_at_ms=ms_of(options.get("eta")) if state == "delayed" else None,
        attempt=retries if isinstance(retries, int) else None,
        error=text_of(options.get("traceback") or "", 8000),
    )
