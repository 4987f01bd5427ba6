"""Clients that write while the server is killed, and then know which data it may have."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Self
from unittest.mock import ANY

import hiredis

from tests.faults.ledger import Inventor, Keys, Value, copied, reading, run
from tests.faults.ledger_types import Argv
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

# Runs the commands that its arguments are, each after its length.
SCRIPT = b"""
    local at, replies = 2, {}
    while ARGV[at] do
        local last = at + ARGV[at]
        replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, last))
        at = last + 1
    end
    if ARGV[1] == 'fail' then error('it was not to be') end
    return replies
"""


class _AnError:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, hiredis.ReplyError) and "it was not to be" in str(other)

    def __hash__(self) -> int:
        return 0


AN_ERROR = _AnError()

# Hears of every reply; this is how the test decides when to kill.
OnReply = Callable[[], None]
Task = Callable[[Link, OnReply], Awaitable[None]]


class Writer:
    """One connection with keys of its own, so it knows their content exactly.

    Commands run in order, and a batch is all or nothing. So after a crash its keys must be in the
    state after the last acknowledged command, or after a later command that was sent.
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
        self._call_script = [b"EVAL", SCRIPT]
        self.states: list[Keys] = [{}]  # after the last acknowledged unit, and after each sent

    async def write(self, link: Link, on_reply: OnReply) -> None:
        """Until the server is gone."""
        if self._call_script[0] == b"EVAL":  # once loaded, it survives crashes, too
            self._call_script = [b"EVALSHA", await link.call(b"SCRIPT", b"LOAD", SCRIPT)]
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
        """Commands that take effect together, and the reply to the last one."""
        rng = self._rng
        state = copied(self.states[-1])
        self.states.append(state)
        db = rng.choice(self.databases)
        argvs = [[b"SELECT", b"%d" % db]] if len(self.databases) > 1 else []
        if rng.random() < 0.2:
            group = [self._run_next(state, db) for _ in range(rng.randint(2, 6))]
            argvs += [[b"MULTI"], *(argv for argv, _ in group), [b"EXEC"]]
            return argvs, [reply for _, reply in group]
        if rng.random() < 0.2:
            return self._script(argvs, state, db)
        argv, reply = self._run_next(state, db)
        return [*argvs, argv], reply

    def _script(self, argvs: list[Argv], state: Keys, db: int) -> tuple[list[Argv], Any]:
        """Commands by way of a script, which may fail in the end: then it has done nothing."""
        fails = self._rng.random() < 0.3
        if fails:
            state = copied(state)
        group = [self._run_next(state, db, True) for _ in range(self._rng.randint(1, 6))]
        words = [word for argv, _ in group for word in (b"%d" % len(argv), *argv)]
        argvs.append([*self._call_script, b"0", b"fail" if fails else b"", *words])
        return argvs, AN_ERROR if fails else [reply for _, reply in group]

    def _run_next(self, state: Keys, db: int, in_script: bool = False) -> tuple[Argv, Any]:
        rng = self._rng
        argv = self._inventor.command(state, db)
        if len(self.databases) > 1 and rng.random() < 0.05:
            argv = rng.choice([[b"FLUSHDB"], [b"SWAPDB", b"1", b"2"]])
        elif rng.random() < 0.02 and not in_script:
            return rng.choice(self.beside), ANY
        return argv, run(state, db, argv)

    async def verify(self, link: Link) -> None:
        """The server is back. Check that its data is one of the possible states."""
        found: Keys = {}
        for db in self.databases:
            await link.call(b"SELECT", b"%d" % db)
            names = [*self._inventor.names, self._inventor.counter]
            if len(self.databases) > 1:
                everything = await link.call(b"KEYS", b"*")
                assert set(everything) <= set(names)
                assert len(everything) == await link.call(b"DBSIZE")
            for name in names:
                if (kept := await self._read(link, name)) is not None:
                    found[db, name] = kept
        await link.call(b"SELECT", b"0")
        assert found in self.states, difference(found, self.states)
        self.states = [found]

    async def _read(self, link: Link, name: bytes) -> tuple[Value, int] | None:
        asking = reading(name)
        try:
            argv = next(asking)
            while True:
                argv = asking.send(await link.call(*argv))
        except StopIteration as end:
            kept: tuple[Value, int] | None = end.value
            return kept


def difference(found: Keys, states: list[Keys]) -> str:
    lines = [f"none of {len(states)} states it may be in; what differs, as it should be and is:"]
    for state in states:
        places = [place for place in found | state if state.get(place) != found.get(place)]
        lines += [repr({place: (state.get(place), found.get(place)) for place in places})]
    return "\n".join(lines)
