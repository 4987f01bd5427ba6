"""`holdfast top` on a terminal: draws views, and reacts to keys and signals. It needs rich."""

import asyncio
import os
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Any

from rich.console import Console
from rich.live import Live

from holdfast.cli.top.screen import screen
from holdfast.cli.top.text import ORDERS, plain
from holdfast.errors import HoldfastError
from holdfast.figures.units import seconds
from holdfast.figures.view import View
from holdfast.figures.watch import ServerWatch

TICK_S = 0.5
PATIENCE_S = 2.0  # after this time without an answer the screen tells it

# ^C is a usual way to leave the screen, so it is no failure. The other signals come from outside.
EXIT_CODES = {signal.SIGINT: 0, signal.SIGTERM: 143, signal.SIGHUP: 129}


class LiveScreen:
    """The screen of one server, until the user leaves it."""

    def __init__(self, watch: ServerWatch, interval_s: float, count: int | None) -> None:
        self._watch = watch
        self._interval_s = interval_s
        self._looks_left = None if count is None else 1 + count  # the first sample has no rates
        self._console = Console()
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        has_keys = sys.stdin is not None and sys.stdin.isatty()
        self._terminal = Keyboard(sys.stdin.fileno()) if has_keys else None
        self._view = View(watch.address, time.time())
        self._answered_s = time.monotonic()
        self._orders = cycle(ORDERS)
        self._order = next(self._orders)
        self._stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Draw until the user leaves or all samples were shown. Returns the exit code. The last
        sample stays on the terminal as text, because the screen disappears when the program
        ends."""
        code = await self._show()
        if self._looks_left == 0:
            print(plain(self._view), flush=True)
        return code

    async def _show(self) -> int:
        with self._shown(), self._heeding():
            while True:
                started_s = time.monotonic()
                await self._look()
                if self._looks_left is not None:
                    self._looks_left -= 1
                wait_s = self._interval_s - (time.monotonic() - started_s)
                if self._looks_left == 0:
                    return 0
                if await self._stopped_within(max(0.0, wait_s)):
                    return self._stop.result()

    async def _look(self) -> None:
        looking = asyncio.ensure_future(self._watch.look())
        try:
            while not looking.done() and not self._stop.done():
                events: set[asyncio.Future[Any]] = {looking, self._stop}
                await asyncio.wait(events, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
                if not looking.done():
                    self._say_silent("")
            if looking.done():
                self._view = looking.result()
                self._answered_s = time.monotonic()
                self._draw()
        except HoldfastError as error:
            self._say_silent(str(error))
        finally:
            looking.cancel()

    def _say_silent(self, reason: str) -> None:
        """Keep the last figures, and show above them how old they are."""
        silent_s = time.monotonic() - self._answered_s
        if reason or silent_s >= PATIENCE_S:
            since = f"no answer for {seconds(silent_s // 1)}"
            self._view = replace(self._view, trouble=f"{since}: {reason}" if reason else since)
        self._draw()

    async def _stopped_within(self, wait_s: float) -> bool:
        await asyncio.wait({self._stop}, timeout=wait_s)
        return self._stop.done()

    # -- the terminal -------------------------------------------------------------------------

    def _draw(self) -> None:
        width, height = self._console.size
        self._live.update(screen(self._view, width, height, self._order), refresh=True)

    @contextmanager
    def _shown(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        if self._terminal is not None:
            self._terminal.enter()
        self._live.start()

    def _leave(self) -> None:
        self._live.stop()
        if self._terminal is not None:
            self._terminal.leave()

    # -- keys and signals ---------------------------------------------------------------------

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number, code in EXIT_CODES.items():
            loop.add_signal_handler(number, self._end, code)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        if self._terminal is not None:
            loop.add_reader(self._terminal.fd, self._key)
        try:
            yield
        finally:
            if self._terminal is not None:
                loop.remove_reader(self._terminal.fd)
            for number in (*EXIT_CODES, signal.SIGWINCH, signal.SIGTSTP):
                loop.remove_signal_handler(number)

    def _end(self, code: int) -> None:
        if not self._stop.done():
            self._stop.set_result(code)

    def _key(self) -> None:
        assert self._terminal is not None
        typed = self._terminal.read()
        if b"q" in typed.lower():
            self._end(0)
        elif not typed:  # the terminal is gone
            self._end(EXIT_CODES[signal.SIGHUP])
        elif b"s" in typed.lower():
            self._order = next(self._orders)
            self._draw()

    def _suspend(self) -> None:
        """^Z: give the shell its terminal, and take it back when the shell continues us."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self._draw()


class Keyboard:
    """A terminal whose keys arrive one by one and are not echoed. ^C and ^Z stay signals."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._usual = termios.tcgetattr(fd)

    def enter(self) -> None:
        tty.setcbreak(self.fd)

    def leave(self) -> None:
        termios.tcsetattr(self.fd, termios.TCSADRAIN, self._usual)

    def read(self) -> bytes:
        try:
            return os.read(self.fd, 64)
        except OSError:
            return b""
