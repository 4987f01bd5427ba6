"""Waiting with an injected clock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from holdfast.client.errors import ClientError, ConnectTimeoutError
from holdfast.clock import Clock

T = TypeVar("T")


@asynccontextmanager
async def deadline(
    clock: Clock,
    timeout_s: float | None,
    message: str,
    error: Callable[[str], ClientError] = ConnectTimeoutError,
) -> AsyncIterator[None]:
    """Cancel the body if it takes too long, and raise this error instead."""
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
            raise error(message) from None
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
    """Whether the future is done in time. Neither timeout nor cancellation changes it."""
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


def _see(task: asyncio.Task[Any]) -> None:
    """Look at the error of a future, so that asyncio does not complain about it."""
    _ = task.cancelled() or task.exception()


async def first_success(
    clock: Clock, attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]], patience_s: float
) -> T:
    """The result of the first attempt without a ClientError; the last error if all fail.

    The next attempt begins when those before have failed, or when the last one has taken longer
    than this: no attempt can hold up the others. `attempts` are not empty.
    """
    running: list[asyncio.Task[T]] = []
    failure: ClientError | None = None
    waiting = iter(attempts)
    try:
        while True:
            attempt = next(waiting, None)
            if attempt is not None:
                running.append(asyncio.create_task(attempt()))
                running[-1].add_done_callback(_see)
            if not running:
                assert failure is not None
                raise failure
            any_done = asyncio.ensure_future(
                asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            )
            try:
                await wait_for(clock, any_done, patience_s if attempt is not None else None)
            finally:
                any_done.cancel()
            for task in [task for task in running if task.done()]:
                running.remove(task)
                try:
                    return task.result()
                except ClientError as error:
                    failure = error
    finally:
        for task in running:
            task.cancel()
