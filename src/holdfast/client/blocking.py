"""Commands that wait at the server: on a connection of their own, and safe to cancel.

A caller that gives up may do so when the server has already popped an element for it. So giving
up means: tell the server to unblock that connection, read what it answers, and put an element
that came after all back where it was, which also hands it to whoever waits next. Closing the
client does the same for all who wait. A timeout of the caller's does it, too, but returns the
element instead of putting it back.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.client.connection import Connection
from holdfast.client.errors import (
    ClientError,
    ClosedError,
    NotConnectedError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.pending import PendingOne, PendingWait
from holdfast.client.request import encode
from holdfast.client.single import MAX_REDIRECTIONS, Caller, Command, send_one
from holdfast.client.slots import first_key
from holdfast.client.special import GIVE_BACK, longest_wait_s, name_of
from holdfast.client.waiting import deadline, sleep, wait_for

log = logging.getLogger(__name__)
_RETRY_S = 0.01


class Blocking:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._settling: set[asyncio.Task[Any]] = set()
        self._calls: set[asyncio.Future[None]] = set()  # each is done when its call is over
        self._wakers: set[Callable[[], None]] = set()
        self._is_closing = False

    async def call(
        self, args: Command, timeout_s: float | None, heed: Callable[[Any], None] | None = None
    ) -> Any:
        """The reply as it is. `timeout_s` is the caller's patience, not the server's.

        `heed` gets a list that is the reply, at once, from within the connection: it may note it
        and set futures, no more. What it got is not given back.
        """
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls.add(over)
        try:
            return await self._call(args, timeout_s, heed)
        finally:
            self._calls.discard(over)
            over.set_result(None)

    async def finish(self, grace_s: float | None) -> None:
        """End all waits; return when what was popped for nobody is back, but not too late."""
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
                continue  # it was never sent, and only this connection is gone
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
            await self._leave(settling, sink, args)
            raise ClosedError("the client was closed while this waited")
        try:
            reply = await asyncio.shield(settling)
        except asyncio.CancelledError:
            await self._leave(settling, sink, args)  # what it brings has no taker any more
            raise
        if reply is None:
            raise RequestTimeoutError("nothing came in time, and nothing was taken")
        return reply

    def _check_open(self) -> None:
        if self._is_closing:
            raise ClosedError("the client is closed")

    def _settle_behind(self, connection: Connection, sink: PendingWait) -> asyncio.Task[Any]:
        return self._behind(self._settle(connection, sink))

    async def _leave(self, settling: asyncio.Task[Any], sink: PendingWait, args: Command) -> None:
        await asyncio.shield(self._behind(self._give_back(settling, sink, args)))

    def _behind(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that runs to the end even if the caller is cancelled, or cancelled again."""
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def _settle(self, connection: Connection, sink: PendingOne) -> Any:
        """End the wait at the server; what it answered, None for nothing."""
        future, clock = sink.future, self._caller.clock
        patience_s = self._caller.options.request_timeout_s
        end_s = None if patience_s is None else clock.monotonic_s() + patience_s
        try:
            if not sink.is_sent:
                # It never will be. If the connection broke before, that is of no interest now.
                _ = future.cancel() or future.exception()
                return None
            while not future.done():
                unblocked = await self._unblock(connection)
                if unblocked is None or (end_s is not None and clock.monotonic_s() >= end_s):
                    log.error("a wait at the server could not be ended: %s", connection.last_error)
                    future.cancel()
                    return None  # `give` closes the connection, and the server notices
                if not unblocked:
                    await wait_for(clock, future, _RETRY_S)
            reply = future.result()
            if isinstance(reply, ServerError):
                return None  # -UNBLOCKED, or a mistake in the command: nothing was taken
            return reply
        except ClientError:
            return None  # the connection is gone, and what it carried with it
        finally:
            self._caller.give(connection)

    async def _unblock(self, connection: Connection) -> bool | None:
        """None: this server, or our permissions there, will never do it.

        False: it has answered, or not even read the command yet, or does not hear us now.
        """
        client_id = connection.agreed.client_id
        if client_id is None:
            return None
        try:
            command = ("CLIENT", "UNBLOCK", client_id)
            reply = await self._caller.call_beside(connection, command)
        except ClientError:
            return False
        return None if isinstance(reply, ServerError) else bool(reply == 1)

    async def _give_back(
        self, settling: asyncio.Task[Any], sink: PendingWait, args: Command
    ) -> None:
        reply = await settling
        undo = GIVE_BACK.get(name_of(args[0]))
        if reply is None or undo is None or sink.is_heeded:
            return
        command = undo(args, reply)
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
                    return
                break
        log.error("an element popped for a cancelled caller may be lost: %.200r", command)


def _expect(connection: Connection, sink: PendingWait) -> None:
    """The server should answer now. If it does not, see `silence`."""
    sink.is_overdue = True
    connection.watch()
