"""Decides when a connection that does not answer is given up.

Its server may be stopped, cut off or replaced; or it runs a long script, or holds the command back
(WAIT, CLIENT PAUSE). From this side all of these look the same. So a connection is never given up
for its silence alone, but only if there is a better connection (decision 15):

- Nothing came for a second, and the sentinels, asked again, lead to another server: all connections
  to the old one are given up.
- Nothing came for a second, and the cluster gave the slots of the node to another node: the same,
  see `cluster`.
- Nothing came for `silence_timeout_s`, the caller of the oldest command has left, and the server
  answers on a new connection: this connection is given up.

Commands in flight then fail as with every lost connection: they may have run.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

from holdfast.client.errors import ClientError, ServerError
from holdfast.client.protocol.pending import PendingOne
from holdfast.client.protocol.request import encode
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.options import ClientOptions

_PROBE_TIMEOUT_S = 5.0


class SilenceJudge:
    """Decides for the connections to one server, or to the server that sentinels name."""

    def __init__(
        self,
        options: ClientOptions,
        make: Callable[[ClientOptions], Connection],
        connections: Callable[[], Iterable[Connection]],
        *,
        follows: bool = False,
    ) -> None:
        """`follows`: a new connection may reach another server, which is then the right one."""
        self._limit_s = options.silence_timeout_s
        patience_s = min(options.connect_timeout_s or _PROBE_TIMEOUT_S, _PROBE_TIMEOUT_S)
        self._options = replace(
            options, reconnect=False, cache_keys=0, connect_timeout_s=patience_s
        )
        self._make = make
        self._connections = connections
        self._follows = follows
        self._probing: asyncio.Task[None] | None = None
        self._silent: WeakKeyDictionary[Connection, object] = WeakKeyDictionary()
        self.on_silence: Callable[[], None] | None = None

    def watch(self, connection: Connection) -> None:
        if self._limit_s is not None:
            connection.on_silence = lambda silent_s: self._look(connection, silent_s)

    def is_silent(self, connection: Connection) -> bool:
        return self._silent.get(connection) == connection.heard

    def stop(self) -> None:
        if self._probing is not None:
            self._probing.cancel()

    def _look(self, connection: Connection, silent_s: float) -> None:
        self._silent[connection] = connection.heard
        if self.on_silence is not None:
            self.on_silence()
        assert self._limit_s is not None
        is_due = silent_s >= self._limit_s and connection.is_given_up_on
        if (is_due or self._follows) and (self._probing is None or self._probing.done()):
            work = self._probe(connection, is_due=is_due)
            self._probing = asyncio.get_running_loop().create_task(work)

    async def _probe(self, connection: Connection, *, is_due: bool) -> None:
        heard, peer = connection.heard, connection.peer
        try:
            found = await self._reach()
        except ClientError:
            return
        if connection.heard != heard:
            return
        if self._follows and found != peer:
            error = ConnectionResetError("the server does not answer, and another took its place")
            for each in tuple(self._connections()):
                if each.peer == peer:
                    each.give_up(error)
        elif is_due:
            text = "nothing came over it for too long, although the server answers others"
            connection.give_up(ConnectionResetError(text))

    async def _reach(self) -> object:
        """The server that a new connection reaches. ClientError: no answer there either."""
        probe = self._make(self._options)
        probe.is_replaceable = True
        try:
            await probe.connect()
            answer = asyncio.get_running_loop().create_future()
            end_s = probe.clock.monotonic_s() + _PROBE_TIMEOUT_S
            probe.submit(PendingOne(encode(("PING",)), answer, end_s))
            reply = await answer
            if isinstance(reply, ServerError) and reply.is_retryable:
                raise ClientError(str(reply))  # the server runs a script, or loads its file
            return probe.peer
        finally:
            probe.abandon()
