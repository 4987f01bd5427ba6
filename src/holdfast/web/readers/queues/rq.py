"""RQ: lists of ids, registries by time, a hash for each job. The call is a pickle; its description
is text."""

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
    *(
        b"description",
        b"data",
        b"status",
        b"created_at",
        b"enqueued_at",
        b"started_at",
        b"ended_at",
    ),
    *(b"worker_name", b"timeout", b"retries_left", b"dependency_ids", b"exc_info"),
)


class Rq(Library):
    name = "rq"
    title = "RQ"
    shelves = (
        Shelf("queued", Role.WAITING, Kind.LIST, b"rq:queue:{queue}"),
        Shelf("started", Role.ACTIVE, Kind.ZSET, b"rq:wip:{queue}"),
        Shelf("scheduled", Role.DELAYED, Kind.ZSET, b"rq:scheduled:{queue}"),
        Shelf("deferred", Role.DELAYED, Kind.ZSET, b"rq:deferred:{queue}"),
        Shelf("failed", Role.FAILED, Kind.ZSET, b"rq:failed:{queue}"),
        Shelf("finished", Role.DONE, Kind.ZSET, b"rq:finished:{queue}"),
        Shelf("canceled", Role.OTHER, Kind.ZSET, b"rq:canceled:{queue}"),
    )

    def extras(self, queue: QueueId, now_ms: int) -> list[Command]:
        return [("SCARD", self.key(b"rq:workers:{queue}", queue))]

    def refine(self, state: QueueState, extras: list[Any], now_ms: int) -> QueueState:
        return replace(state, consumers=number(extras[0]))

    def keys(self, queue: QueueId) -> list[bytes]:
        return [*super().keys(queue), self.key(b"rq:queue:{queue}:intermediate", queue)]

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        # The registry has a started job together with its execution, as id:execution.
        is_started = shelf.state == "started"
        ids = [part.data.rpartition(b":")[0] if is_started else part.data for part in parts]
        found = await hash_parts(client, [b"rq:job:" + id for id in ids], _FIELDS)
        jobs = []
        for id, part, fields in zip(ids, parts, found, strict=True):
            due_ms = int(part.score * 1000) if shelf.state == "scheduled" else None
            jobs.append(_job(id, shelf.state, fields, due_ms))
        return jobs

    async def job(self, client: Client, queue: QueueId, id: bytes) -> Job | None:
        (fields,) = await hash_parts(client, [b"rq:job:" + id], _FIELDS)
        return (
            _job(id, text_of_part(fields[b"status"]), fields, None)
            if any(fields.values())
            else None
        )


def _job(id: bytes, state: str, fields: dict[bytes, Part | None], due_ms: int | None) -> Job:
    text = {name.decode(): text_of_part(part) for name, part in fields.items() if name != b"data"}
    shown = ("worker_name", "timeout", "retries_left", "dependency_ids")
    return Job(
        id=body_of(id).text,
        state=state,
        call=text_of(text["description"]),
        body=body_of_part(fields[b"data"]),
        enqueued_at_ms=ms_of(text["enqueued_at"] or text["created_at"]),
        started_at_ms=ms_of(text["started_at"]),
        ended_at_ms=ms_of(text["ended_at"]),
        due_at_ms=due_ms,
        error=text["exc_info"],
        details=tuple((name, text[name]) for name in shown if text[name]),
    )
