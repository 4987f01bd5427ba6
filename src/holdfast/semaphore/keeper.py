"""The keeper: the work of one event loop for one semaphore, its holders, waiters and heartbeat.

The server decides everything; the keeper asks it. A waiter asks to enter, waits for a message in
the mailbox, and asks again. It need not ask again if the message has all data and can be trusted
(see `SlotWaiter`). So a message may be lost, late or wrong. Every fifth of the heartbeat interval
one call tells the server that all holders and waiters of this loop are alive, gives the slots of
dead holders to waiters, and returns the state of each. For the waiter that waits longest, the
keeper asks every second.

It is one class because one heartbeat and one mailbox serve all holders and waiters of the loop.
"""

import asyncio
import logging
import math
import uuid
from collections.abc import Coroutine
from functools import partial
from itertools import count, islice
from typing import Any

from holdfast.client.errors import ClientError, ClosedError, NotReplicatedError, ServerError
from holdfast.client.transport.deadlines import sleep
from holdfast.clock import Timer
from holdfast.coordination.backend import Backend, Prepared, warn_of_sharing
from holdfast.coordination.lua_scripts import LuaScript, load
from holdfast.semaphore.acquisition import Acquisition, LimitMismatchError, UnknownLimitError
from holdfast.semaphore.settings import Settings
from holdfast.semaphore.waiter import SlotWaiter

log = logging.getLogger(__name__)

