"""A TCP proxy that misbehaves: it cuts, delays, half-closes and swallows data."""

import asyncio
import contextlib
import random
from typing import Self


class ChaosProxy:
    """`async with ChaosProxy(port, rng) as proxy`, then connect to `proxy.port`."""

    def __init__(self, server_port: int, rng: random.Random) -> None:
        self._server_port = server_port
        self._rng = rng
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._holes: set[asyncio.Task[None]] = set()
        self.calm = False
        self.port = 0
        self.counts = {"cut": 0, "delay": 0, "half-close": 0, "hole": 0}

    def swallow(self) -> None:
        """From now on the data of existing connections vanishes. New connections are not
        affected."""
        self.counts["hole"] += 1
        self._holes |= self._tasks

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._holes.discard)
        try:
            there = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there[1]}
        await asyncio.gather(
            self._pump(task, reader, there[1], writer),
            self._pump(task, there[0], writer, there[1]),
        )
        for each in (writer, there[1]):
            self._writers.discard(each)
            each.transport.abort()

    async def _pump(
        self,
        pair: asyncio.Task[None],
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
    ) -> None:
        rng = self._rng
        with contextlib.suppress(OSError):
            while data := await source.read(rng.choice([7, 100, 65536])):
                if pair in self._holes:
                    continue
                fate = 1.0 if self.calm else rng.random()
                if fate < 0.004:
                    self.counts["cut"] += 1
                    target.write(data[: rng.randint(0, len(data))])
                    target.transport.abort() if rng.random() < 0.5 else target.close()
                    back.transport.abort()
                    return
                if fate < 0.006 and target.can_write_eof():
                    self.counts["half-close"] += 1
                    target.write_eof()
                    return
                if fate < 0.03:
                    self.counts["delay"] += 1
                    await asyncio.sleep(rng.random() * 0.03)
                target.write(data)
                await target.drain()
        if pair not in self._holes:
            target.close()
