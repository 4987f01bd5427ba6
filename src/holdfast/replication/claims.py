"""Notices two servers that have one node id.

Every start of a server has a token, its life (store/file/life.py). A greeting names the life and
the earlier lives of the file. So a server that was restarted replaces itself. Two servers with one
node id, or on copies of one file, are two lives, and neither is in the past of the other. As long
as both are heard, the node is disputed: neither of them is linked, and neither takes writes. No
I/O.
"""

from collections.abc import Callable, Iterable

# A server that was not heard for so long is gone. A running one is heard once a second, if only by
# its attempts to link.
PATIENCE_S = 10.0


class Claims:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._heard_s: dict[int, dict[bytes, float]] = {}  # by node and life: when it was heard

    def hear(self, node: int, life: bytes, past: Iterable[bytes] = ()) -> bool:
        """A server has said that it is that node. Returns whether another one says so, too."""
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
