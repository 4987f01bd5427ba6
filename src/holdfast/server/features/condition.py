"""The condition of the server: whether the disk fails, memory is full, clients are paused, or a
script runs for too long. In each of these `Admission` looks at every command.
"""

from typing import final

from holdfast.errors import CommandError
from holdfast.store.memory.eviction import Deletion


@final
class Condition:
    def __init__(self) -> None:
        self.failure: CommandError | None = None  # of the disk
        # Of a replica, or of an active-active server that has not all data of its peers yet.
        self.read_only: CommandError | None = None
        self.stale: CommandError | None = None  # see replica-serve-stale-data
        self.too_few_replicas: CommandError | None = None  # see min-replicas-to-write
        # The error that refuses writes: `failure`, `read_only` or `too_few_replicas`.
        self.refusal: CommandError | None = None
        self.deletion: Deletion | None = None  # deletes keys above maxmemory, if the policy does
        self.is_out_of_memory = False  # when the running command began
        self.lacks_room = False  # memory that cannot be forgotten is above maxmemory
        self.is_paused = False  # see pause.py
        self.is_busy = False  # a script runs for too long
        self.is_unusual = False  # one of these holds

    def update(self) -> None:
        """Must be called after a change of another attribute."""
        self.refusal = self.failure or self.read_only or self.too_few_replicas
        self.is_unusual = (
            self.refusal is not None
            or self.stale is not None
            or self.deletion is not None
            or self.is_paused
            or self.is_busy
        )
