"""Celery: lists of messages by queue and priority. One hash has the unacknowledged messages of all
queues.

A message is JSON; the call in it may be JSON or a pickle. Its headers have the call as text.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import Command, ask, ask_one, number, scored
from holdfast.web.readers.bodies import (
    MOST_BYTES,
    Body,
    body_of,
    parse_json,
    parse_object,
    text_of,
)
from holdfast.web.readers.bounded import Part, field_parts, list_parts, string_parts
from holdfast.web.readers.queues.library import Kind, Library, Shelf, ms_of, with_jobs
from holdfast.web.readers.queues.model import Count, Job, JobPage, QueueId, QueueState, Role

SEPARATOR = b"\x06\x16"
_PRIORITIES = range(10)  # 0 is the list without a suffix
_MOST_UNACKED = 200  # messages that are read to find their queues
_RESULT = b"celery-task-meta-"


@dataclass(frozen=True, slots=True)
class Unacked:
    """Messages that workers have not acknowledged yet."""

    total: int
    jobs: tuple[tuple[bytes, Job], ...]  # with the name of the queue


class Celery(Library):
    name = "celery"
    title = "Celery"
    shelves = (
        Shelf("waiting", Role.WAITING, Kind.TAIL, b"{queue}"),
        Shelf("unacked", Role.ACTIVE, Kind.COUNTED, b"unacked"),
        Shelf("eta", Role.DELAYED, Kind.COUNTED, b"unacked"),
        Shelf("FAILURE", Role.FAILED, Kind.SEARCHED, b"celery-task-meta-*"),
        Shelf("SUCCESS", Role.DONE, Kind.SEARCHED, b"celery-task-meta-*"),
    )

    def questions(self, queue: QueueId, now_ms: int) -> list[Command]:
        return [("LLEN", key) for key in self.keys(queue)]

    def state(self, queue: QueueId, replies: Sequence[Any], now_ms: int) -> QueueState:
        waiting = sum(number(reply) or 0 for reply in replies)
        counts = [Count(each.state, each.role, None) for each in self.shelves]
        return with_jobs(QueueState(queue, tuple(counts)), "waiting", waiting)

    def keys(self, queue: QueueId) -> list[bytes]:
        return [
            queue.name if each == 0 else queue.name + SEPARATOR + b"%d" % each
            for each in _PRIORITIES
        ]

    async def prepare(self, client: Client) -> Unacked:
        total, index = await ask(
            client,
            [("HLEN", "unacked"), ("ZRANGE", "unacked_index", 0, _MOST_UNACKED - 1, "WITHSCORES")],
        )
        tags = scored(index)
        found = await field_parts(client, [(b"unacked", tag) for tag, _ in tags])
        jobs = []
        for (_, at_s), part in zip(tags, found, strict=True):
            value = parse_json(part.data) if part is not None else None
            if isinstance(value, list) and value and isinstance(value[0], dict):
                job = _job(value[0], part, "unacked", int(at_s * 1000))
                jobs.append((_queue_of(value), job))
        return Unacked(total or 0, tuple(jobs))

    async def settle(
        self, client: Client, state: QueueState, now_ms: int, prepared: Any
    ) -> QueueState:
        assert isinstance(prepared, Unacked)
        mine = [job for name, job in prepared.jobs if name == state.id.name]
        later = [job for job in mine if (job.due_at_ms or 0) > now_ms]
        state = with_jobs(state, "eta", len(later))
        return with_jobs(state, "unacked", len(mine) - len(later))

    async def oldest_ms(self, client: Client, queue: QueueId, now_ms: int) -> int | None:
        return None  # a message has no time at which it was sent

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        if state in ("unacked", "eta"):
            mine = [job for name, job in (await self.prepare(client)).jobs if name == queue.name]
            chosen = [job for job in mine if ((job.due_at_ms or 0) > now_ms) == (state == "eta")]
            return JobPage(state, tuple(chosen[first : first + count]), len(chosen) > first + count)
        if state == "waiting":
            return await self._waiting(client, queue, first, count)
        page = await super().jobs(client, queue, state, first, count, now_ms)
        found = tuple(job for job in page.jobs if job.state == state)
        return JobPage(state, found, page.is_part, "results of all queues: none names its queue")

    async def _waiting(self, client: Client, queue: QueueId, first: int, count: int) -> JobPage:
        """Messages from the lists of all priorities, one list after the other."""
        keys = self.keys(queue)
        lengths = [length or 0 for length in await ask(client, [("LLEN", key) for key in keys])]
        found: list[Job] = []
        skipped = first
        for key, length in zip(keys, lengths, strict=True):
            left = count - len(found)
            if left > 0 and skipped < length:
                parts = await list_parts(client, key, -1 - skipped, left, step=-1)
                found += [_job(parse_object(part.data), part, "waiting") for part in parts]
            skipped = max(0, skipped - length)
        return JobPage("waiting", tuple(found), sum(lengths) > first + len(found))

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        """Results: each is JSON with a status."""
        found = await string_parts(client, [part.data for part in parts])
        return [
            _result(part.data.removeprefix(_RESULT), body)
            for part, body in zip(parts, found, strict=True)
            if body is not None
        ]

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        (body,) = await string_parts(client, [_RESULT + id])
        return None if body is None else _result(id, body)


async def queues_bound(client: Client, exchange: bytes) -> list[bytes]:
    """The queues of an exchange. Its binding is a set of key, pattern and queue."""
    reply = await ask_one(client, "SSCAN", b"_kombu.binding." + exchange, 0, "COUNT", 1000)
    members: list[bytes] = reply[1] if reply else []
    return [member.split(SEPARATOR)[2] for member in members if member.count(SEPARATOR) == 2]


def _queue_of(delivery: list[Any]) -> bytes:
    """The routing key is the queue's name, unless the user chose another one."""
    name = delivery[2] if len(delivery) > 2 and isinstance(delivery[2], str) else ""
    return name.encode("utf-8", "replace")


