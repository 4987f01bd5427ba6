"""The fair semaphore: FIFO, leases, fencing, on Holdfast, Redis, Valkey and their clusters.

It uses the client and knows nothing of our server. Only the Lua scripts of `lua` change its keys.
"""

from holdfast.semaphore.acquisition import (
    Acquisition,
    LeaseLostError,
    LimitMismatchError,
    UnknownLimitError,
)
from holdfast.semaphore.semaphore import Lock, Semaphore, SemaphoreStats

__all__ = [
    "Acquisition",
    "LeaseLostError",
    "LimitMismatchError",
    "Lock",
    "Semaphore",
    "SemaphoreStats",
    "UnknownLimitError",
]
