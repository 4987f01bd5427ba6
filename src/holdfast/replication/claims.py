"""Which servers say that they are a certain node: two of them must not both be right.

Every start of a server has a token, its life (store/life.py). A greeting names it, and those that
the same file had before. So a server that came back replaces itself, while two servers with one
node id, or two that run on copies of one file, are two lives of which neither is the other's past.
As long as both are heard the node is disputed: neither of them is linked, and neither takes writes.
No I/O.
"""

from collections.abc import Callable, Iterable

# A server that was not heard for so long is gone. It is heard once a second, also by its attempts.
PATIENCE_S = 10.0


class Claims:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._heard_s: dict[int, dict[bytes, float]] = {}  # node: life: when

    def hear(self, node: int, life: bytes, past: Iterable[bytes] = ()) -> bool:
        """A server speaks as that node. Returns whether another one does, too."""
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
