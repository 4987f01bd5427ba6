"""Waiting with an injected clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.client.errors import ConnectTimeoutError
from holdfast.clock import Clock


@asynccontextmanager
async def deadline(clock: Clock, timeout_s: float | None, message: str) -> AsyncIterator[None]:
    """Cancel what is inside when it takes too long, and raise ConnectTimeoutError instead."""
    if timeout_s is None:
        yield
        return
    task = asyncio.current_task()
    assert task is not None
    requested = task.cancelling()
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = clock.call_later(timeout_s, expire)
    try:
        yield
    except asyncio.CancelledError:
        if expired and task.uncancel() <= requested:
            raise ConnectTimeoutError(message) from None
        raise
    finally:
        timer.cancel()


async def sleep(clock: Clock, delay_s: float) -> None:
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay_s, lambda: None if woken.done() else woken.set_result(None))
    try:
        await woken
    finally:
        timer.cancel()


async def wait_for(clock: Clock, future: asyncio.Future[Any], timeout_s: float | None) -> bool:
    """Whether the future is done in time. Neither timeout nor cancellation touches it."""
    if future.done():
        return True
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    future.add_done_callback(wake)
    timer = None if timeout_s is None else clock.call_later(timeout_s, wake)
    try:
        await woken
    finally:
        future.remove_done_callback(wake)
        if timer is not None:
            timer.cancel()
    return future.done()
