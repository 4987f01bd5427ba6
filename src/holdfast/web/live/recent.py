"""Answers that several tabs share for a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

MOST_NAMES = 1_000  # names are parts of addresses, so browsers may send any number of them


class Recent:
    """One question at a time for each name. Its answer is used for all callers that asked before it
    was sent, and for callers within the next moment, unless data was changed. An error is not
    kept."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def forget(self) -> None:
        """Called after a change: answers that are on their way may be older than the change,
        too."""
        self._answers = {}

    def _make_room(self) -> None:
        if len(self._locks) >= MOST_NAMES:
            self._answers = {}
            self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}

    async def get(self, name: Hashable, fresh_s: float, look: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a question that was sent at most `fresh_s` before this call."""
        self._make_room()
        oldest_s = self._monotonic_s() - fresh_s
        async with self._locks.setdefault(name, asyncio.Lock()):
            found = self._answers.get(name)
            if found is not None and found[0] >= oldest_s:
                return found[1]
            answers, sent_s = self._answers, self._monotonic_s()
            answer = await look()
            answers[name] = sent_s, answer
            return answer
