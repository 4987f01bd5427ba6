"""The graph of jobs: which jobs must not run at the same time, and which run now. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.builds import BuildRecord, State

MOST_JOBS = 200


@dataclass(frozen=True, slots=True)
class JobNode:
    """A job with its builds that have not ended. `level`: the length of the longest chain of jobs
    before it."""

    job: str
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    level: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """Builds of `job` wait while builds of `blocked_by` run. `is_active`: a build waits for this
    reason now."""

    job: str
    blocked_by: str
    is_active: bool


@dataclass(frozen=True, slots=True)
class JobGraph:
    nodes: tuple[JobNode, ...] = ()
    edges: tuple[Edge, ...] = ()
    circles: tuple[tuple[str, ...], ...] = ()
    is_part: bool = False


@dataclass(slots=True)
class _Job:
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    blocked_by: dict[str, bool] = field(default_factory=dict)


def job_graph(records: Iterable[BuildRecord]) -> JobGraph:
    """The graph for records that have not ended; other records are left out."""
    jobs: dict[str, _Job] = {}
    circles: dict[tuple[str, ...], None] = {}
    unfinished = [record for record in records if not record.state.is_final]
    jobs_of = {record.id: record.job_id for record in unfinished}
    for record in unfinished:
        job = jobs.setdefault(record.job_id, _Job())
        into = job.running if record.state is State.RUNNING else job.waiting
        into.append(record.id)
        blockers = {jobs_of[build] for build in record.blockers if build in jobs_of}
        for other in record.blocked_by:
            job.blocked_by[other] = job.blocked_by.get(other, False) or other in blockers
        if record.cycle:
            circles[record.cycle] = None
    for job in list(jobs.values()):
        for other in job.blocked_by:
            jobs.setdefault(other, _Job())
    chosen = dict(sorted(jobs.items())[:MOST_JOBS])
    levels = _levels({name: set(job.blocked_by) & set(chosen) for name, job in chosen.items()})
    nodes = [
        JobNode(name, tuple(sorted(job.running)), tuple(sorted(job.waiting)), levels[name])
        for name, job in chosen.items()
    ]
    edges = [
        Edge(name, other, is_active)
        for name, job in chosen.items()
        for other, is_active in sorted(job.blocked_by.items())
        if other in chosen
    ]
    nodes.sort(key=lambda node: (node.level, node.job))
    return JobGraph(tuple(nodes), tuple(edges), tuple(circles), len(jobs) > MOST_JOBS)


def _levels(before: dict[str, set[str]]) -> dict[str, int]:
    """The length of the longest path to each job. A path ends when it comes back to its
    beginning."""
    levels: dict[str, int] = {}
    for start in before:
        stack = [(start, iter(before[start]))]
        on_way = {start}
        while stack:
            name, rest = stack[-1]
            other = next((each for each in rest if each not in on_way), None)
            if other is not None and other not in levels:
                stack.append((other, iter(before[other])))
                on_way.add(other)
            elif other is None:
                known = (levels[each] for each in before[name] if each in levels and each != name)
                levels[name] = 1 + max(known, default=-1)
                on_way.discard(name)
                stack.pop()
    return levels
