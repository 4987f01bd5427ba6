"""Lines between servers that can be cut and blocked: proxies between unix sockets, in a thread."""

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self


class Line:
    """One server's way to another."""

    def __init__(self, here: Path, there: Path, rng: random.Random) -> None:
        self.here, self._there = here, there
        self._rng = rng
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._passes = asyncio.Event()
        self._passes.set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self.here)

    def stop(self) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """No connection gets through, and existing ones break in the middle of a message."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def block(self) -> None:
        """No data moves, and neither end is told."""
        self._passes.clear()

    def heal(self) -> None:
        self._is_cut = False
        self._passes.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if not self._is_cut:
                there = await asyncio.open_unix_connection(self._there)
                both = {writer, there[1]}
                self._writers |= both
                await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))
                self._writers -= both
                there[1].transport.abort()
        writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(self._rng.choice([11, 1000, 65536])):
                await self._passes.wait()
                target.write(data)
                await target.drain()
        target.transport.abort()


class Cutter:
    """All lines between servers 1…count whose sockets are `<n>.sock` in the folder."""

    def __init__(self, folder: Path, count: int, rng: random.Random) -> None:
        self._folder = folder
        numbers = range(1, count + 1)
        self.lines = {
            (one, other): Line(self.way(one, other), folder / f"{other}.sock", rng)
            for one in numbers
            for other in numbers
            if one != other
        }
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._is_ready = threading.Event()

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        for line in self.lines.values():
            await line.start()
        self._is_ready.set()
        await self._end.wait()
        for line in self.lines.values():
            line.stop()

    def way(self, one: int, other: int) -> Path:
        """Where the first dials to reach the second."""
        return self._folder / f"{one}-{other}.sock"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30)

    def each(self, do: Callable[[Line], None], *ends: int) -> None:
        """To all lines that touch one of these servers, or both if two are named; or to all."""
        for line_ends, line in self.lines.items():
            if (len(ends) < 2 and {*ends} <= {*line_ends}) or {*ends} == {*line_ends}:
                self._loop.call_soon_threadsafe(do, line)

    def heal(self) -> None:
        self.each(Line.heal)
