"""How often keys are used: Redis's logarithmic counter, which falls while a key is not used.

The counters are beside the keys, and exist only under a maxmemory-policy that needs them: otherwise
they cost nothing.
"""

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.store.memory.key import Key
    from holdfast.store.memory.keyspace import Keyspace

FRESH = 5  # of a new key, which else would be the first to go
MOST = 255
FEWEST_TO_SWEEP = 10_000


class Frequencies:
    """Counters by key id. A key that is not in here is new. The counter falls from the last use on:
    that is the key's `accessed_s`."""

    def __init__(self, keyspace: "Keyspace", rng: random.Random) -> None:
        self._keyspace = keyspace
        self._rng = rng
        self.log_factor = 10
        self.decay_min = 1  # a step down each time so long has passed; 0: never
        self._counts: dict[int, int] = {}
        self._sweep_at = FEWEST_TO_SWEEP

    def of(self, key: "Key") -> int:
        count = self._counts.get(key.id, FRESH)
        if not self.decay_min:
            return count
        idle_min = self._keyspace.now_s // 60 - key.accessed_s // 60
        return max(0, count - idle_min // self.decay_min)

    def used(self, key: "Key") -> None:
        """Count a use. Call it before `accessed_s` is set."""
        count = self.of(key)
        chance = 1 / (max(0, count - FRESH) * self.log_factor + 1)
        if count < MOST and self._rng.random() < chance:
            count += 1
        self.set(key, count)

    def set(self, key: "Key", count: int) -> None:
        self._counts[key.id] = count
        if len(self._counts) >= self._sweep_at:
            self._drop_dead()

    def _drop_dead(self) -> None:
        """There are twice as many as at the last sweep, which pays for this one."""
        self._counts = {
            key.id: self._counts[key.id]
            for database in self._keyspace.databases
            for key in database.space.in_memory()
            if key.id in self._counts
        }
        self._sweep_at = max(FEWEST_TO_SWEEP, 2 * len(self._counts))
