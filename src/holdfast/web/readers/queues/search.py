"""Finds queues among all keys, a few keys at a time. No I/O: the caller runs SCAN."""

from collections import deque
from collections.abc import Iterable

from holdfast.web.readers.pace import COUNT
from holdfast.web.readers.queues.model import QueueId
from holdfast.web.readers.queues.recognise import SCANNED, recognise

MOST_QUEUES = 20_000


class Search:
    """Goes round and round through the keys. Types take turns, so that none hides the others."""

    def __init__(self) -> None:
        self.found: dict[QueueId, None] = {}
        self.rounds = 0
        self.is_full = False
        self._cursors: dict[str, str] = {}
        self._turns: deque[str] = deque(SCANNED)
        self._calls = 0

    def next(self) -> tuple[str, str]:
        """The type to scan for, and the cursor."""
        return self._turns[0], self._cursors.get(self._turns[0], "0")

    def scanned(self, kind: str, cursor: str, names: Iterable[bytes]) -> list[QueueId]:
        """The reply of SCAN. Returns the queues that are new."""
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
        return [queue for name in names if (queue := self.add(recognise(kind, name)))]

    def add(self, queue: QueueId | None) -> QueueId | None:
        """The queue, if it is new."""
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
        """The part of all keys that was looked at, between 0 and 1, in the first round."""
        if self.rounds:
            return 1.0
        return min(0.99, self._calls * COUNT / (len(SCANNED) * max(keys, 1)))
