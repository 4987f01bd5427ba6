"""What becomes of an event that the keyspace announces: invalidations, and published messages."""

from typing import TYPE_CHECKING

from holdfast.store.database import Database
from holdfast.store.events import (
    EVICTED,
    EXPIRED,
    GENERIC,
    HASH,
    LIST,
    MISS,
    NEW,
    SET,
    STREAM,
    STRING,
    ZSET,
)

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

# The letters of notify-keyspace-events. `d`, the events of modules, never happens here.
KINDS = {"g": GENERIC, "$": STRING, "l": LIST, "s": SET, "h": HASH, "z": ZSET, "t": STREAM}
KINDS |= {"x": EXPIRED, "e": EVICTED, "n": NEW, "m": MISS}
CHANGES = GENERIC | STRING | LIST | SET | HASH | ZSET | STREAM | EXPIRED | EVICTED


class Notifications:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._keyspace = engine.keyspace
        self._published = 0  # kinds
        self._by_key = self._by_event = False
        engine.keyspace.notify = self._announced
        engine.keyspace.on_flush = self._flushed

    def publish(self, letters: frozenset[str]) -> None:
        """As notify-keyspace-events says, from now on."""
        self._by_key, self._by_event = "K" in letters, "E" in letters
        wanted = self._by_key or self._by_event
        self._published = sum(KINDS.get(letter, 0) for letter in letters) if wanted else 0
        self.update()

    def update(self) -> None:
        """The keyspace announces what somebody wants to hear; mostly that is nothing."""
        self._keyspace.notify_kinds = self._published | (CHANGES if self._engine.tracking else 0)

    def _announced(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        """An event that is no change is not announced for tracking alone; see CHANGES. Redis
        says that a key has expired before it invalidates it, and else the other way round."""
        engine = self._engine
        is_tracked = engine.tracking and kind & CHANGES
        if is_tracked and kind != EXPIRED:
            engine.tracking.changed(name, engine.running)
        if kind & self._published:
            publish = engine.pubsub.publish
            if self._by_key:
                publish(b"__keyspace@%d__:%b" % (database.index, name), event)
            if self._by_event:
                publish(b"__keyevent@%d__:%b" % (database.index, event), name)
        if is_tracked and kind == EXPIRED:
            engine.tracking.changed(name, None)

    def _flushed(self) -> None:
        if self._engine.tracking:
            self._engine.tracking.flushed()
