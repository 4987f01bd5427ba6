"""The queues of a server: Celery, RQ, arq, SAQ, Dramatiq, BullMQ, lists, streams, schedules.

The entry point is `QueueReader(client)`: `look()` for all queues, `queue(id)`, `jobs(id, state)`
and `job(id, job_id)`. `recognise` is the table of key patterns, `flow` computes rates from two
measurements.
"""

from holdfast.web.readers.queues.flow import Direction, Flow, flow
from holdfast.web.readers.queues.model import (
    Consumer,
    Count,
    Group,
    Job,
    JobPage,
    QueueId,
    QueueState,
    Role,
)
from holdfast.web.readers.queues.reader import (
    LIBRARIES,
    Measured,
    QueueReader,
    QueuesView,
    library_of,
)
from holdfast.web.readers.queues.recognise import recognise

__all__ = [
    "LIBRARIES",
    "Consumer",
    "Count",
    "Direction",
    "Flow",
    "Group",
    "Job",
    "JobPage",
    "Measured",
    "QueueId",
    "QueueReader",
    "QueueState",
    "QueuesView",
    "Role",
    "flow",
    "library_of",
    "recognise",
]
