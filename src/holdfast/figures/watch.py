"""Asks a server, through our client, and hands the replies to the pure parts."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.client import Client, Request, ServerError
from holdfast.errors import HoldfastError, UnavailableError
from holdfast.figures.queues import COUNT, LENGTH_OF, MOST_CALLS, MOST_S, QueueWatch
from holdfast.figures.sample import (
    COURTESY,
    QUESTIONS,
    Missing,
    Sample,
    read,
    refusal,
    stat_name,
)
from holdfast.figures.view import View, compare

MOST_SEARCH_S = 0.3  # of an interval, for the calls of SCAN and their way through the network
NO_SEARCH = (
    "queues are not looked for: an active-active server with maxmemory would load each of them"
    " to tell its length"
)


class ServerWatch:
    """One server, looked at again and again.

    A command that the server refuses is not sent again until the server was out of reach or has
    restarted, because each refusal is noted in ACL LOG.
    """

    def __init__(
        self,
        client: Client,
        address: str,
        monotonic_s: Callable[[], float] = time.monotonic,
        unix_s: Callable[[], float] = time.time,
        searches: bool = True,  # for queues that grow
    ) -> None:
        self.address = address
        self._client = client
        self._monotonic_s = monotonic_s
        self._unix_s = unix_s
        self._before: Sample | None = None
        self._searches = searches
        self._queues = QueueWatch()
        self._refused: dict[str, Missing] = {}  # by the command's name in INFO commandstats
        self._own_calls: Counter[str] = Counter()
        self._own_failures: Counter[str] = Counter()

    async def look(self) -> View:
        """The figures since the look before. Raises HoldfastError if the server does not answer."""
        try:
            return await self._look()
        except HoldfastError as error:
            self._refused.clear()
            raise plainly(error) from None

    async def _look(self) -> View:
        round_trip_s = await self._ping()
        own = dict(self._own_calls), dict(self._own_failures)
        replies = await self._ask(QUESTIONS)
        at_s = self._monotonic_s()
        now = read(at_s, round_trip_s, dict(zip(QUESTIONS, replies, strict=True)), *own)
        before, self._before = self._before, now
        if before is not None and before.facts.get("run_id") != now.facts.get("run_id"):
            self._refused.clear()
        may_search = "active_active_node" not in now.facts or not now.number("maxmemory")
        share = None
        if self._searches and may_search and await self._search(now):
            await self._measure()
            share = self._queues.scanned_share(now.keys or 0)
        growing = self._queues.growing()
        missing = [each for name, each in self._refused.items() if name != stat_name(COURTESY)]
        view = compare(self.address, self._unix_s(), before, now, growing, share, missing)
        return (
            view
            if may_search or not self._searches
            else replace(view, notices=(*view.notices, NO_SEARCH))
        )

    async def _ping(self) -> float | None:
        """The time of the smallest request. It comes first, so that only PINGs pile up at a server
        that is silent. None if the user may not PING."""
        started_s = self._monotonic_s()
        (pong,) = await self._ask([("PING",)])
        return None if pong is None else self._monotonic_s() - started_s

    async def _search(self, now: Sample) -> bool:
        """Look at some more keys. How long the server took is the time of the call without that of
        a PING. False if the server does not allow it."""
        is_active = "active_active_node" in now.facts  # peers write, too, and not with commands
        is_unknown = is_active or not now.calls
        self._queues.begin_interval(None if is_unknown else now.calls)
        started_s, spent_s = self._monotonic_s(), 0.0
        for _ in range(MOST_CALLS):
            asked = self._queues.next_scan()
            sent_s = self._monotonic_s()
            if asked is None or spent_s >= MOST_S or sent_s - started_s >= MOST_SEARCH_S:
                break
            kind, cursor = asked
            (reply,) = await self._ask([("SCAN", cursor, "COUNT", COUNT, "TYPE", kind)])
            if reply is None:
                return False
            self._queues.scanned(kind, *reply)
            spent_s += max(0.0, self._monotonic_s() - sent_s - (now.round_trip_s or 0.0))
        return True

    async def _measure(self) -> None:
        queues = self._queues.to_measure()
        if queues:
            lengths = [(LENGTH_OF[queue.type], queue.name) for queue in queues]
            _, *replies = await self._ask([COURTESY, *lengths])
            self._queues.measured(self._monotonic_s(), queues, replies)

    async def _ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The reply of each command; None if the server refuses it. Raises HoldfastError if it does
        not answer, or cannot answer anything now."""
        names = [stat_name(words) for words in commands]
        asked = [n for n, name in enumerate(names) if name not in self._refused]
        self._own_calls.update(names[n] for n in asked)
        answers = await self._client.exec_dynamic(Request(commands[n] for n in asked), into=Any)
        replies: list[Any] = [None] * len(commands)
        for n, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, HoldfastError):
                replies[n] = answer
            elif not isinstance(answer, ServerError) or answer.is_retryable or _is_login(answer):
                raise answer
            else:
                self._own_calls[names[n]] -= 1  # INFO counts it as rejected, not as called
                self._own_failures[names[n]] += 1
                if not _is_about_a_key(answer):
                    self._refused[names[n]] = refusal(commands[n], answer)
        return replies


def plainly(error: HoldfastError) -> HoldfastError:
    """The error in the words of a user."""
    if "NOAUTH" in str(error):
        return UnavailableError("the server wants a password: redis://user:password@host")
    return error


def _is_login(error: ServerError) -> bool:
    return error.code == b"NOAUTH"


def _is_about_a_key(error: ServerError) -> bool:
    """Whether the refusal is about a key. For another key the command may be allowed."""
    is_denied = error.code == b"NOPERM" and b"to run the" not in error.message
    return is_denied or error.code == b"WRONGTYPE"
