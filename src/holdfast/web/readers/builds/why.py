"""The reason for the state of a build, in a sentence: the rule, and the builds. No I/O."""

from collections.abc import Mapping

from holdfast.builds import BuildRecord, State
from holdfast.builds.queue import FOREVER_MS

# By the reason in the record: see "How it is decided" in the guide.
_RULES = {
    "BLOCKED_BY_DEPENDENCIES": "It waits for jobs that must not run beside it",
    "BLOCKED_BY_SAME_JOB": "It waits for a build of its own job",
    "NOT_ITS_TURN": "An older build of its job goes first",
    "FREEZE_WINDOW": "It waits for the end of a freeze window",
    "JOB_FROZEN": "Its job is frozen by hand",
    "NOT_BEFORE": "Its delay has not ended",
    "READY": "It may start: it waits for a worker",
    "RETRY": "An attempt has failed: it waits for the next one",
    "OLDER_THAN_LAST_RUNNING": "A newer build of its job became ready before it",
    "NEWER_BUILD_EXISTS": "A newer build of its job made it pointless",
    "BUILD_ABORTED": "It was aborted",
    "STOPPED": "It was stopped",
}
_STATES = {
    State.RUNNING: "It runs",
    State.SUCCESS: "It ran without a failure",
    State.FAILURE: "It failed",
    State.ABORTED: "It was aborted",
    State.COLLAPSED: "A newer build of its job made it pointless",
}


def why(record: BuildRecord, jobs: Mapping[int, str] | None = None, now_ms: int = 0) -> str:
    """The sentence. `jobs`: the jobs of known builds by id, so that blockers are named with their
    job."""
    sentence = _RULES.get(record.reason) or _STATES.get(record.state) or record.state.value
    if record.state is State.RUNNING:
        sentence = _running(record)
    elif record.state.is_final and record.reason not in _RULES:
        sentence = _STATES[record.state]
        if record.reason and record.reason != record.state.name:
            sentence += f": {record.reason}"
    if record.blockers and not record.state.is_final:
        named = [_named(build, jobs or {}) for build in record.blockers]
        sentence += f": {', '.join(named)}"
    until_ms = record.frozen_until_ms if record.state is State.FROZEN else None
    if record.state is State.QUEUED:
        until_ms = record.start_at_ms
    if until_ms is not None and now_ms and until_ms > now_ms:
        sentence += f", {for_span(until_ms, now_ms)}"
    if record.cycle and not record.state.is_final:
        sentence += f". Its jobs block each other in a circle: {' → '.join(record.cycle)}"
    return f"{sentence}."


def for_span(until_ms: int, now_ms: int) -> str:
    """For how long a state lasts that ends at this time."""
    left_ms = until_ms - now_ms
    return "until it is thawed" if left_ms > FOREVER_MS // 2 else f"for {span(left_ms)} more"


def span(ms: float) -> str:
    """A time in the usual short form: 45 s, 12 min, 3 h, 2 d."""
    seconds = ms / 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _running(record: BuildRecord) -> str:
    if not record.worker:
        return _RULES["RETRY"] if record.attempt > 1 or record.reason else _STATES[State.RUNNING]
    again = f", attempt {record.attempt}" if record.attempt > 1 else ""
    return f"It runs on {record.worker}{again}"


def _named(build: int, jobs: Mapping[int, str]) -> str:
    return f"build {build} of {jobs[build]}" if build in jobs else f"build {build}"
