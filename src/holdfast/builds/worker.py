"""`Worker`: takes builds from a queue, runs them, and keeps their leases until they end.

It does not poll the queue: it waits in a blocking pop. It decides only about its own handlers; the
scripts decide everything else.
"""

import asyncio
import functools
import inspect
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from holdfast.builds.build import BadBuildError, BuildRecord, job_name, number, whole
from holdfast.builds.queue import BuildQueue
from holdfast.builds.results import Decision
from holdfast.client.errors import ClientError, ClosedError, ServerError
from holdfast.client.transport.deadlines import sleep
from holdfast.clock import Clock, SystemClock

log = logging.getLogger(__name__)
T = TypeVar("T")
_CONNECTIONS = 3  # two of them wait in blocking pops
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


class BuildFailed(Exception):  # noqa: N818 - a result, not an error of the program
    """Raised by a handler: the build has failed, and another attempt would change nothing."""


@dataclass(frozen=True)
class Run:
    """An attempt at a build, as its handler sees it.

    `token` grows with every attempt of any build. Writes of the handler to other systems should
    carry it, so that a worker that was cut off cannot overwrite the work of later attempts.
    """

    record: BuildRecord
    token: int

    @property
    def build_id(self) -> int:
        """The number of the build."""
        return self.record.id

    @property
    def job_id(self) -> str:
        """The name of the build's job."""
        return self.record.job_id

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first one is 1."""
        return self.record.attempt

    @property
    def annotations(self) -> dict[str, Any]:
        """The annotations that the build was enqueued with."""
        return self.record.annotations


Handler = Callable[[Run], Awaitable[bool | None]]


class _Running:
    """A running handler, and the reason if it was cancelled."""

    def __init__(self, run: Run, handling: asyncio.Task[bool | None]) -> None:
        self.run = run
        self.handling = handling
        self.cancelled: str | None = None

    def cancel(self, why: str) -> None:
        if self.cancelled is None and not self.handling.done():
            self.cancelled = why
            self.handling.cancel()


class Worker:
    """Runs up to `concurrency` builds at once, with `await worker.run()` or `async with`.

    If the handler returns, the build has succeeded. If it returns False or raises BuildFailed, the
    build has failed. After any other exception the build could not be run, and the queue may allow
    another attempt. The handler is cancelled when its build is aborted, times out or belongs to
    another worker. If a worker sends no heartbeat for `lease_s`, another worker gets its builds.
    Names of workers must differ: of two workers with the same name, the wrong one may get a
    message, and the right one learns it only with its next heartbeat.
    """

    def __init__(
        self,
        queue: BuildQueue,
        handler: Handler,
        *,
        concurrency: int = 1,
        name: str | None = None,
        lease_s: float = 30,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(queue, BuildQueue):
            raise TypeError(f"a worker takes builds from a BuildQueue, not from {queue!r}")
        _check_handler(handler)
        if queue.most_at_once is not None and queue.most_at_once < _CONNECTIONS:
            raise BadBuildError(
                f"a worker needs {_CONNECTIONS} connections, for builds, for aborts and for all"
                f" else; its client has at most {queue.most_at_once}"
            )
        unique = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.name = job_name(unique if name is None else name)
        if " " in self.name:
            raise BadBuildError(f"a worker's name has no spaces: {self.name!r}")
        self._queue = queue
        self._handler = handler
        self._slots = asyncio.Semaphore(whole("concurrency", concurrency, 1, 10_000))
        self._lease_s = number("lease_s", lease_s, above=0)
        self._clock = clock or SystemClock()
        self._draining = asyncio.Event()
        self._running: dict[int, _Running] = {}
        self._told: set[int] | None = None  # aborted tokens, while a claim has no reply yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._over = asyncio.Event()
        self._over.set()

    # -- life ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`. If cancelled, it leaves at once."""
        self._over.clear()
        beside = [self._repeat(self._beat), self._repeat(self._listen)]
        helpers = [asyncio.create_task(each) for each in beside]
        try:
            while not self._draining.is_set():
                await self._insist(self._take)
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            self._leave()
            for helper in helpers:
                helper.cancel()
            try:
                await asyncio.gather(*helpers, *self._tasks, return_exceptions=True)
                await self._queue.at_rest()
            finally:
                self._over.set()

    async def stop(self, grace_s: float | None = None) -> None:
        """Take no more builds, and let running handlers finish.

        After the grace period handlers are cancelled, and their builds are on offer again at once.
        """
        self._draining.set()
        timer = None if grace_s is None else self._clock.call_later(grace_s, self._leave)
        await self._over.wait()
        if timer is not None:
            timer.cancel()

    async def __aenter__(self) -> Self:
        self._draining.clear()  # a worker can be started again
        self._is_leaving = False
        self._main = asyncio.create_task(self.run())
        self._over.clear()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        assert self._main is not None
        if not self._main.done():
            await self.stop(None if kind is None else 0)
        await self._main

    def _leave(self) -> None:
        self._is_leaving = True
        for running in self._running.values():
            running.cancel("LEFT")

    # -- its loops ----------------------------------------------------------------------------

    async def _repeat(self, step: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._insist(step)

    async def _insist(self, step: Callable[[], Awaitable[object]]) -> None:
        """Repeat a step until the server has answered, also after an outage.

        A leaving worker does not repeat it for ever.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await step()
                return
            except (ClientError, ServerError) as error:
                if self._is_leaving or isinstance(error, ClosedError):
                    raise
                log.warning("%s: %s; trying again in %s s", self.name, error, pause_s)
            await sleep(self._clock, pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _take(self) -> None:
        """Take a build, or wait until there may be one. Takes none while draining."""
        if self._draining.is_set() or not await self._unless_drained(self._slots.acquire()):
            return
        has_begun = False
        try:
            decision = await self._claim()
            has_begun = self._begin(decision)
        finally:
            if not has_begun:
                self._slots.release()
        if decision.next_due_s == 0:
            await self._queue.check_timeouts()
        elif decision.action == "NONE":
            wait_s = (
                self._lease_s / 3
            )  # a message can be lost together with the worker that popped it
            if decision.next_due_s is not None:
                wait_s = min(wait_s, decision.next_due_s)
            await self._unless_drained(self._queue.wait(wait_s))

    async def _claim(self) -> Decision:
        """Claim a build.

        An abort comes over another connection, and may arrive before the reply to the claim. So
        aborts are kept while a claim is on its way, and an aborted build is not begun.
        """
        told: set[int] = set()
        self._told = told
        try:
            decision = await self._queue.claim(self.name, self._lease_s)
        finally:
            self._told = None
        return replace(decision, record=None) if decision.token in told else decision

    async def _unless_drained(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work; None if the worker drains before: the work is then cancelled."""
        task = asyncio.ensure_future(work)
        drained = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait([task, drained], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            drained.cancel()
            task.cancel()
            await asyncio.wait([task])

    async def _beat(self) -> None:
        """Send a heartbeat for all running builds; handlers of lost builds are cancelled."""
        runs = dict(self._running)
        if runs:
            pairs = [(build, running.run.token) for build, running in runs.items()]
            lost, due_s = await self._queue.heartbeat(pairs, self._lease_s)
            for build in lost:
                runs[build].cancel("LOST")
            if due_s == 0:
                await self._queue.check_timeouts()
        await sleep(self._clock, self._lease_s / 3)

    async def _listen(self) -> None:
        """Take messages about aborted builds, and builds that other workers have now."""
        told = await self._queue.told(self.name, self._lease_s)
        if told is None:
            return
        build, token = told
        running = self._running.get(build)
        if running and running.run.token == token:
            running.cancel("LOST")
        elif self._told is not None:
            self._told.add(token)

    # -- one build ----------------------------------------------------------------------------

    def _begin(self, decision: Decision) -> bool:
        """Begin the handler, in the next turn of the loop; an abort finds it from now on.

        False if no build was claimed.
        """
        record = decision.record
        if record is None:
            return False
        assert record.token is not None
        assert record.limit_at_ms is not None
        run = Run(record, record.token)
        running = _Running(run, asyncio.ensure_future(_call(self._handler, run)))
        self._running[record.id] = running
        if self._is_leaving:
            running.cancel("LEFT")
        left_s = (record.limit_at_ms - decision.now_ms) / 1000
        task = asyncio.create_task(self._execute(running, left_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _execute(self, running: _Running, left_s: float) -> None:
        build = running.run.build_id
        timer = self._clock.call_later(left_s, lambda: running.cancel("TIMED_OUT"))
        try:
            await asyncio.wait([running.handling])
            timer.cancel()
            await self._finish(running)
        except (ClientError, ServerError) as error:
            log.warning("build %s: %s", build, error)
        finally:
            timer.cancel()
            running.handling.cancel()
            if self._running.get(build) is running:
                del self._running[build]
            self._slots.release()

    async def _finish(self, running: _Running) -> None:
        """Tell the queue how the build ended. Telling it twice is harmless, because the token is
        stale then."""
        build, token, handling = running.run.build_id, running.run.token, running.handling
        queue, why = self._queue, running.cancelled
        error = asyncio.CancelledError() if handling.cancelled() else handling.exception()
        if why == "LOST":
            return
        if why == "TIMED_OUT" or isinstance(error, BuildFailed):
            reason = why or str(error) or "FAILURE"
            await self._insist(lambda: queue.complete(build, False, token=token, reason=reason))
        elif error is None:
            is_built = handling.result() is not False
            await self._insist(lambda: queue.complete(build, is_built, token=token))
        elif why == "LEFT":
            await self._insist(lambda: queue.retry(build, token=token, reason=why, anyway=True))
        else:
            log.warning("build %s, attempt %s", build, running.run.attempt, exc_info=error)
            reason = f"{type(error).__name__}: {error}"
            await self._insist(lambda: queue.retry(build, token=token, reason=reason))


async def _call(handler: Handler, run: Run) -> bool | None:
    return await handler(run)


def _check_handler(handler: object) -> None:
    if not callable(handler):
        raise TypeError(f"a worker's handler is a function of a Run, not {handler!r}")
    is_async = inspect.iscoroutinefunction
    inner: Any = handler
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not is_async(inner) and (isinstance(inner, type) or not is_async(inner.__call__)):
        # It is not run in a thread: an abort, a timeout or a lost lease could not stop it there.
        raise TypeError(
            f"a worker's handler is an async function, `async def`, not {handler!r}; what blocks"
            " goes into `await asyncio.to_thread(…)`"
        )
