"""The actor of a connection: only it owns the link and changes the state.

Four rules follow from the structure:

- One owner. Requests enter through `submit`, which only queues; writing happens in `_flush`,
  reading in `on_replies`, connecting in `_run`. All of it runs on one event loop, so no two of
  these ever overlap. A link that ended, or was given up, calls nothing any more.
- No lost wake-up. `submit` schedules `_flush` unless it is scheduled; `_flush` notes that it is no
  longer scheduled *before* it empties the queue. If it must not write (not open, or the transport
  is full), opening and `on_writable` schedule it again. So a queued request always has a flush to
  come, or a change of state that brings one or fails the request.
- No code of callers. Sinks hold futures; asyncio resumes the callers later, in their own tasks.
  (`heed` of a blocking command is code of ours, and only sets futures, too.)
- Exactly once. A request is in the queue, or in flight, or over; each step takes it out of one.
  A request that was sent is never sent again.
"""

import asyncio
import random
from asyncio import get_running_loop
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast._version import __version__
from holdfast.client.errors import (
    BadReplyError,
    ClientError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    NotConnectedError,
    ReplyTooLargeError,
)
from holdfast.client.protocol.connection_state import ACCEPTANCE, TRANSITIONS, Acceptance, State
from holdfast.client.protocol.pending import PendingMany
from holdfast.client.protocol.pipeline import Pipeline, ReplySink
from holdfast.client.protocol.reply_parser import Push, ReplyParser
from holdfast.client.protocol.request import encode_all
from holdfast.client.transport.deadlines import deadline, sleep
from holdfast.client.transport.handshake import Agreement, handshake
from holdfast.client.transport.hooks import NO_HOOKS, ConnectionEvent, Hooks
from holdfast.client.transport.link import Dial, Link, dialer, reason_of
from holdfast.client.transport.options import ClientOptions
from holdfast.client.transport.pulse import Pulse
from holdfast.clock import Clock, SystemClock, Timer
from holdfast.errors import HoldfastError, ProtocolError


