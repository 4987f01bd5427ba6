"""A cluster: one `Single` per node, commands by slot, redirections followed.

A redirection means that the node did not run the command, so sending it to another node is no
replay.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.client.errors import (
    ClientError,
    ConnectError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import Argument
from holdfast.client.topology.single import (
    DEFAULT,
    MAX_REDIRECTIONS,
    Caller,
    Command,
    Single,
    ask,
    check_open,
)
from holdfast.client.topology.slots import (
    SLOTS,
    Redirection,
    first_key,
    owners,
    redirection,
    slot_of,
)
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.deadlines import deadline, first_success, sleep, wait_for
from holdfast.client.transport.link import Dial, Factory, dialer
from holdfast.client.transport.options import Address, ClientOptions, Target
from holdfast.client.transport.silence import SilenceJudge
from holdfast.clock import Clock

_PATIENCE_S = 1.0  # before another node is asked as well
# While a slot is handed over, each of the two nodes may redirect to the other one. A command that
# is redirected twice within this time waits a moment before it follows the redirection.
_CONTESTED_S = 1.0
_PAUSE_S = 0.05


class Cluster:
    """The caller for a cluster. It is open while it knows the slots."""

    def __init__(
        self,
        target: Target,
        clock: Clock,
        make: Callable[[ClientOptions], Single],
        connection: Callable[[ClientOptions, Dial], Connection],
    ) -> None:
        self.clock = clock
        self.options = target.options
        self._target = target
        self._make = make
        self._connection = connection
        self._nodes: dict[Address, Single] = {}
        self._connecting: dict[Address, asyncio.Task[None]] = {}
        self._slots: list[Address | None] = [None] * SLOTS
        self._moved_s: dict[int, float] = {}  # when a node last reported that a slot had moved
        self._learning: asyncio.Task[None] | None = None
        self._owners: dict[Connection, Single] = {}
        self._others: WeakKeyDictionary[Connection, SilenceJudge] = WeakKeyDictionary()
        self._random = random.Random()
        self.state = State.INIT
        self.last_error: Exception | None = None

    async def connect(self) -> None:
        await check_open(self)
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
        for connection, judge in self._others.items():
            judge.stop()
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
        end_s = self._end_s(timeout_s)
        key = first_key(args)
        node = self._ready_node(key) or await self._in_time(self._node_for(key), end_s)
        reply = await node.call(args, timeout_s)
        for _ in range(MAX_REDIRECTIONS):
            moved = self._redirection(reply)
            if moved is None:
                break
            other = await self._in_time(self._redirected(moved), end_s)
            if moved.is_ask:
                _, reply = await other.call_many([("ASKING",), args], self._left_s(end_s))
                if isinstance(reply, ClientError):
                    raise reply  # instead of a reply that will not come
            else:
                reply = await other.call(args, self._left_s(end_s))
        return reply

    async def call_many(
        self, commands: list[Command], timeout_s: float | None = DEFAULT
    ) -> list[Any]:
        """Each node gets its commands, all at the same time. A transaction goes to one node."""
        end_s = self._end_s(timeout_s)
        if commands[0] == ("MULTI",):
            return await self._call_together(commands, end_s)
        by_node: dict[int, tuple[Single, list[int]]] = {}
        for n, args in enumerate(commands):
            key = first_key(args)
            node = self._ready_node(key) or await self._in_time(self._node_for(key), end_s)
            by_node.setdefault(id(node), (node, []))[1].append(n)
        replies: list[Any] = [None] * len(commands)

        async def send(node: Single, places: list[int]) -> None:
            try:
                got = await node.call_many([commands[n] for n in places], self._left_s(end_s))
            except ClientError as error:
                got = [error] * len(places)
            for n, reply in zip(places, got, strict=True):
                replies[n] = reply

        await asyncio.gather(*(send(node, places) for node, places in by_node.values()))
        for n, reply in enumerate(replies):
            if self.has_moved(reply):
                try:
                    replies[n] = await self.call(commands[n], self._left_s(end_s))
                except ClientError as error:
                    replies[n] = error
        return replies

    async def _call_together(self, commands: list[Command], end_s: float | None) -> list[Any]:
        """A transaction. MOVED or ASK for one of its commands means that EXEC ran none of them."""
        key = next((first_key(args) for args in commands[1:] if len(args) > 1), None)
        slot = None if key is None else slot_of(key)
        node = await self._in_time(self._node_for(key), end_s)
        before: list[Command] = []
        for _ in range(MAX_REDIRECTIONS):
            replies = await node.call_many([*before, *commands], self._left_s(end_s))
            replies = replies[len(before) :]
            moves = list(filter(None, map(self._redirection, replies)))
            if not moves or len({moved.slot for moved in moves} | {slot}) > 1:
                break  # keys of two slots: no node has both
            moved = moves[0]
            node = await self._in_time(self._redirected(moved), end_s)
            before = (
                [("ASKING",)] if moved.is_ask else []
            )  # one ASKING holds for the whole transaction
        return replies

    async def lease(
        self, key: Argument | None = None, moved: ServerError | None = None
    ) -> Connection:
        where = self._redirection(moved)
        node = await (self._node_for(key) if where is None else self._redirected(where))
        connection = await node.lease()
        self._owners[connection] = node
        return connection

    def give(self, connection: Connection) -> None:
        self._owners.pop(connection).give(connection)

    def call_beside(self, connection: Connection, args: Command) -> Awaitable[Any]:
        return self._owners[connection].call(args)

    def has_moved(self, reply: Any) -> bool:
        return self._redirection(reply) is not None

    def _redirection(self, reply: Any) -> Redirection | None:
        return redirection(reply, self._target.seeds[0][0])

    def _end_s(self, timeout_s: float | None) -> float | None:
        if timeout_s is DEFAULT:
            timeout_s = self.options.request_timeout_s
        return None if timeout_s is None else self.clock.monotonic_s() + timeout_s

    def _left_s(self, end_s: float | None) -> float | None:
        return None if end_s is None else max(0.0, end_s - self.clock.monotonic_s())

    async def _in_time(self, finding: Coroutine[Any, Any, Single], end_s: float | None) -> Single:
        """The time limit of a call also covers the search for its node."""
        text = "not sent in time: no connection to its node"
        async with deadline(self.clock, self._left_s(end_s), text, RequestTimeoutError):
            return await finding

    async def servers(self) -> list[Caller]:
        """The masters that are known now."""
        await self._learn_once()
        return [await self._node(address) for address in self._masters()]

    async def shard_of(self, channel: str, *, again: bool) -> tuple[Address, int] | None:
        slot = slot_of(channel)
        if again or self._slots[slot] is None:
            await self._learn_once()
        address = self._slots[slot]
        if address is None:
            raise ConnectError("no node serves this channel's slot")
        return address, slot

    def new_connection(self, slot: int | None = None) -> Connection:
        """To the node that has the slot when it connects; without a slot, to any node."""

        async def dial(factory: Factory) -> object:
            await self._learn_once()
            masters = [a for a in self._masters() if not self._is_silent(a)] or self._masters()
            address = self._random.choice(masters) if masters and slot is None else None
            if slot is not None:
                address = self._slots[slot]
            if address is None:
                raise ConnectError("no node of the cluster is known")
            connection.reached = address
            return await dialer(self._at(address), self.clock)(factory)

        connection = self._connection(replace(self.options, cache_keys=0), dial)
        judge = SilenceJudge(
            self.options, lambda options: self._connection(options, dial), lambda: [connection]
        )
        judge.on_silence = self._learn_soon
        judge.watch(connection)
        self._others[connection] = judge
        return connection

    # -- nodes --------------------------------------------------------------------------------

    def _masters(self) -> list[Address]:
        return list(dict.fromkeys(address for address in self._slots if address is not None))

    def _address_for(self, key: Argument | None) -> Address | None:
        if key is None:
            return next((a for a in self._slots if a is not None), None)
        return self._slots[slot_of(key)]

    def _ready_node(self, key: Argument | None) -> Single | None:
        """The node, if it is known and connected: the usual case, without a turn of the loop."""
        address = self._address_for(key)
        node = None if address is None else self._nodes.get(address)
        return node if node is not None and node.state is State.OPEN else None

    async def _node_for(self, key: Argument | None) -> Single:
        """The connected node of a key. If connecting takes long, the key may move meanwhile."""
        while True:
            await check_open(self)
            address = self._address_for(key)
            if address is None:
                await self._learn_once()
                address = self._address_for(key) if key is not None else self._target.seeds[0]
            if address is None:
                raise ConnectError("no node serves this key's slot")
            node, connecting = self._begin(address)
            if connecting is None:
                return node
            if await wait_for(self.clock, connecting, _PATIENCE_S):
                await asyncio.shield(connecting)
                return node
            self._learn_soon()

    async def _node(self, address: Address) -> Single:
        await check_open(self)
        node, connecting = self._begin(address)
        if connecting is not None:
            await asyncio.shield(connecting)
        return node

    def _begin(self, address: Address) -> tuple[Single, asyncio.Task[None] | None]:
        """The node at an address, and the task that connects it, if there is one."""
        node = self._nodes.get(address)
        if node is None or node.state is State.CLOSED:
            node = self._nodes[address] = self._make(self._at(address))
            node.has_successors = node.connection.is_replaceable = True
            node.silence.on_silence = self._learn_soon
            task = self._connecting[address] = asyncio.create_task(node.connect())
            task.add_done_callback(lambda done: self._connected_or_not(address, done))
        elif node.state is State.FAILED:
            self._learn_soon()  # the node may have been replaced
        return node, self._connecting.get(address)

    def _connected_or_not(self, address: Address, done: asyncio.Task[None]) -> None:
        if self._connecting.get(address) is done:
            del self._connecting[address]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClientError):
            self.last_error = error
            self._nodes.pop(address, None)
            if self.state is State.OPEN:
                self._learn_soon()

    async def _redirected(self, moved: Redirection) -> Single:
        """The node that MOVED or ASK names."""
        if not moved.is_ask:
            now_s = self.clock.monotonic_s()
            before_s = self._moved_s.get(moved.slot)
            self._moved_s[moved.slot] = now_s
            if before_s is not None and now_s - before_s < _CONTESTED_S:
                await sleep(self.clock, _PAUSE_S)
            self._slots[moved.slot] = moved.address
            self._learn_soon()
        return await self._node(moved.address)

    # -- slots --------------------------------------------------------------------------------

    def _learn_soon(self) -> None:
        if self.state is not State.CLOSED and (self._learning is None or self._learning.done()):
            self._learning = asyncio.get_running_loop().create_task(self._learn_quietly())

    async def _learn_quietly(self) -> None:
        try:
            await self._learn()
        except ClientError as error:
            self.last_error = error

    async def _learn_once(self) -> None:
        await check_open(self)
        self._learn_soon()
        if self._learning is not None:
            await asyncio.wait([self._learning])  # no shield needed: only close() cancels the task
        await check_open(self)

    async def _learn(self) -> None:
        """Ask nodes which slots are where, until one answers.

        The order is random: if the first node knows less than others, another one is the first
        the next time.
        """
        known = [*self._nodes, *self._masters()]
        self._random.shuffle(known)
        known.sort(key=self._speaks, reverse=True)
        addresses = dict.fromkeys([*known, *self._target.seeds])
        attempts = [partial(self._ask_for_slots, address) for address in addresses]
        self._slots = await first_success(self.clock, attempts, _PATIENCE_S)
        self._retire_replaced()

    async def _ask_for_slots(self, address: Address) -> list[Address | None]:
        if address not in self._nodes:
            await self._node(address)
        question = ("CLUSTER", "SLOTS")
        if self._speaks(address):
            reply = await self._nodes[address].call(question)
        else:
            reply = await ask(replace(self._at(address), reconnect=False), self.clock, *question)
        if isinstance(reply, ServerError):
            raise ConnectError(f"{address[0]}:{address[1]}: {reply}")
        return owners(reply, address[0])

    def _speaks(self, address: Address) -> bool:
        node = self._nodes.get(address)
        return node is not None and node.state is State.OPEN and not self._is_silent(address)

    def _is_silent(self, address: Address) -> bool:
        node = self._nodes.get(address)
        return node is not None and node.silence.is_silent(node.connection)

    def _retire_replaced(self) -> None:
        """Give up nodes that do not answer and have no slots any more."""
        masters = set(self._masters())
        error = ConnectionResetError("the node does not answer, and others have its slots")
        for address in [a for a in self._nodes if a not in masters and self._is_silent(a)]:
            self._nodes.pop(address).retire(error)
        for connection, judge in tuple(self._others.items()):
            if connection.reached not in masters and judge.is_silent(connection):
                connection.give_up(error)

    def _at(self, address: Address) -> ClientOptions:
        return replace(self._target.options, host=address[0], port=address[1], place=None)
