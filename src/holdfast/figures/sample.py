"""One look at a server, as values: the questions that are asked, and the functions that read the
replies. No I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from holdfast.client import ServerError

Question: TypeAlias = tuple[str, ...]

SLOW_COMMANDS = "10"  # of the slow log
# Counters first: they should be of one moment. INFO is asked by section. Redis before 7 takes one
# section at a time, and the section Keyspace is left out: for that one, Holdfast looks at up to
# 50,000 keys. DBSIZE is cheap.
COUNTERS: tuple[Question, ...] = (
    ("INFO", "stats"),
    ("INFO", "commandstats"),
    ("LATENCY", "HISTOGRAM"),
    ("INFO", "cpu"),
)
QUESTIONS: tuple[Question, ...] = (
    *COUNTERS,
    ("INFO", "server"),
    ("INFO", "clients"),
    ("INFO", "memory"),
    ("INFO", "persistence"),
    ("INFO", "replication"),
    ("INFO", "errorstats"),
    ("SLOWLOG", "GET", SLOW_COMMANDS),
    ("DBSIZE",),
)
# A refusal of this one is no problem. It keeps LLEN from counting as a use of the key. Otherwise,
# under `maxmemory`, keys would stay in memory that only this screen reads.
COURTESY: Question = ("CLIENT", "NO-TOUCH", "ON")
WITH_SUBCOMMANDS = ("LATENCY", "SLOWLOG", "CLIENT")


def stat_name(words: Sequence[object]) -> str:
    """The name of a command in INFO commandstats: `info`, `slowlog|get`."""
    return "|".join(map(str, words[: 2 if words[0] in WITH_SUBCOMMANDS else 1])).lower()


@dataclass(frozen=True, slots=True)
class Missing:
    """A command that the server does not run for this user."""

    command: str
    reason: str


@dataclass(frozen=True, slots=True)
class Calls:
    """The counters of one command, since the start of the server."""

    calls: int = 0
    total_us: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class SlowCommand:
    at_s: int  # Unix time, of the server's clock
    took_us: int
    words: tuple[bytes, ...]


Buckets: TypeAlias = Mapping[int, int]  # the longest time in µs, and the number of calls


@dataclass(frozen=True, slots=True)
class Sample:
    """The replies of one look. An empty mapping or None: the server did not tell it."""

    at_s: float  # of a clock that never goes back
    round_trip_s: float | None = None
    facts: Mapping[str, str] = field(default_factory=dict)  # of INFO
    calls: Mapping[str, Calls] = field(default_factory=dict)  # by command
    buckets: Mapping[str, Buckets] | None = None  # by command
    slow: tuple[SlowCommand, ...] | None = None
    keys: int | None = None
    own_calls: Mapping[str, int] = field(default_factory=dict)  # of `holdfast top`, by command
    own_failures: Mapping[str, int] = field(default_factory=dict)

    def number(self, name: str) -> float | None:
        """A fact as a number; None if the server does not know it."""
        try:
            return float(self.facts[name])
        except (KeyError, ValueError):
            return None


def read(
    at_s: float,
    round_trip_s: float | None,
    replies: Mapping[Question, Any],
    own_calls: Mapping[str, int],
    own_failures: Mapping[str, int],
) -> Sample:
    """The sample that these replies make. None: the server did not answer that question."""
    facts: dict[str, str] = {}
    for question, reply in replies.items():
        if question[0] == "INFO" and reply is not None:
            facts |= read_info(reply)
    histogram = replies.get(("LATENCY", "HISTOGRAM"))
    slow = replies.get(("SLOWLOG", "GET", SLOW_COMMANDS))
    return Sample(
        at_s=at_s,
        round_trip_s=round_trip_s,
        facts=facts,
        calls={
            name.removeprefix("cmdstat_"): read_calls(text)
            for name, text in facts.items()
            if name.startswith("cmdstat_")
        },
        buckets=None if histogram is None else read_histogram(histogram),
        slow=None if slow is None else tuple(map(read_slow, slow)),
        keys=replies.get(("DBSIZE",)),
        own_calls=own_calls,
        own_failures=own_failures,
    )


def refusal(words: Sequence[object], error: ServerError) -> Missing:
    command = stat_name(words).replace("|", " ").upper()
    if error.code == b"NOPERM":
        return Missing(command, "not permitted")
    if b"unknown" in error.message.lower():
        return Missing(command, "unknown to this server")
    return Missing(command, str(error))


def read_info(reply: bytes | str) -> dict[str, str]:
    text = reply if isinstance(reply, str) else reply.decode("utf-8", "backslashreplace")
    pairs = (line.partition(":") for line in text.split("\r\n") if not line.startswith("#"))
    return {name: value for name, colon, value in pairs if colon}


def read_fields(text: str) -> dict[str, str]:
    """`a=1,b=2`, the form of lines of INFO that have several values."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, equals, value in pairs if equals}


def read_calls(text: str) -> Calls:
    fields = read_fields(text)
    return Calls(
        calls=_whole(fields.get("calls")),
        total_us=_whole(fields.get("usec")),
        failed=_whole(fields.get("failed_calls")) + _whole(fields.get("rejected_calls")),
    )


def read_histogram(reply: Any) -> dict[str, Buckets]:
    """LATENCY HISTOGRAM. A bucket has the calls up to its bound, those of smaller buckets included;
    a bucket that adds nothing is left out. Here each bucket has its own calls only."""
    found: dict[str, Buckets] = {}
    for name, details in _pairs(reply):
        counts = dict(_pairs(dict(_pairs(details)).get(b"histogram_usec", {})))
        sums = [(0, 0), *sorted((int(most_us), int(count)) for most_us, count in counts.items())]
        found[_text(name)] = {
            most_us: count - before for (_, before), (most_us, count) in pairwise(sums)
        }
    return found


def read_slow(reply: Any) -> SlowCommand:
    _, at_s, took_us, words, *_ = reply
    return SlowCommand(int(at_s), int(took_us), tuple(words))


def _pairs(reply: Any) -> Iterable[tuple[Any, Any]]:
    """The pairs of a map, which is a flat list in RESP2."""
    if isinstance(reply, Mapping):
        return reply.items()
    return zip(reply[::2], reply[1::2], strict=True)


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