class Connection:
    def __init__(
        self,
        options: ClientOptions,
        *,
        dial: Dial | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        self.state = State.INIT
        self.last_error: Exception | None = None
        self.agreed = Agreement(0, None)
        self.is_replaceable = False  # one of several connections: the client goes on without it
        self.is_subscriber = False  # while it receives messages, not replies
        self.generation = 0  # number of times that it has opened
        self.attempts = 0  # attempts to reconnect since it was last open
        self.reached: object = None  # the node, if the dial chooses one
        self.on_push: Callable[[Any], None] = _drop
        self.on_open: Callable[[], None] | None = None  # before queued requests are sent
        self.on_state: Callable[[State], None] | None = None
        self.on_silence: Callable[[float], None] | None = None  # see `pulse`
        self.on_quiet: Callable[[], None] | None = None  # no reply is owed, and nothing came
        self.owes: Callable[[], bool] = self._is_reply_owed
        self._dial = dial or dialer(options, self.clock)
        self._random = rng or random.Random()
        self._hooks = hooks
        self._pipeline = Pipeline(options.max_requests, options.max_bytes)
        self._receiver = self._pipeline  # the handshake has a receiver of its own
        self._link: Link | None = None
        self._loop: Any = None  # the event loop of `connect`; None before that
        self._flush_scheduled = False
        self._pulse = Pulse(self)
        self._timer: Timer | None = None
        self._grace: Timer | None = None
        self._runner: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    # -- for callers --------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self.state is State.OPEN

    @property
    def pending(self) -> tuple[int, int]:
        """The unfinished requests and their bytes."""
        return self._pipeline.requests, self._pipeline.bytes

    @property
    def heard(self) -> tuple[int, int, int]:
        """A value that changes when bytes are received, or are accepted by the kernel."""
        link = self._link
        return self.generation, *((link.reads, link.unwritten_bytes) if link else (0, 0))

    @property
    def is_owed(self) -> bool:
        return self.owes()

    @property
    def is_given_up_on(self) -> bool:
        """Whether no caller waits, or has to wait, for the reply that comes next."""
        oldest = self._pipeline.oldest
        return oldest is None or oldest.is_settled or oldest.is_overdue

    def is_wait_overdue(self) -> bool:
        oldest = self._pipeline.oldest
        return oldest is not None and oldest.is_overdue

    @property
    def peer(self) -> object:
        return None if self._link is None else self._link.peer

    async def connect(self) -> None:
        """Open the connection. After a ConnectError it is closed: this is not repeated."""
        if self.state is State.INIT:
            self._loop = get_running_loop()
            self._move(State.CONNECTING)
            self._first = self._loop.create_future()
            self._runner = self._loop.create_task(self._run())
        if self._first is not None:
            self.check_loop()
            await asyncio.shield(self._first)
        if self.state is State.CLOSING or self.state is State.CLOSED:
            await asyncio.sleep(0)  # a caller that retries in a loop must let other tasks run
            raise self._rejection()

    def submit(self, sink: ReplySink) -> None:
        """Take a request. If this raises, the request was certainly not sent."""
        if self.state is not State.OPEN and ACCEPTANCE[self.state] is Acceptance.REJECT:
            raise self._rejection()
        if get_running_loop() is not self._loop:
            self.check_loop()
        self._pipeline.push(sink)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        if sink.deadline_s is not None and self._timer is None:
            self._arm(sink.deadline_s)

    async def close(self, grace_s: float | None = None) -> None:
        """Let accepted requests finish, for the grace period at most; fail the rest. Idempotent."""
        self.check_loop()
        wait_s = self.options.close_grace_s if grace_s is None else grace_s
        if self.state is State.CLOSING and wait_s <= 0:
            self._stop_draining()
        if self.state is State.OPEN:
            self._move(State.CLOSING)
            if self._pipeline.is_awaited and wait_s > 0:
                self._drained = self._loop.create_future()
                self._grace = self.clock.call_later(wait_s, self._stop_draining)
        try:
            if self._drained is not None:
                await asyncio.shield(self._drained)
        finally:
            self._close(None)
            if self._runner is not None and not self._runner.done():
                self._runner.cancel()
                await asyncio.wait([self._runner])

    def check_loop(self) -> None:
        """Raise RuntimeError in another event loop, because the rules above hold in one loop
        only."""
        if self._loop is not None and get_running_loop() is not self._loop:
            raise RuntimeError(
                "this client was connected in another event loop: make one client for each loop"
            )

    def give_up(self, error: Exception) -> None:
        """Treat the connection as lost. Does nothing unless it is open."""
        link = self._link
        if link is not None and self.is_connected:
            link.close()
            self.on_lost(link, error)

    def watch(self) -> None:
        if self.on_silence is not None:
            self._pulse.start()

    def watch_when_quiet(self, ask: Callable[[], None] | None) -> None:
        """Call `ask` whenever no reply is owed and nothing comes. None ends that."""
        self.on_quiet = ask
        if ask is not None and self.is_connected:
            self.watch()

    def abandon(self, error: Exception | None = None) -> None:
        """Close at once, without waiting: because of this error, or because the client closes."""
        self._close(error)
        if self._runner is not None:
            self._runner.cancel()

    def abandon_from_anywhere(
        self, then: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """The same for the garbage collector, which may run in any thread."""

        def abandon() -> None:
            self.abandon()
            if then is not None:
                self._closing = self._loop.create_task(then())

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(abandon)

    # -- the worker ---------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._keep_connected()
        except BaseException as error:
            # No caller may wait for ever: neither after a bug here, nor when the loop shuts down.
            self._close(error if isinstance(error, Exception) else None)
            raise

    async def _keep_connected(self) -> None:
        """Connect, and again whenever the connection is lost; until closed."""
        while True:
            try:
                await self._open()
            except (OSError, HoldfastError) as error:
                self._fail(error)
            else:
                assert self._lost is not None
                await self._lost
            if not self.options.reconnect or not self.generation:
                self._close(self.last_error)
                return
            self.attempts += 1
            delay_s = self.options.backoff.delay_s(self.attempts, self._random.random())
            if delay_s:
                self._pipeline.fail_unsent(self._rejection)
                await sleep(self.clock, delay_s)
            self._move(State.RECONNECTING)

    async def _open(self) -> None:
        options = self.options
        self._lost = self._loop.create_future()
        parser = ReplyParser(options.max_reply_elements, options.max_reply_bytes)
        link = self._link = Link(self, options.keepalive_s, parser)
        try:
            what = f"connecting to {options.address} took too long"
            async with deadline(self.clock, options.connect_timeout_s, what):
                await self._dial(lambda: link)
                self.agreed = await self._shake_hands(link)
            if self._link is not link:  # the link was lost after the last reply
                raise ConnectionResetError("the server closed the connection")
        except BaseException:
            if self._link is link:
                self._link = None
            link.close()
            raise
        self._receiver = self._pipeline
        self.attempts = 0
        self.generation += 1
        self._move(State.OPEN)
        if self.on_open is not None:
            self.on_open()
        self._schedule_flush()
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    async def _shake_hands(self, link: Link) -> Agreement:
        self._receiver = receiver = Pipeline()
        steps = handshake(self.options, __version__)
        commands = next(steps)
        while True:
            replies: list[Any] = []
            if commands:
                future: asyncio.Future[list[Any]] = self._loop.create_future()
                if self._link is not link:
                    raise ConnectionResetError("the server closed the connection")
                receiver.push(PendingMany(encode_all(commands), len(commands), future))
                link.write(receiver.take())
                replies = await future
                if isinstance(replies[-1], ClientError):
                    raise replies[-1]
            try:
                commands = steps.send(replies)
            except StopIteration as done:
                agreed: Agreement = done.value
                return agreed

    # -- from the link ------------------------------------------------------------------------

    def on_replies(self, replies: list[Any]) -> None:
        on_reply = self._receiver.on_reply
        for reply in replies:
            kind = type(reply)
            if kind is Push or self.is_subscriber:
                self.on_push(reply)
            elif kind is ReplyTooLargeError:
                self._receiver.on_too_large(reply)
            else:
                on_reply(reply)
        if self._drained is not None and not self._pipeline.is_awaited:
            self._stop_draining()

    def on_writable(self) -> None:
        self._schedule_flush()

    def on_lost(self, link: Link, error: Exception) -> None:
        # A link reports its end once, and not if we closed it. So this is the present link.
        assert link is self._link
        self._link = None
        self._receiver.fail_sent(partial(_lost_error, error))
        if self.state is State.OPEN:
            self._fail(error)
        elif self.state is State.CLOSING:
            self._close(error)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    # -- inside -------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write all requests submitted in this turn of the loop, as one write unless it is huge."""
        self._flush_scheduled = False
        link = self._link
        if link is None or (self.state is not State.OPEN and self.state is not State.CLOSING):
            return
        pipeline = self._pipeline
        while pipeline.has_unsent and link.is_writable:
            data = pipeline.take()
            if data:
                link.write(data)
        if self.on_silence is not None:
            self._pulse.start()

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _arm(self, deadline_s: float) -> None:
        delay_s = max(0.0, deadline_s - self.clock.monotonic_s())
        self._timer = self.clock.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        next_s = self._pipeline.expire(self.clock.monotonic_s())
        if self._drained is not None and not self._pipeline.is_awaited:
            self._stop_draining()
        if next_s is not None:
            self._arm(next_s)

    def _is_reply_owed(self) -> bool:
        return self._pipeline.oldest is not None

    def _stop_draining(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _fail(self, error: Exception) -> None:
        self.last_error = error
        self._move(State.FAILED)

    def _close(self, error: Exception | None) -> None:
        """Fail all waiting requests. Idempotent."""
        if self.state is State.CLOSED:
            return
        if self.state is State.OPEN:
            self._move(State.CLOSING)
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self._pulse.stop()
        for timer in (self._timer, self._grace):
            if timer is not None:
                timer.cancel()
        self.last_error = error or self.last_error
        self._move(State.CLOSED)
        if error is not None and self.is_replaceable:
            # Only this connection is closed, not the client.
            self._pipeline.fail_sent(partial(_lost_error, error))
            self._pipeline.fail_unsent(self._rejection)
        else:
            self._pipeline.fail_sent(lambda: ClosedError("closed", may_have_executed=True))
            self._pipeline.fail_unsent(lambda: ClosedError("closed before it was sent"))
        self._stop_draining()
        if self._first is not None and not self._first.done():
            cause = error or ClosedError("closed while connecting")
            self._first.set_exception(_as_connect_error(cause, self.options))
            self._first.exception()  # marks it as seen, also if no caller awaits it

    def _rejection(self) -> NotConnectedError:
        why = f": {reason_of(self.last_error)}" if self.last_error is not None else ""
        if self.state is State.CLOSED or self.state is State.CLOSING:
            if self.is_replaceable and self.last_error is not None:
                # Only this connection is closed, not the client.
                return NotConnectedError(f"the connection was lost{why}")
            return ClosedError(f"the client is closed{why}")
        if self.state is State.INIT:
            return NotConnectedError("not connected yet: await connect() first")
        error = NotConnectedError(f"not connected{why}")
        error.__cause__ = self.last_error
        return error

    def _move(self, to: State) -> None:
        before = self.state
        assert (before, to) in TRANSITIONS, f"{before.name} to {to.name}"
        self.state = to
        if self.on_state is not None:
            self.on_state(to)
        if self._hooks is not NO_HOOKS:
            event = ConnectionEvent(before, to, self.generation, self.attempts, self.last_error)
            self._hooks.connection(event)


def _drop(_: Any) -> None:
    return None


def _lost_error(cause: Exception) -> ConnectionLostError:
    kind = BadReplyError if isinstance(cause, ProtocolError) else ConnectionLostError
    text = f"the connection was lost ({cause}); the server may have run the command"
    error = kind(text, may_have_executed=True)
    error.__cause__ = cause
    return error


def _as_connect_error(cause: Exception, options: ClientOptions) -> ClientError:
    if isinstance(cause, ConnectError | ClosedError):
        return cause
    error = ConnectError(f"cannot connect to {options.address}: {reason_of(cause)}")
    error.__cause__ = cause
    return error
