"""Events that the keyspace announces become invalidations and published messages."""

from holdfast.server.features.channels import PubSub
from holdfast.server.features.tracking import Tracking
from holdfast.server.sessions.session_host import SessionHost
from holdfast.store.memory.database import Database
from holdfast.store.memory.events import (
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

# The letters of notify-keyspace-events. `d`, the events of modules, never happens here.
KINDS = {"g": GENERIC, "$": STRING, "l": LIST, "s": SET, "h": HASH, "z": ZSET, "t": STREAM}
KINDS |= {"x": EXPIRED, "e": EVICTED, "n": NEW, "m": MISS}
CHANGES = GENERIC | STRING | LIST | SET | HASH | ZSET | STREAM | EXPIRED | EVICTED


class Notifications:
    def __init__(self, host: SessionHost, pubsub: PubSub, tracking: Tracking) -> None:
        self._host = host
        self._keyspace = host.keyspace
        self._pubsub = pubsub
        self._tracking = tracking
        self._published = 0  # kinds
        self._by_key = self._by_event = False
        host.keyspace.notify = self._announced
        host.keyspace.on_flush = self._flushed
        tracking.on_trackers_changed = self.update

    def publish(self, letters: frozenset[str]) -> None:
        """Use this value of notify-keyspace-events from now on."""
        self._by_key, self._by_event = "K" in letters, "E" in letters
        wanted = self._by_key or self._by_event
        self._published = sum(KINDS.get(letter, 0) for letter in letters) if wanted else 0
        self.update()

    def update(self) -> None:
        """The keyspace announces only events that are published or tracked; mostly none is."""
        self._keyspace.notify_kinds = self._published | (CHANGES if self._tracking else 0)

    def _announced(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        """An event that is no change is not announced for tracking alone; see CHANGES. For an
        expired key, Redis publishes the event before it invalidates the key; for all other events,
        after."""
        is_tracked = self._tracking and kind & CHANGES
        if is_tracked and kind != EXPIRED:
            self._tracking.changed(name, self._host.running)
        if kind & self._published:
            publish = self._pubsub.publish
            if self._by_key:
                publish(b"__keyspace@%d__:%b" % (database.index, name), event)
            if self._by_event:
                publish(b"__keyevent@%d__:%b" % (database.index, event), name)
        if is_tracked and kind == EXPIRED:
            self._tracking.changed(name, None)

    def _flushed(self) -> None:
        if self._tracking:
            self._tracking.flushed()
