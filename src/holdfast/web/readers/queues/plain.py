"""Queues of no known library: lists, streams with groups, and sorted sets used as schedules."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import Command, ask, number, pairs
from holdfast.web.readers.bodies import Body, body_of, name_text
from holdfast.web.readers.bounded import Entry, Part, body_of_part, stream_entries
from holdfast.web.readers.queues.library import Kind, Library, Shelf
from holdfast.web.readers.queues.model import (
    Consumer,
    Count,
    Group,
    Job,
    JobPage,
    QueueId,
    QueueState,
    Role,
)

_MOST_GROUPS, _MOST_CONSUMERS = 20, 50
_MOST_ASKED = 1000  # consumers of a group; if there are more, they are only counted
# Scores between these are times: the years 2001 to 2096.
_SECONDS = (1_000_000_000, 4_000_000_000)
_MS = (_SECONDS[0] * 1000, _SECONDS[1] * 1000)

# XINFO STREAM without its first and last entry, which may be large. KEYS[1]: the stream.
_FACTS = """
local facts, found = redis.call('XINFO', 'STREAM', KEYS[1]), {}
for n = 1, #facts, 2 do found[facts[n]] = facts[n + 1] end
local first = found['first-entry']
return {found['length'], found['entries-added'] or '', first and first[1] or ''}
"""


class PlainList(Library):
    name = "plain list"
    title = "List"
    shelves = (Shelf("elements", Role.WAITING, Kind.LIST, b"{queue}"),)

    async def oldest_ms(self, client: Client, queue: QueueId, now_ms: int) -> int | None:
        return None  # a list has no times of its elements

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        return [Job(f"#{n}", shelf.state, body=body_of_part(part)) for n, part in enumerate(parts)]


class Schedule(Library):
    """A sorted set whose scores are all times. Other sorted sets are not queues."""

    name = "schedule"
    title = "Schedule"
    shelves = (
        Shelf("due", Role.WAITING, Kind.DUE, b"{queue}"),
        Shelf("later", Role.DELAYED, Kind.LATER, b"{queue}"),
    )

    def questions(self, queue: QueueId, now_ms: int) -> list[Command]:
        return [
            ("ZCARD", queue.name),
            ("ZCOUNT", queue.name, *_SECONDS),
            ("ZCOUNT", queue.name, *_MS),
            ("ZCOUNT", queue.name, "-inf", now_ms / 1000),
            ("ZCOUNT", queue.name, "-inf", now_ms),
        ]

    def state(self, queue: QueueId, replies: Sequence[Any], now_ms: int) -> QueueState | None:
        members, in_s, in_ms, due_by_s, due_by_ms = (number(reply) or 0 for reply in replies)
        if not members or members not in (in_s, in_ms):
            return None
        due = due_by_s if members == in_s else due_by_ms
        counts = (Count("due", Role.WAITING, due), Count("later", Role.DELAYED, members - due))
        return QueueState(queue, counts)

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        (in_s,) = await ask(client, [("ZCOUNT", queue.name, *_SECONDS)])
        unit_ms = 1000 if in_s else 1
        shelf = next((each for each in self.shelves if each.state == state), self.shelves[0])
        shelf = replace(shelf, unit_ms=unit_ms)
        parts = await self._parts(client, shelf, queue, first, count + 1, now_ms)
        jobs = [
            Job(
                id=name_text(part.data),
                state=state,
                body=body_of_part(part),
                enqueued_at_ms=int(part.score * unit_ms) if state == "due" else None,
                due_at_ms=int(part.score * unit_ms),
            )
            for part in parts[:count]
        ]
        return JobPage(state, tuple(jobs), len(parts) > count)

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        raise NotImplementedError  # `jobs` knows the unit of the scores


class Stream(Library):
    """Waiting: entries that the slowest group has not got yet. Active: entries that are not
    acknowledged."""

    name = "stream"
    title = "Stream"
    shelves = (
        Shelf("undelivered", Role.WAITING, Kind.COUNTED, b"{queue}"),
        Shelf("pending", Role.ACTIVE, Kind.COUNTED, b"{queue}"),
        Shelf("entries", Role.OTHER, Kind.COUNTED, b"{queue}"),
    )

    def questions(self, queue: QueueId, now_ms: int) -> list[Command]:
        return [
            ("XLEN", queue.name),
            ("EVAL_RO", _FACTS, 1, queue.name),
            ("XINFO", "GROUPS", queue.name),
        ]

    def state(self, queue: QueueId, replies: Sequence[Any], now_ms: int) -> QueueState:
        length, facts, raw_groups = replies
        _, added, first = facts or (0, b"", b"")
        groups = tuple(_group(pairs(each)) for each in (raw_groups or [])[:_MOST_GROUPS])
        lags = [each.lag for each in groups if each.lag is not None]
        waiting = max(lags) if lags else None if groups else length
        oldest = _ms(first) if not groups else None
        return QueueState(
            queue,
            (
                Count("undelivered", Role.WAITING, waiting),
                Count("pending", Role.ACTIVE, sum(each.pending for each in groups)),
                Count("entries", Role.OTHER, length),
            ),
            oldest_ms=None if oldest is None else max(0, now_ms - oldest),
            added=number(added),
            groups=groups,
        )

    async def settle(
        self, client: Client, state: QueueState, now_ms: int, prepared: Any
    ) -> QueueState:
        """The consumers of each group."""
        if not state.groups:
            return state
        small = [g for g in state.groups if g.more_consumers <= _MOST_ASKED]
        # The name of a group was made printable, so the raw names are read again, in the same
        # order.
        raw = await ask(client, [("XINFO", "GROUPS", state.id.name)])
        names = [pairs(each)[b"name"] for each in (raw[0] or [])[: len(state.groups)]]
        asked = [n for n, group in enumerate(state.groups) if group in small and n < len(names)]
        replies = await ask(
            client, [("XINFO", "CONSUMERS", state.id.name, names[n]) for n in asked]
        )
        groups = list(state.groups)
        for n, reply in zip(asked, replies, strict=True):
            found = [_consumer(pairs(each)) for each in reply or ()]
            found.sort(key=lambda each: -each.pending)
            rest = max(0, len(found) - _MOST_CONSUMERS)
            groups[n] = replace(
                groups[n], consumers=tuple(found[:_MOST_CONSUMERS]), more_consumers=rest
            )
        count = sum(len(each.consumers) + each.more_consumers for each in groups)
        return replace(state, groups=tuple(groups), consumers=count)

    async def oldest_ms(self, client: Client, queue: QueueId, now_ms: int) -> int | None:
        """The time of the next entry for the slowest group."""
        (raw,) = await ask(client, [("XINFO", "GROUPS", queue.name)])
        groups = [pairs(each) for each in raw or ()]
        if not groups:
            return None  # known already
        last = min((each[b"last-delivered-id"] for each in groups), key=_order)
        found = await stream_entries(client, queue.name, b"(" + last, 1)
        return _ms(found[0].id) if found else None

    async def jobs(
        self, client: Client, queue: QueueId, state: str, first: int, count: int, now_ms: int
    ) -> JobPage:
        """Entries, newest first, for all states."""
        found = await stream_entries(client, queue.name, b"+", count + 1, step=-1)
        jobs = tuple(
            Job(name_text(each.id), "entries", body=_entry_body(each), enqueued_at_ms=_ms(each.id))
            for each in found[:count]
        )
        return JobPage("entries", jobs, len(found) > count, "the newest entries")

    async def read(
        self, client: Client, queue: QueueId, shelf: Shelf, parts: Sequence[Part]
    ) -> list[Job]:
        raise NotImplementedError  # entries are read in `jobs`


def _group(fields: dict[Any, Any]) -> Group:
    return Group(
        name=name_text(fields[b"name"]),
        lag=number(fields.get(b"lag")),
        pending=number(fields.get(b"pending")) or 0,
        consumers=(),
        entries_read=number(fields.get(b"entries-read")),
        more_consumers=number(fields.get(b"consumers")) or 0,
    )


def _consumer(fields: dict[Any, Any]) -> Consumer:
    return Consumer(
        name_text(fields[b"name"]), int(fields.get(b"pending") or 0), int(fields.get(b"idle") or 0)
    )


def _ms(id: bytes) -> int | None:
    return number(id.partition(b"-")[0]) if id else None


def _order(id: bytes) -> tuple[int, int]:
    time_ms, _, sequence = id.partition(b"-")
    return number(time_ms) or 0, number(sequence) or 0


def _entry_body(entry: Entry) -> Body:
    """All fields as one text, each with its name."""
    lines, size, is_cut = [], 0, False
    for name, value in entry.fields:
        shown = body_of(value.data, value.size)
        lines.append(f"{name_text(name.data)}: {shown.text}")
        size += value.size
        is_cut = is_cut or shown.is_cut
    return Body("fields", "\n".join(lines), size, is_cut)
