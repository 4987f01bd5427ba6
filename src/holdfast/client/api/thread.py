"""An event loop in a thread of its own, for callers without an event loop."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.client.errors import ClosedError

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, which holds nothing but the loop."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._pid = os.getpid()
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(
            target=_run, args=(self._loop, self._waiting), name="holdfast client", daemon=True
        )
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self._loop.is_closed() or os.getpid() != self._pid

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop, wait for it, and return its result."""
        waiting, loop = self._waiting, self._loop
        try:
            if os.getpid() != self._pid:
                raise RuntimeError("this client was made before a fork: make one in each process")
            if threading.get_ident() == self._thread.ident:
                raise RuntimeError("a hook that calls its own client would wait for itself")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            if self._loop.is_closed():
                raise _closed() from None
            raise
        # The thread closes the loop, then cancels all waiting calls. So it finds our call, or we
        # find the loop closed: no call is forgotten when another thread closes the client.
        waiting.add(future)
        if loop.is_closed():
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if loop.is_closed():
                coroutine.close()  # it may never have begun, because the loop had ended
            raise _closed() from None
        except BaseException:
            future.cancel()  # the wait was interrupted, for example by ^C
            raise
        finally:
            waiting.discard(future)

    def stop(self) -> None:
        if not self.is_over:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def abandon(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine, then stop the thread. Does not wait."""

        async def end() -> None:
            try:
                await last
            finally:
                asyncio.get_running_loop().stop()

        asyncio.run_coroutine_threadsafe(end(), self._loop)


def _run(loop: asyncio.AbstractEventLoop, waiting: set[concurrent.futures.Future[Any]]) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_others())
    finally:
        loop.close()
        for future in tuple(waiting):
            future.cancel()


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _closed() -> ClosedError:
    return ClosedError("the client is closed")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
