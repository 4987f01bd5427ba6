"""The end of a link that pulls: it dials a peer, applies the log of the peer, and acknowledges
records that are on disk here.

It is one class because it is one state machine: each message, timer and error may change the state
of the link, and the state decides what is done with the next message.
"""

import asyncio
import logging
import random
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.client.errors import ServerError
from holdfast.client.protocol.reply_parser import ExactReader, Push
from holdfast.client.protocol.request import encode
from holdfast.client.transport.deadlines import deadline
from holdfast.client.transport.link import Link, dialer
from holdfast.client.transport.options import Backoff, parse_server_url
from holdfast.crdt.dots import Vector, includes
from holdfast.errors import HalfDoneError, HoldfastError, ProtocolError
from holdfast.replication.addresses import bare
from holdfast.replication.claims import PATIENCE_S
from holdfast.replication.greeting import Greeting
from holdfast.replication.inbox import Inbox, data_of
from holdfast.replication.intake import Intake
from holdfast.replication.link_history import LinkHistory
from holdfast.replication.link_states import TABLE, LinkEvent, LinkState, after
from holdfast.replication.messages import (
    BEGIN,
    BEHIND,
    DUPLICATE,
    FOLLOWS,
    FORGOTTEN,
    ITSELF,
    MOST_BYTES,
    OWES,
    Ack,
    Hello,
    pack,
    read_ack,
    read_hello,
    read_vector,
)
from holdfast.server.config.tls import tls_to_peers
from holdfast.server.sessions.out_of_band import Published
from holdfast.server.sessions.session import Session

if TYPE_CHECKING:
    from holdfast.replication.replicator import Replicator

log = logging.getLogger(__name__)

BACKOFF = Backoff(immediate=1, first_s=0.05, cap_s=1.0)  # an attempt is cheap
# Applied messages are acknowledged soon (see Replicator), or after so many bytes.
ACK_AFTER_BYTES = 256 * 1024
# So much is applied at once, about two milliseconds of work, before clients get their turn. A
# larger record is applied as a whole or not at all.
SLICE_BYTES = 64 * 1024
# While the journal or the fold is so far behind, nothing more is applied. The window of the link
# then makes the peer wait, too.
MOST_OPS = 10_000
MOST_OWED_SLICES = 100
WAIT_S = 0.005
# Messages that change the state of the link.
EVENTS = {BEHIND: LinkEvent.BEHIND, BEGIN: LinkEvent.BEGIN, FOLLOWS: LinkEvent.FOLLOWS}
MOST_PARTS = 1 << 17  # in a message: more than the number of records that fit into one


def reader() -> ExactReader:
    """The parser of a peer's messages."""
    return ExactReader(MOST_PARTS, MOST_BYTES)


class LinkError(HoldfastError):
    """The link has to end; the message says why."""


