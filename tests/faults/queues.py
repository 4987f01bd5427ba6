"""Queues whose elements go in once and come out once, while clients push, pop, move and acknowledge
them and the server is killed."""

import random

from tests.faults.clients import Link, OnReply


class Queue:
    """Elements go in once and come out once, while clients push, pop and move them.

    Some clients pop from `source`, others move its elements to `kept`. An element is lost if the
    crash cut off the reply to its pop: one for each waiting connection at most. A moved element is
    never lost.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self.source, self.kept = b"queue", b"queue:kept"
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.popped: set[bytes] = set()
        self.lost: set[bytes] = set()
        self._waiting = 0  # pops sent and not answered

    def _new(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    async def push(self, link: Link, on_reply: OnReply) -> None:
        while True:
            sent = [
                [self._new() for _ in range(self._rng.randint(1, 4))]
                for _ in range(self._rng.randint(1, 8))
            ]
            self.sent.update(*sent)
            await link.send([[b"RPUSH", self.source, *elements] for elements in sent])
            for elements in sent:
                assert isinstance(await link.reply(), int)
                on_reply()
                self.acknowledged.update(elements)

    async def pop(self, link: Link, on_reply: OnReply) -> None:
        self._waiting += 1  # in the end it always waits: that is how the server leaves it
        while True:
            command = self._rng.choice([b"BLPOP", b"BRPOP"])
            name, element = await link.call(command, b"nothing", self.source, b"0")
            on_reply()
            assert name == self.source
            assert element not in self.popped, "delivered twice"
            assert element in self.sent - self.lost
            self.popped.add(element)

    async def move(self, link: Link, on_reply: OnReply) -> None:
        while True:
            ends = [self._rng.choice([b"LEFT", b"RIGHT"]) for _ in range(2)]
            element = await link.call(b"BLMOVE", self.source, self.kept, *ends, b"0")
            on_reply()
            assert element not in self.popped, "delivered twice"

    async def verify(self, link: Link) -> None:
        remaining: list[bytes] = []
        for name in (self.source, self.kept):
            remaining += await link.call(b"LRANGE", name, b"0", b"-1")
        there = set(remaining)
        assert len(there) == len(remaining), "in the list twice"
        assert not there & self.popped, "popped, and there again"
        assert not there & self.lost, "gone after one crash, there again after the next"
        assert there <= self.sent
        missing = self.acknowledged - there - self.popped - self.lost
        assert len(missing) <= self._waiting, f"lost {missing} with {self._waiting} waiting"
        self.lost |= missing
        self._waiting = 0
        # Only elements that are stored go on; the others were never pushed or were popped.
        gone = self.sent - self.acknowledged - there - self.popped
        self.lost |= gone
        self.acknowledged |= there
        # Keep the lists short, or reading them back is all that the test does.
        await link.call(b"LTRIM", self.kept, b"-20", b"-1")
        self.acknowledged -= (
            there
            - set(await link.call(b"LRANGE", self.kept, b"0", b"-1"))
            - set(await link.call(b"LRANGE", self.source, b"0", b"-1"))
        )


class StreamQueue:
    """A stream that a group reads and acknowledges; each reader has its own name.

    Every added entry is stored. Every delivered entry is pending in the group until its
    acknowledgement is sent, and is not pending once the acknowledgement is answered.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.name, self.group = b"stream-queue", b"readers"
        self.added: set[bytes] = set()  # ids, as answered
        self.read: dict[bytes, bytes] = {}  # by id: its consumer
        self.maybe_done: set[bytes] = set()  # its acknowledgement was sent
        self.done: set[bytes] = set()  # and answered

    async def add(self, link: Link, on_reply: OnReply) -> None:
        while True:
            count = self._rng.randint(1, 8)
            await link.send([[b"XADD", self.name, b"*", b"field", b"x" * 20]] * count)
            for _ in range(count):
                self.added.add(await link.reply())
                on_reply()

    def reader(self, name: bytes) -> "StreamReader":
        return StreamReader(self, self._rng, name)

    async def verify(self, link: Link) -> None:
        if not await link.call(b"EXISTS", self.name):
            assert not self.added
            await link.call(b"XGROUP", b"CREATE", self.name, self.group, b"0", b"MKSTREAM")
            return
        there = {entry_id for entry_id, _ in await link.call(b"XRANGE", self.name, b"-", b"+")}
        assert there >= self.added, f"lost {self.added - there}"
        (row,) = await link.call(b"XINFO", b"GROUPS", self.name)
        last = _parts(row[row.index(b"last-delivered-id") + 1])
        rows = await link.call(b"XPENDING", self.name, self.group, b"-", b"+", b"100000")
        pending = {entry_id: consumer for entry_id, consumer, _, _ in rows}
        given = {entry_id for entry_id in there if _parts(entry_id) <= last}
        assert given >= self.read.keys(), "given to somebody, and the group does not know"
        assert not pending.keys() & self.done, "acknowledged, and it waits again"
        assert given - pending.keys() <= self.maybe_done, "in nobody's hands, and not done"
        for entry_id, consumer in pending.items():
            assert self.read.get(entry_id, consumer) == consumer
        await self._start_over(link, pending.keys() | given)

    async def _start_over(self, link: Link, given: set[bytes]) -> None:
        """Keep it short, or reading it back is all that the test does."""
        if given:
            await link.call(b"XACK", self.name, self.group, *given)
            await link.call(b"XDEL", self.name, *given)
        self.added -= given
        self.read.clear()
        self.maybe_done.clear()
        self.done.clear()


class StreamReader:
    """Read, waiting if there is nothing, and acknowledge some of the entries."""

    def __init__(self, queue: StreamQueue, rng: random.Random, name: bytes) -> None:
        self._queue = queue
        self._rng = rng
        self._name = name

    async def read(self, link: Link, on_reply: OnReply) -> None:
        queue = self._queue
        reading = [b"XREADGROUP", b"GROUP", queue.group, self._name, b"COUNT", b"5", b"BLOCK", b"0"]
        while True:
            ((_, entries),) = await link.call(*reading, b"STREAMS", queue.name, b">")
            on_reply()
            for entry_id, _ in entries:
                assert entry_id not in queue.read, "given twice"
                queue.read[entry_id] = self._name
            done = [entry_id for entry_id, _ in entries if self._rng.random() < 0.8]
            if done:
                queue.maybe_done.update(done)
                assert await link.call(b"XACK", queue.name, queue.group, *done) == len(done)
                on_reply()
                queue.done.update(done)


def _parts(entry_id: bytes) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split(b"-")))
