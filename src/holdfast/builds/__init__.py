"""The build queue: a state machine in Lua scripts, on any server that speaks Redis.

It uses the client and knows nothing of our server. The seven names here are what users need.
"""

from holdfast.builds.build import BadBuildError, Build, BuildRecord
from holdfast.builds.queue import BuildQueue
from holdfast.builds.states import State
from holdfast.builds.worker import BuildFailed, Run, Worker

__all__ = [
    "BadBuildError",
    "Build",
    "BuildFailed",
    "BuildQueue",
    "BuildRecord",
    "Run",
    "State",
    "Worker",
]
