"""BullMQ: lists and sorted sets of ids, a hash for each job with its data as JSON."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import Command, number
from holdfast.web.readers.bodies import body_of, text_of
from holdfast.web.readers.bounded import Part, body_of_part, hash_parts, text_of_part
from holdfast.web.readers.queues.library import Kind, Library, Shelf, ms_of
from holdfast.web.readers.queues.model import Job, QueueId, QueueState, Role

_FIELDS = (
    *(b"name", b"data", b"timestamp", b"processedOn", b"finishedOn", b"ats", b"failedReason"),
    *(b"opts", b"stacktrace", b"returnvalue"),
)
_TICKS_PER_MS = 4096  # of the scores of `delayed`


class BullMq(Library):
    name = "bullmq"
    title = "BullMQ"
    shelves = (
        Shelf("wait", Role.WAITING, Kind.TAIL, b"{prefix}:{queue}:wait"),
        Shelf("paused", Role.WAITING, Kind.TAIL, b"{prefix}:{queue}:paused"),
        Shelf("prioritized", Role.WAITING, Kind.ZSET, b"{prefix}:{queue}:prioritized"),
        Shelf("active", Role.ACTIVE, Kind.TAIL, b"{prefix}:{queue}:active"),
        Shelf("delayed", Role.DELAYED, Kind.ZSET, b"{prefix}:{queue}:delayed"),
        Shelf("waiting-children", Role.DELAYED, Kind.ZSET, b"{prefix}:{queue}:waiting-children"),
        Shelf("failed", Role.FAILED, Kind.ZSET, b"{prefix}:{queue}:failed"),
        Shelf("completed", Role.DONE, Kind.ZSET, b"{prefix}:{queue}:completed"),
    )

    def extras(self, queue: QueueId, now_ms: int) -> list[Command]:
        return [
            ("GETRANGE", self.key(b"{prefix}:{queue}:id", queue), 0, 20),
            ("HEXISTS", self.key(b"{prefix}:{queue}:meta", queue), "paused"),
        ]

    def refine(self, state: QueueState, extras: list[Any], now_ms: int) -> QueueState:
        notes = ("the queue is paused",) if extras[1] else ()
        return replace(state, added=number(extras[0]), notes=notes)

    def keys(self, queue: QueueId) -> list[bytes]:
        return [*super().keys(queue), self.key(b"{prefix}:{queue}:events", queue)]

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        keys = [self.key(b"{prefix}:{queue}:{id}", queue, part.data) for part in parts]
        jobs = []
        for part, fields in zip(parts, await hash_parts(client, keys, _FIELDS), strict=True):
            due_ms = int(part.score / _TICKS_PER_MS) if shelf.state == "delayed" else None
            jobs.append(_job(part.data, shelf.state, fields, due_ms))
        return jobs

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        key = self.key(b"{prefix}:{queue}:{id}", queue, id)
        (fields,) = await hash_parts(client, [key], _FIELDS)
        return _job(id, "", fields, None) if any(fields.values()) else None


def _job(id: bytes, state: str, fields: dict[bytes, Part | None], due_ms: int | None) -> Job:
    text = {name.decode(): text_of_part(part) for name, part in fields.items() if name != b"data"}
    return Job(
        id=body_of(id).text,
        state=state,
        call=text_of(text["name"]),
        body=body_of_part(fields[b"data"]),
        enqueued_at_ms=ms_of(text["timestamp"]),
        started_at_ms=ms_of(text["processedOn"]),
        ended_at_ms=ms_of(text["finishedOn"]),
        due_at_ms=due_ms,
        attempt=number(text["ats"]),
        error="\n".join(filter(None, (text["failedReason"], text["stacktrace"]))),
        details=tuple((name, text[name]) for name in ("opts", "returnvalue") if text[name]),
    )
