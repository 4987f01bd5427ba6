"""All links of this server, and the members at their other ends. Records are sent when a batch is
committed; all other work is done once a second.

It is one class because links, members and the commands of ACTIVE change the same state: the
standing of this server in its cluster.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.clock import Timer
from holdfast.crdt.dots import Vector
from holdfast.errors import CommandError, ConfigError
from holdfast.replication import report
from holdfast.replication.addresses import Addresses, bare
from holdfast.replication.drift import Drift
from holdfast.replication.followers import Followers
from holdfast.replication.identity import Identity
from holdfast.replication.messages import FORGOTTEN, VERSION, Ack, Hello, pack
from holdfast.replication.puller import LinkError, Puller
from holdfast.replication.snapshots import Snapshots
from holdfast.replication.standing import (
    CATCHING_UP,
    COPIED,
    DISPUTED,
    MEMBER,
    NEW,
    REFUSALS,
    REMOVED,
)
from holdfast.server.features.peers import LinkFacts
from holdfast.server.sessions.session import Session
from holdfast.store.replicated.members import REPLICAS_PER_NODE
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated.stage import ReplicationStage

if TYPE_CHECKING:
    from holdfast.server.core.engine import Engine

log = logging.getLogger(__name__)

BEAT_S = 1.0
# percent of the limit: warn above the first; warn again after the log was below the second
LOG_ALARM_PERCENT, LOG_CALM_PERCENT = 50, 25
# Records are acknowledged after this time, to all peers. For a peer an acknowledgement is as much
# work as a command, so one is sent for many records. A peer that gets it need not relay them (see
# followers.py).
ACK_AFTER_S = 0.02
ALL_NODES = frozenset(range(1, 256))
JOINING = (NEW, COPIED, CATCHING_UP)

NOT_LINKED = CommandError("ERR this connection is no link")
# The node became a new replica while its greeting as the earlier one was on its way.
NEWER_REPLICA = CommandError("ERR this node is a new replica by now: link again")


class Replicator:
    def __init__(self, engine: "Engine", cluster: str, urls: list[str]) -> None:
        keyspace = engine.keyspace
        assert isinstance(keyspace, ReplicatedKeyspace)
        self.engine = engine
        self._keyspace = keyspace
        self.followers = Followers(engine, keyspace)
        # called when a batch is committed: its records may be sent
        self.committed = self.followers.tell
        self.pullers: list[Puller] = []
        self.snapshots = Snapshots(lambda: self.pullers)
        self._paused: set[int] = set()
        self._timer: Timer | None = None
        self._ack_timer: Timer | None = None
        self._is_log_alarmed = False
        self.drift = Drift(engine.clock)
        stage = self.stage
        if stage.node != keyspace.node:
            raise ConfigError(f"this file is node {stage.node}'s, not node {keyspace.node}'s")
        known = stage.facts.get(b"cluster")
        if known not in (None, cluster):
            raise ConfigError(f"this file belongs to the cluster '{known}', not to '{cluster}'")
        self.cluster = cluster
        self.identity = Identity(self)
        self._addresses = Addresses(stage, engine.store.path)
        nodes = stage.facts.get(b"urls", {})
        self.pullers = [
            Puller(self, url, nodes.get(bare(url)))
            for url in self._addresses.of(urls, stage)
            if nodes.get(bare(url)) not in stage.members.removed
        ]
        if known is None:
            stage.note(b"cluster", cluster)
            stage.note(b"joining", NEW if self.pullers else MEMBER)
        self._expect()
        self.identity.begin()
        self.update_condition()

    @property
    def stage(self) -> ReplicationStage:
        """The stage. It is another object after the file was read again."""
        return self._keyspace.stage

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        self._warn_of_missing_peers()
        for puller in self.pullers:
            puller.start()
        self._beat()

    def _warn_of_missing_peers(self) -> None:
        members = ", ".join(map(str, self.unlinked))
        if members and all(puller.node is not None for puller in self.pullers):
            log.warning(
                "no address of node %s is known: it is not followed (--peer, ACTIVE JOIN)",
                members,
            )
        elif not self.pullers:
            log.warning("no --peer is given: this server is alone, and takes writes (ACTIVE JOIN)")

    async def stop(self) -> None:
        for timer in (self._timer, self._ack_timer):
            if timer is not None:
                timer.cancel()
        self.followers.stop()
        for puller in self.pullers:
            await puller.stop()

    # -- as the server knows it (`Peers`) -----------------------------------------------------

    def session_lost(self, session: Session, why: str) -> None:
        self.followers.lost(session, why)

    def facts(self) -> Iterator[tuple[str, object]]:
        return report.facts(self)

    def links(self) -> Iterator[LinkFacts]:
        return report.links(self)

    # -- from time to time --------------------------------------------------------------------

    def _beat(self) -> None:
        self._timer = self.engine.clock.call_later(BEAT_S, self._beat)
        engine = self.engine
        if engine.condition.failure is not None or engine.turn.is_dead:
            return
        engine.refresh_clock()
        self._tidy()
        for puller in self.pullers:
            puller.beat()
        self.identity.check_dispute()
        engine.turn.schedule()

    def _tidy(self) -> None:
        stage = self.stage
        lapsed = set(stage.members.lapsed)
        stage.tidy(self.engine.config.active_active_log_limit, self.followers.first_needed)
        for node in self._nodes_of(stage.members.lapsed - lapsed):
            log.warning("%s is behind the log: it takes a snapshot when it returns", node)
        if self.log_used_percent < LOG_CALM_PERCENT:
            self._is_log_alarmed = False
        elif self.log_used_percent >= LOG_ALARM_PERCENT and not self._is_log_alarmed:
            self._is_log_alarmed = True
            behind = self._nodes_of(stage.behind_log)
            log.warning(
                "the log is full to %d %% of active-active-log-limit, waiting for %s",
                self.log_used_percent,
                ", ".join(behind) or "slow links",
            )

    @property
    def log_used_percent(self) -> int:
        limit_bytes = self.engine.config.active_active_log_limit
        return 100 * self.stage.log.cost_bytes // max(1, limit_bytes)

    def _nodes_of(self, replicas: set[int]) -> list[str]:
        """The nodes of these replicas, for the log of the server."""
        names = sorted(each % REPLICAS_PER_NODE for each in replicas)
        silent = ", ".join(puller.where for puller in self.pullers if puller.node is None)
        stranger = f"a peer that never answered ({silent})"
        return [f"node {node}" if node else stranger for node in names]

    def acknowledge_soon(self) -> None:
        if self._ack_timer is None:
            self._ack_timer = self.engine.clock.call_later(ACK_AFTER_S, self._acknowledge_all)

    def _acknowledge_all(self) -> None:
        """Send an acknowledgement to all peers, including those that did not send the records: then
        they do not send them any more."""
        self._ack_timer = None
        for puller in self.pullers:
            puller.acknowledge()

    def greet_again(self) -> None:
        """Dial all peers again, because this server is a new replica now. A peer that knows it as
        the earlier one would count its acknowledgements for that one, and wait for the new one for
        ever."""
        for puller in self.pullers:
            puller.close()

    # -- peers that pull from us --------------------------------------------------------------

    def hello(self) -> Hello:
        stage = self.stage
        return Hello(
            self.cluster,
            stage.node,
            stage.replica,
            dict(stage.vector),
            self.engine.clock.now_ms(),
            stage.members.view,
            self.is_joining,
            life=self.identity.token,
            past=self.identity.past,
            stamps=dict(stage.stamps),
            disputed=self.identity.claims.disputed,
        )

    def link(self, session: Session, peer: Hello) -> bytes:
        """Accept a peer that wants to follow this server. Raises CommandError."""
        self._check(peer)
        self.identity.check_history(peer)
        if peer.node in self._paused:
            raise CommandError(f"ERR node {peer.node} is paused here")
        stage = self.stage
        hello = self.hello()
        knows = hello.vector.get(peer.replica, 0)
        newest = stage.members.known.get(peer.node, 0)
        # Otherwise it has to become a new replica first, and our greeting tells it so.
        if knows <= peer.vector.get(peer.replica, 0) and newest <= peer.replica:
            self._admit(peer)
            self.followers.add(session, peer, stage)
            for puller in self.pullers:
                if puller.node in (None, peer.node):
                    puller.hurry()
            self.engine.turn.schedule()
        return pack(hello)

    def acknowledge(self, session: Session, ack: Ack) -> bytes:
        feed = self.followers.by_session(session)
        if feed is None:
            raise NOT_LINKED
        self.identity.hear(feed.node, feed.life)
        feed.acknowledged(ack.vector, ack.taken, ack.takes_snapshot)
        if ack.trouble:
            log.warning("node %d could not follow any more: %s", feed.node, ack.trouble)
        self.learn(ack.view)
        stage = self.stage
        if stage.members.known.get(feed.node, 0) > feed.replica:
            raise NEWER_REPLICA
        stage.acknowledge(feed.replica, ack.vector, ack.now_ms, ack.view)
        self.drift.heard(feed.node, ack.now_ms)
        now_ms = self.engine.clock.now_ms()
        view = stage.members.view
        return pack(Ack(stage.vector, now_ms, 0, view, self.is_joining))

    def _check(self, peer: Hello, asked_s: float | None = None) -> None:
        stage = self.stage
        if peer.version != VERSION:
            raise CommandError(
                f"ERR node {peer.node} speaks version {peer.version} of the links between servers,"
                f" this one {VERSION}: the same Holdfast must run on both"
            )
        if peer.cluster != self.cluster:
            raise CommandError(f"ERR this is the cluster '{self.cluster}', not '{peer.cluster}'")
        self.identity.compare(peer)
        if peer.node in stage.members.removed:
            code = FORGOTTEN.decode()
            raise CommandError(f"{code} node {peer.node} was removed from this cluster")
        self.identity.hear(peer.node, peer.life, peer.past)
        self.drift.heard(peer.node, peer.now_ms, asked_s)

    def check_drift(self) -> None:
        """Called when records were applied: report stamps that were too far ahead to be
        followed."""
        stage = self.stage
        if stage.drift_ms:
            self.drift.stamped(stage.drift_replica, stage.drift_ms)
            stage.drift_ms = 0

    # -- peers that we pull from --------------------------------------------------------------

    def met(self, puller: Puller, peer: Hello) -> None:
        """Note that a peer accepted us. Raises LinkError if we cannot follow it."""
        stage = self.stage
        try:
            self._check(peer, puller.asked_s)
            self.identity.check_history(peer)
        except CommandError as error:
            if peer.life == self.identity.token:
                self.found_itself(puller)
            raise LinkError(str(error)) from None
        puller.node = peer.node
        urls = dict(stage.facts.get(b"urls", {}))
        if urls.get(puller.place) != peer.node:
            urls[puller.place] = peer.node
            stage.note(b"urls", urls)
        if self.state == NEW:
            self.turn_into(CATCHING_UP)
        self._admit(peer)
        self._expect()
        self.engine.turn.schedule()

    def heard(self, puller: Puller, ack: Ack) -> None:
        """Note that a peer has answered. Raises LinkError if another server has its node id."""
        if puller.node is not None:
            self.drift.heard(puller.node, ack.now_ms, puller.asked_s)
            try:
                self.identity.hear(puller.node, puller.life)
            except CommandError as error:
                raise LinkError(str(error)) from None

    # -- members ------------------------------------------------------------------------------

    def _admit(self, peer: Hello) -> None:
        self.stage.members.admit(peer.node, peer.replica)
        self.learn(peer.view)

    def learn(self, view: bytes) -> None:
        """Add the members that a peer knows."""
        gone = self.stage.members.learn(view)
        if gone:
            log.warning("removed by other members: node %s", ", ".join(map(str, sorted(gone))))
            if self.stage.node in gone:
                self.was_removed()
            self._left(gone)

    @property
    def unlinked(self) -> list[int]:
        """Members that this server does not follow, because it has no address of them."""
        linked = {puller.node for puller in self.pullers}
        return sorted(self.stage.members.present.keys() - linked)

    @property
    def state(self) -> str:
        state: str = self.stage.facts.get(b"joining", MEMBER)
        return state

    @property
    def shown_state(self) -> str:
        return DISPUTED if self.identity.is_disputed else self.state

    @property
    def is_joining(self) -> bool:
        return self.state in JOINING

    def fell_behind(self, seen: Vector) -> None:
        """A snapshot begins whose author had seen these events. Until it is complete, some keys
        show events that our own vector does not cover. The record of a client's write would tell
        that the write has not seen these events. So this server takes no writes meanwhile, even if
        the link is lost half-way."""
        self.stage.owe(seen)
        if self.state == MEMBER:
            log.warning("behind its peers: taking no writes until it has caught up")
            self.turn_into(CATCHING_UP)

    def check_joined(self) -> None:
        """A joiner takes writes when it has caught up with a peer that is not a joiner; or with all
        peers, if all begin together."""
        if (
            self.state in JOINING
            and not self.stage.owed
            and (
                any(each.has_caught_up and not each.is_peer_joining for each in self.pullers)
                or all(each.has_caught_up for each in self.pullers)
            )
        ):
            log.info("caught up: taking writes")
            self.turn_into(MEMBER)

    def was_removed(self) -> None:
        if self.state != REMOVED:
            log.error("this server was removed from its cluster: it takes no writes any more")
            self.turn_into(REMOVED)

    def turn_into(self, state: str) -> None:
        self.stage.note(b"joining", state)
        self.engine.turn.schedule()
        self.update_condition()

    def update_condition(self) -> None:
        engine, condition = self.engine, self.engine.condition
        was_read_only = condition.read_only is not None
        condition.read_only = REFUSALS.get(self.shown_state)
        self._keyspace.takes_writes = condition.read_only is None
        condition.update()
        if was_read_only and condition.read_only is None:
            engine.blocking.wake_all()

    # -- what ACTIVE commands ask for ---------------------------------------------------------

    def join(self, url: str) -> None:
        """Follow one more peer, or use another login for a known one. The peer has to join this
        server, too."""
        if any(puller.url == url for puller in self.pullers):
            return
        try:
            puller = Puller(self, url)
        except (ValueError, TypeError) as error:
            raise CommandError(f"ERR {error}") from None
        self._addresses.joined(url)
        stage = self.stage
        if not stage.has_history:
            self.turn_into(NEW)  # nothing was written here yet
        joined = [*stage.facts.get(b"joined", ()), puller.place]
        stage.note(b"joined", list(dict.fromkeys(joined)))
        others = self._leave_all(puller.place)
        self._follow_pullers([*others, puller])
        puller.start()

    def _leave_all(self, place: str) -> list[Puller]:
        """Pause the pullers of that address. Returns the others."""
        for puller in self.pullers:
            if puller.place == place:
                puller.leave()
        return [puller for puller in self.pullers if puller.place != place]

    def forget(self, node: int) -> None:
        """Remove a node. No member waits for it any more, and it may not link again: here from now
        on, and on each other member as soon as that member learns of it."""
        if node == self.stage.node:
            raise CommandError("ERR a server does not forget itself: send this to another one")
        members = self.stage.members
        if node not in members.known and node not in members.removed:
            raise CommandError(f"ERR node {node} is not known here, see ACTIVE INFO")
        members.remove([node])
        self._left({node})

    def forget_address(self, url: str) -> None:
        """Do not dial this address any more. Members stay members."""
        place = bare(url)
        others = self._leave_all(place)
        if len(others) == len(self.pullers):
            raise CommandError("ERR there is no link by that address")
        self._addresses.left(place)
        joined = [each for each in self.stage.facts.get(b"joined", ()) if each != place]
        self.stage.note(b"joined", joined)
        self._follow_pullers(others)
        self.check_joined()

    def found_itself(self, puller: Puller) -> None:
        log.warning("%s is this server itself: not followed any more", puller.where)
        self.forget_address(puller.url)

    def _left(self, nodes: set[int]) -> None:
        for puller in self.pullers:
            if puller.node in nodes:
                puller.leave()
        self._follow_pullers([puller for puller in self.pullers if puller.node not in nodes])
        for node in nodes:
            self.followers.cut(node)
        self.check_joined()

    def _follow_pullers(self, pullers: list[Puller]) -> None:
        self.pullers = pullers
        self._expect()

    def _expect(self) -> None:
        """Count the members to expect. A node may have several addresses. An address that never
        answered counts as one node."""
        nodes = [puller.node for puller in self.pullers]
        self._keyspace.expect(len({*nodes} - {None}) + nodes.count(None))

    def pause(self, node: int | None) -> None:
        """Send and receive nothing, as if the connection were cut."""
        for puller in self._pullers_of(node):
            puller.pause()
        self._paused |= ALL_NODES if node is None else {node}
        self.followers.cut(node)

    def resume(self, node: int | None) -> None:
        self._paused = set() if node is None else self._paused - {node}
        for puller in self._pullers_of(node):
            puller.resume()

    def _pullers_of(self, node: int | None) -> list[Puller]:
        return [puller for puller in self.pullers if node in (None, puller.node)]
