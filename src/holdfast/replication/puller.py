"""The client's side of a link: dials a peer, takes in its log, says what is on disk here."""

import asyncio
import logging
import random
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.client.errors import ConnectError, ServerError
from holdfast.client.handshake import handshake
from holdfast.client.link import Link, dialer
from holdfast.client.options import SERVER_SCHEMES, Backoff, parse_url
from holdfast.client.replies import ExactReader, Push
from holdfast.client.request import encode, encode_all
from holdfast.client.waiting import deadline
from holdfast.crdt.dots import Vector, includes
from holdfast.errors import HalfDoneError, HoldfastError, ProtocolError
from holdfast.replication.addresses import bare
from holdfast.replication.claims import PATIENCE_S
from holdfast.replication.intake import Intake
from holdfast.replication.messages import (
    BEGIN,
    BEHIND,
    COMPLETE,
    DUPLICATE,
    FOLLOWS,
    FORGOTTEN,
    ITSELF,
    KEYS,
    PUSH,
    Ack,
    Hello,
    pack,
    read_ack,
    read_hello,
)
from holdfast.replication.states import TABLE, Event, State, after
from holdfast.server.session import Session
from holdfast.server.tls import tls_to_peers
from holdfast.server.unasked import Published

if TYPE_CHECKING:
    from holdfast.replication.replicator import Replicator

log = logging.getLogger(__name__)

BACKOFF = Backoff(immediate=1, first_s=0.05, cap_s=1.0)  # a heartbeat: cheap, and soon there
# What was taken in is acknowledged soon, see Replicator, or when it has become so much.
ACK_AFTER_BYTES = 256 * 1024
# So much is taken in at once, about two milliseconds' work, before others have their turn. A record
# that is larger is taken in whole, as all of it is seen or nothing.
SLICE_BYTES = 64 * 1024
KEY_BYTES = 256  # what a key of a snapshot counts at least: it is more work than its bytes tell
# While the journal or the fold has to catch up with so much, nothing more is taken in: the link's
# window makes the peer wait as well.
MOST_OPS = 10_000
MOST_OWED_SLICES = 100
WAIT_S = 0.005
# Messages that change the state of the link.
EVENTS = {BEHIND: Event.BEHIND, BEGIN: Event.BEGIN, FOLLOWS: Event.FOLLOWS}
# A link that followed for so long was a good one: the next is dialled at once when it ends.
STEADY_S = 5.0
FIRST_PART = 2  # of a push: before it are its own kind and the message's


class LinkError(HoldfastError):
    """The link cannot go on, for a reason that people should read."""