def _job(
    message: dict[str, Any], part: Part | None, state: str, started_ms: int | None = None
) -> Job:
    headers = message.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    task, args = headers.get("task"), headers.get("argsrepr", "()")
    kwargs, retries = headers.get("kwargsrepr"), headers.get("retries")
    words = f"{text_of(args)[1:-1].rstrip(',')}" if isinstance(args, str) else ""
    if isinstance(kwargs, str) and kwargs not in ("", "{}"):
        words = f"{words}, **{kwargs}" if words else f"**{kwargs}"
    size = part.size if part is not None else 0
    return Job(
        id=text_of(headers.get("id") or "", 200),
        state=state,
        call=text_of(f"{text_of(task, 200)}({words})") if task else "",
        body=_body(message, part.data if part is not None else b"", size),
        started_at_ms=started_ms,
        due_at_ms=ms_of(headers.get("eta")) if isinstance(headers.get("eta"), str) else None,
        attempt=retries if isinstance(retries, int) else None,
    )


def _body(message: dict[str, Any], data: bytes, size: int) -> Body:
    """The call in a message, which is in base64."""
    inner = message.get("body")
    if not isinstance(inner, str):
        return body_of(data, size)
    properties = message.get("properties")
    is_coded = isinstance(properties, dict) and properties.get("body_encoding") == "base64"
    try:
        raw = base64.b64decode(inner) if is_coded else inner.encode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return body_of(data, size)
    return body_of(raw[:MOST_BYTES], len(raw))


def _result(id: bytes, body: Part) -> Job:
    fields = parse_object(body.data) if body.is_whole else {}
    error = fields.get("traceback") or ""
    return Job(
        id=body_of(id).text,
        state=text_of(fields.get("status") or "?", 40),
        body=body_of(body.data, body.size),
        ended_at_ms=ms_of(fields.get("date_done")),
        error=text_of(error, 8000),
    )
