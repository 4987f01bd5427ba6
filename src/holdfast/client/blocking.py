"""Commands that wait at the server: on a connection of their own, and safe to cancel.

A caller that gives up may do so when the server has already popped an element for it. So giving
up means: tell the server to unblock that connection, read what it answers, and put an element
that came after all back where it was, which also hands it to whoever waits next. A timeout of
the caller's does the same, but returns the element instead of putting it back.
"""

import asyncio
import logging
from typing import Any

from holdfast.client.connection import Connection
from holdfast.client.errors import ClientError, ClosedError, RequestTimeoutError, ServerError
from holdfast.client.pending import PendingOne
from holdfast.client.request import encode
from holdfast.client.single import Caller, Command
from holdfast.client.slots import first_key
from holdfast.client.special import GIVE_BACK, name_of
from holdfast.client.waiting import sleep, wait_for

log = logging.getLogger(__name__)
_RETRY_S = 0.01


class Blocking:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._settling: set[asyncio.Task[Any]] = set()

    async def call(self, args: Command, timeout_s: float | None) -> Any:
        """The reply as it is. `timeout_s` is the caller's patience, not the server's."""
        connection = await self._caller.lease(first_key(args))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        sink = PendingOne(encode(args), future)
        try:
            connection.submit(sink)
        except ClientError:
            self._caller.give(connection)
            raise
        try:
            in_time = await wait_for(self._caller.clock, future, timeout_s)
        except asyncio.CancelledError:
            await self._in_background(self._give_back(connection, sink, args))
            raise
        if not in_time:
            reply = await self._in_background(self._settle(connection, sink))
            if reply is None:
                raise RequestTimeoutError("nothing came in time, and nothing was taken")
            return reply
        self._caller.give(connection)
        return future.result()

    async def finish(self, grace_s: float | None) -> None:
        """Wait until everything that was popped for nobody is back, but not for ever."""
        if self._settling:
            settled = asyncio.ensure_future(asyncio.wait(self._settling))
            await wait_for(self._caller.clock, settled, grace_s)
            settled.cancel()

    async def _in_background(self, work: Any) -> Any:
        """Run to the end even if the caller is cancelled again."""
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return await asyncio.shield(task)

    async def _settle(self, connection: Connection, sink: PendingOne) -> Any:
        """End the wait at the server; what it answered, None for nothing."""
        future = sink.future
        try:
            if not sink.is_sent:
                future.cancel()  # then it never will be
                return None
            while not future.done():
                # 0 means that it has answered, or that it has not even read the command yet.
                if not await self._unblock(connection):
                    await wait_for(self._caller.clock, future, _RETRY_S)
            reply = future.result()
            if isinstance(reply, ServerError):
                return None  # -UNBLOCKED, or a mistake in the command: nothing was taken
            return reply
        except ClientError:
            return None  # the connection is gone, and what it carried with it
        finally:
            self._caller.give(connection)

    async def _unblock(self, connection: Connection) -> bool:
        client_id = connection.agreed.client_id
        if client_id is None:
            return False
        try:
            command = ("CLIENT", "UNBLOCK", client_id)
            return bool(await self._caller.call_beside(connection, command) == 1)
        except ClientError:
            return False

    async def _give_back(self, connection: Connection, sink: PendingOne, args: Command) -> None:
        reply = await self._settle(connection, sink)
        undo = GIVE_BACK.get(name_of(args[0]))
        if reply is None or undo is None:
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
