"""Makes invalidations and published messages of the events that the keyspace announces."""

from collections.abc import Sequence

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
    OVERWRITTEN,
    SET,
    STREAM,
    STRING,
    SUBKEYS,
    TYPE_CHANGED,
    ZSET,
)

# The letters of notify-keyspace-events. Events of modules (`d`) and of arrays (`a`) never happen
# here.
KINDS = {"g": GENERIC, "$": STRING, "l": LIST, "s": SET, "h": HASH, "z": ZSET, "t": STREAM}
KINDS |= {"x": EXPIRED, "e": EVICTED, "n": NEW, "m": MISS, "o": OVERWRITTEN, "c": TYPE_CHANGED}
SUBKEY_LETTERS = frozenset("STIV")  # of channels, as K and E are
CHANGES = GENERIC | STRING | LIST | SET | HASH | ZSET | STREAM | EXPIRED | EVICTED


class Notifications:
    def __init__(self, host: SessionHost, pubsub: PubSub, tracking: Tracking) -> None:
        self._host = host
        self._keyspace = host.keyspace
        self._pubsub = pubsub
        self._tracking = tracking
        self._published = 0  # the kinds of events that are published
        self._by_key = self._by_event = False
        self._subkeys: frozenset[str] = frozenset()  # letters of channels for fields
        host.keyspace.notify = self._announced
        host.keyspace.notify_fields = self._announced_fields
        host.keyspace.on_flush = self._flushed
        tracking.on_trackers_changed = self.update

    def publish(self, letters: frozenset[str]) -> None:
        """Apply a value of notify-keyspace-events."""
        self._by_key, self._by_event = "K" in letters, "E" in letters
        self._subkeys = letters & SUBKEY_LETTERS if "h" in letters else frozenset()
        wanted = self._by_key or self._by_event
        self._published = sum(KINDS.get(letter, 0) for letter in letters) if wanted else 0
        self.update()

    def update(self) -> None:
        """Tell the keyspace which events to announce: only those that are published or tracked."""
        kinds = self._published | (CHANGES if self._tracking else 0)
        self._keyspace.notify_kinds = kinds | (SUBKEYS if self._subkeys else 0)

    def _announced(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        """Publish an event, and invalidate the key if the event is a change. As in Redis, the event
        is published after the invalidation; only for an expired key it is published before."""
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

    def _announced_fields(
        self, database: Database, name: bytes, event: bytes, fields: Sequence[bytes]
    ) -> None:
        """Publish the changed fields of a hash, in up to four kinds of channels. Names may contain
        any byte, so their lengths stand before them. A channel whose name would be ambiguous is
        left out."""
        publish, index = self._pubsub.publish, database.index
        listed = b",".join(b"%d:%b" % (len(field), field) for field in fields)
        if "S" in self._subkeys:
            publish(b"__subkeyspace@%d__:%b" % (index, name), b"%b|%b" % (event, listed))
        if "T" in self._subkeys:
            message = b"%d:%b|%b" % (len(name), name, listed)
            publish(b"__subkeyevent@%d__:%b" % (index, event), message)
        if "I" in self._subkeys and b"\n" not in name:
            for field in fields:
                publish(b"__subkeyspaceitem@%d__:%b\n%b" % (index, name, field), event)
        if "V" in self._subkeys:
            publish(b"__subkeyspaceevent@%d__:%b|%b" % (index, event, name), listed)

    def _flushed(self) -> None:
        if self._tracking:
            self._tracking.flushed()
