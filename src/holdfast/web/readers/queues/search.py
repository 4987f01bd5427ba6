"""Finds queues among all keys, a few keys at a time. No I/O: the caller runs SCAN."""

from collections import deque

from holdfast.web.readers.pace import COUNT
from holdfast.web.readers.queues.model import QueueId
from holdfast.web.readers.queues.recognise import SCANNED

MOST_QUEUES = 20_000


class Search:
    """Reads all keys, again and again. The types take turns, so that no type delays the others."""

    def __init__(self) -> None:
        self.found: dict[QueueId, None] = {}
        self.rounds = 0
        self.is_full = False
        self._cursors: dict[str, str] = {}
        self._turns: deque[str] = deque(SCANNED)
        self._calls = 0

    def next(self) -> tuple[str, str]:
        """The next type to scan for, and the cursor."""
        return self._turns[0], self._cursors.get(self._turns[0], "0")

    def scanned(self, kind: str, cursor: str) -> None:
        """Take the cursor of a reply of SCAN. The caller adds the queues of its names."""
        self._calls += 1
        self._turns.popleft()
        is_over = cursor == "0"
        self._cursors[kind] = cursor
        if not is_over:
            self._turns.append(kind)
        elif not self._turns:
            self.rounds += 1
            self._calls = 0
            self._turns.extend(SCANNED)

    def add(self, queue: QueueId | None) -> QueueId | None:
        """Note a queue. Returns it if it is new."""
        if queue is None or queue in self.found:
            return None
        if len(self.found) >= MOST_QUEUES:
            self.is_full = True
            return None
        self.found[queue] = None
        return queue

    def remove(self, queue: QueueId) -> None:
        self.found.pop(queue, None)

    def share(self, keys: int) -> float:
        """The part of all keys that was read in the first round, between 0 and 1."""
        if self.rounds:
            return 1.0
        return min(0.99, self._calls * COUNT / (len(SCANNED) * max(keys, 1)))
