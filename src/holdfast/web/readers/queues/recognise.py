"""A table: which library a key belongs to, by its type and its name. No I/O."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.web.readers.queues.model import QueueId

LIST, STREAM, ZSET, SET = "list", "stream", "zset", "set"
SCANNED = (LIST, STREAM, ZSET, SET)  # every library has a key of one of these types


@dataclass(frozen=True, slots=True)
class Recogniser:
    """Keys of this type whose name matches belong to the library. `queue` and `prefix` are groups
    of the pattern. If the pattern has no group `queue`, the key is internal data of the library."""

    library: str
    type: str
    pattern: re.Pattern[bytes]


def _table(rows: Iterable[tuple[str, str, bytes]]) -> tuple[Recogniser, ...]:
    return tuple(Recogniser(library, kind, re.compile(p, re.DOTALL)) for library, kind, p in rows)


_UUID = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_BULL = rb"(?P<prefix>bull|\{bull\}):(?P<queue>.+):"
_BUILDS = rb"\{[^}]+\}:"
# The first matching row decides.
TABLE = _table(
    [
        ("celery", SET, rb"_kombu\.binding\.(?:celeryev|.*\.pidbox)"),
        ("celery", SET, rb"_kombu\.binding\.(?P<queue>.+)"),  # refined by its members: see celery
        ("celery", SET, rb"_kombu\.binding_permanent\..*"),
        ("celery", ZSET, rb"_kombu\.binding_deadlines|unacked_index"),
        ("celery", LIST, rb".*\.reply\.celery\.pidbox|.*\.celery\.pidbox|celeryev\..*"),
        ("celery", LIST, rb"(?P<queue>.+)\x06\x16[0-9]+"),
        ("rq", LIST, rb"rq:queue:(?P<queue>.+):intermediate"),
        ("rq", LIST, rb"rq:queue:(?P<queue>.+)"),
        ("rq", ZSET, rb"rq:(?:wip|finished|failed|scheduled|deferred|canceled):(?P<queue>.+)"),
        ("rq", SET, rb"rq:workers:(?P<queue>.+)"),
        ("rq", SET, rb"rq:.*"),
        ("rq", ZSET, rb"rq:.*"),
        ("rq", STREAM, rb"rq:results:.*"),
        ("arq", ZSET, rb"arq:abort"),
        ("arq", ZSET, rb"(?P<queue>arq:.+)"),
        ("saq", LIST, rb"saq:(?P<queue>.+):(?:queued|active)"),
        ("saq", ZSET, rb"saq:(?P<queue>.+):(?:incomplete|stats)"),
        ("dramatiq", SET, rb"(?P<prefix>.+):__acks__\." + _UUID + rb"\.(?P<queue>.+?)(?:\.DQ)?"),
        ("dramatiq", ZSET, rb".+:__heartbeats__"),
        ("dramatiq", ZSET, rb"(?P<prefix>dramatiq):(?P<queue>.+?)\.XQ"),
        ("dramatiq", LIST, rb"(?P<prefix>dramatiq):(?P<queue>.+?)(?:\.DQ)?"),
        ("bullmq", STREAM, _BULL + rb"events"),
        ("bullmq", LIST, _BULL + rb"(?:wait|active|paused)"),
        ("bullmq", ZSET, _BULL + rb"(?:delayed|prioritized|completed|failed|waiting-children)"),
        ("bullmq", ZSET, _BULL + rb"(?:marker|repeat)"),
        # Our own keys: the pages of semaphores and builds show them.
        ("holdfast", ZSET, rb".*:semaphore_(?:main|ttl|waiting|waiting_heartbeat):.*"),
        ("holdfast", LIST, rb".*:acquisition_notification:.*"),
        ("holdfast", ZSET, _BUILDS + rb"(?:(?:state|builds|waiting|running):.*|due|ended|ready)"),
        ("holdfast", LIST, _BUILDS + rb"(?:wake|build:.*)"),
        ("holdfast", STREAM, _BUILDS + rb"build:events:[0-9]+"),
        ("plain list", LIST, rb"(?P<queue>.+)"),
        ("stream", STREAM, rb"(?P<queue>.+)"),
        ("schedule", ZSET, rb"(?P<queue>.+)"),  # only if its scores are times: see plain
    ]
)
PLAIN = ("plain list", "stream", "schedule")


def recognise(kind: str, name: bytes) -> QueueId | None:
    """The queue to which this key belongs; None if it belongs to none."""
    for each in TABLE:
        if each.type == kind and (match := each.pattern.fullmatch(name)):
            groups = match.groupdict()
            if groups.get("queue") is None:
                return None
            return QueueId(each.library, groups["queue"], groups.get("prefix") or b"")
    return None
