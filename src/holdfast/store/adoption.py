"""The file of a standalone server becomes that of an active-active one, a piece at a time.

Each key gets a replicated value that shows the same, as if this replica had written it long ago:
whatever a client of another server wrote is newer. The journal gets the rows of that value and no
record. Records would have to be kept until every peer has them, and all together they are as large
as the database; a peer that lacks what is not in the log takes a snapshot (`Log.base`).

A piece is one batch. The fact `ADOPTING` is in it and says how far this has got, so a server that
is killed goes on from there. Keys leave memory when their piece is folded, so the database may be
larger than memory.
"""

import logging
from typing import Protocol

from holdfast.crdt.dots import Author
from holdfast.store.keys import Key
from holdfast.store.replicated import ADOPTING
from holdfast.store.replicated_changes import Changes
from holdfast.store.replicated_keyspace import ReplicatedKeyspace, rows_of

log = logging.getLogger(__name__)

PIECE_KEYS = 1000
PIECE_BYTES = 4 << 20
CHECKPOINT_PAGES = 16384  # 64 MB of WAL
REPORTS = 10  # how often the log tells how far it has got


class Committing(Protocol):
    """What this needs of a store."""

    @property
    def wal_pages(self) -> int: ...

    def commit(self) -> int: ...

    def fold_step(self) -> bool: ...

    def sync_and_checkpoint(self) -> None: ...


class Adoption:
    def __init__(
        self,
        store: Committing,
        keyspace: ReplicatedKeyspace,
        piece_keys: int = PIECE_KEYS,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._store = store
        self._keyspace = keyspace
        self._piece_keys, self._piece_bytes = piece_keys, piece_bytes
        self._piece: list[Key] = []  # the last one, of which the tables may lack something
        self._count = 0  # of keys, since this began
        self._total = 0  # of keys that there are
        self._is_over = False

    def step(self) -> bool:
        """Some milliseconds of work; False when all is done."""
        if self._keyspace.ops:
            self._store.commit()
        if self._store.wal_pages >= CHECKPOINT_PAGES:
            self._store.sync_and_checkpoint()
        if self._store.fold_step():
            return True
        self._forget_piece()
        if self._is_over:
            return False
        if not self._total:
            self._total = sum(len(database.space) for database in self._keyspace.databases)
            log.info("making the file active-active: %d keys", self._total)
        self._take_piece()
        self._store.commit()
        return True

    def _take_piece(self) -> None:
        keyspace = self._keyspace
        replication, tables = keyspace.replication, keyspace.tables
        assert tables is not None
        databases = {database.space.id: database for database in keyspace.replicated_databases}
        author = Author(replication.replica, replication.clock.tick(), replication.vector)
        last_id: int = replication.facts[ADOPTING]
        rows = tables.rows_after(last_id, keyspace.next_id, self._piece_keys)
        nbytes = 0
        for key_id, space_id, name, _, _ in rows:
            last_id = key_id
            database = databases.get(space_id)
            key = None if database is None else database.glance(name)
            if database is None or key is None:
                continue  # of a database that was flushed, or that this server does not have
            changes = Changes(
                author, replication.database_of, replication.addresses, replication.slots
            )
            changes.take(rows_of(key))
            replication.slots.write_all(replication.slots.at((database.index, name)))
            self._piece.append(key)
            nbytes += key.nbytes
            if nbytes >= self._piece_bytes:
                break
        if not rows:
            self._finish()
        else:
            replication.adopted(author.seq, last_id)
            self._report(len(self._piece))

    def _finish(self) -> None:
        self._is_over = True
        self._keyspace.replication.adopted_all()
        log.info("the file is active-active now")

    def _report(self, count: int) -> None:
        before, self._count = self._count, self._count + count
        if self._total and before * REPORTS // self._total < self._count * REPORTS // self._total:
            log.info("%d of %d keys are active-active", self._count, self._total)

    def _forget_piece(self) -> None:
        """All of it is in the tables."""
        for key in self._piece:
            if key.is_attached:
                self._keyspace.evict(key)
        self._piece = []
        while self._keyspace.freeing.step():
            pass
