"""`Semaphore` and `Lock`, for users. A keeper in each event loop does the work."""

import asyncio
import threading
from asyncio import get_running_loop
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, Unpack

from holdfast.clock import Clock, SystemClock
from holdfast.coordination.backend import Replicas
from holdfast.semaphore.acquisition import Acquisition, id_of
from holdfast.semaphore.client_source import ClientSource
from holdfast.semaphore.keeper import CARD, CLEAN_UP_S, RESIZE, STATE, Keeper
from holdfast.semaphore.names import Names, match_all
from holdfast.semaphore.scope import Scope
from holdfast.semaphore.settings import Settings


class SemaphoreStats(NamedTuple):
    """How many slots of a semaphore are taken, and how many callers wait."""

    name: str
    acquired: int
    waiting: int
    limit: int

    @property
    def percent(self) -> float:
        """The share of the slots that is taken, in percent."""
        return 100 * self.acquired / self.limit


class Semaphore:
    """At most `limit` holders of a name at a time, on all machines, first come, first served.

    `client` is ours, or an asyncio client of redis-py or valkey-py. Such a client belongs to one
    event loop; a URL, or a function that makes a client, gives each loop that uses the semaphore
    a client of its own.

    limit: the number of slots; None takes the limit that the server has, see `resize`.
    ttl_s: the longest time that a slot may be held. max_acquire_time_s: the longest time that
    `acquire` may take, then it raises TimeoutError. heartbeat_max_interval_s: a holder or waiter
    that is silent for longer counts as dead. cancel_on_loss: whether the body of `async with` is
    cancelled when the slot is lost. replicas: how many replicas of the server must have an
    acquisition before `acquire` returns it; if they do not have it within replicas_timeout_s, it
    is given back and NotReplicatedError is raised. hash_tag=False: keys without braces, which a
    cluster cannot serve. now: a clock in place of the server's, in seconds; for tests.
    """

    _is_exact = False

    def __init__(
        self,
        client: Any,
        name: str,
        limit: int | None = None,
        *,
        ttl_s: float | None = None,
        max_acquire_time_s: float | None = None,
        heartbeat_max_interval_s: float = 180,
        namespace: str = "adv-sem",
        cancel_on_loss: bool = True,
        replicas: int = 0,
        replicas_timeout_s: float = 1.0,
        hash_tag: bool = True,
        now: Callable[[], float] | None = None,
        clock: Clock | None = None,
    ) -> None:
        _check_limit(limit)
        for what, seconds in (
            ("ttl_s", ttl_s),
            ("max_acquire_time_s", max_acquire_time_s),
            ("heartbeat_max_interval_s", heartbeat_max_interval_s),
        ):
            if seconds is None and what != "heartbeat_max_interval_s":
                continue
            if not isinstance(seconds, int | float) or not 0 < seconds < 1e9:
                raise ValueError(f"{what} must be a number above 0: {seconds!r}")
        self.name = name
        self.cancel_on_loss = cancel_on_loss
        self._namespace = namespace
        self._hash_tag = hash_tag
        self._settings = Settings(
            name=name,
            names=Names(namespace, name, hash_tag=hash_tag),
            limit=limit,
            is_exact=self._is_exact,
            ttl_s=ttl_s,
            heartbeat_s=heartbeat_max_interval_s,
            max_acquire_time_s=max_acquire_time_s,
            shared_mailbox=hash_tag,
            now=now,
            clock=clock or SystemClock(),
            replicas=Replicas.checked(replicas, replicas_timeout_s),
        )
        self._source = ClientSource(client)
        self._keepers: dict[asyncio.AbstractEventLoop, Keeper] = {}
        self._opening = threading.Lock()
        self._scopes: dict[asyncio.Task[Any], list[Scope]] = {}

    @property
    def limit(self) -> int | None:
        """The limit as given, or as set by `resize`; None takes the limit of the server."""
        return self._settings.limit

    # -- in and out ---------------------------------------------------------------------------

    async def acquire(self) -> Acquisition:
        """Wait for a slot. A cancelled call leaves no trace.

        Raises TimeoutError, LimitMismatchError, UnknownLimitError, NotReplicatedError.
        """
        keeper = self._keepers.get(get_running_loop()) or self._new_keeper()
        limit_s = self._settings.max_acquire_time_s
        if limit_s is None:
            return await keeper.acquire()
        try:
            async with asyncio.timeout(limit_s) as patience:
                return await keeper.acquire(patience)
        except TimeoutError:
            why = f": {keeper.failure}" if keeper.failure is not None else ""
            text = f"semaphore {self.name!r}: no slot within {limit_s} s{why}"
            raise TimeoutError(text) from keeper.failure

    async def release(self, acquisition: Acquisition | str) -> bool:
        """Give a slot back, by its acquisition or id. True if it was held until now.

        It may be called twice. If it is cancelled, the slot is given back nevertheless. If the
        server is unreachable, it raises ClientError and goes on trying.
        """
        keeper = self._keepers.get(get_running_loop()) or self._new_keeper()
        id = acquisition.id if type(acquisition) is Acquisition else id_of(acquisition)
        return await keeper.release(id)

    def cm(self, *, cancel_on_loss: bool | None = None) -> Scope:
        """`async with semaphore.cm() as acquisition:`. Call it anew for each use."""
        return Scope(self, self.cancel_on_loss if cancel_on_loss is None else cancel_on_loss)

    async def __aenter__(self) -> Acquisition:
        task = asyncio.current_task()
        assert task is not None
        scope = self.cm()
        acquisition = await scope.__aenter__()
        self._scopes.setdefault(task, []).append(scope)
        return acquisition

    async def __aexit__(self, *error: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        scopes = self._scopes[task]
        scope = scopes.pop()
        if not scopes:
            del self._scopes[task]
        await scope.__aexit__(*error)

    # -- state --------------------------------------------------------------------------------

    async def count(self) -> int:
        """The number of taken slots."""
        taken: int = await self._keeper().run(CARD)
        return taken

    async def locked(self) -> bool:
        """Whether `acquire` would have to wait."""
        taken, waiting, limit = await self._keeper().run(STATE)
        return bool(waiting or (limit and taken >= limit))  # the limit is 0 while it is unused

    async def resize(self, limit: int | None) -> None:
        """Set the limit for all clients, over the limits that they give. The server keeps it.

        Holders beyond a smaller limit stay until they release. None: the server forgets the limit
        when no client holds or waits, and then the next client sets it.
        """
        _check_limit(limit)
        await self._keeper().run(RESIZE, limit="" if limit is None else limit)
        if limit is not None and self._settings.limit is not None:
            self._settings.limit = limit

    async def stats(self, names: list[str] | None = None, limit: int = 100) -> list[SemaphoreStats]:
        """The named semaphores, or all of the namespace that are in use; the most loaded first."""
        keeper = self._keeper()
        if names is None:
            match, prefix, suffix = match_all(self._namespace, hash_tag=self._hash_tag)
            names = sorted(
                {
                    key.decode().removeprefix(prefix).removesuffix(suffix)
                    async for key in keeper.backend.scan(match)
                }
            )
        found = []
        for name in names:
            keys = Names(self._namespace, name, hash_tag=self._hash_tag).of(STATE)
            taken, waiting, size = await keeper.run(STATE, keys)
            if size:
                found.append(SemaphoreStats(name, taken, waiting, size))
        found.sort(key=lambda each: (-each.percent, -each.waiting, each.name))
        return found[:limit]

    # -- life ---------------------------------------------------------------------------------

    async def close(self, grace_s: float = CLEAN_UP_S) -> None:
        """Stop the keeper of this event loop, and close the client that was made for it.

        Held slots are not released. A release that the server has not heard yet, because it is
        away, is tried for up to `grace_s`: a process that ends should wait for it, or the slot
        stays taken for `heartbeat_max_interval_s`. Otherwise a semaphore on a client of yours
        needs no closing.
        """
        keeper = self._keepers.pop(get_running_loop(), None)
        if keeper is not None:
            await keeper.close(grace_s)
            await self._source.close(keeper.backend)

    def _keeper(self) -> Keeper:
        return self._keepers.get(get_running_loop()) or self._new_keeper()

    def _new_keeper(self) -> Keeper:
        loop = get_running_loop()
        with self._opening:
            for other in [other for other in self._keepers if other.is_closed()]:
                del self._keepers[other]
            backend = self._source.backend(is_first=not self._keepers)
            keeper = self._keepers[loop] = Keeper(backend, self._settings)
        return keeper


class SemaphoreOptions(TypedDict, total=False):
    """The keywords of `Semaphore`, for functions that pass them on."""

    ttl_s: float | None
    max_acquire_time_s: float | None
    heartbeat_max_interval_s: float
    namespace: str
    cancel_on_loss: bool
    replicas: int
    replicas_timeout_s: float
    hash_tag: bool
    now: Callable[[], float] | None
    clock: Clock | None


class Lock(Semaphore):
    """A semaphore with one slot. If the name was resized, it raises LimitMismatchError."""

    _is_exact = True

    def __init__(self, client: Any, name: str, **options: Unpack[SemaphoreOptions]) -> None:
        super().__init__(client, name, 1, **options)

    async def resize(self, limit: int | None) -> None:
        """A lock keeps one slot: None or 1 undoes a `Semaphore.resize` of the name."""
        if limit is not None and limit != 1:
            raise ValueError(f"a lock has one slot, not {limit!r}: use a Semaphore")
        await super().resize(limit)


def _check_limit(limit: int | None) -> None:
    if limit is not None and (type(limit) is not int or limit < 1):  # type(): a bool is an int, too
        raise ValueError(f"a limit is a whole number above 0, or None: {limit!r}")
