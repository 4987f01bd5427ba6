"""Channels and patterns, on connections of their own that subscribe again after a loss.

One connection is enough, except for sharded channels in a cluster: such a channel is at the node
that has its slot, and the subscription follows the slot when it moves.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Self

from holdfast.client.api.pubsub_feed import PubSubFeed
from holdfast.client.errors import RequestTimeoutError, ServerError
from holdfast.client.protocol.into import Key
from holdfast.client.protocol.request import text_of
from holdfast.client.topology.single import MAX_REDIRECTIONS, Caller, check_open
from holdfast.client.transport.deadlines import wait_for
from holdfast.errors import HoldfastError

_MAX_MESSAGES = 65_536


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a channel. `pattern` is the pattern that the channel matched, if any."""

    channel: str
    data: bytes
    pattern: str | None = None  # of the subscription that matched

    @property
    def text(self) -> str:
        """The data as text. Raises UnicodeDecodeError if it is not UTF-8."""
        return self.data.decode()


class PubSub:
    """Iterate over it for messages. Messages sent while it reconnects are lost: see `losses`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._feed = PubSubFeed(caller.new_connection(), self)
        self._shards: list[PubSubFeed] = []
        self._homes: dict[str, PubSubFeed] = {}  # by sharded channel
        self._moving: dict[str, asyncio.Task[None]] = {}  # by sharded channel that is followed
        self._messages: deque[Message] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failure: Exception | None = None
        self._is_closed = False
        self.losses = 0  # how often messages may have been missed

    async def __aenter__(self) -> Self:
        await check_open(self._caller)
        try:
            await self._feed.connection.connect()
        except BaseException:
            self._feed.connection.abandon()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all subscriptions and the iteration."""
        for task in self._moving.values():
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
        """Subscribe to channels that match a pattern. Returns when the server has confirmed all."""
        await self._ask(self._feed, "psubscribe", _names(patterns))

    async def ssubscribe(self, *channels: Key) -> None:
        """Subscribe to sharded channels. Returns when the server has confirmed all."""
        await self._feed.check_open()
        for channel in _names(channels):
            await self._settle_down(channel)

    async def unsubscribe(self, *channels: Key) -> None:
        """Unsubscribe from these channels, or from all."""
        await self._ask(self._feed, "unsubscribe", _names(channels) or self._all("subscribe"))

    async def punsubscribe(self, *patterns: Key) -> None:
        """Unsubscribe from these patterns, or from all."""
        await self._ask(self._feed, "punsubscribe", _names(patterns) or self._all("psubscribe"))

    async def sunsubscribe(self, *channels: Key) -> None:
        """Unsubscribe from these sharded channels, or from all."""
        for channel in _names(channels) or tuple(self._homes | self._moving):
            if channel in self._moving:
                self._moving.pop(channel).cancel()
            feed = self._homes.pop(channel, None)
            try:
                if feed is not None:
                    await self._ask(feed, "sunsubscribe", (channel,))
            except ServerError as error:
                if not self._caller.has_moved(error):
                    raise  # else the node has dropped it together with the slot

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message; the iteration ends when this is closed.

        Raises the server's error if it did not renew a subscription.
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
                    self._wake_one()  # the message is still there: another reader gets it
                raise
        return self._messages.popleft()

    # -- called by feeds ----------------------------------------------------------------------

    def on_message(self, push: list[Any]) -> None:
        """For the feed: a message has come."""
        if push[0] == b"pmessage":
            message = Message(text_of(push[2]), push[3], text_of(push[1]))
        else:
            message = Message(text_of(push[1]), push[2])
        if len(self._messages) >= _MAX_MESSAGES:
            self._messages.popleft()  # the reader is too slow: the oldest message is lost
            self.losses += 1
        self._messages.append(message)
        self._wake_one()

    def on_gap(self) -> None:
        """For the feed: it has reconnected, and messages in between are lost."""
        self.losses += 1

    def on_dropped(self, kind: str, name: str, why: ServerError | None) -> None:
        """For the feed: the server ended a subscription, or did not renew it."""
        if kind == "ssubscribe" and (why is None or self._caller.has_moved(why)):
            self.losses += 1
            self._begin_to_follow(name)
        elif why is not None:
            self._fail(why)

    def on_closed(self) -> None:
        """For the feed: its connection is closed for good."""
        self._is_closed = True
        self._wake_all()

    # -- inside -------------------------------------------------------------------------------

    async def _ask(self, feed: PubSubFeed, kind: str, names: tuple[str, ...]) -> None:
        if not names:
            return
        await feed.check_open()
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
        """Subscribe to a sharded channel at the node that has it now.

        The node is noted before it confirms. If the confirmation does not come in time, the
        subscription may still begin later, and `sunsubscribe` has to end it.
        """
        for move in range(MAX_REDIRECTIONS):
            feed = self._homes[channel] = await self._feed_for(channel, again=move > 0)
            try:
                await self._ask(feed, "ssubscribe", (channel,))
                return
            except ServerError as error:
                if self._homes.get(channel) is feed:
                    del self._homes[channel]
                if move == MAX_REDIRECTIONS - 1 or not self._caller.has_moved(error):
                    raise

    async def _feed_for(self, channel: str, *, again: bool) -> PubSubFeed:
        shard = await self._caller.shard_of(channel, again=again)
        if shard is None:
            return self._feed
        node, slot = shard
        for feed in self._shards:
            if feed.connection.reached == node:
                return feed
        feed = PubSubFeed(self._caller.new_connection(slot), self)
        feed.connection.reached = node
        self._shards.append(feed)
        try:
            await feed.connection.connect()
        except BaseException:
            self._shards.remove(feed)
            feed.connection.abandon()
            raise
        return feed

    def _begin_to_follow(self, channel: str) -> None:
        if channel in self._moving:
            self._moving[channel].cancel()  # the slot has moved again
        task = asyncio.get_running_loop().create_task(self._follow(channel))
        self._moving[channel] = task

        def done(_: object) -> None:
            if self._moving.get(channel) is task:
                del self._moving[channel]

        task.add_done_callback(done)

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
