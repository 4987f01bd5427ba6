"""All links of this server, and who is on them. The engine tells when a turn ends; the rest is
done once a second."""

import logging
from typing import TYPE_CHECKING

from holdfast.clock import Timer
from holdfast.crdt.dots import Vector, includes
from holdfast.errors import CommandError, ConfigError
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
from holdfast.server.session import Session
from holdfast.store.members import REPLICAS_PER_NODE
from holdfast.store.replicated import Replication
from holdfast.store.replicated_keyspace import ReplicatedKeyspace

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

log = logging.getLogger(__name__)

BEAT_S = 1.0
LOG_ALARM_PERCENT, LOG_CALM_PERCENT = 50, 25  # of its limit: when to warn, and when it was short
# What was taken in is acknowledged so much later, to all: one is enough for many records, and costs
# the peer as much as a command. Who hears of it need not relay it (see followers.py).
ACK_AFTER_S = 0.02
ALL_NODES = frozenset(range(1, 256))

NOT_LINKED = CommandError("ERR this connection is no link")


class Replicator:
    def __init__(self, engine: "Engine", cluster: str, urls: list[str]) -> None:
        keyspace = engine.keyspace
        assert isinstance(keyspace, ReplicatedKeyspace)
        self.engine = engine
        self._keyspace = keyspace
        self.followers = Followers(engine)
        self.pullers: list[Puller] = []
        self.snapshots = Snapshots(lambda: self.pullers)
        self._paused: set[int] = set()
        self._timer: Timer | None = None
        self._ack_timer: Timer | None = None
        self._is_log_alarmed = False
        self.drift = Drift(engine.clock)
        replication = self.replication
        if replication.node != keyspace.node:
            raise ConfigError(f"this file is node {replication.node}'s, not node {keyspace.node}'s")
        known = replication.facts.get(b"cluster")
        if known not in (None, cluster):
            raise ConfigError(f"this file belongs to the cluster '{known}', not to '{cluster}'")
        self.cluster = cluster
        self.identity = Identity(self)
        self._addresses = Addresses(replication, engine.store.path)
        nodes = replication.facts.get(b"urls", {})
        self.pullers = [
            Puller(self, url, nodes.get(bare(url)))
            for url in self._addresses.of(urls, replication)
            if nodes.get(bare(url)) not in replication.members.removed
        ]
        if known is None:
            replication.note(b"cluster", cluster)
            replication.note(b"joining", NEW if self.pullers else MEMBER)
        self._expect()
        self.identity.begin()
        self.gate()

    @property
    def replication(self) -> Replication:
        """Another one after the file had to be read again."""
        return self._keyspace.replication

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

    def _beat(self) -> None:
        self._timer = self.engine.clock.call_later(BEAT_S, self._beat)
        engine = self.engine
        if engine.failure is not None or engine.turn.is_dead:
            return
        engine.refresh_clock()
        self._tidy()
        for puller in self.pullers:
            puller.beat()
        self.identity.check_dispute()
        engine.turn.schedule()

    def _tidy(self) -> None:
        replication = self.replication
        lapsed = set(replication.members.lapsed)
        replication.tidy(self.engine.config.active_active_log_limit, self.followers.first_needed)
        for node in self._nodes_of(replication.members.lapsed - lapsed):
            log.warning("%s is behind the log: it takes a snapshot when it returns", node)
        if self.log_used_percent < LOG_CALM_PERCENT:
            self._is_log_alarmed = False
        elif self.log_used_percent >= LOG_ALARM_PERCENT and not self._is_log_alarmed:
            self._is_log_alarmed = True
            behind = self._nodes_of(replication.behind_log)
            log.warning(
                "the log is full to %d %% of active-active-log-limit, waiting for %s",
                self.log_used_percent,
                ", ".join(behind) or "slow links",
            )

    @property
    def log_used_percent(self) -> int:
        limit_bytes = self.engine.config.active_active_log_limit
        return 100 * self.replication.log.cost_bytes // max(1, limit_bytes)

    def _nodes_of(self, replicas: set[int]) -> list[str]:
        """As people know them."""
        names = sorted(each % REPLICAS_PER_NODE for each in replicas)
        silent = [puller.where for puller in self.pullers if puller.node is None]
        return [f"node {node}" if node else " and ".join(["a peer", *silent]) for node in names]

    def before_commit(self) -> None:
        """At the end of every turn: what was done becomes a record, and goes to whoever follows."""
        self.replication.seal()
        self.followers.tell(self.replication)

    def acknowledge_soon(self) -> None:
        if self._ack_timer is None:
            self._ack_timer = self.engine.clock.call_later(ACK_AFTER_S, self._acknowledge_all)

    def _acknowledge_all(self) -> None:
        """Also those who did not send it, so that they need not."""
        self._ack_timer = None
        for puller in self.pullers:
            puller.acknowledge()

    def greet_again(self) -> None:
        """This server is a new replica now. Peers that it greeted as the old one would take its
        acknowledgements for those of the old one, and wait for the new one for ever."""
        for puller in self.pullers:
            puller.close()

    # -- peers who pull -----------------------------------------------------------------------

    def hello(self) -> Hello:
        replication = self.replication
        replication.seal()
        return Hello(
            self.cluster,
            replication.node,
            replication.replica,
            dict(replication.vector),
            self.engine.clock.now_ms(),
            replication.members.view,
            self.is_joining,
            life=self.identity.token,
            past=self.identity.past,
            stamps=dict(replication.stamps),
            disputed=self.identity.claims.disputed,
        )

    def link(self, session: Session, peer: Hello) -> bytes:
        """A peer wants to follow. Raises CommandError."""
        self._check(peer)
        self.identity.check_history(peer)
        if peer.node in self._paused:
            raise CommandError(f"ERR node {peer.node} is paused here")
        replication = self.replication
        hello = self.hello()
        knows = hello.vector.get(peer.replica, 0)
        newest = replication.members.known.get(peer.node, 0)
        # Else it has to become a new replica first, which it learns from our greeting.
        if knows <= peer.vector.get(peer.replica, 0) and newest <= peer.replica:
            self._admit(peer)
            self.followers.add(session, peer, replication)
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
        replication = self.replication
        replication.acknowledge(feed.replica, ack.vector, ack.now_ms, ack.view)
        self.drift.heard(feed.node, ack.now_ms)
        now_ms = self.engine.clock.now_ms()
        view = replication.members.view
        return pack(Ack(replication.vector, now_ms, 0, view, self.is_joining))

    def _check(self, peer: Hello, asked_s: float | None = None) -> None:
        replication = self.replication
        if peer.version != VERSION:
            raise CommandError(
                f"ERR node {peer.node} speaks version {peer.version} of the links between servers,"
                f" this one {VERSION}: the same Holdfast must run on both"
            )
        if peer.cluster != self.cluster:
            raise CommandError(f"ERR this is the cluster '{self.cluster}', not '{peer.cluster}'")
        self.identity.compare(peer)
        if peer.node in replication.members.removed:
            code = FORGOTTEN.decode()
            raise CommandError(f"{code} node {peer.node} was removed from this cluster")
        self.identity.hear(peer.node, peer.life, peer.past)
        self.drift.heard(peer.node, peer.now_ms, asked_s)

    def check_drift(self) -> None:
        """After records came: whether their stamps were followed."""
        replication = self.replication
        if replication.drift_ms:
            self.drift.stamped(replication.drift_replica, replication.drift_ms)
            replication.drift_ms = 0

    # -- peers whom we pull from --------------------------------------------------------------

    def met(self, puller: Puller, peer: Hello) -> None:
        """A peer let us in. Raises LinkError when we cannot follow it."""
        replication = self.replication
        try:
            self._check(peer, puller.asked_s)
            self.identity.check_history(peer)
        except CommandError as error:
            if peer.life == self.identity.token:
                self.found_itself(puller)
            raise LinkError(str(error)) from None
        puller.node = peer.node
        urls = dict(replication.facts.get(b"urls", {}))
        if urls.get(puller.place) != peer.node:
            urls[puller.place] = peer.node
            replication.note(b"urls", urls)
        if self.state == NEW:
            self.turn_into(CATCHING_UP)
        self._admit(peer)
        self._expect()
        self.engine.turn.schedule()

    def heard(self, puller: Puller, ack: Ack) -> None:
        """It answered. Raises LinkError when another server has its node id."""
        if puller.node is not None:
            self.drift.heard(puller.node, ack.now_ms, puller.asked_s)
            try:
                self.identity.hear(puller.node, puller.life)
            except CommandError as error:
                raise LinkError(str(error)) from None

    # -- members ------------------------------------------------------------------------------

    def _admit(self, peer: Hello) -> None:
        self.replication.members.admit(peer.node, peer.replica)
        self.learn(peer.view)

    def learn(self, view: bytes) -> None:
        """Whom a peer knows, we know."""
        gone = self.replication.members.learn(view)
        if gone:
            log.warning("removed by others: node %s", ", ".join(map(str, sorted(gone))))
            if self.replication.node in gone:
                self.was_removed()
            self._left(gone)

    @property
    def unlinked(self) -> list[int]:
        """Members that this server does not follow: it has to be told where they are."""
        linked = {puller.node for puller in self.pullers}
        return sorted(self.replication.members.present.keys() - linked)

    @property
    def state(self) -> str:
        state: str = self.replication.facts.get(b"joining", MEMBER)
        return state

    @property
    def shown_state(self) -> str:
        return DISPUTED if self.identity.is_disputed else self.state

    @property
    def is_joining(self) -> bool:
        return self.state in (NEW, COPIED, CATCHING_UP)

    def fell_behind(self, seen: Vector) -> None:
        """A snapshot begins, of what that vector has. Until this server has all of it, some keys
        tell of events that its own vector does not: what a client did to them would be told to
        others as done to what they were before. So no client may, whether it is a joiner or was
        restored from a backup, and also if the link is lost half way."""
        owed: dict[int, int] = dict(self._owed)
        for replica, seq in seen.items():
            owed[replica] = max(seq, owed.get(replica, 0))
        self.replication.seal()
        self.replication.note(b"owed", list(owed.items()))
        if self.state == MEMBER:
            log.warning("behind its peers: taking no writes until it has caught up")
            self.turn_into(CATCHING_UP)

    @property
    def _owed(self) -> list[tuple[int, int]]:
        """What snapshots that began have, but for nodes that were removed, who cannot give it."""
        removed = self.replication.members.removed
        owed = self.replication.facts.get(b"owed", ())
        return [(each, seq) for each, seq in owed if each % REPLICAS_PER_NODE not in removed]

    def check_joined(self) -> None:
        """A joiner has caught up with one who is none; or, when all begin together, with all."""
        if (
            self.is_joining
            and includes(self.replication.vector, dict(self._owed))
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
        self.replication.seal()
        self.replication.note(b"joining", state)
        self.engine.turn.schedule()
        self.gate()

    def gate(self) -> None:
        self.engine.read_only = REFUSALS.get(self.shown_state)
        self.engine.update_gate()

    # -- what people ask for ------------------------------------------------------------------

    def join(self, url: str) -> None:
        """One more peer, which has to be told of this server, too; or another login for one."""
        if any(puller.url == url for puller in self.pullers):
            return
        try:
            puller = Puller(self, url)
        except (ValueError, TypeError) as error:
            raise CommandError(f"ERR {error}") from None
        self._addresses.joined(url)
        replication = self.replication
        replication.seal()
        if not replication.vector and not replication.members.known:
            self.turn_into(NEW)  # nobody has been here yet
        joined = [*replication.facts.get(b"joined", ()), puller.place]
        replication.note(b"joined", list(dict.fromkeys(joined)))
        others = self._pause_all(puller.place)
        self._follow_pullers([*others, puller])
        puller.start()

    def _pause_all(self, place: str) -> list[Puller]:
        """Of that address; the others."""
        for puller in self.pullers:
            if puller.place == place:
                puller.pause()
        return [puller for puller in self.pullers if puller.place != place]

    def forget(self, node: int) -> None:
        """Nobody waits for this node any more, and it is not let in again: here from now on, and
        everywhere as soon as it is known there."""
        if node == self.replication.node:
            raise CommandError("ERR a server does not forget itself: say it to another one")
        members = self.replication.members
        if node not in members.known and node not in members.removed:
            raise CommandError(f"ERR node {node} is not known here, see ACTIVE INFO")
        self.replication.seal()
        members.remove([node])
        self._left({node})

    def forget_address(self, url: str) -> None:
        """An address that leads nowhere, or nowhere any more. Who is a member stays one."""
        place = bare(url)
        others = self._pause_all(place)
        if len(others) == len(self.pullers):
            raise CommandError("ERR there is no link by that address")
        self._addresses.left(place)
        self.replication.seal()
        joined = [each for each in self.replication.facts.get(b"joined", ()) if each != place]
        self.replication.note(b"joined", joined)
        self._follow_pullers(others)
        self.check_joined()

    def found_itself(self, puller: Puller) -> None:
        log.warning("%s is this server itself: not followed any more", puller.where)
        self.forget_address(puller.url)

    def _left(self, nodes: set[int]) -> None:
        for puller in self.pullers:
            if puller.node in nodes:
                puller.pause()
        self._follow_pullers([puller for puller in self.pullers if puller.node not in nodes])
        for node in nodes:
            self.followers.cut(node)
        self.check_joined()

    def _follow_pullers(self, pullers: list[Puller]) -> None:
        self.pullers = pullers
        self._expect()

    def _expect(self) -> None:
        """One node may have several addresses; one that never answered is some node's."""
        nodes = [puller.node for puller in self.pullers]
        self._keyspace.expect(len({*nodes} - {None}) + nodes.count(None))

    def pause(self, node: int | None) -> None:
        """Hear and say nothing, as if the line were cut."""
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
