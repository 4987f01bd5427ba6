"""Applies the messages of a peer: parts of messages go in, and the database changes. No I/O."""

from collections.abc import Iterator

from holdfast.crdt.dots import Vector
from holdfast.errors import ProtocolError
from holdfast.replication.messages import (
    BEGIN,
    COMPLETE,
    KEYS,
    PIECE,
    RECORDS,
    STARTS,
    read_key,
    read_start,
    read_vector,
)
from holdfast.store.replicated.replica_keys import Address
from holdfast.store.replicated.stage import ReplicationStage


class Intake:
    """One for each link, from its greeting to its end. A record or a key that is sent in pieces is
    kept here until it is complete, because it is applied as a whole or not at all."""

    def __init__(self, stage: ReplicationStage) -> None:
        self.stage = stage
        # While a snapshot is taken: its keys so far, without the keys that it created here. Those
        # have ids from `_first_new_id` on, and in a server that joins all keys are such: a set of a
        # million names would be slow.
        self._names: set[Address] | None = None
        self._first_new_id = 0
        self.snapshot_seen: Vector = {}  # the events that the author of the snapshot had seen
        self._rest: Iterator[None] | None = None  # slices that remove keys which the snapshot lacks
        self._kind = b""  # the kind of the part that arrives in pieces
        self._missing_bytes = 0
        self._pieces: list[bytes] = []

    def take(self, kind: bytes, data: bytes) -> None:
        """Apply one part of a message. Raises HoldfastError."""
        if kind == PIECE:
            self._piece(data)
            return
        # A part that started and did not end: the sender's log has cut the record.
        self._pieces, self._missing_bytes = [], 0
        if kind == STARTS:
            self._kind, self._missing_bytes = read_start(data)
            if self._kind not in (RECORDS, KEYS):
                raise ProtocolError(f"messages of kind {self._kind!r} do not travel in pieces")
        elif kind == RECORDS:
            self.stage.inbound.apply(data)
        elif kind == BEGIN:
            self._names = set()
            self._first_new_id = self.stage.keyspace.next_id
            self.snapshot_seen = read_vector(data)
        elif kind == KEYS and self._names is not None:
            databases = len(self.stage.keyspace.databases)
            database, name, rows = read_key(data, databases)
            if self.stage.replica_keys.is_older((database, name), self._first_new_id):
                self._names.add((database, name))
            self.stage.inbound.merge((database, name, rows), self.snapshot_seen)
        elif kind == COMPLETE and self._names is not None:
            self._rest = self.stage.inbound.merge_rest(
                self._names, self._first_new_id, self.snapshot_seen
            )
            self._names = None
        else:
            raise ProtocolError(f"unknown message {kind!r}")

    @property
    def is_finishing(self) -> bool:
        """Whether a snapshot is complete. Then the caller must call `finish_some` before it takes
        more parts."""
        return self._rest is not None

    def finish_some(self) -> bool:
        """Do one slice of the rest of a snapshot. True after the last one."""
        if self._rest is not None and next(self._rest, self) is self:
            self._rest = None
        return self._rest is None

    def _piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._missing_bytes -= len(data)
        if self._missing_bytes < 0 or not data:
            raise ProtocolError("a piece came that no part has announced")
        if self._missing_bytes == 0:
            whole = b"".join(self._pieces)
            self.take(self._kind, whole)
