"""Open pages that wait for news. A page that reads slowly gets only the latest news."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

MOST_PAGES = 5_000


@dataclass(frozen=True, slots=True)
class News:
    """One event for each kind of page: the figures as text of an event stream."""

    number: int
    events: dict[str, bytes]


class Hub:
    def __init__(self) -> None:
        self.run = secrets.token_hex(8)  # of this process: its sessions end with it
        self.latest = News(0, {})
        self.pages = 0
        self._changed = asyncio.Event()
        self._came = asyncio.Event()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return self.pages >= MOST_PAGES

    def publish(self, events: dict[str, bytes]) -> None:
        self.latest = News(self.latest.number + 1, events)
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self, kind: str) -> AsyncIterator[bytes]:
        """The events for pages of one kind, beginning with the latest, until the dashboard
        stops."""
        self.pages += 1
        self._came.set()
        try:
            number = -1
            while not self._is_closed:
                if self.latest.number != number:
                    number = self.latest.number
                    yield self.latest.events.get(kind, b": nothing yet\n\n")
                else:
                    await self._changed.wait()
        finally:
            self.pages -= 1

    async def wait_for_page(self, timeout_s: float) -> None:
        """Wait until the first page opens, or the time is over."""
        self._came.clear()
        if self.pages:
            await asyncio.sleep(timeout_s)
            return
        try:
            await asyncio.wait_for(self._came.wait(), timeout_s)
        except TimeoutError:
            pass


def event(name: str, data: str) -> bytes:
    """One event of an event stream."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
