"""Holdfast without coroutines: `with holdfast.sync.connect(url) as client: client.get("k")`."""

from typing import Unpack

import holdfast
from holdfast.client.api.sync_client import SyncClient
from holdfast.client.transport.options import ConnectOptions
from holdfast.semaphore.sync_semaphore import SyncAcquisition as Acquisition
from holdfast.semaphore.sync_semaphore import SyncLock as Lock
from holdfast.semaphore.sync_semaphore import SyncSemaphore as Semaphore

__all__ = ["Acquisition", "Lock", "Semaphore", "SyncClient", "connect"]


def connect(url: str = "redis://localhost:6379", **options: Unpack[ConnectOptions]) -> SyncClient:
    """Like holdfast.connect, but blocking and thread-safe; use it with `with`."""
    return SyncClient(lambda: holdfast.connect(url, **options))
