"""The replicas of this server, and the data that each of them gets.

A replica asks with PSYNC. If the backlog has all that the replica lacks, it continues. Otherwise it
gets a snapshot: another process reads the database file and writes it as RDB, while this server
goes on. The snapshot has the state after one batch, and names the number of that batch in the
journal. This server knows the offset after that batch, so the replica goes on exactly there.

Commands are sent to the replicas with the replies of their batch, so not before they are on disk.

It is one class because replicas, snapshot and stream are one state: each event of one of them
decides what the others do next.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, final

from holdfast.clock import Timer
from holdfast.commands.context import Block
from holdfast.errors import CommandError
from holdfast.resp import Reply, encode2
from holdfast.server.auth.acl import User
from holdfast.server.primary.backlog import Backlog, new_id
from holdfast.server.primary.effect_log import EffectLog
from holdfast.server.primary.replica import Replica, State
from holdfast.server.primary.waits import Waits
from holdfast.server.sessions.out_of_band import OutOfBand
from holdfast.server.sessions.session import LINK, REPLIES_OFF, RESTRICTED, Session
from holdfast.server.sessions.session_host import SessionHost

log = logging.getLogger(__name__)

PING = encode2([b"PING"])
GET_ACK = encode2([b"REPLCONF", b"GETACK", b"*"])
NO_FILE = CommandError("ERR a database that is only in memory has no snapshot for replicas")
NO_LINK = CommandError("NOMASTERLINK Can't SYNC while not connected with my master")
NOT_HERE = CommandError(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a"
    " replica is configured to be writable (which is not the default) writes to replicas are just"
    " local and are not propagated."
)
NOT_HERE_ON_DISK = CommandError(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas"
    " are just local and are not propagated."
)
ROLE_CHANGED = CommandError(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
)
TOO_FEW = CommandError("NOREPLICAS Not enough good replicas to write.")
TICK_S = 1.0
RULES = [b"on", b"nopass", b"-@all", b"+replconf", b"+ping", b"+quit"]  # of replicas


class Cut(NamedTuple):
    """The stream after a batch of the journal."""

    lsn: int
    offset: int


class Snapshots(Protocol):
    """Makes snapshots, in other processes."""

    def take(self, *, has_field_times: bool) -> None:
        """Begin to write a snapshot, with the times at which fields of hashes expire or, for Redis
        7.0, without. `Primary.cut`, then `Primary.written` or `Primary.failed` are
        called from the event loop."""
        ...

    def drop(self) -> None:
        """The snapshot that is written is not needed. `Primary.failed` is called soon."""
        ...

    def send(self, replica: Replica) -> None:
        """Begin to send the snapshot, which may not be complete yet. `Primary.sent` is called when
        all of it has left."""
        ...

    async def stop(self) -> None: ...


class Batches(Protocol):
    """The events of the store that the primary needs."""

    @property
    def lsn(self) -> int: ...


@final
class Primary:
    def __init__(
        self,
        host: SessionHost,
        batches: Batches,
        on_effects: Callable[[EffectLog | None], None],
        on_good_replicas: Callable[[CommandError | None], None],
    ) -> None:
        """`on_effects` is called for the first replica: from then on, effects are noted. None: this
        server passes on the stream of its own primary instead.
        `on_good_replicas` gets the reason why writes are refused, or None, when that changes."""
        self._on_good_replicas = on_good_replicas
        self._refusal: CommandError | None = None
        self._host = host
        self._batches = batches
        self._on_effects = on_effects
        self.id = new_id()  # while there is no backlog
        self.effects: EffectLog | None = None  # from the first replica on
        self.backlog: Backlog | None = None
        self.known: dict[Session, Replica] = {}  # by REPLCONF; they may not have asked yet
        self.replicas: dict[Session, Replica] = {}
        self.open_snapshots: Callable[[], Snapshots] | None = None  # of the process around us
        self._snapshots: Snapshots | None = None
        # Whether this server has all that its own primary has; None: it has none.
        self.is_following: Callable[[], bool] | None = None
        self.holds_stream = False  # nothing is added to the stream by itself: a failover waits
        # Of the stream of its primary, in the open batch.
        self._passed_on: list[bytes] = []
        self.is_writing = False  # a snapshot
        self._has_field_times = False  # it
        self._cut_at: int | None = None  # the offset that it has, once that is known
        # The snapshot that is being written is of no use: the data was replaced since it began, it
        # lacks writes that the stream lacks, too, or no replica waits for it any more.
        self._is_snapshot_void = False
        self._complete_from = 0  # snapshots of earlier batches lack writes that are in no stream
        self._cuts: deque[Cut] = deque()  # of the batches that may be the snapshot's last
        self.waits = Waits(host.unblock, self.online)
        self._left_at = 0  # the offset of a stream that was forgotten
        self._needed_s = host.clock.monotonic_s()  # when a replica was last there
        self._written = 0  # the offset after the last write of a client
        self.waits_at_end = True  # for replicas, when this server stops
        self._timer: Timer | None = None
        self._pinged_s = host.clock.monotonic_s()
        self.reset_stats()

    def reset_stats(self) -> None:
        """CONFIG RESETSTAT."""
        self.full_syncs = self.partial_syncs = self.refused_syncs = 0
        self.sent_bytes = 0  # to replicas

    # -- replicas come and go -----------------------------------------------------------------

    def facts(self, session: Session) -> Replica:
        """What is known of a session that may become a replica."""
        replica = self.known.get(session)
        if replica is None:
            replica = self.known[session] = Replica(session, self._host.clock.monotonic_s())
        return replica

    def lost(self, session: Session, why: str) -> None:
        self.known.pop(session, None)
        if self.replicas.pop(session, None) is not None:
            log.warning("replica %s does not follow any more: %s", session.address, why)
            self.count_good()
            if self.is_writing and not self._is_awaited:
                assert self._snapshots is not None
                log.info("no replica waits for the snapshot any more: it is dropped")
                self._is_snapshot_void = True
                self._snapshots.drop()

    @property
    def _is_awaited(self) -> bool:
        """Whether a replica waits for the end of a snapshot."""
        return any(
            replica.state is State.WAITS or replica.shares_writing
            for replica in self.replicas.values()
        )

    def ask(
        self, session: Session, replication_id: bytes, offset: int, *, is_old: bool = False
    ) -> None:
        """PSYNC, or the older SYNC, which has no offsets. Raises CommandError."""
        if self.open_snapshots is None:
            raise NO_FILE
        if self.is_following is not None and not self.is_following():
            raise NO_LINK
        if self._snapshots is None:
            self._snapshots = self.open_snapshots()
        if self.backlog is None:
            self.begin()
        replica = self.facts(session)
        replica.knows_offsets = not is_old
        backlog = self.backlog
        assert backlog is not None
        session.kind = LINK  # the limits of clients do not apply
        session.flags.add("S")
        session.limits_changed()
        self.replicas[session] = replica
        self._mute(session)
        if backlog.can_continue(replication_id, offset):
            self.partial_syncs += 1
            replica.state = State.ONLINE
            self._push(replica, b"+CONTINUE %b\r\n" % backlog.id)
            self._push(replica, backlog.since(offset))
            self._log("continues", replica)
            return
        self.refused_syncs += replication_id != b"?"
        self.full_syncs += 1
        self._log("needs a snapshot", replica)
        if not self.is_writing:
            self._take_snapshot()
        elif self._cut_at is not None and not self._is_snapshot_void and self._is_for(replica):
            self._join_snapshot(replica, self._cut_at)

    def _mute(self, session: Session) -> None:
        """From now on the session gets the stream and nothing else: a reply would shift all that
        follows it. So it may send only commands that need none."""
        session.reply_mode = REPLIES_OFF
        user = User(session.user.name, all_channels=False)
        session.user = user.changed(RULES, all_channels=False)
        session.modes |= RESTRICTED

    def _log(self, what: str, replica: Replica) -> None:
        log.info("replica %s %s", replica.session.address, what)

    def begin(self) -> None:
        """Note the effects of commands from now on."""
        host = self._host
        self.effects = EffectLog(host.keyspace)
        host.keyspace.on_removed = self.effects.removed
        host.keyspace.on_shown = self.effects.shown
        self._complete_from = self._batches.lsn + bool(host.keyspace.open_ops)
        self._needed_s = host.clock.monotonic_s()
        if self.backlog is None:
            self.backlog = Backlog(host.config.repl_backlog_size, self.id, self._left_at)
        self._on_effects(self.effects)
        self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self._host.clock.call_later(TICK_S, self._tick)

    def _forget_stream(self) -> None:
        """No replica was there for `repl-backlog-ttl`: from now on this costs nothing again."""
        assert self.backlog is not None
        self.id, self._left_at = new_id(), self.backlog.offset
        self.backlog = self.effects = None
        self._host.keyspace.on_removed = None
        self._host.keyspace.on_shown = None
        self._on_effects(None)
        log.info("no replica for %d s: the backlog is gone", self._host.config.repl_backlog_ttl)

    # -- this server is a replica itself ------------------------------------------------------

    def stop_leading(self) -> None:
        """This server is about to follow another one. Effects so far are part of its stream."""
        if self.effects is not None:
            self._passed_on.append(self.effects.take())
            self.effects = None
            self._host.keyspace.on_removed = None
            self._host.keyspace.on_shown = None
        self._on_effects(None)
        self.waits.end(ROLE_CHANGED)

    def follow(self, replication_id: bytes, offset: int) -> None:
        """Pass on the stream of another primary, which goes on at this offset."""
        backlog = self.backlog
        if backlog is None or backlog.offset != offset:
            self._begin_anew(replication_id, offset)
        elif backlog.id != replication_id:
            backlog.rename(replication_id)
            self.let_go()  # they ask again, and continue under the new id
        self._start_timer()

    def data_replaced(self, replication_id: bytes, offset: int) -> None:
        """This server has got a snapshot: its replicas need one, too."""
        self._begin_anew(replication_id, offset)

    def _begin_anew(self, replication_id: bytes, offset: int) -> None:
        self._is_snapshot_void = self.is_writing
        self._complete_from = 0  # the file may be another one, with numbers of its own
        self._passed_on.clear()
        self._cuts.clear()
        self.backlog = Backlog(self._host.config.repl_backlog_size, replication_id, offset)
        self.let_go()

    def pass_on(self, data: bytes) -> None:
        """Bytes of the stream of the primary, whose changes are in the open batch."""
        self._passed_on.append(data)

    def lead(self) -> None:
        """This server follows no other one any more. Its stream goes on, under a new id."""
        if self.backlog is not None:
            self._written = self.backlog.offset
            self.backlog.feed(b"".join(self._passed_on))
            self._passed_on.clear()
            self.backlog.rename(new_id())
            self.begin()
            self.let_go()

    def go_on(self, replication_id: bytes, offset: int) -> None:
        """The stream of this id ended here when the server stopped. It goes on, under a new id."""
        self.backlog = Backlog(self._host.config.repl_backlog_size, replication_id, offset)
        self._written = offset
        self.backlog.rename(new_id())
        self.begin()

    def let_go(self) -> None:
        """Cut off all replicas."""
        for replica in list(self.replicas.values()):
            replica.session.abort()

    # -- the snapshot -------------------------------------------------------------------------

    def _take_snapshot(self) -> None:
        assert self._snapshots is not None
        assert self.backlog is not None
        self.is_writing, self._cut_at = True, None
        self._cuts.clear()
        self._cuts.append(Cut(self._batches.lsn, self.backlog.offset))
        self.backlog.needed_from = self.backlog.offset
        waiting = (each for each in self.replicas.values() if each.state is State.WAITS)
        self._has_field_times = any(each.knows_field_times for each in waiting)
        self._snapshots.take(has_field_times=self._has_field_times)

    def _is_for(self, replica: Replica) -> bool:
        """Whether the replica takes the snapshot that is being written. Otherwise it gets the next
        one."""
        return replica.knows_field_times == self._has_field_times

    def cut(self, lsn: int) -> None:
        """The snapshot has all batches up to this one."""
        backlog, effects = self.backlog, self.effects
        assert backlog is not None
        if lsn < self._complete_from:  # it lacks the batch that was open when effects began
            log.info("the snapshot was too early: another one follows")
            self._is_snapshot_void, backlog.needed_from = True, None
        if self._is_snapshot_void:
            return
        offset = next(cut.offset for cut in reversed(self._cuts) if cut.lsn <= lsn)
        rest = backlog.since(offset + 1)
        for replica in self.replicas.values():
            is_new = replica.state is State.WAITS and replica.held is None
            if is_new and self._is_for(replica):
                self._begin_at(replica, offset, [rest])
        self._cuts.clear()
        self._cut_at = offset
        backlog.needed_from = None
        if effects is not None:
            effects.forget_selection()

    def _begin_at(self, replica: Replica, offset: int, rest: list[bytes]) -> None:
        """The replica gets the snapshot that is being written, and then this rest of the stream."""
        assert self.backlog is not None
        replica.shares_writing = True
        replica.held = []
        for data in rest:
            replica.hold(data)
        if replica.knows_offsets:
            head = b"+FULLRESYNC %b %d\r\n" % (self.backlog.id, offset)
            replica.session.deliver([head])
        if replica.knows_eof and self._host.config.repl_diskless_sync:
            self._send_snapshot(replica)

    def _send_snapshot(self, replica: Replica) -> None:
        """As far as it is written; what follows is sent as it comes."""
        assert self._snapshots is not None
        replica.state = State.LOADS
        self._snapshots.send(replica)

    def _join_snapshot(self, replica: Replica, offset: int) -> None:
        """If another replica waits for the same snapshot, this one needs the same rest of the
        stream. Otherwise it gets the next snapshot."""
        for other in self.replicas.values():
            if other.shares_writing and other.held is not None:
                self._begin_at(replica, offset, other.held)
                return

    def written(self) -> None:
        """The snapshot is complete."""
        self.is_writing = self._is_snapshot_void = False
        for replica in list(self.replicas.values()):
            replica.shares_writing = False
            if replica.state is State.WAITS and replica.held is not None:
                self._send_snapshot(replica)
        self._snapshot_for_others()

    def libraries(self) -> list[bytes]:
        """The code of each library of functions."""
        return list(self._host.keyspace.libraries.values())

    def failed(self, error: Exception) -> None:
        """There is no snapshot, so the replicas will ask again. If the snapshot was void, replicas
        that came since get another one."""
        was_void = self._is_snapshot_void
        self.is_writing = self._is_snapshot_void = False
        self._cuts.clear()
        if self.backlog is not None:
            self.backlog.needed_from = None
        if was_void:
            self._snapshot_for_others()
            return
        log.error("no snapshot for replicas: %s", error)
        for replica in list(self.replicas.values()):
            if replica.state is State.WAITS or replica.shares_writing:
                replica.session.abort()

    def _snapshot_for_others(self) -> None:
        """Replicas that came while one was written."""
        if self._is_awaited:
            self._take_snapshot()

    def sent(self, replica: Replica, *, has_mark: bool) -> None:
        """All of the snapshot has left. `has_mark`: it ended with a mark."""
        if replica.wants_snapshot_only:
            replica.take_held()
            self.replicas.pop(replica.session, None)
        if replica.session not in self.replicas:
            return
        replica.acknowledged_s = self._host.clock.monotonic_s()
        replica.has_mark = has_mark
        if not has_mark:
            self._go_online(replica)

    def _go_online(self, replica: Replica) -> None:
        """The replica has the snapshot: it goes on with the commands since."""
        replica.state, replica.has_mark = State.ONLINE, False
        for data in replica.take_held():
            self.sent_bytes += len(data)
            replica.session.deliver([data])
        self._log("is online", replica)

    # -- the stream ---------------------------------------------------------------------------

    def committed(self) -> None:
        """A batch is committed."""
        effects, backlog = self.effects, self.backlog
        if backlog is None:
            return  # this server is a replica, and has got no snapshot yet
        data = b"".join(self._passed_on)
        self._passed_on.clear()
        if effects is not None:
            if self._cuts:
                effects.forget_selection()  # a replica may begin here
            data += effects.take()
        if data:
            self._feed(data)
            self._written = backlog.offset
        if self.waits.begin(self._written) and not self.holds_stream:
            self._feed(GET_ACK)
        if self._cuts and backlog.offset > self._cuts[-1].offset:
            self._cuts.append(Cut(self._batches.lsn, backlog.offset))

    def drop_batch(self) -> None:
        """The batch has failed: nothing of it happened, and no snapshot lacks it. What is in the
        stream stays there: it was committed before."""
        self._passed_on.clear()
        self._complete_from = min(self._complete_from, self._batches.lsn)
        if self.effects is not None:
            self.effects.drop()

    def _feed(self, data: bytes) -> None:
        assert self.backlog is not None
        self.backlog.feed(data)
        item: OutOfBand | None = None
        for replica in list(self.replicas.values()):
            if replica.state is State.ONLINE:
                item = item or OutOfBand(data)  # a copy, one for all replicas
                self.sent_bytes += len(item)
                replica.session.push([item], len(item))
            elif replica.held is not None:
                replica.hold(data)
            self._check_output(replica)

    def _push(self, replica: Replica, data: bytes) -> None:
        if data:
            self.sent_bytes += len(data)
            replica.session.push([OutOfBand(data)], len(data))

    def _check_output(self, replica: Replica) -> None:
        config = self._host.config
        limit = config.client_output_buffer_limit.replica
        if replica.is_slow(limit, config.repl_backlog_size, self._host.clock.monotonic_s()):
            log.warning("replica %s is too slow: cut off", replica.session.address)
            replica.session.abort()

    def _tick(self) -> None:
        host = self._host
        now_s = host.clock.monotonic_s()
        self.count_good()
        if self.replicas or self.effects is None or self.is_writing or self.holds_stream:
            self._needed_s = now_s
        elif 0 < host.config.repl_backlog_ttl <= now_s - self._needed_s:
            self._timer = None
            self._forget_stream()
            return
        self._timer = host.clock.call_later(TICK_S, self._tick)
        if not self.replicas:
            return
        is_due = now_s - self._pinged_s >= host.config.repl_ping_replica_period
        # (A replica passes on those of its own primary.)
        if is_due and self.effects is not None and not self.holds_stream:
            self._pinged_s = now_s
            self._feed(PING)
            host.outgoing.schedule()
        for replica in list(self.replicas.values()):
            self._check_output(replica)
            if replica.session not in self.replicas:
                continue
            is_silent = now_s - replica.acknowledged_s > host.config.repl_timeout
            if (replica.state is State.ONLINE or replica.has_mark) and is_silent:
                log.warning("replica %s is silent: cut off", replica.session.address)
                replica.session.abort()
            elif replica.state is State.WAITS and replica.held is None:
                replica.session.deliver([b"\n"])  # it must not take the silence for a failure

    # -- this server stops --------------------------------------------------------------------

    def ask_how_far(self) -> None:
        """Let the replicas say at once how far they are."""
        if self.effects is not None and self.is_ahead:
            self._feed(GET_ACK)

    @property
    def is_ahead(self) -> bool:
        """Whether a replica has not acknowledged all writes, and this server waits for it."""
        behind = (replica.acknowledged < self._written for replica in self.online())
        return self.waits_at_end and any(behind)

    def log_acknowledgements(self) -> None:
        count = sum(1 for _ in self.online())
        if count:
            for replica in self.online():
                missing = self._written - replica.acknowledged
                if missing > 0:
                    log.warning("replica %s lacks %d bytes", replica.session.address, missing)
            having = self.waits.count_with(self._written)
            level = logging.INFO if having == count else logging.WARNING
            log.log(level, "%d of %d replicas have all writes", having, count)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._snapshots is not None:
            await self._snapshots.stop()

    # -- acknowledgements ---------------------------------------------------------------------

    def acknowledged(self, session: Session, offset: int, on_disk: int = 0) -> None:
        """A replica has the stream up to here, and has synced it up to there."""
        replica = self.replicas.get(session)
        if replica is None:
            return
        replica.acknowledged = max(replica.acknowledged, offset)
        replica.on_disk = max(replica.on_disk, on_disk)
        replica.acknowledged_s = self._host.clock.monotonic_s()
        if replica.has_mark:
            self._go_online(replica)
        self.waits.serve()
        if self._refusal is not None:
            self.count_good()

    def heard(self, session: Session) -> None:
        """Something that is no command: a replica sends empty lines while it loads a snapshot."""
        replica = self.replicas.get(session)
        if replica is not None:
            replica.acknowledged_s = self._host.clock.monotonic_s()

    def count_good(self) -> None:
        """Find out whether enough replicas answer in time for `min-replicas-to-write`."""
        config = self._host.config
        most_s = 0 if self.is_following is not None else config.min_replicas_max_lag
        good = self.good_replicas
        is_asked = config.min_replicas_to_write and most_s
        refusal = TOO_FEW if is_asked and good < config.min_replicas_to_write else None
        if refusal is not self._refusal:
            self._refusal = refusal
            self._on_good_replicas(refusal)

    @property
    def good_replicas(self) -> int:
        """How many have answered in time."""
        since_s = self._host.clock.monotonic_s() - self._host.config.min_replicas_max_lag
        return sum(each.acknowledged_s >= since_s for each in self.online())

    def wait(
        self, session: Session, wanted: int, timeout_s: float, *, is_on_disk: bool = False
    ) -> Reply | Block:
        """WAIT and WAITAOF: how many replicas have all writes so far. The client waits until they
        are enough, or the time is over."""
        if self.is_following is not None:
            raise NOT_HERE_ON_DISK if is_on_disk else NOT_HERE
        count, reply = self.waits.reply(self._written, is_on_disk=is_on_disk)
        if not self.replicas and count >= wanted:
            return reply
        wait = self.waits.add(session, wanted, timeout_s, reply, is_on_disk=is_on_disk)
        if self.effects is None:
            wait.offset = 0  # there is no stream, so only the time can end it
        self._host.outgoing.schedule()
        return wait.block

    # -- for people ---------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """The bytes that replicas have not taken in, and the backlog. Replicas share these
        bytes."""
        kept = 0 if self.backlog is None else self.backlog.kept_bytes
        return kept + max(
            (each.waiting_bytes for each in self.replicas.values()),
            default=0,
        )

    @property
    def offset(self) -> int:
        return self._left_at if self.backlog is None else self.backlog.offset

    @property
    def replication_id(self) -> bytes:
        return self.id if self.backlog is None else self.backlog.id

    def online(self) -> Iterator[Replica]:
        return (replica for replica in self.replicas.values() if replica.state is State.ONLINE)
