"""The file of a standalone server becomes the file of an active-active one, a piece at a time.

Each key gets a replica key that shows the same value, as if this replica had written it long ago,
so that all writes of clients of other servers are newer. The journal gets the rows of the replica
key and no record. Records would have to be kept until each peer has them, and all together they are
as large as the database. A peer that lacks changes without a record takes a snapshot
(`CausalLog.base`).

A piece is one batch. The batch has the fact `ADOPTING`, which tells up to which key the file is
done, so a server that is killed continues from there. Keys leave memory when their piece is folded,
so the database may be larger than memory.
"""

import logging
from typing import Protocol

from holdfast.crdt.dots import Author
from holdfast.progress import KEYS, Progress
from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import key_row, string_row
from holdfast.store.memory.key import Key
from holdfast.store.replicated.effect_builder import EffectBuilder
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated.stage import ADOPTING

log = logging.getLogger(__name__)

PIECE_KEYS = 1000
PIECE_BYTES = 4 << 20
CHECKPOINT_PAGES = 16384  # 64 MB of WAL


class Committing(Protocol):
    """The part of a store that adoption needs."""

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
        progress: Progress,
        piece_keys: int = PIECE_KEYS,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._store = store
        self._keyspace = keyspace
        self._progress = progress
        self._piece_keys, self._piece_bytes = piece_keys, piece_bytes
        # the keys of the last piece, which the fold may not have finished
        self._piece: list[Key] = []
        self._count = 0  # keys done in this run
        self._total = 0  # keys that exist
        self._is_over = False

    def step(self) -> bool:
        """Do some milliseconds of work. Returns False when all is done."""
        if self._keyspace.open_ops:
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
        stage, tables = keyspace.stage, keyspace.tables
        assert tables is not None
        databases = {database.space.id: database for database in keyspace.replicated_databases}
        author = Author(stage.replica, stage.clock.tick(), stage.vector)
        last_id: int = stage.facts[ADOPTING]
        rows = tables.rows_after(last_id, keyspace.next_id, self._piece_keys)
        nbytes = 0
        for key_id, space_id, name, _, _ in rows:
            last_id = key_id
            database = databases.get(space_id)
            key = None if database is None else database.glance(name)
            if database is None or key is None:
                continue  # its database was flushed, or this server has fewer databases
            effects = EffectBuilder(
                author,
                stage.spaces,
                stage.addresses,
                stage.replica_keys,
                [],  # no rows, because the file has those of the key
            )
            made = _made(key)
            effects.take(made.ops, made.intents)
            stage.replica_keys.write_all(stage.replica_keys.at((database.index, name)))
            self._piece.append(key)
            nbytes += key.nbytes
            if nbytes >= self._piece_bytes:
                break
        if not rows:
            self._finish()
        else:
            stage.adopted(author.seq, last_id)
            self._count += len(self._piece)
            self._progress("making the file active-active", self._count, self._total, KEYS)

    def _finish(self) -> None:
        self._is_over = True
        self._keyspace.stage.adopted_all()
        log.info("the file is active-active now")

    def _forget_piece(self) -> None:
        """Drop the last piece from memory; the tables have all of it."""
        for key in self._piece:
            if key.is_attached:
                self._keyspace.evict(key)
        self._piece = []
        while self._keyspace.freeing.step():
            pass


def _made(key: Key) -> ChangeLog:
    """The batch that would create such a key."""
    batch = ChangeLog()
    batch.states_intents = True
    row = (key.space.id, key.name, key.type_name, key.expires_at_ms)
    batch.ops.append(key_row(key.id, row))
    if isinstance(key.value, bytes):
        batch.ops.append(string_row(key.id, key.value))
    else:
        key.value.copy(key.id, batch)
    return batch