class Puller:
    """One link. It is also the sink of a session whose output are acknowledgements."""

    output_bytes = 0

    def __init__(self, replicator: "Replicator", url: str, node: int | None = None) -> None:
        self.url, self.place = url, bare(url)
        self._replicator = replicator
        self._engine = replicator.engine
        self._options = parse_server_url(url).options
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._session: Session | None = None
        self._greeting: Greeting | None = None
        self._inbox = Inbox()
        self._going_on: asyncio.Handle | None = None
        self._over: asyncio.Future[None] | None = None
        self._lost: Exception | None = None  # why the connection has ended
        self._wake = asyncio.Event()
        self.state = LinkState.WAITING
        self.node = node  # the node that was last met at this address
        self.life = b""  # the life of that server
        self.asked_s: float | None = None  # when the request for the current reply was sent
        # when the requests whose replies have not arrived were sent
        self._asked_s: deque[float] = deque()
        self.history = LinkHistory(self.where, self._engine.clock)
        self.received_bytes = 0
        self._acknowledged_bytes = 0
        self._intake = Intake(replicator.stage)
        self.takes_snapshot = False  # this peer may send a snapshot now; see Snapshots
        self._heard_s = 0.0
        self.peer_vector: Vector = {}
        self._goal: Vector | None = None  # the events that the peer had when it accepted us
        self.is_peer_joining = False
        self._even_s: float | None = None  # when we last had all events of the peer

    @property
    def where(self) -> str:
        """The address, without a password."""
        return self._options.address

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def pause(self) -> None:
        self._become(LinkEvent.PAUSE)
        self._lost = LinkError("paused")  # because the link may be about to dial
        self._hang_up(self._lost)

    def leave(self) -> None:
        """End the link for good."""
        self.pause()
        if self._task is not None:
            self._task.cancel()

    def resume(self) -> None:
        self._become(LinkEvent.RESUME)
        self._wake.set()

    def hang_up(self, why: str) -> None:
        """End the link; it dials again later."""
        self._hang_up(LinkError(why))

    def hurry(self) -> None:
        """Dial now: the peer has just dialled us, so it can be reached."""
        if self.state is LinkState.WAITING:
            self._wake.set()

    def _become(self, event: LinkEvent) -> None:
        self.state = after(self.state, event)

    async def _run(self) -> None:
        history = self.history
        while True:
            self._wake.clear()
            if self.state is LinkState.PAUSED:
                await self._wake.wait()
                continue
            try:
                await self._follow()
            except Exception as error:  # noqa: BLE001 - a bug must not take the server down
                self._failed(error)
            finally:
                self._clean_up()
            history.attempts += 1
            delay_s = max(BACKOFF.delay_s(history.attempts, random.random()), 0.02)
            await self._wait(delay_s)

    def _failed(self, error: Exception) -> None:
        self.history.ended()
        if not isinstance(error, OSError | TimeoutError | HoldfastError):
            self.history.broke(error)
        if self.state is not LinkState.PAUSED:
            self.history.failed(error)

    async def _wait(self, delay_s: float) -> None:
        """Wait so long, or until `hurry`. This is not `asyncio.wait_for`, because that one loses a
        cancellation at the same time in Python 3.11."""
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._wake.wait()

    def _clean_up(self) -> None:
        if self._going_on is not None:
            self._going_on.cancel()
            self._going_on = None
        if self._link is not None:
            self._link.close()
        if self._session is not None:
            self._session.closing = True
        self._link = self._session = self._greeting = self._over = None
        self._goal = None
        self._inbox = Inbox()
        self._asked_s.clear()
        self._become(LinkEvent.LOST)
        self._replicator.snapshots.ended(self)

    def _hang_up(self, error: Exception) -> None:
        if self._greeting is not None:
            self._greeting.fail(error)
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    async def _follow(self) -> None:
        engine = self._engine
        self._become(LinkEvent.DIAL)
        link = self._link = Link(self, self._options.keepalive_s, reader())
        self._lost = None
        options = self._options
        if options.tls is not None:
            options = replace(options, tls=tls_to_peers(engine.config))
        async with deadline(engine.clock, PATIENCE_S, f"{self.where} does not answer"):
            await dialer(options, engine.clock)(lambda: link)
            self._check_lost()
            self._become(LinkEvent.CONNECTED)
            await self._greet(link)
        self._check_lost()
        self._become(LinkEvent.WELCOME)
        self.history.begun(self.node)
        self._intake = Intake(self._replicator.stage)
        self._heard_s = engine.clock.monotonic_s()
        self._session = Session(engine, self, self.where, "")
        self._over = asyncio.get_running_loop().create_future()
        self._go_on()
        self.acknowledge()
        self._replicator.check_joined()
        self._check_lost()
        await self._over

    def _check_lost(self) -> None:
        """Raise if the link was lost or paused while no reply was awaited."""
        if self._lost is not None:
            raise self._lost

    async def _greet(self, link: Link) -> None:
        greeting = self._greeting = Greeting(link)
        await greeting.shake_hands(self._options)
        self.asked_s = self._engine.clock.monotonic_s()
        reply = await greeting.exchange(pack(self._replicator.hello()))
        if isinstance(reply, ServerError):
            if reply.code == FORGOTTEN:
                self._replicator.was_removed()
            elif reply.code == DUPLICATE:
                self._replicator.identity.was_disputed()
            elif reply.code == ITSELF:
                self._replicator.found_itself(self)
            raise LinkError(str(reply))
        self._meet(read_hello(data_of(reply)))

    def _meet(self, peer: Hello) -> None:
        self._replicator.met(self, peer)
        self.life = peer.life
        self.peer_vector = peer.vector
        self._goal = peer.vector
        self.is_peer_joining = peer.is_joining

    # -- messages of the peer -----------------------------------------------------------------

    def on_replies(self, replies: list[Any]) -> None:
        if self._over is None:
            self._inbox.put(reply for reply in replies if type(reply) is Push)
            if self._greeting is not None:
                self._greeting.on_replies([each for each in replies if type(each) is not Push])
            return
        self._heard_s = self._engine.clock.monotonic_s()
        self._inbox.put(replies)
        if self._going_on is None:
            self._go_on()

    def go_on(self) -> None:
        """Go on after the snapshot of another peer."""
        if self._going_on is None:
            self._go_on()

    def _go_on(self) -> None:
        """Apply a slice of the messages. The rest waits until the loop has served all clients."""
        self._going_on = None
        if self._over is None or self._over.done():
            return  # the link has ended meanwhile
        engine = self._engine
        loop = asyncio.get_running_loop()
        if engine.store.owed_slices > MOST_OWED_SLICES or engine.keyspace.open_ops > MOST_OPS:
            engine.turn.schedule()
            self._going_on = loop.call_later(WAIT_S, self._go_on)
            return
        try:
            if self._take_some():
                self._acknowledge_soon()
        except HalfDoneError as error:
            self._engine.take_back_half(error)
            self._hang_up(LinkError(str(error)))
        except (HoldfastError, ServerError) as error:
            self._took()  # for the parts before the bad one
            self._hang_up(error)
        except Exception as error:  # noqa: BLE001 - as in `_run`
            self.history.broke(error)
            self._hang_up(LinkError("internal error, see the server's log"))
        else:
            has_more = self._inbox or self._intake.is_finishing
            if has_more and not self._replicator.snapshots.is_from_another(self):
                self._going_on = loop.call_soon(self._go_on)

    def on_writable(self) -> None: ...

    def on_lost(self, link: Link, error: Exception) -> None:
        if link is self._link:
            self._lost = error  # if no reply is awaited now, the next wait raises the error
            self._hang_up(error)

    def _take_some(self) -> bool:
        """Apply a slice of the inbox. Returns whether it had anything but replies."""
        engine = self._engine
        if engine.condition.failure is not None or engine.turn.is_dead:
            raise LinkError("nothing can be stored now")
        if self._replicator.snapshots.is_from_another(self):
            self._take_replies()
            return False
        engine.refresh_clock()
        inbox = self._inbox
        pushes_before = inbox.pushes_taken
        has_taken = self._intake.is_finishing
        if has_taken:
            self._finish_some()
        else:
            for kind, part in inbox.slice(SLICE_BYTES):
                if kind is None:
                    self._reply(part)
                else:
                    has_taken = True
                    self._part(kind, part)
        has_taken = has_taken or inbox.pushes_taken > pushes_before  # a push without parts
        if has_taken:
            self._took()
        return has_taken

    def _took(self) -> None:
        """Called when records or keys were applied: blocked clients may be served, and the records
        have to be written to disk."""
        self._replicator.check_drift()
        self._engine.blocking.serve_ready()
        self._engine.turn.schedule()
        self._replicator.check_joined()

    def _take_replies(self) -> None:
        """Take the replies while another peer sends a snapshot. The pushes wait."""
        for reply in self._inbox.take_replies():
            self._reply(reply)

    def _finish_some(self) -> None:
        if self._intake.finish_some():
            self._become(LinkEvent.COMPLETE)
            log.info("link to %s: the snapshot is complete", self.where)
            self._replicator.snapshots.ended(self)

    def _reply(self, reply: Any) -> None:
        if isinstance(reply, ServerError):
            if reply.code == DUPLICATE:
                self._replicator.identity.was_disputed()
            raise reply
        ack = read_ack(data_of(reply))
        self.asked_s = self._asked_s.popleft() if self._asked_s else None
        self._replicator.heard(self, ack)
        self.peer_vector = ack.vector
        self._replicator.learn(ack.view)
        if self.is_peer_joining and not ack.is_joining:
            self.is_peer_joining = False
            self._replicator.check_joined()

    def _part(self, kind: bytes, data: bytes) -> None:
        intake = self._intake
        if intake.stage is not self._replicator.stage:
            # it may lack records that this link has applied
            raise LinkError("the file was read again")
        self.received_bytes += len(data)
        event = EVENTS.get(kind)
        if kind == OWES and self.state is LinkState.SNAPSHOT:
            self._replicator.fell_behind(read_vector(data))
            return
        if event is None:
            intake.take(kind, data)
            return
        if event not in TABLE[self.state]:
            raise ProtocolError(f"the message {kind!r} came too early")
        self._become(event)
        if kind == BEGIN:
            log.info("link to %s: taking a snapshot", self.where)
            intake.take(kind, data)
            self._replicator.fell_behind(intake.snapshot_seen)
        elif kind == BEHIND:
            self._replicator.snapshots.wanted()
        else:
            self._replicator.snapshots.ended(self)

    # -- messages to the peer -----------------------------------------------------------------

    def _acknowledge_soon(self) -> None:
        if self.received_bytes - self._acknowledged_bytes >= ACK_AFTER_BYTES:
            self.acknowledge()
        else:
            self._replicator.acknowledge_soon()

    def acknowledge(self) -> None:
        """Send an acknowledgement. It leaves when all events in it are on disk."""
        self._acknowledged_bytes = self.received_bytes
        if self._session is not None:
            stage = self._replicator.stage
            now_ms = self._engine.clock.now_ms()
            ack = Ack(
                stage.vector,
                now_ms,
                self._inbox.pushes_taken,
                stage.members.view,
                self._replicator.is_joining,
                self.takes_snapshot,
                self.history.trouble,
            )
            self.history.trouble = ""
            data = Published(encode(("ACTIVE", "ACK", pack(ack))))
            self._session.push([data], len(data))
            self._asked_s.append(self._engine.clock.monotonic_s())

    def beat(self) -> None:
        """Called once a second."""
        now_s = self._engine.clock.monotonic_s()
        if self._session is not None:
            self.history.beat()
            if now_s - self._heard_s > PATIENCE_S:
                self._hang_up(LinkError("the peer does not answer any more"))
            self.acknowledge()
        if self.is_following and not self.lag_ops:
            self._even_s = now_s

    @property
    def is_let_in(self) -> bool:
        return self.state in (LinkState.FOLLOWING, LinkState.SNAPSHOT)

    @property
    def is_following(self) -> bool:
        return self.state is LinkState.FOLLOWING

    @property
    def has_caught_up(self) -> bool:
        """Whether we have all that the peer had when it accepted us."""
        mine = self._replicator.stage.vector
        return self.is_following and self._goal is not None and includes(mine, self._goal)

    @property
    def lag_ops(self) -> int:
        """The number of events that the peer had in its last message and that we lack."""
        mine = self._replicator.stage.vector
        return sum(max(0, seq - mine.get(each, 0)) for each, seq in self.peer_vector.items())

    @property
    def lag_s(self) -> float | None:
        """For how long we have been behind; None if we never had all events of the peer."""
        if self.is_following and not self.lag_ops:
            return 0.0
        return None if self._even_s is None else self._engine.clock.monotonic_s() - self._even_s

    # -- as the session sees it ---------------------------------------------------------------

    def deliver(self, replies: list[bytes]) -> None:
        if self._link is not None:
            self._link.write(b"".join(replies))

    def close(self) -> None:
        self._hang_up(LinkError("closed"))
