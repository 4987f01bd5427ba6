"""The loop in a thread: the effect of its end on calls that have not begun."""

import asyncio
import concurrent.futures
import inspect
from collections.abc import Coroutine

import pytest

from holdfast.client.api.thread import LoopThread
from holdfast.client.errors import ClosedError


def test_a_call_that_the_loop_never_began_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = LoopThread()

    def too_late(
        _: Coroutine[object, object, None], loop: asyncio.AbstractEventLoop
    ) -> concurrent.futures.Future[None]:
        thread.stop()
        assert loop.is_closed()
        return concurrent.futures.Future()

    async def call() -> None:
        raise AssertionError("nobody can run this")

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", too_late)
    coroutine = call()
    with pytest.raises(ClosedError):
        thread.wait(coroutine)
    # Otherwise Python warns that it was never awaited.
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
