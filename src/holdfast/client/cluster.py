"""A cluster: one `Single` per node, commands by slot, redirections followed.

A redirection means that the node did not run the command, so sending it to another is no replay.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias
from weakref import WeakSet

from holdfast.client.connection import Connection
from holdfast.client.errors import ClientError, ClosedError, ConnectError, ServerError
from holdfast.client.link import Dial, Factory, dialer
from holdfast.client.options import Options, Target
from holdfast.client.request import Argument
from holdfast.client.single import DEFAULT, Caller, Command, Single
from holdfast.client.slots import SLOTS, first_key, slot_of
from holdfast.client.state import State
from holdfast.clock import Clock

Address: TypeAlias = tuple[str, int]
_MAX_REDIRECTIONS = 8


class Cluster:
    """The caller for a cluster. Its state is that of the whole: open while it knows the slots."""

    def __init__(
        self,
        target: Target,
        clock: Clock,
        make: Callable[[Options], Single],
        connection: Callable[[Options, Dial], Connection],
    ) -> None:
        self.clock = clock
        self.options = target.options
        self._target = target
        self._make = make
        self._connection = connection
        self._nodes: dict[Address, Single] = {}
        self._connecting: dict[Address, asyncio.Task[None]] = {}
        self._slots: list[Address | None] = [None] * SLOTS
        self._learning: asyncio.Task[None] | None = None
        self._owners: dict[Connection, Single] = {}
        self._others: WeakSet[Connection] = WeakSet()
        self._random = random.Random()
        self.state = State.INIT
        self.last_error: Exception | None = None

    async def connect(self) -> None:
        if self.state is State.CLOSED:
            raise ClosedError("the client is closed")
        self.check_loop()
        if self.state is State.INIT:
            self.state = State.CONNECTING
            try:
                await self._learn()
            except BaseException as error:
                self.last_error = error if isinstance(error, ClientError) else None
                await self.close(0)
                raise
            self.state = State.OPEN

    async def close(self, grace_s: float | None) -> None:
        self.state = State.CLOSED
        if self._learning is not None:
            self._learning.cancel()
        nodes, self._nodes = self._nodes, {}
        for connection in self._others:
            connection.abandon()
        try:
            await asyncio.gather(*(node.close(grace_s) for node in nodes.values()))
        except asyncio.CancelledError:
            for node in nodes.values():
                node.abandon()
            raise

    def check_loop(self) -> None:
        for node in self._nodes.values():
            node.check_loop()

    def abandon(self) -> None:
        for node in self._nodes.values():
            node.abandon()
        for connection in self._others:
            connection.abandon_from_anywhere()

    # -- commands -----------------------------------------------------------------------------

    async def call(self, args: Command, timeout_s: float | None = DEFAULT) -> Any:
        node = await self._node_for(first_key(args))
        reply = await node.call(args, timeout_s)
        for _ in range(_MAX_REDIRECTIONS):
            if not self.has_moved(reply):
                break
            other = await self._redirected(reply)
            if reply.code == b"ASK":
                _, reply = await other.call_many([("ASKING",), args], timeout_s)
            else:
                reply = await other.call(args, timeout_s)
        return reply

    async def call_many(
        self, commands: list[Command], timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """By node and at the same time; a transaction goes to one node as a whole."""
        if commands[0] == ("MULTI",):
            return await self._call_together(commands, timeout_s)
        by_node: dict[int, tuple[Single, list[int]]] = {}
        for n, args in enumerate(commands):
            node = await self._node_for(first_key(args))
            by_node.setdefault(id(node), (node, []))[1].append(n)
        replies: list[Any] = [None] * len(commands)

        async def send(node: Single, places: list[int]) -> None:
            try:
                got = await node.call_many([commands[n] for n in places], timeout_s)
            except ClientError as error:
                got = [error] * len(places)
            for n, reply in zip(places, got, strict=True):
                replies[n] = reply

        await asyncio.gather(*(send(node, places) for node, places in by_node.values()))
        for n, reply in enumerate(replies):
            if self.has_moved(reply):
                try:
                    replies[n] = await self.call(commands[n], timeout_s)
                except ClientError as error:
                    replies[n] = error
        return replies

    async def _call_together(self, commands: list[Command], timeout_s: float | None) -> list[Any]:
        """A transaction. MOVED for one of its commands means that EXEC ran none of them."""
        key = next((first_key(args) for args in commands[1:] if len(args) > 1), None)
        node = await self._node_for(key)
        for _ in range(_MAX_REDIRECTIONS):
            replies = await node.call_many(commands, timeout_s)
            moved = next((reply for reply in replies if self.has_moved(reply)), None)
            if moved is None or moved.code == b"ASK":  # half of its keys may be here, half there
                break
            node = await self._redirected(moved)
        return replies

    async def lease(
        self, key: Argument | None = None, moved: ServerError | None = None
    ) -> Connection:
        node = await (self._node_for(key) if moved is None else self._redirected(moved))
        connection = await node.lease()
        self._owners[connection] = node
        return connection

    def give(self, connection: Connection) -> None:
        self._owners.pop(connection).give(connection)

    def call_beside(self, connection: Connection, args: Command) -> Awaitable[Any]:
        return self._owners[connection].call(args)

    def has_moved(self, reply: Any) -> bool:
        return isinstance(reply, ServerError) and reply.code in (b"MOVED", b"ASK")

    async def servers(self) -> list[Caller]:
        """The masters, as far as one knows now."""
        await self._learn_once()
        addresses = dict.fromkeys(address for address in self._slots if address is not None)
        return [await self._node(address) for address in addresses]

    async def shard_of(self, channel: str, *, again: bool) -> tuple[Address, int] | None:
        slot = slot_of(channel)
        if again or self._slots[slot] is None:
            await self._learn_once()
        address = self._slots[slot]
        if address is None:
            raise ConnectError("no node serves this channel's slot")
        return address, slot

    def new_connection(self, slot: int | None = None) -> Connection:
        """To whoever has the slot when it connects; without one, to any node."""

        async def dial(factory: Factory) -> object:
            await self._learn_once()
            owners = [address for address in self._slots if address is not None]
            address = self._random.choice(owners) if owners and slot is None else None
            if slot is not None:
                address = self._slots[slot]
            if address is None:
                raise ConnectError("no node of the cluster is known")
            connection.reached = address
            return await dialer(self._at(address), self.clock)(factory)

        connection = self._connection(replace(self.options, cache_keys=0), dial)
        self._others.add(connection)
        return connection

    # -- nodes --------------------------------------------------------------------------------

    async def _node_for(self, key: Argument | None) -> Single:
        if self.state is State.CLOSED:
            raise ClosedError("the client is closed")
        if key is None:
            address = next((a for a in self._slots if a is not None), None)
        else:
            address = self._slots[slot_of(key)]
        if address is None:
            await self._learn_once()
            address = self._slots[slot_of(key)] if key is not None else self._target.seeds[0]
        if address is None:
            raise ConnectError("no node serves this key's slot")
        return await self._node(address)

    async def _node(self, address: Address) -> Single:
        node = self._nodes.get(address)
        task = self._connecting.get(address)
        if node is None or node.state is State.CLOSED:
            node = self._nodes[address] = self._make(self._at(address))
            task = self._connecting[address] = asyncio.create_task(node.connect())
            task.add_done_callback(lambda done: self._connected_or_not(address, done))
        elif node.state is State.FAILED:
            self._learn_soon()  # it may have been replaced
        if task is not None:
            await asyncio.shield(task)
        return node

    def _connected_or_not(self, address: Address, done: asyncio.Task[None]) -> None:
        if self._connecting.get(address) is done:
            del self._connecting[address]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClientError):
            self.last_error = error
            self._nodes.pop(address, None)
            if self.state is State.OPEN:
                self._learn_soon()

    async def _redirected(self, error: ServerError) -> Single:
        """The node that `MOVED slot host:port` or `ASK slot host:port` names."""
        _, slot, where = error.message.decode().split(" ")[:3]
        host, _, port = where.rpartition(":")
        address = (host or self._target.seeds[0][0], int(port))
        if error.code == b"MOVED":
            self._slots[int(slot)] = address
            self._learn_soon()
        return await self._node(address)

    def _learn_soon(self) -> None:
        if self._learning is None or self._learning.done():
            self._learning = asyncio.get_running_loop().create_task(self._learn_quietly())

    async def _learn_quietly(self) -> None:
        try:
            await self._learn()
        except ClientError as error:
            self.last_error = error

    async def _learn_once(self) -> None:
        self._learn_soon()
        assert self._learning is not None
        await asyncio.shield(self._learning)

    async def _learn(self) -> None:
        """Ask any node which slots are where."""
        error: ClientError = ConnectError("no node of the cluster answers")
        known = [a for a, node in self._nodes.items() if node.state is State.OPEN]
        for address in dict.fromkeys([*known, *self._target.seeds]):
            try:
                reply = await (await self._connected(address)).call(("CLUSTER", "SLOTS"))
            except ClientError as failure:
                error = failure
                continue
            if isinstance(reply, ServerError):
                error = ConnectError(f"{address[0]}:{address[1]}: {reply}")
                continue
            slots: list[Address | None] = [None] * SLOTS
            for first, last, master, *_ in reply:
                host = master[0].decode() if master[0] else address[0]
                slots[first : last + 1] = [(host, master[1])] * (last + 1 - first)
            self._slots = slots
            return
        raise error

    async def _connected(self, address: Address) -> Single:
        node = self._nodes.get(address)
        if node is not None and node.state is State.OPEN:
            return node
        node = self._make(self._at(address))
        try:
            await node.connect()
        except BaseException:
            await node.close(0)
            raise
        old = self._nodes.get(address)
        self._nodes[address] = node
        if old is not None:
            await old.close(0)
        return node

    def _at(self, address: Address) -> Options:
        return replace(self._target.options, host=address[0], port=address[1], place=None)
