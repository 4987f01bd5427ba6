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
        # Of a replica; of an active-active server that has to wait.
        self.read_only: CommandError | None = None
        self.stale: CommandError | None = None  # see replica-serve-stale-data
        self.too_few_replicas: CommandError | None = None  # see min-replicas-to-write
        self.refusal: CommandError | None = None  # why writes are refused: one of these three
        self.deletion: Deletion | None = None  # what keeps memory below maxmemory, if it is needed
        self.is_out_of_memory = False  # as it was before the running command
        self.lacks_room = False  # memory that cannot be forgotten is above maxmemory
        self.is_paused = False  # see pause.py
        self.is_busy = False  # a script runs for too long
        self.is_unusual = False  # one of these holds

    def update(self) -> None:
        """To be called after a change of the others."""
        self.refusal = self.failure or self.read_only or self.too_few_replicas
        self.is_unusual = (
            self.refusal is not None
            or self.stale is not None
            or self.deletion is not None
            or self.is_paused
            or self.is_busy
        )
