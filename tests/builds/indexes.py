"""The indexes of a queue, as a model compares them with the records.

One call reads them all, because a model reads them after every step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.builds import State
from holdfast.coordination.backend_of import backend_of

_READ = """
local root, sets, dependents, jobs = KEYS[1], {}, {}, {}
for n = 2, #ARGV do
  sets[n - 1] = redis.call('ZRANGE', root .. ':' .. ARGV[n], 0, -1)
end
for job in string.gmatch(ARGV[1], '%S+') do
  dependents[#dependents + 1] = redis.call('HGETALL', root .. ':dependents:' .. job)
  jobs[#jobs + 1] = redis.call('HMGET', root .. ':job:' .. job, 'held', 'ready')
end
return {sets, dependents, jobs, redis.call('EXISTS', root .. ':wake')}
"""


@dataclass(frozen=True)
class Indexes:
    """`held`: READY builds that may not begin, as the jobs tell."""

    states: dict[State, set[int]]
    waiting: dict[str, set[int]]
    running: dict[str, set[int]]
    ready: set[int]
    all_due: list[str]
    dependents: dict[str, dict[str, int]]
    held: set[int]
    is_woken: bool

    def due(self, kind: str) -> set[int]:
        found = (what.split(":") for what in self.all_due)
        return {int(name) for each, name in found if each == kind}


async def read_indexes(client: Any, jobs: Iterable[str], root: str = "{builds}") -> Indexes:
    jobs = list(jobs)
    names = [
        *(f"state:{state.name}" for state in State),
        *(f"waiting:{job}" for job in jobs),
        *(f"running:{job}" for job in jobs),
        *("ready", "due"),
    ]
    found, dependents, of_jobs, wake = await backend_of(client).call(
        "EVAL", _READ, 1, root, " ".join(jobs), *names
    )
    sets = iter(found)
    return Indexes(
        states={state: set(map(int, next(sets))) for state in State},
        waiting={job: set(map(int, next(sets))) for job in jobs},
        running={job: set(map(int, next(sets))) for job in jobs},
        ready=set(map(int, next(sets))),
        all_due=[what.decode() for what in next(sets)],
        dependents={
            job: dict(zip(map(bytes.decode, flat[::2]), map(int, flat[1::2]), strict=True))
            for job, flat in zip(jobs, dependents, strict=True)
        },
        held={int(ready or 0) for held, ready in of_jobs if held},
        is_woken=wake == 1,
    )
