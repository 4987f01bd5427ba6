"""Clients in WAIT and WAITAOF: until enough replicas have all writes so far.

They wait for the end of the batch of their last write, which is not known before that is committed.
"""

from collections.abc import Callable, Iterable
from typing import final

from holdfast.commands.context import Block
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.server.primary.replica import Replica
from holdfast.server.sessions.session import Session, Waiter
from holdfast.store.values.stream import Stream

Unblock = Callable[[Waiter, Reply], object]


class Wait:
    """`is_on_disk`: what counts is what replicas have on their disks."""

    def __init__(self, session: Session, block: Block, wanted: int, *, is_on_disk: bool) -> None:
        self.session = session
        self.block = block
        self.wanted = wanted
        self.is_on_disk = is_on_disk
        self.offset: int | None = None  # that the replicas must have

    @property
    def is_over(self) -> bool:
        waiter = self.session.waiter
        return self.offset is not None and (waiter is None or waiter.block is not self.block)


@final
class Waits:
    def __init__(self, unblock: Unblock, online: Callable[[], Iterable[Replica]]) -> None:
        """`online` returns the replicas that get the stream."""
        self._unblock = unblock
        self._online = online
        self._waits: list[Wait] = []

    def count_with(self, offset: int, *, is_on_disk: bool = False) -> int:
        """How many replicas have all up to this offset."""
        return sum(
            (replica.on_disk if is_on_disk else replica.acknowledged) >= offset
            for replica in self._online()
        )

    def reply(self, offset: int, *, is_on_disk: bool) -> tuple[int, Reply]:
        """How many they are, and the reply that says so. (A reply to WAITAOF leaves when this
        server has synced, too.)"""
        count = self.count_with(offset, is_on_disk=is_on_disk)
        return count, [1, count] if is_on_disk else count

    def add(
        self, session: Session, wanted: int, timeout_s: float, now: Reply, *, is_on_disk: bool
    ) -> Wait:
        """`now` is the reply where a client cannot wait."""
        block = Block((), Stream, timeout_s, on_timeout=now, when_denied=now)
        wait = Wait(session, block, wanted, is_on_disk=is_on_disk)
        self._forget_those_that_are_over()
        self._waits.append(wait)
        return wait

    def begin(self, offset: int) -> bool:
        """A batch is committed, and the stream ends here. Whether clients that came in this batch
        still wait."""
        new = [wait for wait in self._waits if wait.offset is None]
        for wait in new:
            wait.offset = offset
        if new:
            self.serve()
        return any(wait in self._waits for wait in new)

    def serve(self) -> None:
        """Let clients go whose replicas are enough."""
        for wait in self._waits:
            if wait.offset is not None and not wait.is_over:
                count, reply = self.reply(wait.offset, is_on_disk=wait.is_on_disk)
                wait.block.on_timeout = reply
                if count >= wait.wanted:
                    assert wait.session.waiter is not None
                    self._unblock(wait.session.waiter, reply)
        self._forget_those_that_are_over()

    def end(self, why: CommandError) -> None:
        for wait in self._waits:
            if not wait.is_over and wait.session.waiter is not None:
                self._unblock(wait.session.waiter, why)
        self._waits.clear()

    def _forget_those_that_are_over(self) -> None:
        self._waits = [wait for wait in self._waits if not wait.is_over]
