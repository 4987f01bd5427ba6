"""`Build`, which users enqueue, and `BuildRecord`, which the queue keeps of it.

Here Python values become the fields of a record, which are texts, and are read back. No I/O.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, SupportsFloat, TypeAlias

from holdfast.builds.build_states import State
from holdfast.builds.cron_expressions import compile_windows
from holdfast.errors import HoldfastError

Fields: TypeAlias = dict[str, str]
_LARGEST_ID = 2**52  # ids after it are still exact in Lua
_LARGEST_PRIORITY = 1000
_MOST_BLOCKED_BY = 100
_LONGEST_REASON = 1000


class BadBuildError(HoldfastError, ValueError):
    """A build, or an argument about a build, is not valid; the text says why."""


# Annotations with a meaning to the queue, by the last part of their name, as in
# "ci.example/timeout". A keyword takes precedence over an annotation.
ANNOTATIONS = {
    "timeout": "timeout_min",
    "collapseBuilds": "collapse",
    "blockedBySameJob": "blocked_by_same_job",
    "blockedBySameJobWaitTime": "same_job_wait_min",
}
_DEFAULTS: dict[str, Any] = {
    "timeout_min": None,
    "collapse": False,
    "blocked_by_same_job": True,
    "same_job_wait_min": 5.0,
}


@dataclass(frozen=True)
class Build:
    """A build to enqueue. A larger id is a newer build; None takes the next one.

    `blocked_by`: jobs that must not run at the same time. `blocked_by_self`: never two builds of
    the job at once. Without it, builds of the job run side by side; with `blocked_by_same_job`
    off as well, each starts at least `same_job_wait_min` after the one before. `collapse`: only
    the newest build runs. `virtual`: it succeeds without running. `freeze`: cron windows in
    which it does not start, unless `force` is set. `delay_s`: it does not start earlier. `retries`
    and `backoff_s`: further attempts when its worker is lost or fails to run it.
    """

    id: int | None
    job_id: str
    blocked_by: Iterable[str] = ()
    collapse: bool | str | None = None
    blocked_by_self: bool | str = True
    blocked_by_same_job: bool | str | None = None
    same_job_wait_min: float | str | None = None
    timeout_min: float | str | None = None
    priority: int = 0
    virtual: bool | str = False
    force: bool | str = False
    freeze: Iterable[str] = ()
    delay_s: float = 0
    retries: int = 3
    backoff_s: float = 5
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("job_id", job_name(self.job_id))
        put(
            "blocked_by", tuple(dict.fromkeys(map(job_name, listed("blocked_by", self.blocked_by))))
        )
        put("freeze", listed("freeze", self.freeze))
        if not isinstance(self.annotations, Mapping):
            raise BadBuildError(f"annotations are names with values, not {self.annotations!r}")
        by_annotation = {
            ANNOTATIONS[last]: value
            for name, value in self.annotations.items()
            if (last := str(name).rpartition("/")[2]) in ANNOTATIONS
        }
        for name, default in _DEFAULTS.items():
            if getattr(self, name) is None:
                put(name, by_annotation.get(name, default))
        for name in ("collapse", "blocked_by_self", "blocked_by_same_job", "virtual", "force"):
            put(name, flag(name, getattr(self, name)))
        if self.id is not None:
            put("id", build_id(self.id))
        if self.timeout_min is not None:
            put("timeout_min", number("timeout_min", self.timeout_min, above=0))
        for name in ("same_job_wait_min", "delay_s", "backoff_s"):
            put(name, number(name, getattr(self, name)))
        put("retries", whole("retries", self.retries, 0, 1_000_000))
        put("priority", whole("priority", self.priority, -_LARGEST_PRIORITY, _LARGEST_PRIORITY))
        if len(self.blocked_by) > _MOST_BLOCKED_BY:  # type: ignore[arg-type]  # a tuple by now
            raise BadBuildError(f"blocked_by names more than {_MOST_BLOCKED_BY} jobs")

    def fields(self) -> Fields:
        """The first fields of the record. The server adds times, which depend on its clock."""
        timeout_ms = "" if self.timeout_min is None else ms(self.timeout_min, 60_000)
        try:
            annotations = json.dumps(dict(self.annotations), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadBuildError(f"annotations must be JSON: {error}") from None
        return {
            "job": self.job_id,
            "blocked_by": "\n".join(self.blocked_by),
            "collapse": bit(self.collapse),
            "blocked_by_self": bit(self.blocked_by_self),
            "blocked_by_same_job": bit(self.blocked_by_same_job),
            "same_job_wait_ms": ms(self.same_job_wait_min, 60_000),
            "timeout_ms": timeout_ms,
            "priority": str(self.priority),
            "virtual": bit(self.virtual),
            "force": bit(self.force),
            "freeze": compile_windows(self.freeze, self.job_id),
            "delay_ms": ms(self.delay_s, 1000),
            "retries": str(self.retries),
            "backoff_ms": ms(self.backoff_s, 1000),
            "annotations": annotations,
        }


@dataclass(frozen=True)
class BuildRecord:
    """A build as the queue knows it. Times are in ms since 1970; None: not reached yet."""

    id: int
    job_id: str
    state: State
    reason: str
    attempt: int
    token: int | None
    worker: str
    blockers: tuple[int, ...]
    blocked_by: tuple[str, ...]
    cycle: tuple[str, ...]
    collapse: bool
    blocked_by_self: bool
    blocked_by_same_job: bool
    same_job_wait_ms: int
    timeout_ms: int | None
    priority: int
    virtual: bool
    force: bool
    freeze: tuple[str, ...]
    retries: int
    backoff_ms: int
    annotations: dict[str, Any]
    retry_of: int | None
    enqueued_at_ms: int
    start_at_ms: int | None
    frozen_until_ms: int | None
    ready_at_ms: int | None
    started_at_ms: int | None
    limit_at_ms: int | None
    ended_at_ms: int | None
    changed_at_ms: int

    @classmethod
    def of(cls, fields: Fields) -> "BuildRecord":
        """Make a record from the fields of the build's hash. Raises BadBuildError: any program may
        have written such a hash."""
        try:
            return cls._of(fields)
        except (KeyError, ValueError) as error:
            raise BadBuildError(f"the record of a build is damaged: {error!r}") from None

    @classmethod
    def _of(cls, fields: Fields) -> "BuildRecord":
        def at(name: str) -> int | None:
            return int(text) if (text := fields.get(name, "")) else None

        return cls(
            id=int(fields["id"]),
            job_id=fields["job"],
            state=State[fields["state"]],
            reason=fields.get("reason", ""),
            attempt=at("attempt") or 0,
            token=at("token"),
            worker=fields.get("worker", ""),
            blockers=tuple(map(int, fields.get("blockers", "").split())),
            blocked_by=tuple(fields["blocked_by"].split("\n")) if fields["blocked_by"] else (),
            cycle=tuple(fields["cycle"].split("\n")) if fields["cycle"] else (),
            collapse=fields["collapse"] == "1",
            blocked_by_self=fields["blocked_by_self"] == "1",
            blocked_by_same_job=fields["blocked_by_same_job"] == "1",
            same_job_wait_ms=int(fields["same_job_wait_ms"]),
            timeout_ms=at("timeout_ms"),
            priority=int(fields["priority"]),
            virtual=fields["virtual"] == "1",
            force=fields["force"] == "1",
            freeze=tuple(fields["freeze"].split("\n")) if fields["freeze"] else (),
            retries=int(fields["retries"]),
            backoff_ms=int(fields["backoff_ms"]),
            annotations=json.loads(fields["annotations"]),
            retry_of=at("retry_of"),
            enqueued_at_ms=int(fields["enqueued_at"]),
            start_at_ms=at("start_at"),
            frozen_until_ms=at("frozen_until"),
            ready_at_ms=at("ready_at"),
            started_at_ms=at("started_at"),
            limit_at_ms=at("limit_at"),
            ended_at_ms=at("ended_at"),
            changed_at_ms=int(fields["changed_at"]),
        )


# -- checking values and writing them as text ----------------------------------------------------


def job_name(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise BadBuildError(f"a job's name is printable text, not {value!r}")
    return value


def build_id(value: object) -> int:
    return whole("a build's id", value, 1, _LARGEST_ID)


def flag(name: str, value: object) -> bool:
    """A bool. Texts are for annotations: there "false" must not count as true."""
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower(), value)
    if not isinstance(value, bool):
        raise BadBuildError(f"{name} is true or false, not {value!r}")
    return value


def listed(name: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadBuildError(f"{name} is a list, not {value!r}")
    return tuple(value)


def sentence(value: object) -> str:
    """A reason as text, cut to a limit: it is kept in the record and in each event.

    The reason may be an exception with file names that are not UTF-8, or with the whole output of a
    compiler.
    """
    text = str(value).encode(errors="backslashreplace").decode()
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


def number(name: str, value: object, above: float | None = None) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, str | SupportsFloat):
            raise TypeError(value)
        result = float(value)
    except (TypeError, ValueError):
        result = -1.0
    if not (0 if above is None else above) <= result < 1e9 or result == above:
        least = "from 0 on" if above is None else f"above {above:g}"
        raise BadBuildError(f"{name} is a number {least}, not {value!r}")
    return result


def whole(name: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadBuildError(f"{name} is a whole number from {least} to {most}, not {value!r}")
    return value


def bit(value: object) -> str:
    return "1" if value else "0"


def ms(value: object, unit_ms: int) -> str:
    return str(round(float(value) * unit_ms))  # type: ignore[arg-type]  # checked before


def span_ms(name: str, value: object, unit_ms: int) -> str:
    """A duration above 0, in ms, as text."""
    return ms(number(name, value, above=0), unit_ms)
