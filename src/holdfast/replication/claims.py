"""Notices two servers that have the same node id.

Each start of a server has a token, its life (store/file/life.py). A greeting names the life and the
earlier lives of the file. So a server that was restarted replaces itself. Two servers with the same
node id, or on copies of one file, are two lives, and neither is among the earlier lives of the
other. As long as both are heard, the node is disputed: neither of them is linked, and neither takes
writes. No I/O.
"""

from collections.abc import Callable, Iterable

# A server that was not heard for so long counts as gone. A running server is heard once a second,
# at least by its attempts to link.
PATIENCE_S = 10.0


class Claims:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        # by node and life: the time when it was last heard
        self._heard_s: dict[int, dict[bytes, float]] = {}

    def hear(self, node: int, life: bytes, past: Iterable[bytes] = ()) -> bool:
        """Note that a server with this life has told that it is that node. Returns whether another
        server tells the same."""
        lives = self._current(node)
        for each in past:
            lives.pop(each, None)
        lives[life] = self._now_s()
        self._heard_s[node] = lives
        return len(lives) > 1

    @property
    def disputed(self) -> list[int]:
        return [node for node in self._heard_s if len(self._current(node)) > 1]

    def _current(self, node: int) -> dict[bytes, float]:
        oldest_s = self._now_s() - PATIENCE_S
        lives = self._heard_s.get(node, {})
        return {life: heard_s for life, heard_s in lives.items() if heard_s >= oldest_s}