ENTER, LEAVE, TEND, RESIZE, STATE, CARD = (
    load("holdfast.semaphore", name)
    for name in ("enter", "leave", "tend", "resize", "state", "card")
)
_POLL_S = 1.0  # a waiter notices a lost message, or a lost place, after this time
_LISTEN_S = 5.0  # the mailbox is read for so long after the last waiter got in
CLEAN_UP_S = 0.25  # a cancelled caller waits at most so long for the clean-up
_BATCH = 500  # ids in one heartbeat: a script blocks the server while it runs
_HERE = "\0id"
_RETRY_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Keeper:
    def __init__(self, backend: Backend, settings: Settings) -> None:
        self.backend = backend
        self._settings = settings
        self._clock = settings.clock
        self._now_s = settings.clock.monotonic_s
        self._prepared: dict[LuaScript, Prepared] = {}
        self._prepared_for: object = self  # the limit that scripts are prepared for: none yet
        self._box = uuid.uuid4().hex
        self._ids = count(1)
        self._held: dict[str, Acquisition] = {}
        self._waiting: dict[str, SlotWaiter] = {}
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._expiring: dict[str, Timer] = {}
        self._timer: Timer | None = None
        self._due_s = 0.0
        self._beaten_s = -math.inf
        self._is_tending = False
        self.failure: Exception | None = None  # of the last call

    # -- scripts ------------------------------------------------------------------------------

    async def run(self, script: LuaScript, keys: dict[str, str] | None = None, **args: Any) -> Any:
        """Run a script with the settings that its header names."""
        return await self.backend.run(
            script, keys or self._settings.names.of(script), self._settings.args_of(script, args)
        )

    def _run_for(self, script: LuaScript, id: str) -> Coroutine[Any, Any, Any]:
        """Run a script whose only own argument is an id. Its call is checked once, then reused."""
        settings = self._settings
        if settings.limit != self._prepared_for or settings.now is not None:
            self._prepare()
        return self._prepared[script](id)

    def _prepare(self) -> None:
        settings = self._settings
        more = {"acquisition_id": _HERE, "mailbox": self._box if settings.shared_mailbox else ""}
        for script in (ENTER, LEAVE):
            rest = script.command(settings.names.of(script), settings.args_of(script, more))
            at = rest.index(_HERE)
            self._prepared[script] = self.backend.prepare(script, rest[:at], rest[at + 1 :])
        self._prepared_for = settings.limit

    # -- in and out ---------------------------------------------------------------------------

    async def acquire(self, patience: asyncio.Timeout | None = None) -> Acquisition:
        """Wait for a slot. `patience` is the time limit of the caller."""
        if self._settings.shared_mailbox:
            id = f"{self._box}/{next(self._ids)}"
        else:
            id = uuid.uuid4().hex
        waiter = self._waiting[id] = SlotWaiter()
        sent_s = self._now_s()
        try:
            try:
                answer = await self._run_for(ENTER, id)
            except (ClientError, ServerError) as error:
                answer = error
            if type(answer) is int and answer > 0:  # the short answer: no other holder or waiter
                self.failure = None
                acquisition = Acquisition(id, 1, answer, sent_s)
            else:
                acquisition = await self._enter(id, waiter, sent_s, answer)
            if self._settings.replicas is not None:
                acquisition = await self._replicated(acquisition)
        except (LimitMismatchError, UnknownLimitError):
            raise
        except BaseException:
            is_late = patience is not None and patience.expired()
            await self._clean_up(id, may_wait=not is_late)
            raise
        finally:
            del self._waiting[id]
        self._hold(acquisition)
        return acquisition

    async def _enter(self, id: str, waiter: SlotWaiter, sent_s: float, answer: Any) -> Acquisition:
        """The rest of `acquire` after the first answer, which may be a failure."""
        patient = self._settings.max_acquire_time_s is not None
        failures = 0
        while True:
            if isinstance(answer, Exception):
                self.failure = answer
                if not (patient and is_passing(answer)):
                    raise answer
                await self._pause(failures)
                failures += 1
            else:
                self.failure = None
                state, number, token = self._unpack(answer)
                if state == 1:
                    waiter.acquisition = Acquisition(id, number, token, sent_s)
                else:
                    waiter.still_waits(token, sent_s)
                    self._believe(waiter, waiter.message)
                    patient, failures = (
                        True,
                        0,
                    )  # it has a place in the queue, so it waits for the server
                    self._listen(self._box if self._settings.shared_mailbox else id)
                    self._tend_in(min(_POLL_S, self._settings.heartbeat_s / 5))
                    await waiter.told()
            if waiter.acquisition is not None:
                if self._may_hold(waiter.acquisition):
                    return waiter.acquisition
                self._hear(await self._run_for(LEAVE, id))
                waiter = self._waiting[id] = SlotWaiter()
            waiter.is_told = False
            sent_s = self._now_s()
            try:
                answer = await self._run_for(ENTER, id)
            except (ClientError, ServerError) as error:
                answer = error

    async def _replicated(self, acquisition: Acquisition) -> Acquisition:
        """Wait until replicas have the acquisition.

        The server is asked once more, on the connection of WAIT: it may be another server by now,
        after a failover, and lack the acquisition. Then the way in begins again there.
        """
        settings, id = self._settings, acquisition.id
        assert settings.replicas is not None
        more = {"acquisition_id": id, "mailbox": self._box if settings.shared_mailbox else ""}
        failures = 0
        while True:
            sent_s = self._now_s()
            try:
                answer = await self.backend.run_then_wait(
                    *(ENTER, settings.names.of(ENTER), settings.args_of(ENTER, more)),
                    settings.replicas,
                )
            except (ClientError, ServerError) as error:
                self.failure = error
                if settings.max_acquire_time_s is None or not is_passing(error):
                    raise
                await self._pause(failures)
                failures += 1
                continue
            self.failure = None
            state, number, token = self._unpack(answer)
            if state == 1:
                return Acquisition(id, number, token, sent_s)
            waiter = self._waiting[id] = SlotWaiter()
            await self._enter(id, waiter, sent_s, answer)

    def _may_hold(self, acquisition: Acquisition) -> bool:
        """False for a lock that a resize let in beside another holder.

        It leaves and asks again. The answer is then the present limit of the name.
        """
        return not self._settings.is_exact or acquisition.slot_number == self._settings.limit

    def _unpack(self, answer: int | list[int]) -> tuple[int, int, int]:
        """The answer of enter.lua: state, slot number and token."""
        if isinstance(answer, int):  # the short answer
            return (1, 1, answer) if answer > 0 else (0, 0, -answer)
        state, number, *more = answer
        if state == -1:
            wanted = self._settings.limit
            if wanted is None or not number:
                raise UnknownLimitError(self._settings.name)
            raise LimitMismatchError(self._settings.name, wanted, number)
        if len(more) > 1 and not self._settings.is_warned:
            self._settings.is_warned = True
            warn_of_sharing(f"semaphore {self._settings.name!r}")
        return state, number, more[0]

    async def release(self, id: str) -> bool:
        """Release a slot. True if it was still held."""
        was_held = self._let_go(id)
        try:
            is_removed = self._hear(await self._run_for(LEAVE, id))
        except asyncio.CancelledError:
            await self._clean_up(id)
            raise
        except ClientError:
            self._start(self._leave_surely(id))
            raise
        if was_held and not is_removed:  # perhaps it was sent twice, and the first reply was lost
            self._tend_all()
        return is_removed

    def _hear(self, reply: Any) -> bool:
        """Read the answer of leave.lua: whether a slot was given back, and messages for our
        waiters."""
        if type(reply) is int:
            return reply == 1
        removed, *messages = reply
        for message in messages:
            self._read(self._box, message)
        return bool(removed == 1)

    async def _clean_up(self, id: str, *, may_wait: bool = True) -> None:
        """Leave, whatever happens. The caller waits for it only for a short time."""
        leaving = self._start(self._leave_surely(id))
        if may_wait and (self.failure is None or isinstance(self.failure, NotReplicatedError)):
            await asyncio.wait([leaving], timeout=CLEAN_UP_S)

    async def _leave_surely(self, id: str) -> None:
        await self.backend.settled()  # else an earlier call could reach the server after this one
        # then the server has given the acquisition up
        give_up_s = self._now_s() + self._settings.heartbeat_s
        failures = 0
        while True:
            try:
                self._hear(await self._run_for(LEAVE, id))
                self._tend_all()  # the lost reply may have had messages for our waiters
                if not self._settings.shared_mailbox:
                    await self.backend.call("DEL", self._settings.names.mailbox(id))
                return
            except (ClientError, ServerError) as error:
                if not is_passing(error) or self._now_s() > give_up_s:
                    log.warning("semaphore %s: %s not released: %s", self._settings.name, id, error)
                    return
            await self._pause(failures)
            failures += 1

    async def _pause(self, failures: int) -> None:
        await sleep(self._clock, _RETRY_S[min(failures, len(_RETRY_S) - 1)])

    # -- holders ------------------------------------------------------------------------------

    def _hold(self, acquisition: Acquisition) -> None:
        self._held[acquisition.id] = acquisition
        if self._timer is None:  # else the timer comes early enough: no timer is later than this
            self._tend_in(self._settings.heartbeat_s / 5)
        ttl_s = self._settings.ttl_s
        if ttl_s is not None:
            left_s = max(0.0, acquisition.renewed_s + ttl_s - self._now_s())
            lose = partial(self._lose, acquisition)
            self._expiring[acquisition.id] = self._clock.call_later(left_s, lose)

    def _let_go(self, id: str) -> bool:
        """Forget a holder. True if it held a slot, as far as the keeper knows."""
        if self._expiring and (timer := self._expiring.pop(id, None)) is not None:
            timer.cancel()
        return self._held.pop(id, None) is not None

    def _lose(self, acquisition: Acquisition) -> None:
        if self._held.get(acquisition.id) is acquisition:
            self._let_go(acquisition.id)
            log.warning("semaphore %s: %s was lost", self._settings.name, acquisition.id)
            acquisition.lose()

    def _lose_overdue(self) -> float:
        """Mark holders as lost whose lease at the server is over.

        Returns the time until the next lease is over.
        """
        left_s = math.inf
        for acquisition in list(self._held.values()):
            its_s = acquisition.renewed_s + self._settings.heartbeat_s - self._now_s()
            if its_s <= 0:
                self._lose(acquisition)
            else:
                left_s = min(left_s, its_s)
        return left_s

    # -- heartbeat ----------------------------------------------------------------------------

    def _tend_in(self, delay_s: float) -> None:
        due_s = self._now_s() + delay_s
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._clock.call_later(delay_s, self._start_tending)

    def _tend_all(self) -> None:
        """Send a heartbeat as soon as possible: a waiter may have a slot and not know it."""
        if self._waiting:
            self._beaten_s = -math.inf
            self._tend_in(0)

    def _start_tending(self) -> None:
        self._timer = None
        if (self._held or self._waiting) and not self._is_tending:
            self._is_tending = True
            self._start(self._tend())

    async def _tend(self) -> None:
        """Send a heartbeat for all; or, between heartbeats, ask only for the waiter that waits
        longest."""
        heartbeat_s = self._settings.heartbeat_s
        beat_s = heartbeat_s / 5
        now_s = self._now_s()
        is_beat = now_s >= self._beaten_s + 0.9 * beat_s
        ids = [*self._held, *self._waiting] if is_beat else list(islice(self._waiting, 1))
        oldest_s = min((each.renewed_s for each in self._held.values()), default=now_s)
        delay_s = min(beat_s, _POLL_S) if self._waiting else beat_s
        if is_beat:
            self._beaten_s = now_s
        try:
            async with asyncio.timeout(max(oldest_s + heartbeat_s - now_s, beat_s)):
                due_s, is_lost = await self._ask_about(ids)
                if is_lost and not is_beat:  # others may be lost, too
                    self._beaten_s = now_s
                    due_s, _ = await self._ask_about([*self._held, *self._waiting])
            if self._beaten_s == -math.inf:  # `_tend_all` asked for another heartbeat
                delay_s = 0
            elif self._waiting:
                delay_s = min(delay_s, due_s)
        except ClosedError:
            self._give_up()
        except (ClientError, ServerError, TimeoutError) as error:
            log.warning("semaphore %s: heartbeat failed: %s", self._settings.name, error)
            self._beaten_s = -math.inf
            delay_s = min(beat_s / 2, _POLL_S, max(self._lose_overdue(), 0.001))
        finally:
            self._is_tending = False
        if self._held or self._waiting:
            self._tend_in(delay_s)

    async def _ask_about(self, ids: list[str]) -> tuple[float, bool]:
        """Tell the server that these are alive, and take the state of each from its answer.

        Returns the time until a slot may fall free, and whether any of these was lost.
        """
        due_ms, is_lost = -1, False
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            held = {
                id: self._held[id] for id in some if id in self._held
            }  # not those that get in during the call
            sent_s = self._now_s()
            due_ms, token, *states = await self.run(TEND, acquisition_ids=some)
            is_lost = is_lost or 0 in states
            for id, state in zip(some, states, strict=True):
                if (acquisition := held.get(id)) is not None:
                    if state == 2:
                        acquisition.renewed_s = sent_s
                    else:
                        self._lose(acquisition)
                elif (waiter := self._waiting.get(id)) is not None:
                    if state == 1:
                        waiter.still_waits(token, sent_s)
                    else:
                        waiter.tell()
        return due_ms / 1000 + 0.001 if due_ms >= 0 else math.inf, is_lost

    def _give_up(self) -> None:
        """The client is closed: mark all holders as lost, and let each waiter find it out."""
        for acquisition in list(self._held.values()):
            self._lose(acquisition)
        for waiter in self._waiting.values():
            waiter.tell()

    # -- mailbox ------------------------------------------------------------------------------

    def _listen(self, box: str) -> None:
        if box not in self._listeners:
            self._listeners[box] = self._start(self._read_mailbox(box))

    async def _read_mailbox(self, box: str) -> None:
        """Read messages until no waiter is left and nothing comes."""
        key = self._settings.names.mailbox(box)
        read = partial(self._read, box)
        failures = 0
        try:
            while True:
                try:
                    popped = await self.backend.pop(key, timeout_s=_LISTEN_S, heed=read)
                    failures = 0
                except ClosedError:
                    self._give_up()
                    return
                except (ClientError, ServerError):
                    popped = None
                    await self._pause(failures)
                    failures += 1
                if popped is None and not (
                    self._waiting if self._settings.shared_mailbox else box in self._waiting
                ):
                    return
        finally:
            del self._listeners[box]

    def _read(self, box: str, text: bytes) -> None:
        """Pass a message on: to the id in it, or to the owner of the mailbox."""
        message = text.decode(errors="replace").split(" ")
        waiter = self._waiting.get(message[0])
        if waiter is not None:
            self._believe(waiter, message)
        waiter = waiter or self._waiting.get(box)
        if waiter is not None:
            waiter.tell()

    def _believe(self, waiter: SlotWaiter, message: list[str] | None) -> None:
        # The time limit of a holder begins when the server learns that the slot is held.
        if message is not None and self._settings.ttl_s is None:
            waiter.believe(message, self._settings.heartbeat_s, self._now_s())

    # -- life ---------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self, grace_s: float) -> None:
        """Stop reading the mailbox and the heartbeat. Wait for releases, up to `grace_s`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for listener in self._listeners.values():
            listener.cancel()
        if self._background:
            _, pending = await asyncio.wait(self._background, timeout=grace_s)
            for task in pending:
                task.cancel()


def is_passing(error: Exception) -> bool:
    """Whether the error may pass: asking again later may help."""
    if isinstance(error, ServerError):
        return error.is_retryable
    return not isinstance(error, ClosedError)
