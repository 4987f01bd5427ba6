"""The role of replica: its begin, its end, and its consequences for clients."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import final

from holdfast.errors import CommandError, StorageError, StoreBusyError
from holdfast.psync.handshake import Introduction
from holdfast.resp import Reply
from holdfast.server.core.engine import Engine
from holdfast.server.primary.primary import ROLE_CHANGED
from holdfast.server.replica.failover import Failover, FailoverState
from holdfast.server.replica.link import Link
from holdfast.server.replica.link_states import LinkState
from holdfast.server.replica.position import Position, unpack
from holdfast.server.replica.snapshot_load import SnapshotLoad
from holdfast.store.store import FileStore

log = logging.getLogger(__name__)

READ_ONLY = CommandError("READONLY You can't write against a read only replica.")
STALE = CommandError(
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
)
NO_FILE = CommandError("ERR a database that is only in memory cannot follow another server")
DURING_FAILOVER = CommandError("ERR REPLICAOF not allowed while failing over.")
OTHER_ID = CommandError("ERR PSYNC FAILOVER replid must match my replid.")
LOOK_EVERY_S = 0.01


@final
class ReplicaRole:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.link: Link | None = None
        self.failover = Failover(engine, self._hand_over, self.lead)
        self._takes_over = False  # the next primary must be told that it is the primary

    @property
    def is_on(self) -> bool:
        return self.link is not None

    @property
    def _is_linked(self) -> bool:
        return self.link is not None and self.link.state is LinkState.FOLLOWING

    # -- beginning and ending -----------------------------------------------------------------

    def follow(self, host: str, port: int) -> None:
        if self.failover.state is not FailoverState.NONE:
            raise DURING_FAILOVER
        self._takes_over = False
        self._follow(host, port)

    def begin_failover(
        self, target: tuple[str, int] | None, timeout_s: float | None, *, force: bool
    ) -> None:
        self.failover.begin(target, timeout_s, force=force)

    def abort_failover(self) -> None:
        self.failover.abort()

    @property
    def failover_state(self) -> str:
        return self.failover.state.value

    def _hand_over(self, host: str, port: int) -> None:
        self._takes_over = True
        self._follow(host, port)

    def promote(self, replication_id: bytes) -> None:
        """The primary hands over to this replica: PSYNC … FAILOVER. Raises CommandError."""
        if replication_id != self._engine.primary.replication_id:
            raise OTHER_ID
        self.lead()

    def _follow(self, host: str, port: int) -> None:
        engine = self._engine
        if not isinstance(engine.store, FileStore):
            raise NO_FILE
        down_since_s = None
        if self.link is None:
            engine.primary.stop_leading()
            engine.primary.is_following = lambda: self._is_linked
            for waiter in list(engine.blocking.waiters):
                engine.blocking.unblock(waiter, ROLE_CHANGED)
            self._forget_stale_position()
        else:
            is_linked, now_s = self._is_linked, engine.clock.monotonic_s()
            down_since_s = now_s if is_linked else self.link.down_since_s
            self.link.stop()
        log.info("this server is a replica of %s:%d from now on", host, port)
        engine.config.put("replicaof", f"{host} {port}")
        self.link = Link(engine, self, host, port, down_since_s)
        self.state_changed()
        self.link.start()

    def _forget_stale_position(self) -> None:
        """A server that was a primary stands at the end of its own stream, if it had one. Then the
        position that it noted before is stale."""
        primary, keyspace = self._engine.primary, self._engine.keyspace
        if primary.backlog is not None and keyspace.replication_position is not None:
            keyspace.set_position(None)

    def lead(self) -> None:
        if self.link is None:
            return
        engine = self._engine
        self.link.stop()
        self.link = None
        engine.config.put("replicaof", "")
        engine.primary.is_following = None
        engine.primary.lead()
        engine.keyspace.set_position(None)
        engine.outgoing.schedule()
        self.state_changed()
        log.info("this server is a primary from now on")

    async def stop(self) -> None:
        if self.link is not None:
            self.link.stop()

    def storage_failed(self) -> None:
        if self.link is not None:
            self.link.cut("the database file cannot be written")

    def settings_changed(self) -> None:
        self.state_changed()

    def state_changed(self) -> None:
        """Let admission know whether clients may write, and whether they may read."""
        engine, is_on = self._engine, self.is_on
        config, condition = engine.config, engine.condition
        condition.read_only = READ_ONLY if is_on and config.replica_read_only else None
        is_stale = is_on and not self._is_linked and not config.replica_serve_stale_data
        condition.stale = STALE if is_stale else None
        # A replica that takes writes of its own expires keys by its own clock: a client that writes
        # to an expired key must not find it.
        engine.keyspace.is_replica = is_on and config.replica_read_only
        condition.update()
        engine.primary.count_good()

    # -- what the link asks for ---------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Where this server is in a stream: of its primary, or of its own."""
        position = unpack(self._engine.keyspace.replication_position)
        backlog = self._engine.primary.backlog
        if position is None and backlog is not None:
            return Position(backlog.id, backlog.offset, 0)
        return position

    def introduction(self) -> Introduction:
        config, position = self._engine.config, self.position
        port = config.replica_announce_port or (config.tls_port if config.tls_replication else 0)
        return Introduction(
            password=config.masterauth,
            username=config.masteruser.encode(),
            listening_port=port or self._engine.meter.tcp_port,
            address=config.replica_announce_ip.encode(),
            replication_id=b"" if position is None else position.replication_id,
            offset=-1 if position is None else position.offset,
            takes_over=self._takes_over,
        )

    def link_failed(self, reason: str) -> None:
        self.failover.failed(reason)

    def accepted(self) -> None:
        self._takes_over = False
        self.failover.accepted()

    def continues(self, replication_id: bytes) -> Position:
        position = self.position
        assert position is not None
        position = position._replace(replication_id=replication_id)
        self._engine.primary.follow(replication_id, position.offset)
        self._engine.keyspace.set_position(position.pack())
        self._engine.outgoing.schedule()
        return position

    def new_load(self) -> SnapshotLoad:
        engine = self._engine
        target = engine.store.path
        assert target is not None
        return SnapshotLoad(
            Path(target),
            len(engine.keyspace.databases),
            skips_unknown=engine.config.replica_skip_unknown,
        )

    async def replace_data(self, load: SnapshotLoad) -> Position:
        """Show the data of the snapshot, at once. Raises StorageError."""
        engine = self._engine
        store = engine.store
        assert isinstance(store, FileStore)
        deadline_s = engine.clock.monotonic_s() + engine.config.repl_timeout
        has_told = False
        while True:
            if engine.turn.is_quiet:
                try:
                    store.take_over(load.path)
                    break
                except StoreBusyError as error:
                    if engine.clock.monotonic_s() > deadline_s:
                        raise
                    if not has_told:
                        log.warning("the snapshot is complete and waits for the file: %s", error)
                        has_told = True
                except StorageError as error:  # neither file is open
                    engine.turn.fail(error, is_fatal=True)
                    raise
            await asyncio.sleep(LOOK_EVERY_S)
        engine.turn.file_replaced()
        position = self.position
        assert position is not None
        engine.primary.data_replaced(position.replication_id, position.offset)
        engine.keyspace.flushed()
        engine.blocking.wake_all()
        engine.outgoing.schedule()
        return position

    # -- for people ---------------------------------------------------------------------------

    def facts(self) -> Iterator[tuple[str, object]]:
        link, config = self.link, self._engine.config
        assert link is not None
        now_s = self._engine.clock.monotonic_s()
        session, load = link.session, link.load
        offset = session.noted if session is not None else self._engine.primary.offset
        yield "master_host", link.host
        yield "master_port", link.port
        yield "master_link_status", "up" if self._is_linked else "down"
        yield "master_last_io_seconds_ago", int(now_s - link.heard_s) if self._is_linked else -1
        yield "master_sync_in_progress", int(link.state is LinkState.LOADING)
        yield "slave_read_repl_offset", offset if session is None else session.received
        yield "slave_repl_offset", offset
        if load is not None and link.state is LinkState.LOADING:
            total = load.total_bytes
            left = 0 if total is None else total - load.received_bytes
            yield "master_sync_total_bytes", 0 if total is None else total
            yield "master_sync_read_bytes", load.received_bytes
            yield "master_sync_left_bytes", left if total is not None else -load.received_bytes
            share = 100 * load.received_bytes / total if total else 0.0
            yield "master_sync_perc", f"{share:.2f}"
            yield "master_sync_last_io_seconds_ago", int(now_s - link.heard_s)
        if not self._is_linked:
            since_s = link.down_since_s
            yield "master_link_down_since_seconds", -1 if since_s is None else int(now_s - since_s)
        yield "slave_priority", config.replica_priority
        yield "slave_read_only", int(config.replica_read_only)
        yield "replica_announced", int(config.replica_announced)

    def role(self) -> list[Reply]:
        link = self.link
        assert link is not None
        offset = -1 if link.session is None else link.session.noted
        return [b"slave", link.host.encode(), link.port, link.state.value.encode(), offset]
