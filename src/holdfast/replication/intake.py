"""What a peer sends, taken in: parts of messages go in, the database changes. No I/O."""

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
from holdfast.store.replicated import Replication
from holdfast.store.replicated_rows import Address


class Intake:
    """Of one link, from its greeting to its end. A record or a key that comes in pieces is kept
    here until all of it is there: it is seen whole or not at all."""

    def __init__(self, replication: Replication) -> None:
        self.replication = replication
        self._names: set[Address] | None = None  # that the snapshot had so far, if there is one
        self.snapshot_seen: Vector = {}  # what its author had seen
        self._rest: Iterator[None] | None = None  # what a snapshot did not have, while it goes
        self._kind = b""  # of the part that comes in pieces
        self._missing_bytes = 0
        self._pieces: list[bytes] = []

    def take(self, kind: bytes, data: bytes) -> None:
        """One part of a message. Raises HoldfastError."""
        if kind == PIECE:
            self._piece(data)
            return
        # A part that started before and did not end, was lost where it came from.
        self._pieces, self._missing_bytes = [], 0
        if kind == STARTS:
            self._kind, self._missing_bytes = read_start(data)
            if self._kind not in (RECORDS, KEYS):
                raise ProtocolError(f"no pieces of {self._kind!r} are known")
        elif kind == RECORDS:
            self.replication.apply(data)
        elif kind == BEGIN:
            self._names = set()
            self.snapshot_seen = read_vector(data)
        elif kind == KEYS and self._names is not None:
            databases = len(self.replication.keyspace.databases)
            database, name, rows = read_key(data, databases)
            self._names.add((database, name))
            self.replication.merge((database, name, rows), self.snapshot_seen)
        elif kind == COMPLETE and self._names is not None:
            self._rest = self.replication.merge_rest(self._names, self.snapshot_seen)
            self._names = None
        else:
            raise ProtocolError(f"unknown message {kind!r}")

    @property
    def is_finishing(self) -> bool:
        """A snapshot is complete. `finish_some` is to be called, and nothing may be taken in."""
        return self._rest is not None

    def finish_some(self) -> bool:
        """A slice of what is left to do; whether that was all."""
        if self._rest is not None and next(self._rest, self) is self:
            self._rest = None
        return self._rest is None

    def _piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._missing_bytes -= len(data)
        if self._missing_bytes < 0 or not data:
            raise ProtocolError("a piece of nothing that was announced")
        if self._missing_bytes == 0:
            whole = b"".join(self._pieces)
            self.take(self._kind, whole)
