"""`BuildQueue`: each method is one call of one script. The scripts make all decisions."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from holdfast.builds.build import (
    BadBuildError,
    Build,
    BuildRecord,
    build_id,
    flag,
    job_name,
    sentence,
    span_ms,
    whole,
)
from holdfast.builds.build_events import Event, as_now, pairs, parse_events, record_of, replay
from holdfast.builds.build_states import State
from holdfast.builds.cron_expressions import BadCronError, compile_cron
from holdfast.builds.results import Checked, Decision, Retried, Stats, Stopped, due_s, state_of
from holdfast.coordination.backend import Backend, Replicas, warn_of_sharing
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import Values, load

Events: TypeAlias = list[Event]  # inside of the class `list` is a method
FlatFields: TypeAlias = list[str]
ABORT_MARK_MS = 30 * 60_000
FOREVER_MS = 100 * 365 * 86_400_000
# Calls after which a user or a worker acts, and which a failover could undo.
_DECIDES = frozenset(
    ["enqueueBuild", "startBuild", "stopBuild", "retryBuild", "setPeriodic", "freezeJob"]
)
_PAGE = 1000  # records in one call of list
_ALL_DUE = 100  # in one call of checkTimeout.lua; another call follows while more is due


class BuildQueue:
    """A queue by its name, on any client that `holdfast.coordination.backend_of` knows.

    All its keys begin with `{name}`, so that a cluster keeps them together. `hold_min` is the
    longest time for which a build without a timeout of its own keeps other builds of its job
    waiting. Builds are deleted `keep_days` after their end; at most `keep_events` events of a build
    are kept. `replicas` is how many replicas of the server must have the changes of a call before
    it returns. If they do not have them within `replicas_timeout_s`, the call raises
    NotReplicatedError: the changes are made, but a failover may lose them. `now_ms` replaces the
    clock of the server, for tests.
    """

    def __init__(
        self,
        client: object,
        name: str = "builds",
        *,
        hash_tag: bool = True,
        hold_min: float | None = None,
        keep_days: float = 7,
        keep_events: int = 1000,
        replicas: int = 0,
        replicas_timeout_s: float = 1.0,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.name = job_name(name)
        if hash_tag and set(self.name) & set("{}"):
            raise BadBuildError(f"a queue's name has no braces: {name!r}")
        self.key = f"{{{self.name}}}" if hash_tag else self.name
        self._backend: Backend = backend_of(client)
        self._replicas = Replicas.checked(replicas, replicas_timeout_s)
        self._now_ms = now_ms
        self._is_warned = False
        self._of_all = {
            "hold_ms": "" if hold_min is None else span_ms("hold_min", hold_min, 60_000),
            "keep_ms": span_ms("keep_days", keep_days, 86_400_000),
            "keep_events": str(whole("keep_events", keep_events, 10, 1_000_000)),
        }

    # -- builds -------------------------------------------------------------------------------

    async def enqueue(self, build: Build) -> Decision:
        """Create the record of a build and decide about it. The same build again changes nothing.

        BadBuildError: it could never start.
        """
        fields = self._fields(build)
        once = uuid.uuid4().hex if build.id is None else ""
        identity = "" if build.id is None else build.id
        reply = await self._run("enqueueBuild", id=identity, once=once, fields=fields)
        self._check_home(len(reply) > 7)
        decision = Decision.enqueued(reply)
        if decision.reason == "BAD_BUILD":
            raise BadBuildError(decision.message)
        return decision

    async def start(
        self,
        build: int,
        *,
        worker: str = "",
        lease_s: float | None = None,
        force: bool = False,
    ) -> Decision:
        """Ask to start this build. If it runs already, this begins another attempt."""
        return await self._start(build_id(build), worker, lease_s, force)

    async def claim(self, worker: str, lease_s: float) -> Decision:
        """Start a build that is on offer; NONE if there is none."""
        return await self._start("", worker, lease_s, False)

    async def complete(
        self, build: int, success: bool = True, *, token: int | None = None, reason: str = ""
    ) -> Stopped:
        """End a running build; with a token, only if the token is of its present attempt."""
        state = State.SUCCESS if flag("success", success) else State.FAILURE
        return await self._stop(build, state, token, reason or state.name)

    async def stop(self, build: int, *, token: int | None = None) -> Stopped:
        """End a build now, in any state; it counts as aborted."""
        return await self._stop(build, State.ABORTED, token, "STOPPED")

    async def abort(self, build: int, reason: str = "BUILD_ABORTED") -> Stopped:
        """End a build now, and tell its worker.

        A build that is not enqueued yet is aborted if it comes within 30 minutes.
        """
        return await self._stop(build, State.ABORTED, None, reason)

    async def retry(
        self,
        build: int,
        *,
        token: int | None = None,
        reason: str = "RETRY",
        anyway: bool | None = None,
    ) -> Retried:
        """Begin another attempt.

        With a token: for the worker whose attempt failed, after a pause, if an attempt is left.
        Without: for any caller, at once. A build that has ended is enqueued as a new build.
        """
        is_anyway = token is None if anyway is None else anyway
        status, state, new_id, delay_ms, message = await self._run(
            "retryBuild",
            id=build_id(build),
            token="" if token is None else token,
            reason=sentence(reason),
            anyway="1" if is_anyway else "0",
            once=uuid.uuid4().hex,
        )
        return Retried(
            status.decode(), state_of(state), int(new_id), int(delay_ms) / 1000, message.decode()
        )

    async def freeze(self, job: str, for_s: float | None = None) -> int:
        """Start no build of this job for so long; None: until `thaw`. Builds that run go on.

        It is one more freeze window: forced builds start nevertheless. Freezing a frozen job sets
        the time anew. Returns the time of the thaw, in ms since 1970.
        """
        for_ms = FOREVER_MS if for_s is None else span_ms("for_s", for_s, 1000)
        return int(await self._run("freezeJob", job=job_name(job), for_ms=for_ms))

    async def thaw(self, job: str) -> None:
        """End what `freeze` has begun. Freeze windows of builds stay."""
        await self._run("freezeJob", job=job_name(job), for_ms=0)

    async def heartbeat(
        self, runs: Iterable[tuple[int, int]], lease_s: float
    ) -> tuple[set[int], float | None]:
        """Prolong the leases of builds. Returns the lost ones, and when something is due."""
        flat = [item for run in runs for item in run]
        due_ms, lost = await self._run(
            "heartbeat", lease_ms=span_ms("lease_s", lease_s, 1000), runs=flat
        )
        return set(map(int, lost)), due_s(due_ms)

    async def check_timeouts(self, *builds: int) -> list[Checked]:
        """Carry out all due actions, or check these builds. Workers call this by themselves."""
        checked: list[Checked] = []
        while True:
            due_ms, flat = await self._run(
                "checkTimeout", count=_ALL_DUE, ids=[build_id(build) for build in builds]
            )
            words = [item.decode() for item in flat]
            checked += [
                Checked(words[n], int(words[n + 1]), words[n + 2], words[n + 3])
                for n in range(0, len(words), 4)
            ]
            if builds or due_ms != 0:
                return checked

    # -- reading ------------------------------------------------------------------------------

    async def get(self, build: int) -> BuildRecord | None:
        """The record of a build; None if the queue does not know it."""
        return record_of(pairs((await self._read(build, "0"))[0]))

    async def list(
        self, *, state: State | str | None = None, job: str | None = None, limit: int = 100
    ) -> list[BuildRecord]:
        """The records of builds, the newest first."""
        left = whole("limit", limit, 1, 100_000)
        states = list(State) if state is None else [_named(state)]
        found: list[BuildRecord] = []
        before = ""
        while left > 0:
            before, records = await self._run(
                "listBuilds",
                count=min(left, _PAGE),
                before=before,
                job="" if job is None else job_name(job),
                states=[each.name for each in states],
            )
            found += [BuildRecord.of(pairs(flat)) for flat in records]
            left -= len(records)
            if not before:
                break
        return found

    async def stats(self) -> Stats:
        """The number of builds in each state, and the time until the next one is due."""
        states = list(State)
        ready, due_ms, newest, counts, frozen = await self._run(
            "readStats", states=[state.name for state in states]
        )
        by_state = dict(zip(states, counts, strict=True))
        frozen_jobs = {job: int(until_ms) for job, until_ms in pairs(frozen).items()}
        return Stats(by_state, int(ready), due_s(due_ms), int(newest), frozen_jobs)

    async def events(self, build: int) -> Events:
        """The events of a build, the oldest first."""
        return parse_events((await self._read(build, "1"))[2])

    async def replay(self, build: int) -> BuildRecord | None:
        """The record of a build, from its events alone.

        If it differs from the result of `get`, there is a bug. The reason why a build waits is no
        event; it is added as in `get`.
        """
        record, base, entries = await self._read(build, "1")
        return record_of(as_now(replay(pairs(base), parse_events(entries)), pairs(record)))

    # -- periodic builds ----------------------------------------------------------------------

    async def set_periodic(self, name: str, cron: str, build: Build) -> int:
        """Enqueue a build at the times of cron, in UTC. `H` in it follows from the name.

        Returns the first time, in ms since 1970.
        """
        fields = self._fields(build)
        if build.id is not None:
            raise BadBuildError("the queue gives ids to periodic builds: give None")
        first_ms, message = await self._run(
            "setPeriodic", name=job_name(name), cron=compile_cron(cron, name), fields=fields
        )
        if message:
            raise BadBuildError(message.decode())
        if first_ms < 0:
            raise BadCronError(f"{cron!r} never comes")
        return int(first_ms)

    async def remove_periodic(self, name: str) -> None:
        """Remove a periodic build. Builds that were enqueued for it stay."""
        await self._run("setPeriodic", name=job_name(name), cron="", fields=[])

    # -- waiting, for workers -----------------------------------------------------------------

    async def wait(self, timeout_s: float) -> bool:
        """Wait until a build may be on offer or due. Another worker may be faster."""
        return await self._backend.pop(f"{self.key}:wake", timeout_s=timeout_s) is not None

    async def told(self, worker: str, timeout_s: float) -> tuple[int, int] | None:
        """The build and token that this worker has to give up; None after the timeout."""
        found = await self._backend.pop(f"{self.key}:control:{worker}", timeout_s=timeout_s)
        if found is None:
            return None
        build, token = found[1].split()
        return int(build), int(token)

    async def at_rest(self) -> None:
        """Wait until no cancelled call is under way: then the client can be closed."""
        await self._backend.at_rest()

    @property
    def most_at_once(self) -> int | None:
        """The number of calls that the client can have under way; None: any number."""
        return self._backend.most_at_once

    # -- calls --------------------------------------------------------------------------------

    def _fields(self, build: Build) -> FlatFields:
        if not isinstance(build, Build):
            raise TypeError(f"a queue takes a Build(id, job, …), not {build!r}")
        return [item for pair in (build.fields() | self._of_all).items() for item in pair]

    async def _run(self, script: str, **args: Values) -> Any:
        args["now"] = "" if self._now_ms is None else self._now_ms()
        lua, keys = load("holdfast.builds", script), {"queue": self.key}
        if self._replicas is not None and script in _DECIDES:
            return await self._backend.run_then_wait(lua, keys, args, self._replicas)
        return await self._backend.run(lua, keys, args)

    def _check_home(self, is_shared: bool) -> None:
        """Warn once if several servers may decide about this queue."""
        if is_shared and not self._is_warned:
            self._is_warned = True
            warn_of_sharing(f"build queue {self.name!r}")

    async def _start(
        self, build: int | str, worker: str, lease_s: float | None, force: bool
    ) -> Decision:
        lease_ms = "" if lease_s is None else span_ms("lease_s", lease_s, 1000)
        reply = await self._run(
            "startBuild",
            id=build,
            worker=job_name(worker) if worker else "",
            lease_ms=lease_ms,
            force="1" if force else "0",
        )
        self._check_home(len(reply) > 9)
        return Decision.started(reply)

    async def _stop(self, build: int, state: State, token: int | None, reason: str) -> Stopped:
        status, now_in, removed, owner, message = await self._run(
            "stopBuild",
            id=build_id(build),
            state=state.name,
            reason=sentence(reason),
            token="" if token is None else token,
            mark_ms=ABORT_MARK_MS,
        )
        return Stopped(
            status.decode(),
            state_of(now_in),
            tuple(item.decode() for item in removed),
            int(owner) if owner else None,
            message.decode(),
        )

    async def _read(self, build: int, history: str) -> Any:
        return await self._run("readBuild", id=build_id(build), history=history)


def _named(state: State | str) -> State:
    if isinstance(state, State):
        return state
    if str(state).upper() not in State.__members__:
        known = ", ".join(State.__members__)
        raise BadBuildError(f"{state!r} is no state; the states are {known}")
    return State[state.upper()]
