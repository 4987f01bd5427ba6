"""`BuildReader`: the build queues of a server. For actions see `BuildQueue`."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.builds import BuildQueue, BuildRecord, Event, State, Stats
from holdfast.builds.build_events import pairs as fields_of
from holdfast.builds.build_events import parse_events
from holdfast.client import Client
from holdfast.web.readers.asking import ask, ask_one, number, scored, server_time_s
from holdfast.web.readers.builds.graph import JobGraph, job_graph
from holdfast.web.readers.builds.replay import History, Replay
from holdfast.web.readers.builds.search import BuildIndex
from holdfast.web.readers.builds.why import why
from holdfast.web.readers.pace import UNKNOWN, Pace
from holdfast.web.readers.scanning import Sweep

MOST_SHOWN = 50  # builds of one state on the board
MOST_REPLAYED = 300  # newest builds
MOST_EVENTS = 200  # of one build in a replay
_MOST_QUEUES = 200
_INDEXED = 500  # builds in one step of the index
_STATE_KEY = re.compile(rb"\{([^{}]+)\}:state:(?:" + "|".join(State.__members__).encode() + rb")")


@dataclass(frozen=True, slots=True)
class Board:
    """The builds of a queue by state, newest first, and the number of all builds. `now_ms` is the
    time of the server's clock, as are all times of builds."""

    stats: Stats
    columns: Mapping[State, tuple[BuildRecord, ...]]
    now_ms: int

    @property
    def jobs(self) -> dict[int, str]:
        return {record.id: record.job_id for row in self.columns.values() for record in row}


@dataclass(frozen=True, slots=True)
class BuildStory:
    """One build: its record, its events, and the reason for its state."""

    record: BuildRecord
    events: tuple[Event, ...]
    why: str


class BuildReader:
    """The build queues of one server for one user. `find` continues its search with each call, for
    a limited number of keys."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._sweep = Sweep("MATCH", "{*}:state:*", "TYPE", "zset")
        self._found: set[str] = set()

    async def find(self, pace: Pace = UNKNOWN) -> list[str]:
        """The names of build queues that were found so far."""
        async for name in self._sweep.go_on(self.client, pace):
            match = _STATE_KEY.fullmatch(name)
            if match is not None and len(self._found) < _MOST_QUEUES:
                self._found.add(match[1].decode("utf-8", "replace"))
        return sorted(name for name in self._found if name.isprintable())

    def queue(self, name: str) -> BuildQueue:
        """The queue, for actions: abort, retry, start. Raises BadBuildError if the name is not
        valid."""
        return BuildQueue(self.client, name)

    async def board(self, name: str, limit: int = MOST_SHOWN) -> Board:
        queue = self.queue(name)
        stats = await queue.stats()
        columns = {}
        for state in State:
            found = await queue.list(state=state, limit=limit) if stats.by_state[state] else []
            columns[state] = tuple(found)
        return Board(stats, columns, await self._now_ms())

    async def _now_ms(self) -> int:
        return int(1000 * await server_time_s(self.client))

    async def story(self, name: str, build: int) -> BuildStory | None:
        queue = self.queue(name)
        record = await queue.get(build)
        if record is None:
            return None
        jobs = {}
        for blocker in record.blockers[:20]:
            other = await queue.get(blocker)
            if other is not None:
                jobs[blocker] = other.job_id
        events = tuple(await queue.events(build))
        return BuildStory(record, events, why(record, jobs, await self._now_ms()))

    async def graph(self, name: str) -> JobGraph:
        """The jobs of all builds that have not ended, up to a limit."""
        board = await self.board(name, 500)
        return job_graph(record for row in board.columns.values() for record in row)

    async def replay(self, name: str) -> Replay:
        """The histories of the newest builds. One pipeline reads their events, up to a limit for
        each."""
        queue = self.queue(name)
        records = await queue.list(limit=MOST_REPLAYED)
        commands: list[tuple[str | int, ...]] = []
        for record in records:
            stream = f"{queue.key}:build:events:{record.id}"
            commands.append(("XRANGE", stream, "-", "+", "COUNT", MOST_EVENTS))
            commands.append(("HGETALL", f"{queue.key}:build:base:{record.id}"))
        replies = await ask(self.client, commands)
        histories = []
        for record, entries, base in zip(records, replies[::2], replies[1::2], strict=True):
            events = parse_events((id, _flat(fields)) for id, fields in entries or ())
            fields = fields_of(_flat(base)) if base else {}
            histories.append(History(record.id, tuple(events), tuple(fields.items())))
        return Replay(histories)

    async def feed(
        self, name: str, index: BuildIndex, label: str, after_ms: int
    ) -> tuple[int, int] | None:
        """Make the index equal to the queue's list of ended builds, for one range of times after
        this one. `label` is the name of the queue in the index. Returns the end of the range and
        the number of builds that were added or dropped; None if both are equal.

        The list, and so the ranges, are ordered by the time at which the queue deletes a build.
        """
        key = f"{self.queue(name).key}:ended"
        span = await self._difference(key, index, label, after_ms)
        if span is None:
            return None
        words = ("ZRANGEBYSCORE", key, f"({span[0]}", span[1], "WITHSCORES")
        ended = {int(id): int(at) for id, at in scored(await ask_one(self.client, *words))}
        known = await asyncio.to_thread(index.kept_between, label, *span)
        gone = [build for build in known if build not in ended]
        new = [build for build, at_ms in ended.items() if known.get(build) != at_ms]
        hashes = [("HGETALL", f"{self.queue(name).key}:build:{build}") for build in new]
        found = zip(new, await ask(self.client, hashes), strict=True)
        records = [
            (BuildRecord.of(fields_of(_flat(fields))), ended[build])
            for build, fields in found
            if fields
        ]
        await asyncio.to_thread(index.drop, label, gone)
        return span[1], len(gone) + await asyncio.to_thread(index.add, label, records)

    async def _difference(
        self, key: str, index: BuildIndex, label: str, after_ms: int
    ) -> tuple[int, int] | None:
        """The first range of times, with few builds, in which the index and the list have different
        numbers of builds. It is found by halving: a list of a million takes some tens of counts."""
        last = scored(await ask_one(self.client, "ZRANGE", key, -1, -1, "WITHSCORES"))
        until_ms = max([int(at) for _, at in last] + [index.latest_ms(label), after_ms])

        async def counted(until_ms: int) -> tuple[int, int]:
            theirs = await ask_one(self.client, "ZCOUNT", key, f"({after_ms}", until_ms)
            ours = await asyncio.to_thread(index.count_between, label, after_ms, until_ms)
            return number(theirs) or 0, ours

        counts = await counted(until_ms)
        if counts[0] == counts[1]:
            return None
        while sum(counts) > _INDEXED and until_ms - after_ms > 1:
            middle_ms = (after_ms + until_ms) // 2
            first = await counted(middle_ms)
            if first[0] != first[1]:
                until_ms, counts = middle_ms, first
            else:
                after_ms, counts = middle_ms, (counts[0] - first[0], counts[1] - first[1])
        return after_ms, until_ms


def _flat(fields: Any) -> list[bytes]:
    if isinstance(fields, Mapping):
        return [text for pair in fields.items() for text in pair]
    return list(fields)
