"""Semaphores and locks: their holders, their waiters in order, and the release by force.

A semaphore is found by the key of its limit, which exists while the semaphore is in use. The lease
of a holder ends unless a heartbeat prolongs it. Tokens are counted for each semaphore: the server
knows the last one. That is the token of the newest grant, so the holder of a lock has it. If there
are several holders, only each holder knows its own token.
"""

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from holdfast.client import Client
from holdfast.client.protocol.request import text_of
from holdfast.coordination.backend_of import backend_of
from holdfast.semaphore.keeper import LEAVE
from holdfast.semaphore.names import Names
from holdfast.web.readers.asking import ask, number, scored, server_time_s
from holdfast.web.readers.pace import UNKNOWN, Pace
from holdfast.web.readers.scanning import Sweep

MOST_SHOWN = 200  # holders, and waiters, of one semaphore
MOST_FOUND = 5_000
LOOK_STEP_S = 10  # measurements within one step are kept as one
MOST_HISTORY = 360  # steps: an hour
_MEASURED = 200  # semaphores that one call measures
_HEARTBEAT_S = 180  # the default: how long a message to a woken waiter is kept
_LIMIT_KEY = re.compile(rb"(.*?):semaphore_max:(?:\{(.+)\}|(.+))", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class SemaphoreId:
    """A semaphore. Its names are decoded like file names in Python: a surrogate stands for a byte
    that is not UTF-8."""

    namespace: str
    name: str
    hash_tag: bool = True

    @property
    def names(self) -> Names:
        return Names(self.namespace, self.name, hash_tag=self.hash_tag)


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder. `lease_left_s`: the time until its lease ends, if no heartbeat comes.
    `limit_left_s`: the time until it loses the slot in any case; None if there is no such limit.
    `token`: None if it is unknown."""

    id: str
    lease_left_s: float
    limit_left_s: float | None = None
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Waiter:
    """A waiter. `waited_s`: the time since its arrival. `is_alive`: its lease has not ended."""

    id: str
    waited_s: float
    is_alive: bool = True


@dataclass(frozen=True, slots=True)
class SemaphoreState:
    """A semaphore now. `last_token`: the fencing token of the newest grant. `is_resized`: the limit
    was set with `resize` and stays."""

    id: SemaphoreId
    limit: int | None
    is_resized: bool
    taken: int
    waiting: int
    last_token: int | None
    holders: tuple[Holder, ...] = ()
    waiters: tuple[Waiter, ...] = ()


@dataclass(frozen=True, slots=True)
class Contention:
    """The highest numbers of a semaphore in one step of time, which begins at `at_s`."""

    at_s: int
    taken: int
    waiting: int


class SemaphoreReader:
    """The semaphores of one server for one user. `look` continues its search with each call, for a
    limited number of keys."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[SemaphoreId, None] = {}
        self._sweep = Sweep("MATCH", "*:semaphore_max:*", "TYPE", "string")
        self._history: dict[SemaphoreId, deque[Contention]] = {}

    async def look(self, pace: Pace = UNKNOWN) -> list[SemaphoreState]:
        """The semaphores in use, those with most waiters first. Holders and waiters are not
        listed."""
        async for name in self._sweep.go_on(self._client, pace):
            if (id := parse_key(name)) is not None and len(self._found) < MOST_FOUND:
                self._found[id] = None
        states = await self._counted(list(self._found)[:_MEASURED])
        return sorted(states, key=lambda each: (-each.waiting, -each.taken, each.id))

    async def _counted(self, ids: list[SemaphoreId]) -> list[SemaphoreState]:
        now_s = await server_time_s(self._client)
        commands = [command for id in ids for command in _counting(id)]
        replies = await ask(self._client, commands)
        states = []
        for n, id in enumerate(ids):
            state = _counted_state(id, replies[5 * n : 5 * n + 5])
            if state.limit is None and not state.taken and not state.waiting:
                del self._found[id]
                self._history.pop(id, None)
                continue
            states.append(state)
            self._remember(state, now_s)
        return states

    def _remember(self, state: SemaphoreState, now_s: float) -> None:
        seen = self._history.setdefault(state.id, deque(maxlen=MOST_HISTORY))
        at_s, taken, waiting = int(now_s // LOOK_STEP_S * LOOK_STEP_S), state.taken, state.waiting
        if seen and seen[-1].at_s == at_s:
            before = seen.pop()
            taken, waiting = max(taken, before.taken), max(waiting, before.waiting)
        seen.append(Contention(at_s, taken, waiting))

    def contention(self, id: SemaphoreId) -> list[Contention]:
        """The contention that `look` and `read` have measured for this semaphore, oldest first."""
        return list(self._history.get(id, ()))

    async def read(self, id: SemaphoreId) -> SemaphoreState:
        """One semaphore with its holders and waiters."""
        keys = id.names.keys
        now_s = await server_time_s(self._client)
        last = MOST_SHOWN - 1
        replies = await ask(
            self._client,
            [
                *_counting(id),
                ("ZRANGE", keys["main"], 0, last, "WITHSCORES"),
                ("ZRANGE", keys["ttl"], 0, last, "WITHSCORES"),
                ("ZRANGE", keys["waiting"], 0, last, "WITHSCORES"),
            ],
        )
        waiting = scored(replies[7])
        leases = await ask(
            self._client, [("ZSCORE", keys["waiting_heartbeat"], member) for member, _ in waiting]
        )
        limits = dict(scored(replies[6]))
        state = _counted_state(id, replies[:5])
        holders = tuple(
            Holder(
                text_of(member),
                until_s - now_s,
                limits[member] - now_s if member in limits else None,
                state.last_token if state.limit == 1 else None,
            )
            for member, until_s in scored(replies[5])
        )
        waiters = tuple(
            Waiter(
                text_of(member), max(0.0, now_s - since_s), lease is None or float(lease) > now_s
            )
            for (member, since_s), lease in zip(waiting, leases, strict=True)
        )
        if state.limit is not None or state.taken or state.waiting:
            self._remember(state, now_s)
        return replace(state, holders=holders, waiters=waiters)

    async def force_release(self, id: SemaphoreId, acquisition: str) -> bool:
        """Take the slot from a holder, or remove a waiter from the queue. The next waiter gets the
        slot and is woken. True if it held a slot.

        The holder is not asked: it learns with its next heartbeat that its slot is lost, and may
        work until then. Only a fencing token protects the data that it writes.
        """
        names = id.names
        arguments: dict[str, str | int] = {
            "acquisition_id": acquisition,
            "limit": "",
            "heartbeat_max_interval": _HEARTBEAT_S,
            "ttl": "",
            "now": "",
            "acquisition_notification_key_pattern": names.pattern,
            "mailbox": "",
        }
        reply = await backend_of(self._client).run(LEAVE, names.of(LEAVE), arguments)
        return bool(reply[0] if isinstance(reply, list) else reply)


def parse_key(key: bytes) -> SemaphoreId | None:
    """The semaphore whose limit this key has; None if it is another kind of key."""
    match = _LIMIT_KEY.fullmatch(key)
    if match is None:
        return None
    namespace, tagged, plain = match.groups()
    return SemaphoreId(text_of(namespace), text_of(tagged or plain), tagged is not None)


def _counting(id: SemaphoreId) -> list[tuple[str, ...]]:
    keys = id.names.keys
    return [
        ("GETRANGE", keys["max"], "0", "20"),
        ("TTL", keys["max"]),
        ("ZCARD", keys["main"]),
        ("ZCARD", keys["waiting"]),
        ("GETRANGE", keys["token"], "0", "20"),
    ]


def _counted_state(id: SemaphoreId, replies: list[Any]) -> SemaphoreState:
    limit, life_s, taken, waiting, token = replies
    return SemaphoreState(
        id=id,
        limit=number(limit),
        is_resized=number(limit) is not None and life_s == -1,
        taken=taken or 0,
        waiting=waiting or 0,
        last_token=number(token),
    )