class Puller:
    """Owns the link, and is the sink of the session whose output are acknowledgements."""

    output_bytes = 0

    def __init__(self, replicator: "Replicator", url: str, node: int | None = None) -> None:
        self.url, self.place = url, bare(url)
        self._replicator = replicator
        self._engine = replicator.engine
        target = parse_url(url)
        if target.scheme not in SERVER_SCHEMES:
            raise ValueError(f"{target.scheme}:// names no single server")
        self._options = target.options
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._session: Session | None = None
        self._expected: asyncio.Future[list[Any]] | None = None  # replies, while greeting
        self._early: list[Any] = []
        self._inbox: deque[Any] = deque()  # what came and was not looked at yet, pushes and replies
        self._at = FIRST_PART  # of the push in front
        self._going_on: asyncio.Handle | None = None
        self._over: asyncio.Future[None] | None = None
        self._lost: Exception | None = None  # why there is no line any more
        self._wake = asyncio.Event()
        self.state = State.WAITING
        self.node = node  # who was last met there
        self.life = b""  # of the server that was
        self.asked_s: float | None = None  # when we asked for what it says now
        self._asked_s: deque[float] = deque()  # for what it has not answered yet
        self.last_error = ""
        self.received_bytes = 0
        self.attempts = 0  # since the last link that was a good one
        self._begun_s: float | None = None
        self._bug = ""  # that was logged last
        self._taken = 0
        self._acknowledged_bytes = 0
        self._intake = Intake(replicator.replication)
        self._trouble = ""  # why the last link ended, until the peer is told
        self.takes_snapshot = False  # it is this one's turn; see Snapshots
        self._heard_s = 0.0
        self.peer_vector: Vector = {}
        self._goal: Vector | None = None  # what the peer had when it let us in
        self.is_peer_joining = False
        self._even_s: float | None = None  # when we last had all that the peer has

    @property
    def where(self) -> str:
        """The address, which shows no password."""
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
        self._become(Event.PAUSE)
        self._lost = LinkError("paused")  # also if it is just being dialled
        self._hang_up(self._lost)

    def resume(self) -> None:
        self._become(Event.RESUME)
        self._wake.set()

    def hang_up(self, why: str) -> None:
        """It dials again, later."""
        self._hang_up(LinkError(why))

    def hurry(self) -> None:
        """The peer is there: it has just dialled us."""
        if self.state is State.WAITING:
            self._wake.set()

    def _become(self, event: Event) -> None:
        self.state = after(self.state, event)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if self.state is State.PAUSED:
                await self._wake.wait()
                continue
            try:
                await self._follow()
            except (OSError, TimeoutError, HoldfastError) as error:
                self._failed(error)
            except Exception as error:  # noqa: BLE001 - a bug must not take the server down
                self._broke(error)
                self._failed(error)
            finally:
                self._clean_up()
            # A greeting proves nothing: what comes behind it may fail again and again.
            if self._followed_s() >= STEADY_S:
                self.attempts = 0
            self._begun_s = None
            self.attempts += 1
            delay_s = max(BACKOFF.delay_s(self.attempts, random.random()), 0.02)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), delay_s)

    def _followed_s(self) -> float:
        """For how long the link that has just ended was one."""
        begun_s = self._begun_s
        return 0.0 if begun_s is None else self._engine.clock.monotonic_s() - begun_s

    def _broke(self, error: Exception) -> None:
        """By a bug. It may come back with every attempt: one traceback is enough."""
        if repr(error) != self._bug:
            self._bug = repr(error)
            log.error("link to %s failed", self.where, exc_info=error)

    def _failed(self, error: Exception) -> None:
        if self.state is State.PAUSED:
            return
        message = str(error) or type(error).__name__
        if message != self.last_error:
            log.warning("link to %s: %s", self.where, message)
        self.last_error = self._trouble = message

    def _clean_up(self) -> None:
        if self._going_on is not None:
            self._going_on.cancel()
            self._going_on = None
        if self._link is not None:
            self._link.close()
        if self._session is not None:
            self._session.closing = True
        self._link = self._session = self._expected = self._over = None
        self._goal = None
        self._early = []
        self._inbox.clear()
        self._asked_s.clear()
        self._at = FIRST_PART
        self._become(Event.LOST)
        self._replicator.snapshots.ended(self)

    def _hang_up(self, error: Exception) -> None:
        for future in (self._expected, self._over):
            if future is not None and not future.done():
                future.set_exception(error)

    async def _follow(self) -> None:
        engine = self._engine
        self._become(Event.DIAL)
        link = self._link = Link(self, self._options.keepalive_s, ExactReader())
        self._lost = None
        options = self._options
        if options.tls is not None:
            options = replace(options, tls=tls_to_peers(engine.config))
        async with deadline(engine.clock, PATIENCE_S, f"{self.where} does not answer"):
            await dialer(options, engine.clock)(lambda: link)
            self._check_lost()
            self._become(Event.CONNECTED)
            await self._greet(link)
        self._check_lost()
        self._become(Event.WELCOME)
        log.info("link to %s: following node %s", self.where, self.node)
        self.last_error = ""
        self._taken = 0
        self._intake = Intake(self._replicator.replication)
        self._heard_s = self._begun_s = engine.clock.monotonic_s()
        self._session = Session(engine, self, self.where, "")
        self._over = asyncio.get_running_loop().create_future()
        self._go_on()
        self.acknowledge()
        self._replicator.check_joined()
        self._check_lost()
        await self._over

    def _check_lost(self) -> None:
        """Whether it was, or was paused, while nobody waited for anything."""
        if self._lost is not None:
            raise self._lost

    async def _greet(self, link: Link) -> None:
        words = handshake(self._options, holdfast.__version__)
        try:
            commands = next(words)
            while True:
                commands = words.send(await self._ask(link, encode_all(commands), len(commands)))
        except StopIteration as end:
            if end.value.protocol != 3:
                raise ConnectError(f"{self.where} is no Holdfast server") from None
        hello = encode(("ACTIVE", "LINK", pack(self._replicator.hello())))
        self.asked_s = self._engine.clock.monotonic_s()
        (reply,) = await self._ask(link, hello, 1)
        if isinstance(reply, ServerError):
            if reply.code == FORGOTTEN:
                self._replicator.was_removed()
            elif reply.code == DUPLICATE:
                self._replicator.identity.was_disputed()
            elif reply.code == ITSELF:
                self._replicator.found_itself(self)
            raise LinkError(str(reply))
        self._meet(read_hello(_data(reply)))

    async def _ask(self, link: Link, data: bytes, count: int) -> list[Any]:
        self._check_lost()
        self._expected = asyncio.get_running_loop().create_future()
        self._early = []
        self._awaited = count
        link.write(data)
        replies = await self._expected
        self._expected = None
        return replies

    def _meet(self, peer: Hello) -> None:
        self._replicator.met(self, peer)
        self.life = peer.life
        self.peer_vector = peer.vector
        self._goal = peer.vector
        self.is_peer_joining = peer.is_joining

    # -- what the peer says -------------------------------------------------------------------

    def on_replies(self, replies: list[Any]) -> None:
        if self._over is None:
            self._inbox += [reply for reply in replies if type(reply) is Push]
            self._early += [reply for reply in replies if type(reply) is not Push]
            expected = self._expected
            if expected is not None and not expected.done() and len(self._early) >= self._awaited:
                asked, self._early = self._early[: self._awaited], self._early[self._awaited :]
                expected.set_result(asked)
            return
        self._heard_s = self._engine.clock.monotonic_s()
        self._inbox += replies
        self.go_on()

    def go_on(self) -> None:
        """Unless it does already."""
        if self._going_on is None:
            self._go_on()

    def _go_on(self) -> None:
        """A slice of what came. The rest waits until the loop has looked at everybody else."""
        self._going_on = None
        if self._over is None or self._over.done():
            return  # the link was given up meanwhile
        engine = self._engine
        loop = asyncio.get_running_loop()
        if engine.store.owed_slices > MOST_OWED_SLICES or len(engine.keyspace.ops) > MOST_OPS:
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
            self._took()  # what came before the bad part
            self._hang_up(error)
        except Exception as error:  # noqa: BLE001 - as in `_run`
            self._broke(error)
            self._hang_up(LinkError("internal error, see the server's log"))
        else:
            if self._is_waiting_for_turn:
                return  # until `go_on`
            if self._inbox or self._intake.is_finishing:
                self._going_on = loop.call_soon(self._go_on)

    @property
    def _is_waiting_for_turn(self) -> bool:
        return self._replicator.snapshots.is_from_another(self)

    def on_writable(self) -> None: ...

    def on_lost(self, link: Link, error: Exception) -> None:
        if link is self._link:
            self._lost = error  # maybe nobody waits for anything just now
            self._hang_up(error)

    def _take_some(self) -> bool:
        """Whether there was anything to acknowledge."""
        engine = self._engine
        if engine.failure is not None or engine.turn.is_dead:
            raise LinkError("nothing can be stored now")
        if self._is_waiting_for_turn:
            self._take_replies()
            return False
        engine.refresh_clock()
        taken = self._take_slice()
        if taken:
            self._took()
        return taken

    def _take_slice(self) -> bool:
        """Whether there was anything but replies."""
        if self._intake.is_finishing:
            self._finish_some()
            return True
        inbox, taken, left = self._inbox, False, SLICE_BYTES
        while inbox and left > 0:
            reply = inbox[0]
            if type(reply) is Push:
                if len(reply) < FIRST_PART or reply[0] != PUSH:
                    raise ProtocolError("a push that is none of a peer's")
                taken = True
                kind = _data(reply[1])
                while self._at < len(reply) and left > 0:
                    part = _data(reply[self._at])
                    left -= max(len(part), KEY_BYTES) if kind == KEYS else len(part)
                    self._part(kind, part)
                    self._at += 1
                if kind == COMPLETE:  # there is more to do before anything is taken in
                    left = 0
                if self._at < len(reply):
                    break
                self._at = FIRST_PART
                self._taken += 1
            else:
                self._reply(reply)
            inbox.popleft()
        return taken

    def _took(self) -> None:
        """Something was taken in: clients may wait for it, and it has to get to the disk."""
        self._replicator.check_drift()
        self._engine.waiting.serve_ready()
        self._engine.turn.schedule()
        self._replicator.check_joined()

    def _take_replies(self) -> None:
        """What a peer pushes waits while another one sends a snapshot."""
        replies = [reply for reply in self._inbox if type(reply) is not Push]
        if replies:
            self._inbox = deque(reply for reply in self._inbox if type(reply) is Push)
            for reply in replies:
                self._reply(reply)

    def _finish_some(self) -> None:
        if self._intake.finish_some():
            self._become(Event.COMPLETE)
            log.info("link to %s: the snapshot is complete", self.where)
            self._replicator.snapshots.ended(self)

    def _reply(self, reply: Any) -> None:
        if isinstance(reply, ServerError):
            if reply.code == DUPLICATE:
                self._replicator.identity.was_disputed()
            raise reply
        ack = read_ack(_data(reply))
        self.asked_s = self._asked_s.popleft() if self._asked_s else None
        self._replicator.heard(self, ack)
        self.peer_vector = ack.vector
        self._replicator.learn(ack.view)
        if self.is_peer_joining and not ack.is_joining:
            self.is_peer_joining = False
            self._replicator.check_joined()

    def _part(self, kind: bytes, data: bytes) -> None:
        intake = self._intake
        if intake.replication is not self._replicator.replication:
            raise LinkError("the file was read again")  # which may have less than was taken in
        self.received_bytes += len(data)
        event = EVENTS.get(kind)
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

    # -- what we say --------------------------------------------------------------------------

    def _acknowledge_soon(self) -> None:
        if self.received_bytes - self._acknowledged_bytes >= ACK_AFTER_BYTES:
            self.acknowledge()
        else:
            self._replicator.acknowledge_soon()

    def acknowledge(self) -> None:
        """Leaves when all that it says is on disk."""
        self._acknowledged_bytes = self.received_bytes
        if self._session is not None:
            replication = self._replicator.replication
            now_ms = self._engine.clock.now_ms()
            ack = Ack(
                replication.vector,
                now_ms,
                self._taken,
                replication.members.view,
                self._replicator.is_joining,
                self.takes_snapshot,
                self._trouble,
            )
            self._trouble = ""
            data = Published(encode(("ACTIVE", "ACK", pack(ack))))
            self._session.push([data], len(data))
            self._asked_s.append(self._engine.clock.monotonic_s())

    def beat(self) -> None:
        """Once a second."""
        now_s = self._engine.clock.monotonic_s()
        if self._session is not None:
            if now_s - self._heard_s > PATIENCE_S:
                self._hang_up(LinkError("the peer says nothing any more"))
            self.acknowledge()
        if self.is_following and not self.lag_ops:
            self._even_s = now_s

    @property
    def is_let_in(self) -> bool:
        return self.state in (State.FOLLOWING, State.SNAPSHOT)

    @property
    def is_following(self) -> bool:
        return self.state is State.FOLLOWING

    @property
    def has_caught_up(self) -> bool:
        """Whether we have what the peer had when it let us in."""
        mine = self._replicator.replication.vector
        return self.is_following and self._goal is not None and includes(mine, self._goal)

    @property
    def lag_ops(self) -> int:
        """Events that the peer had when it last spoke, and we have not."""
        mine = self._replicator.replication.vector
        return sum(max(0, seq - mine.get(each, 0)) for each, seq in self.peer_vector.items())

    @property
    def lag_s(self) -> float | None:
        """For how long we have been behind; None when we never were even."""
        if self.is_following and not self.lag_ops:
            return 0.0
        return None if self._even_s is None else self._engine.clock.monotonic_s() - self._even_s

    # -- as the session sees it ---------------------------------------------------------------

    def deliver(self, replies: list[bytes]) -> None:
        if self._link is not None:
            self._link.write(b"".join(replies))

    def close(self) -> None:
        self._hang_up(LinkError("closed"))


def _data(said: Any) -> bytes:
    if type(said) is not bytes:
        raise ProtocolError("the peer says what is no message")
    return said
