"""Clients that write while the server is killed, and know afterwards what it may remember."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Self
from unittest.mock import ANY

import hiredis

from tests.faults.ledger import Argv, Inventor, Keys, copied, run
from tests.harness import encode_command


class Link:
    """A connection; ConnectionError when the server is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader(notEnoughData=_MORE)

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, argvs: list[Argv]) -> None:
        self._writer.write(b"".join(encode_command(*argv) for argv in argvs))
        await self._writer.drain()

    async def reply(self) -> Any:
        while (reply := self._parser.gets()) is _MORE:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionError("the server is gone")
            self._parser.feed(data)
        return reply

    async def call(self, *argv: bytes) -> Any:
        await self.send([list(argv)])
        return await self.reply()

    def close(self) -> None:
        self._writer.transport.abort()


_MORE = object()

# Hears of every reply; this is how the test decides when to kill.
OnReply = Callable[[], None]


class Writer:
    """One connection with keys of its own, so it knows exactly what they are.

    Commands run in order and a batch is all or nothing, so after a crash its keys must be as
    they were after the last acknowledged command or after some later one that was sent.
    """

    # Commands that change how the server works, and none of the keys.
    beside: ClassVar[list[Argv]] = [
        [b"BGSAVE"],
        *(
            [b"CONFIG", b"SET", b"appendfsync", policy]
            for policy in (b"always", b"everysec", b"no")
        ),
    ]

    def __init__(self, rng: random.Random, number: int) -> None:
        self._rng = rng
        self._inventor = Inventor(rng, b"w%d" % number)
        # The first has two databases for itself, to flush and swap them.
        self.databases = [1, 2] if number == 0 else [0]
        self.states: list[Keys] = [{}]  # after the last acknowledged unit, and after each sent

    async def write(self, link: Link, on_reply: OnReply) -> None:
        """Until the server is gone."""
        while True:
            units = [self._next_unit() for _ in range(self._rng.choice([1, 1, 2, 5, 20]))]
            await link.send([argv for argvs, _ in units for argv in argvs])
            for argvs, expected in units:
                for _ in argvs:
                    reply = await link.reply()
                    on_reply()
                assert reply == expected, (argvs, reply, expected)
                del self.states[0]

    def _next_unit(self) -> tuple[list[Argv], Any]:
        """Commands that take effect together, and what the last one answers."""
        rng = self._rng
        state = copied(self.states[-1])
        self.states.append(state)
        db = rng.choice(self.databases)
        argvs = [[b"SELECT", b"%d" % db]] if len(self.databases) > 1 else []
        if rng.random() < 0.2:
            group = [self._run_next(state, db) for _ in range(rng.randint(2, 6))]
            argvs += [[b"MULTI"], *(argv for argv, _ in group), [b"EXEC"]]
            return argvs, [reply for _, reply in group]
        argv, reply = self._run_next(state, db)
        return [*argvs, argv], reply

    def _run_next(self, state: Keys, db: int) -> tuple[Argv, Any]:
        rng = self._rng
        argv = self._inventor.command(state, db)
        if len(self.databases) > 1 and rng.random() < 0.05:
            argv = rng.choice([[b"FLUSHDB"], [b"SWAPDB", b"1", b"2"]])
        elif rng.random() < 0.02:
            return rng.choice(self.beside), ANY
        return argv, run(state, db, argv)

    async def verify(self, link: Link) -> None:
        """The server is back: is what it has one of the states it may have?"""
        found: Keys = {}
        for db in self.databases:
            await link.call(b"SELECT", b"%d" % db)
            names = [*self._inventor.names, self._inventor.counter]
            if len(self.databases) > 1:
                everything = await link.call(b"KEYS", b"*")
                assert set(everything) <= set(names)
                assert len(everything) == await link.call(b"DBSIZE")
            for name in names:
                if (kept := await _read(link, name)) is not None:
                    found[db, name] = kept
        await link.call(b"SELECT", b"0")
        assert found in self.states, _difference(found, self.states)
        self.states = [found]


async def _read(link: Link, name: bytes) -> tuple[bytes | list[bytes], int] | None:
    await link.send([[b"TYPE", name], [b"PEXPIRETIME", name]])
    kind, expiry = await link.reply(), await link.reply()
    if kind == b"none":
        return None
    if kind == b"string":
        return await link.call(b"GET", name), expiry
    elements = await link.call(b"LRANGE", name, b"0", b"-1")
    assert len(elements) == await link.call(b"LLEN", name)
    return elements, expiry


def _difference(found: Keys, states: list[Keys]) -> str:
    lines = [f"none of {len(states)} states it may be in; what differs, as it should be and is:"]
    for state in states:
        places = [place for place in found | state if state.get(place) != found.get(place)]
        lines += [repr({place: (state.get(place), found.get(place)) for place in places})]
    return "\n".join(lines)


class Queue:
    """Elements go in once and come out once, whoever pushes, pops and moves them.

    `source` is popped by some and moved to `kept` by others. What leaves by a pop whose reply
    the crash cut off is lost, one per waiting connection at most; what is moved is never lost.
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
        # Only what is there goes on; the rest was never pushed or is gone for good.
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


Task = Callable[[Link, OnReply], Awaitable[None]]
