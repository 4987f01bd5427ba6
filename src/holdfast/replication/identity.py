"""The identity of this server: its life, its replica number, its node id. No other server may have
them.

A replica number must have one history. A start on a copy of the database file is noticed by the
file beside it (store/file/life.py). If that file was copied, too, peers notice it: while both
servers run, by their lives (claims.py); otherwise by the stamp of the last record of ours that a
peer has.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.crdt.dots import MAX_REPLICA
from holdfast.errors import CommandError, ConfigError, StorageError
from holdfast.replication.claims import PATIENCE_S, Claims
from holdfast.replication.messages import DUPLICATE, ITSELF, Hello
from holdfast.replication.standing import CATCHING_UP, COPIED, FORKED, MEMBER, NEW
from holdfast.store.file.life import Left, Life, left_beside, new_token
from holdfast.store.replicated.members import REPLICAS_PER_NODE, read_view
from holdfast.store.replicated.stage import ReplicationStage
from holdfast.store.store import FileStore

if TYPE_CHECKING:
    from holdfast.replication.replicator import Replicator

log = logging.getLogger(__name__)

REMEMBERED_LIVES = 32
FORKED_ERROR = CommandError("ERR a copy of this server's file has written, too")
RENEWED = CommandError("ERR this server was restored from a backup: it is a new replica now")
OWN_ADDRESS = CommandError(f"{ITSELF.decode()} this address is this server's own")


class Identity:
    def __init__(self, replicator: "Replicator") -> None:
        self._replicator = replicator
        self._clock = replicator.engine.clock
        self.claims = Claims(self._clock.monotonic_s)
        self._reported: set[int] = set()  # disputed nodes
        self._told_s = self._clock.monotonic_s()  # when a peer last told us that our id is disputed
        self.token = new_token()
        self.past: list[bytes] = self._stage.facts.get(b"life", [])[:REMEMBERED_LIVES]
        store = replicator.engine.store
        self._store = store if isinstance(store, FileStore) else None
        self._is_first = b"cluster" not in self._stage.facts
        self._left = None if self._store is None else left_beside(self._store.path)
        self._first_seq = 0  # the number of our last event at the start of this life

    @property
    def _stage(self) -> ReplicationStage:
        return self._replicator.stage

    # -- copies of the file -------------------------------------------------------------------

    def begin(self) -> None:
        """Write the token of this start into the file. A server on a copy becomes a new replica
        before it takes a write. Raises StorageError, ConfigError."""
        stage, store = self._stage, self._store
        why = "" if store is None else self._why_a_copy(store, self._left)
        if why:
            log.warning("%s is a copy (%s): it becomes a new replica", store and store.path, why)
            self._become_new(() if self._left is None else (self._left.replica,))
            if self._replicator.pullers and self._replicator.state in (MEMBER, CATCHING_UP):
                stage.note(b"joining", COPIED)
        self._first_seq = stage.keyspace.own_position[1]
        if stage.facts.get(b"unverified") is None:
            stage.note(b"unverified", self._first_seq)
        stage.note(b"life", [self.token, *self.past][:REMEMBERED_LIVES])
        if store is not None:
            if store.backup_mark:
                stage.note(b"backup", store.backup_mark)
            # If the server is killed before the commit, the next start must notice the copy again.
            # So only the old token is written first.
            self._write(store, self.past[0] if self.past and not why else self.token)

    def _write(self, store: FileStore, or_token: bytes) -> None:
        life = Life(store.path, self.token, *self._stage.keyspace.own_position)
        life.begin(or_token)
        store.life = life
        store.commit()
        try:
            store.sync()
        except OSError as error:
            raise StorageError(f"cannot sync {store.path}: {error.strerror}") from None
        life.begin(self.token)

    def _why_a_copy(self, store: FileStore, left: Left | None) -> str:
        facts, path = self._stage.facts, store.path
        if self._is_first:
            return ""
        if store.backup_mark != facts.get(b"backup", b""):
            return "holdfast backup made it"
        if not self.past:  # written by an earlier version, which recognised a file by its inode
            inode = facts.get(b"inode")
            return "" if inode in (None, path.stat().st_ino) else "its inode has changed"
        if left is None:
            return f"there is no {path.name}-life beside it"
        if self.past[0] not in left.tokens:
            return "the server last ran on another file"
        if (left.replica, left.seq) > self._stage.keyspace.own_position:
            return "the server has written since the copy was made"
        return ""

    def _become_new(self, taken: Iterable[int]) -> None:
        stage = self._stage
        replica = max([stage.replica, *self._of_this_node(taken)]) + REPLICAS_PER_NODE
        while replica in stage.vector:
            replica += REPLICAS_PER_NODE
        if replica > MAX_REPLICA:
            raise ConfigError("this node has used up its replica numbers: give it a new node id")
        stage.identify(stage.node, replica)
        stage.note(b"unverified", None)
        self._first_seq = 0

    def _of_this_node(self, replicas: Iterable[int]) -> list[int]:
        node = self._stage.node
        return [each for each in replicas if each % REPLICAS_PER_NODE == node]

    # -- copies that peers know ---------------------------------------------------------------

    def check_history(self, peer: Hello) -> None:
        """Compare the peer's records of this replica with our own. If they differ, a copy of our
        file has written under our number, or our file is that copy. Then this server becomes a new
        replica, and CommandError is raised. If both have written under the same numbers, this
        server is forked for good, and CommandError is raised."""
        replicator, stage = self._replicator, self._stage
        replica, here = stage.keyspace.own_position
        there = peer.vector.get(replica, 0)
        newest = max(self._of_this_node(read_view(peer.view)[0].values()), default=0)
        is_verified, is_other = not there, False
        if there and here and replicator.state == NEW:
            node = stage.node
            raise CommandError(f"ERR node id {node} was another file's: take a new one")
        if there:
            stamp, mine = peer.stamps.get(replica), None
            if there <= here and stamp is not None:
                mine = stage.own_stamp(there)
            is_verified = mine is not None and stamp == mine
            is_other = there > here or (mine is not None and stamp != mine)
        if is_other and here > self._maybe_copied_at:
            if replicator.state != FORKED:
                log.error("a copy of this server's file has written, too: taking no writes")
                replicator.turn_into(FORKED)
            raise FORKED_ERROR
        if is_other or newest > replica or (newest == replica and replicator.state == COPIED):
            log.warning("peers know more of this server than it does: it becomes a new replica")
            self._become_new([*peer.vector, newest])
            self._met()
            replicator.greet_again()
            replicator.engine.turn.schedule()
            raise RENEWED
        self._met()
        if is_verified and stage.facts.get(b"unverified") is not None:
            stage.note(b"unverified", None)

    def _met(self) -> None:
        """Note that we have met a peer, which knows the replica numbers that our node has used."""
        if self._replicator.state == COPIED:
            self._replicator.turn_into(CATCHING_UP)

    @property
    def _maybe_copied_at(self) -> int:
        """The number of our last event at the first start after a peer confirmed our history. A
        copy cannot have begun before that."""
        seq: int | None = self._stage.facts.get(b"unverified")
        return self._first_seq if seq is None else seq

    # -- one node id, one server --------------------------------------------------------------

    def compare(self, peer: Hello) -> None:
        """Raises CommandError if the peer has our own node id."""
        node = self._stage.node
        if peer.node == node:
            if peer.life == self.token:
                raise OWN_ADDRESS
            self.was_disputed()
            raise CommandError(f"{DUPLICATE.decode()} node id {node} is this server's, too")
        if node in peer.disputed:
            self.was_disputed()

    def hear(self, node: int, life: bytes, past: Iterable[bytes] = ()) -> None:
        """Note that a server tells that it is that node. Raises CommandError if another server
        tells the same: then neither may link, because their events have the same numbers."""
        if not self.claims.hear(node, life, past):
            return
        message = f"two servers have the node id {node}"
        if node not in self._reported:
            self._reported.add(node)
            log.error("%s: neither is linked until one of them is stopped", message)
        self._replicator.followers.cut(node)
        for puller in self._replicator.pullers:
            if puller.node == node:
                puller.hang_up(message)
        raise CommandError(f"{DUPLICATE.decode()} {message}")

    def was_disputed(self) -> None:
        """Note that a peer hears two servers with our node id, or that the other server with our id
        has answered us."""
        self._told_s = self._clock.monotonic_s()
        if not self.is_disputed:
            log.error("another server has our node id %d: taking no writes", self._stage.node)
            self._set_disputed(True)

    def check_dispute(self) -> None:
        """End a dispute after no peer has spoken of it for a while, and one has accepted us."""
        self._reported &= set(self.claims.disputed)
        pullers = self._replicator.pullers
        is_let_in = not pullers or any(puller.is_let_in for puller in pullers)
        if self.is_disputed and is_let_in and self._quiet_s > PATIENCE_S:
            log.warning("no other server has our node id any more")
            self._set_disputed(False)

    @property
    def _quiet_s(self) -> float:
        return self._clock.monotonic_s() - self._told_s

    def _set_disputed(self, is_so: bool) -> None:
        stage = self._stage
        stage.note(b"disputed", is_so)
        self._replicator.engine.turn.schedule()
        self._replicator.update_condition()

    @property
    def is_disputed(self) -> bool:
        return bool(self._stage.facts.get(b"disputed"))
