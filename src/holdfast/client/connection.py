"""The actor: it owns the link, changes the state, and is the only one that does.

What holds by construction:

- One owner. Requests enter through `submit`, which only queues; writing happens in `_flush`,
  reading in `on_replies`, connecting in `_run`. All of it runs on one event loop, so no two of
  these ever overlap. A link that ended, or was given up, says nothing any more.
- No lost wake-up. `submit` schedules `_flush` unless it is scheduled; `_flush` says that it no
  longer is *before* it empties the queue. When it must not write (not open, or the transport is
  full), opening and `on_writable` schedule it again. So a queued request always has a flush to
  come, or a state change that brings one or fails it.
- No caller's code. Sinks hold futures; asyncio resumes their callers later, in their own tasks.
  (`heed` of a blocking command is ours, and sets futures, too.)
- Exactly once. A request is in the queue, or in flight, or over; each step takes it out of one.
  What was sent is never sent again.
"""

import asyncio
import random
from asyncio import get_running_loop
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast import __version__
from holdfast.client.errors import (
    BadReplyError,
    ClientError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    NotConnectedError,
    ReplyTooLargeError,
)
from holdfast.client.handshake import Agreement, handshake
from holdfast.client.hooks import NO_HOOKS, ConnectionEvent, Hooks
from holdfast.client.link import Dial, Link, dialer
from holdfast.client.options import Options
from holdfast.client.pending import PendingMany
from holdfast.client.pipeline import Pipeline, Sink
from holdfast.client.pulse import Pulse
from holdfast.client.replies import Push, ReplyParser
from holdfast.client.request import encode_all
from holdfast.client.state import ADMISSION, TRANSITIONS, Admission, State
from holdfast.client.waiting import deadline, sleep
from holdfast.clock import Clock, SystemClock, Timer
from holdfast.errors import HoldfastError, ProtocolError


class Connection:
    def __init__(
        self,
        options: Options,
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
        self.is_replaceable = False  # one of several: the client lives on without it
        self.is_subscriber = False  # while what comes over it are messages, not replies
        self.generation = 0  # how often it has opened
        self.attempts = 0  # to reconnect, since it was last open
        self.reached: object = None  # the node, where the dial decides which
        self.on_push: Callable[[Any], None] = _drop
        self.on_open: Callable[[], None] | None = None  # before queued requests are sent
        self.on_state: Callable[[State], None] | None = None
        self.on_silence: Callable[[float], None] | None = None  # see `pulse`
        self.on_quiet: Callable[[], None] | None = None  # nothing is owed and nothing came
        self.owes: Callable[[], bool] = self._is_reply_owed
        self._dial = dial or dialer(options, self.clock)
        self._random = rng or random.Random()
        self._hooks = hooks
        self._pipeline = Pipeline(options.max_requests, options.max_bytes)
        self._receiver = self._pipeline  # the handshake has one of its own
        self._link: Link | None = None
        self._loop: Any = None  # the one it was connected in; None before that
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
        """Requests that are not over, and their bytes."""
        return self._pipeline.requests, self._pipeline.bytes

    @property
    def heard(self) -> tuple[int, int, int]:
        """Something that changes when bytes come, or are taken."""
        link = self._link
        return self.generation, *((link.reads, link.unwritten_bytes) if link else (0, 0))

    @property
    def is_owed(self) -> bool:
        return self.owes()

    @property
    def is_given_up_on(self) -> bool:
        """Whether nobody waits any more, or need wait, for the reply that has to come next."""
        oldest = self._pipeline.oldest
        return oldest is None or oldest.is_settled or oldest.is_overdue

    def is_wait_overdue(self) -> bool:
        oldest = self._pipeline.oldest
        return oldest is not None and oldest.is_overdue

    @property
    def peer(self) -> object:
        return None if self._link is None else self._link.peer

    async def connect(self) -> None:
        """Open. Raises ConnectError, and is closed then: the first attempt is the only one."""
        if self.state is State.INIT:
            self._loop = get_running_loop()
            self._move(State.CONNECTING)
            self._first = self._loop.create_future()
            self._runner = self._loop.create_task(self._run())
        if self._first is not None:
            self.check_loop()
            await asyncio.shield(self._first)
        if self.state is State.CLOSING or self.state is State.CLOSED:
            raise self._rejection()

    def submit(self, sink: Sink) -> None:
        """Take a request. Raises what makes it certain that it was not sent."""
        if self.state is not State.OPEN and ADMISSION[self.state] is Admission.REJECT:
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
        """Let what was accepted finish, for the grace period at most; then fail it. Idempotent."""
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
        """One loop, one thread, one process: the structure above relies on it."""
        if self._loop is not None and get_running_loop() is not self._loop:
            raise RuntimeError(
                "this client was connected in another event loop: make one client for each loop"
            )

    def give_up(self, error: Exception) -> None:
        """As if the connection were lost now. Does nothing unless it is open."""
        link = self._link
        if link is not None and self.is_connected:
            link.close()
            self.on_lost(link, error)

    def watch(self) -> None:
        if self.on_silence is not None:
            self._pulse.start()

    def watch_when_quiet(self, ask: Callable[[], None] | None) -> None:
        """Call `ask` whenever nothing is owed and nothing comes; None: no longer."""
        self.on_quiet = ask
        if ask is not None and self.is_connected:
            self.watch()

    def abandon(self, error: Exception | None = None) -> None:
        """Close at once, without waiting for anything; for this reason, or with the client."""
        self._close(error)
        if self._runner is not None:
            self._runner.cancel()

    def abandon_from_anywhere(
        self, then: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """The same for the garbage collector, which knows no thread and no loop."""

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
            # A mistake of ours must not leave anybody waiting, nor must a loop that shuts down.
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
            if self._link is not link:  # lost since the last reply, which we only see now
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
        # A link tells its end once, and not at all if we closed it; so this is the present one.
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
        """Write all that was submitted in this loop turn, as one write if it is not huge."""
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
        """The end of everything that waits. Idempotent."""
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
        if (
            error is not None and self.is_replaceable
        ):  # the client is not closed, this connection is
            self._pipeline.fail_sent(partial(_lost_error, error))
            self._pipeline.fail_unsent(self._rejection)
        else:
            self._pipeline.fail_sent(lambda: ClosedError("closed", may_have_executed=True))
            self._pipeline.fail_unsent(lambda: ClosedError("closed before it was sent"))
        self._stop_draining()
        if self._first is not None and not self._first.done():
            cause = error or ClosedError("closed while connecting")
            self._first.set_exception(_as_connect_error(cause, self.options))
            self._first.exception()  # seen, also if nobody awaits it

    def _rejection(self) -> NotConnectedError:
        why = f": {self.last_error}" if self.last_error is not None else ""
        if self.state is State.CLOSED or self.state is State.CLOSING:
            if self.is_replaceable and self.last_error is not None:  # then only this connection is
                return NotConnectedError(f"the connection was lost{why}")
            return ClosedError(f"the client is closed{why}")
        if self.state is State.INIT:
            return NotConnectedError("not connected yet: await connect() first")
        return NotConnectedError(f"not connected{why}")

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


def _as_connect_error(cause: Exception, options: Options) -> ClientError:
    if isinstance(cause, ConnectError | ClosedError):
        return cause
    error = ConnectError(f"cannot connect to {options.address}: {cause}")
    error.__cause__ = cause
    return error
