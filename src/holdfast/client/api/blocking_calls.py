"""Commands that wait at the server: on a connection of their own, and safe to cancel.

A caller may give up when the server has already popped an element for it. So giving up has three
steps: tell the server to unblock the connection, read its answer, and put an element that came
nevertheless back where it was. This also gives the element to the client that waits next. Closing
the client does the same for all its waiting callers. The caller's own timeout does the same, except
that it returns the element instead of putting it back.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from functools import partial
from typing import Any

from holdfast.client.errors import (
    ClientError,
    ClosedError,
    NotConnectedError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.protocol.pending import PendingOne, PendingWait
from holdfast.client.protocol.request import encode
from holdfast.client.protocol.special import GIVE_BACK, longest_wait_s, name_of
from holdfast.client.topology.single import MAX_REDIRECTIONS, Caller, Command, send_one
from holdfast.client.topology.slots import first_key
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.deadlines import deadline, sleep, wait_for

log = logging.getLogger(__name__)
_RETRY_S = 0.01


class _Unblock(Enum):
    """The effect of one CLIENT UNBLOCK."""

    DONE = auto()  # the wait is over
    NO_EFFECT = auto()  # the server has answered the command already, or has not read it yet
    NOT_SENT = auto()
    UNKNOWN = auto()  # its reply is lost, so the server may run it at any later time
    IMPOSSIBLE = auto()  # this server, or our permissions at it, will never allow it


class BlockingCalls:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._settling: set[asyncio.Task[Any]] = set()
        self._calls: set[asyncio.Future[None]] = set()  # each is done when its call is over
        self._wakers: set[Callable[[], None]] = set()
        self._is_closing = False

    async def call(
        self, args: Command, timeout_s: float | None, heed: Callable[[Any], None] | None = None
    ) -> Any:
        """The reply, unconverted. `timeout_s` is the time limit of the caller, not the server's.

        `heed` gets the reply if it is a list, at once, inside of the connection. It may keep the
        reply and set futures, no more. Elements that it got are not given back.
        """
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls.add(over)
        try:
            return await self._call(args, timeout_s, heed)
        except ClientError as error:
            if not error.may_have_executed:
                await asyncio.sleep(0)  # a caller that retries in a loop must let other tasks run
            raise
        finally:
            self._calls.discard(over)
            over.set_result(None)

    async def finish(self, grace_s: float | None) -> None:
        """End all waits. Elements popped for cancelled callers are put back, if that is fast
        enough."""
        self._is_closing = True
        for wake in tuple(self._wakers):
            wake()
        over = asyncio.ensure_future(self._all_over())
        try:
            await wait_for(self._caller.clock, over, grace_s)
        finally:
            over.cancel()

    async def _all_over(self) -> None:
        while ending := self._calls | self._settling:
            await asyncio.wait(ending)

    async def _call(
        self, args: Command, timeout_s: float | None, heed: Callable[[Any], None] | None
    ) -> Any:
        clock, key, data = self._caller.clock, first_key(args), encode(args)
        end_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        moved: ServerError | None = None
        for left in reversed(range(MAX_REDIRECTIONS)):
            self._check_open()
            left_s = None if end_s is None else max(0.0, end_s - clock.monotonic_s())
            text = "no connection in time; nothing was sent"
            async with deadline(clock, left_s, text, RequestTimeoutError):
                connection = await self._caller.lease(key, moved)
            if moved is not None and moved.code == b"ASK":
                asking = send_one(connection, ("ASKING",))
                asking.add_done_callback(lambda done: done.cancelled() or done.exception())
            left_s = None if end_s is None else max(0.0, end_s - clock.monotonic_s())
            sink = PendingWait(data, asyncio.get_running_loop(), heed)
            try:
                reply = await self._wait(connection, args, sink, left_s)
            except NotConnectedError as error:
                if not left or isinstance(error, ClosedError):
                    raise
                continue  # the command was never sent, and only this connection is lost
            if not self._caller.has_moved(reply):
                break
            moved = reply
        return reply

    async def _wait(
        self, connection: Connection, args: Command, sink: PendingWait, timeout_s: float | None
    ) -> Any:
        try:
            self._check_open()
            connection.submit(sink)
        except ClientError:
            self._caller.give(connection)
            raise
        clock, longest_s = self._caller.clock, longest_wait_s(args)
        timers = [] if timeout_s is None else [clock.call_later(timeout_s, sink.wake)]
        if longest_s is not None:
            timers.append(clock.call_later(longest_s, partial(_expect, connection, sink)))
        self._wakers.add(sink.wake)
        try:
            await sink.woken
        except asyncio.CancelledError:
            await self._leave(self._settle_behind(connection, sink), sink, args)
            raise
        finally:
            self._wakers.discard(sink.wake)
            for timer in timers:
                timer.cancel()
        if sink.is_settled:
            self._caller.give(connection)
            return sink.future.result()
        settling = self._settle_behind(connection, sink)
        if self._is_closing:
            is_undone = await self._leave(settling, sink, args)
            text = "the client was closed while this waited"
            raise ClosedError(text, may_have_executed=not is_undone)
        try:
            reply = await asyncio.shield(settling)
        except asyncio.CancelledError:
            await self._leave(settling, sink, args)  # the caller has left: an element goes back
            raise
        if reply is None:
            raise RequestTimeoutError("no reply came in time, and nothing was taken")
        return reply

    def _check_open(self) -> None:
        if self._is_closing:
            raise ClosedError("the client is closed")

    def _settle_behind(self, connection: Connection, sink: PendingWait) -> asyncio.Task[Any]:
        return self._behind(self._settle(connection, sink))

    async def _leave(self, settling: asyncio.Task[Any], sink: PendingWait, args: Command) -> bool:
        undone: bool = await asyncio.shield(self._behind(self._give_back(settling, sink, args)))
        return undone

    def _behind(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that runs to the end even if the caller is cancelled, or cancelled again."""
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def _settle(self, connection: Connection, sink: PendingOne) -> Any:
        """End the wait at the server. Returns its answer, or None if nothing was taken.

        Raises ClientError if the answer is unknown: the server may have taken an element.
        """
        future, clock = sink.future, self._caller.clock
        patience_s = self._caller.options.request_timeout_s
        end_s = None if patience_s is None else clock.monotonic_s() + patience_s
        may_be_late = False
        try:
            if not sink.is_sent:
                # The command will never be sent, so an error of the connection does not matter.
                _ = future.cancel() or future.exception()
                return None
            while not future.done():
                unblock = await self._unblock(connection)
                may_be_late |= unblock is _Unblock.UNKNOWN
                is_over = end_s is not None and clock.monotonic_s() >= end_s
                if unblock is _Unblock.IMPOSSIBLE or is_over:
                    log.error("a wait at the server could not be ended: %s", connection.last_error)
                    future.cancel()  # `give` closes the connection, which ends the wait
                    text = "the wait could not be ended; the server may have taken something"
                    raise RequestTimeoutError(text, may_have_executed=True)
                if unblock is not _Unblock.DONE:
                    await wait_for(clock, future, _RETRY_S)
            reply = future.result()
            if isinstance(reply, ServerError):
                return None  # -UNBLOCKED, or an error in the command: nothing was taken
            return reply
        finally:
            if may_be_late:
                connection.abandon()  # a late UNBLOCK would end the next wait on this connection
            self._caller.give(connection)

    async def _unblock(self, connection: Connection) -> _Unblock:
        """Ask the server to unblock the connection."""
        client_id = connection.agreed.client_id
        if client_id is None:
            return _Unblock.IMPOSSIBLE
        try:
            command = ("CLIENT", "UNBLOCK", client_id)
            reply = await self._caller.call_beside(connection, command)
        except ClientError as error:
            return _Unblock.UNKNOWN if error.may_have_executed else _Unblock.NOT_SENT
        if isinstance(reply, ServerError):
            return _Unblock.IMPOSSIBLE
        return _Unblock.DONE if reply == 1 else _Unblock.NO_EFFECT

    async def _give_back(
        self, settling: asyncio.Task[Any], sink: PendingWait, args: Command
    ) -> bool:
        """Put the element back. True if the data is now as if the command had not run."""
        try:
            reply = await settling
        except ClientError:
            return False  # the connection is lost, and its reply too
        undo = GIVE_BACK.get(name_of(args[0]))
        if reply is None:
            return True
        if undo is None or sink.is_heeded:
            return False
        try:
            command = undo(args, reply)
            encode(command)
        except (LookupError, TypeError, ValueError):
            log.error("no reply to %s, so it is not given back: %.200r", args[0], reply)
            return False
        while True:
            try:
                answer = await self._caller.call(command)
            except ClosedError:
                break
            except ClientError as error:
                if error.may_have_executed:
                    break
                await sleep(self._caller.clock, _RETRY_S)
            else:
                if not isinstance(answer, ServerError):
                    return True
                break
        log.error("an element popped for a cancelled caller may be lost: %.200r", command)
        return False


def _expect(connection: Connection, sink: PendingWait) -> None:
    """From now on the server owes an answer; `silence` acts if none comes."""
    sink.is_overdue = True
    connection.watch()
