"""The build queues of a server: board, history of one build, graph of jobs, replay, search.

The entry point is `BuildReader(client)`. `why`, `job_graph` and `Replay` are pure. Actions are
methods of `BuildReader.queue(name)`: `abort`, `retry`, `start(…, force=True)`, `freeze`, `thaw`.
"""

from holdfast.web.readers.builds.graph import Edge, JobGraph, JobNode, job_graph
from holdfast.web.readers.builds.reader import Board, BuildReader, BuildStory
from holdfast.web.readers.builds.replay import History, Replay
from holdfast.web.readers.builds.search import BuildIndex, FoundBuild
from holdfast.web.readers.builds.why import for_span, span, why

__all__ = [
    "Board",
    "BuildIndex",
    "BuildReader",
    "BuildStory",
    "Edge",
    "FoundBuild",
    "History",
    "JobGraph",
    "JobNode",
    "Replay",
    "for_span",
    "job_graph",
    "span",
    "why",
]
