"""Reads all data of a server that refuses PSYNC, while it runs: by SCAN and DUMP. Keys that change
meanwhile are read again.

Keyspace notifications, from before the first SCAN on, name the keys that change. They do not tell
everything: FLUSHALL, FLUSHDB and SWAPDB send none, nor does a consumer group that acknowledges or
claims. So streams are read again in every pass. Everything is read again, and keys that are gone
are removed, if there was a flush or swap, or if notifications were lost or are forbidden.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.client.api.subscriptions import PubSub
from holdfast.client.errors import ClientError, ServerError
from holdfast.client.protocol.request import as_bytes
from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.migration.importing import Again
from holdfast.migration.live_content import LiveContent
from holdfast.migration.live_server import LiveServer
from holdfast.migration.selection import Selection
from holdfast.progress import KEYS, Progress
from holdfast.store.rdb.records import Entry, Library, Record, Unknown

SHORT_PASS: Final = 1000  # keys: a pass of so few is the last one
MOST_PASSES: Final = 30
SETTING: Final = "notify-keyspace-events"
ALL_EVENTS: Final = "AE"  # all types of events, by channels that name the event
PATTERN: Final = "__keyevent@*__:*"
MARK: Final = b"holdfast:mark"
MARK_CHANNEL: Final = "__keyevent@0__:holdfast"
MARK_TIMEOUT_S: Final = 10.0
SILENT: Final = ("flushall", "flushdb", "swapdb")  # commands that send no notification
FIRST, LATER, ALL = "reading", "reading what changed", "reading again"

Name = tuple[int, bytes]
OwnNames = Callable[[int], Iterable[list[bytes]]]

_channel = re.compile(r"__keyevent@(\d+)__:")


class Scan:
    """A source. `note` gets sentences about what the result may lack."""

    def __init__(
        self,
        server: LiveServer,
        clock: Clock,
        selection: Selection,
        note: Callable[[str], None],
        progress: Progress,
    ) -> None:
        self._server = server
        self._content = LiveContent(server, clock)
        self._selection = selection
        self._note = note
        self._progress = progress
        self._seen_streams: set[Name] = set()
        self._databases: set[int] = set()  # that had keys
        self.unmatched = 0

    def once(self) -> Iterator[Record]:
        """Everything, once. Changes meanwhile are not looked for."""
        for code in self._content.libraries():
            yield Library(code)
        yield from self._all(FIRST)

    def records(
        self, own_names: Callable[[int], Iterable[list[bytes]]]
    ) -> Iterator[Record | Again]:
        """Everything, then the changes. `own_names` returns the names that the target got from
        here, for a database of the source."""
        with self._notified() as changes:
            flushes = self._flushes()
            for record in self.once():
                # SCAN may return a name twice.
                yield Again(*record[:2], record) if isinstance(record, Entry) else record
            if changes is not None and not changes.has_losses and self._flushes() == flushes:
                yield from self._passes(changes)
            if changes is None or changes.has_losses or self._flushes() != flushes:
                yield from self._everything_again(own_names)

    # -- passes -------------------------------------------------------------------------------

    def _all(self, work: str) -> Iterator[Entry | Unknown]:
        counts = self._server.key_counts()
        self._databases.update(counts)
        done, total = 0, sum(counts.values())
        for database in sorted(counts):
            for names in self._server.names(database):
                done += len(names)
                self._progress(work, done, max(total, done), KEYS)
                selected = [name for name in names if self._selection.has(name)]
                self.unmatched += len(names) - len(selected) if work == FIRST else 0
                for record in self._content.read(database, selected):
                    if isinstance(record, Entry) and record.value.type == "stream":
                        self._seen_streams.add((database, record.name))
                    if record is not None:
                        yield record

    def _passes(self, changes: "Changes") -> Iterator[Record | Again]:
        for number in range(1, MOST_PASSES + 1):
            changed = changes.take()
            yield from self._again(changed | self._seen_streams, number)
            if len(changed) <= SHORT_PASS:
                if changed:
                    self._note(
                        f"{len(changed):,} keys changed shortly before the end and were read again;"
                        " later changes are missing unless all writers had stopped"
                    )
                return
        self._note(
            f"{self._server.address} changes faster than it can be read: the last pass had"
            f" {len(changed):,} keys, and later changes are missing"
        )

    def _again(self, keys: set[Name], number: int) -> Iterator[Record | Again]:
        by_database: dict[int, list[bytes]] = {}
        for database, name in keys:
            by_database.setdefault(database, []).append(name)
        done = 0
        for database, names in sorted(by_database.items()):
            selected = [name for name in names if self._selection.has(name)]
            for name, found in zip(selected, self._content.read(database, selected), strict=True):
                done += 1
                self._progress(f"{LATER} ({number})", done, len(keys), KEYS)
                yield found if isinstance(found, Unknown) else Again(database, name, found)

    def _everything_again(self, own_names: OwnNames) -> Iterator[Record | Again]:
        """Everything, and removals of keys that are gone. Changes during this pass are missing."""
        for record in self._all(ALL):
            yield record if isinstance(record, Unknown) else Again(*record[:2], record)
        for database in sorted(self._databases):
            for names in own_names(database):
                there = self._content.has(database, names)
                for name, is_there in zip(names, there, strict=True):
                    if not is_there:
                        yield Again(database, name, None)
        self._note(
            f"everything was read twice, because {self._server.address} did not tell which keys"
            " changed; changes during the second pass are missing unless all writers had stopped"
        )

    # -- what changes -------------------------------------------------------------------------

    @contextmanager
    def _notified(self) -> Iterator["Changes | None"]:
        """None if the server does not notify."""
        before = self._turn_on()
        if before is None:
            yield None
            return
        changes = Changes(self._server)
        try:
            changes.begin()
            yield changes
        finally:
            changes.end()
            self._server.ask("CONFIG", "SET", SETTING, before)

    def _turn_on(self) -> str | None:
        """The setting as it was; None if it cannot be used."""
        if self._server.is_cluster:
            return None  # each node would have to be asked
        try:
            reply = self._server.ask("CONFIG", "GET", SETTING)
            pairs = reply.items() if isinstance(reply, dict) else [tuple(reply)]
            before = {as_bytes(name): as_bytes(value) for name, value in pairs}
            flags = before[SETTING.encode()].decode()
            self._server.ask("CONFIG", "SET", SETTING, flags + ALL_EVENTS)
        except ServerError as error:
            self._note(
                f"{self._server.address} does not allow notifications ({error}); to turn them on:"
                f" CONFIG SET {SETTING} {ALL_EVENTS}"
            )
            return None
        except (KeyError, TypeError, ValueError):
            raise self._server.nonsense("CONFIG GET") from None
        return flags

    def _flushes(self) -> tuple[str, ...]:
        """Counts of commands that send no notification; empty if the server does not tell them."""
        stats = self._server.info("commandstats")
        return tuple(stats.get(f"cmdstat_{name}", "").partition(",")[0] for name in SILENT)


class Changes:
    """The names of keys that changed since `take` was called the last time."""

    def __init__(self, server: LiveServer) -> None:
        self._server = server
        self._names: set[Name] = set()
        self._marks = 0
        self._awaited = 0
        self._pubsub: PubSub | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    def begin(self) -> None:
        try:
            self._server.wait(self._begin())
        except (ClientError, ServerError) as error:
            self._failure = error

    def end(self) -> None:
        self._server.wait(self._end())

    @property
    def has_losses(self) -> bool:
        return self._failure is not None or self._pubsub is None or self._pubsub.losses > 0

    def take(self) -> set[Name]:
        """All changes up to now: a mark is published, and arrives after the notifications before
        it."""
        self._awaited += 1
        try:
            self._server.ask("PUBLISH", MARK_CHANNEL, MARK)
            return self._server.wait(self._taken())
        except (ServerError, TimeoutError) as error:
            self._failure = error
            return set()

    async def _begin(self) -> None:
        client = self._server.client(self._server.database or 0)
        self._arrived = asyncio.Event()
        self._pubsub = client.pubsub()
        await self._pubsub.__aenter__()
        await self._pubsub.psubscribe(PATTERN)
        self._reading = asyncio.get_running_loop().create_task(self._read(self._pubsub))

    async def _read(self, pubsub: PubSub) -> None:
        only = self._server.database
        try:
            async for message in pubsub:
                found = _channel.match(message.channel)
                if message.data == MARK and message.channel == MARK_CHANNEL:
                    self._marks += 1
                    self._arrived.set()
                elif found and only in (None, int(found[1])):
                    self._names.add((int(found[1]), message.data))
        except HoldfastError as error:
            self._failure = error
            self._arrived.set()

    async def _taken(self) -> set[Name]:
        async with asyncio.timeout(MARK_TIMEOUT_S):
            while self._marks < self._awaited and self._failure is None:
                self._arrived.clear()
                await self._arrived.wait()
        names, self._names = self._names, set()
        return names

    async def _end(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._pubsub is not None:
            await self._pubsub.close()
