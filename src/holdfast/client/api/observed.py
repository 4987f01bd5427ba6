"""Tells hooks when requests start and finish."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.errors import ClientError, ServerError
from holdfast.client.protocol.request import encode_all
from holdfast.client.topology.single import Command
from holdfast.client.transport.hooks import Hooks, RequestFinish, RequestStart
from holdfast.clock import Clock


class Observer:
    def __init__(self, hooks: Hooks, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock
        self._ids = itertools.count(1)

    async def one(self, args: Command, call: Callable[[], Awaitable[Any]]) -> Any:
        async def call_in_list() -> list[Any]:
            return [await call()]

        return (await self.many("single", [args], call_in_list))[0]

    async def many(
        self, kind: str, commands: list[Command], call: Callable[[], Awaitable[list[Any]]]
    ) -> list[Any]:
        size = len(encode_all(commands))
        start = RequestStart(next(self._ids), kind, tuple(commands), size)
        self._hooks.request_start(start)
        before_s = self._clock.monotonic_s()
        replies: list[Any] = []
        error: BaseException | None = None
        try:
            replies = await call()
        except BaseException as raised:
            error = raised
            raise
        finally:
            errors = [reply for reply in replies if isinstance(reply, ServerError | ClientError)]
            failed = len(errors) if error is None else len(commands)
            self._hooks.request_finish(
                RequestFinish(
                    start,
                    self._clock.monotonic_s() - before_s,
                    len(commands) - failed,
                    failed,
                    error or (errors[0] if errors else None),
                )
            )
        return replies
