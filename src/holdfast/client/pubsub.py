"""Messages: channels and patterns, on connections of their own that subscribe again after a loss.

One connection is enough, except for sharded channels in a cluster: each lives at the node that
has its slot, and follows the slot when it moves.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Self

from holdfast.client.errors import RequestTimeoutError, ServerError
from holdfast.client.feed import Feed
from holdfast.client.into import Key
from holdfast.client.request import text_of
from holdfast.client.single import MAX_REDIRECTIONS, Caller
from holdfast.client.waiting import wait_for
from holdfast.errors import HoldfastError

_MAX_MESSAGES = 65_536


@dataclass(frozen=True, slots=True)
class Message:
    channel: str
    data: bytes
    pattern: str | None = None  # that it came through

    @property
    def text(self) -> str:
        return self.data.decode()


class PubSub:
    """Iterate over it for messages. What is sent while it reconnects is lost: see `losses`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._feed = Feed(caller.new_connection(), self)
        self._shards: list[Feed] = []
        self._homes: dict[str, Feed] = {}  # of sharded channels
        self._moving: set[asyncio.Task[None]] = set()
        self._messages: deque[Message] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failure: Exception | None = None
        self._is_closed = False
        self.losses = 0  # how often messages may have been missed

    async def __aenter__(self) -> Self:
        try:
            await self._feed.connection.connect()
        except BaseException:
            self._feed.connection.abandon()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for task in self._moving:
            task.cancel()
        feeds = [self._feed, *self._shards]
        for feed in feeds:
            feed.connection.abandon()
        self.on_closed()
        for feed in feeds:
            await feed.connection.close(0)

    async def subscribe(self, *channels: Key) -> None:
        """Returns when the server has confirmed all of them."""
        await self._ask(self._feed, "subscribe", _names(channels))

    async def psubscribe(self, *patterns: Key) -> None:
        await self._ask(self._feed, "psubscribe", _names(patterns))

    async def ssubscribe(self, *channels: Key) -> None:
        """Sharded channels."""
        for channel in _names(channels):
            await self._settle_down(channel)

    async def unsubscribe(self, *channels: Key) -> None:
        """From these channels, or from all."""
        await self._ask(self._feed, "unsubscribe", _names(channels) or self._all("subscribe"))

    async def punsubscribe(self, *patterns: Key) -> None:
        await self._ask(self._feed, "punsubscribe", _names(patterns) or self._all("psubscribe"))

    async def sunsubscribe(self, *channels: Key) -> None:
        for channel in _names(channels) or tuple(self._homes):
            feed = self._homes.pop(channel, None)
            if feed is not None:
                await self._ask(feed, "sunsubscribe", (channel,))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message; the iteration ends when this is closed.

        Raises what the server said when it would not renew a subscription.
        """
        while not self._messages:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._is_closed:
                raise StopAsyncIteration
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
                else:
                    self._wake_one()  # the message is still there, for somebody else
                raise
        return self._messages.popleft()

    # -- what a feed tells --------------------------------------------------------------------

    def on_message(self, push: list[Any]) -> None:
        if push[0] == b"pmessage":
            message = Message(text_of(push[2]), push[3], text_of(push[1]))
        else:
            message = Message(text_of(push[1]), push[2])
        if len(self._messages) >= _MAX_MESSAGES:
            self._messages.popleft()  # a reader that slow loses the oldest
            self.losses += 1
        self._messages.append(message)
        self._wake_one()

    def on_gap(self) -> None:
        self.losses += 1

    def on_dropped(self, kind: str, name: str, why: ServerError | None) -> None:
        if kind == "ssubscribe" and (why is None or self._caller.has_moved(why)):
            self.losses += 1
            task = asyncio.get_running_loop().create_task(self._follow(name))
            self._moving.add(task)
            task.add_done_callback(self._moving.discard)
        elif why is not None:
            self._fail(why)

    def on_closed(self) -> None:
        self._is_closed = True
        self._wake_all()

    # -- inside -------------------------------------------------------------------------------

    async def _ask(self, feed: Feed, kind: str, names: tuple[str, ...]) -> None:
        if not names:
            return
        confirmed = feed.ask(kind, names)
        timeout_s = self._caller.options.request_timeout_s
        try:
            if not await wait_for(self._caller.clock, confirmed, timeout_s):
                text = f"{kind} was not confirmed in time; it may yet be"
                raise RequestTimeoutError(text, may_have_executed=True)
            confirmed.result()
        finally:
            confirmed.cancel()

    def _all(self, kind: str) -> tuple[str, ...]:
        return tuple(self._feed.wanted[kind])

    async def _settle_down(self, channel: str) -> None:
        """Subscribe to a sharded channel where it is now."""
        for move in range(MAX_REDIRECTIONS):
            feed = await self._feed_for(channel, again=move > 0)
            try:
                await self._ask(feed, "ssubscribe", (channel,))
            except ServerError as error:
                if move == MAX_REDIRECTIONS - 1 or not self._caller.has_moved(error):
                    raise
            else:
                self._homes[channel] = feed
                return

    async def _feed_for(self, channel: str, *, again: bool) -> Feed:
        shard = await self._caller.shard_of(channel, again=again)
        if shard is None:
            return self._feed
        node, slot = shard
        for feed in self._shards:
            if feed.connection.reached == node:
                return feed
        feed = Feed(self._caller.new_connection(slot), self)
        feed.connection.reached = node
        self._shards.append(feed)
        try:
            await feed.connection.connect()
        except BaseException:
            self._shards.remove(feed)
            feed.connection.abandon()
            raise
        return feed

    async def _follow(self, channel: str) -> None:
        try:
            await self._settle_down(channel)
        except HoldfastError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._wake_all()

    def _wake_one(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                break

    def _wake_all(self) -> None:
        while self._waiting:
            self._wake_one()


def _names(given: tuple[Key, ...]) -> tuple[str, ...]:
    for name in given:
        if not isinstance(name, str | bytes):
            raise TypeError(f"the name of a channel or pattern is str or bytes, not {name!r}")
    return tuple(text_of(name) if isinstance(name, bytes) else name for name in given)
