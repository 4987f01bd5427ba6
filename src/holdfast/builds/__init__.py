"""The build queue: a state machine in Lua scripts, on any server that speaks Redis.

It uses the client and knows nothing of our server. This package exports all names for users;
`holdfast` itself exports `Build`, `BuildQueue` and `Worker`.
"""

from holdfast.builds.build import BadBuildError, Build, BuildRecord
from holdfast.builds.build_events import Event
from holdfast.builds.build_states import State
from holdfast.builds.cron_expressions import BadCronError
from holdfast.builds.queue import BuildQueue
from holdfast.builds.results import Checked, Decision, Retried, Stats, Stopped
from holdfast.builds.worker import BuildFailed, Run, Worker

__all__ = [
    "BadBuildError",
    "BadCronError",
    "Build",
    "BuildFailed",
    "BuildQueue",
    "BuildRecord",
    "Checked",
    "Decision",
    "Event",
    "Retried",
    "Run",
    "State",
    "Stats",
    "Stopped",
    "Worker",
]
