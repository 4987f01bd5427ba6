"""The builds of a queue as they were at any moment, from their events alone. No I/O.

Each event has the fields of the record that it changed. So the record at a moment is its events up
to that moment, one after the other: the same fold as `BuildQueue.replay`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.builds import BuildRecord, Event, State
from holdfast.builds.build import Fields
from holdfast.builds.build_events import replay


@dataclass(frozen=True, slots=True)
class History:
    """The history of one build. `base`: the fields of events that were trimmed."""

    build: int
    events: tuple[Event, ...]
    base: tuple[tuple[str, str], ...] = ()

    def at(self, at_ms: int) -> BuildRecord | None:
        """The record at this moment; None before the build was enqueued.

        The base has no time of its own, so it counts from the last change in it.
        """
        count = bisect_right([event.at_ms for event in self.events], at_ms)
        base: Fields = dict(self.base)
        if base and int(base.get("changed_at", "0")) > at_ms:
            return None
        if not count and not base:
            return None
        return BuildRecord.of(replay(base, self.events[:count]))


class Replay:
    """The histories of many builds, for a slider over time."""

    def __init__(self, histories: Iterable[History]) -> None:
        self.histories = {history.build: history for history in histories}
        self.moments = sorted(
            {event.at_ms for each in self.histories.values() for event in each.events}
        )

    @property
    def first_ms(self) -> int | None:
        return self.moments[0] if self.moments else None

    @property
    def last_ms(self) -> int | None:
        return self.moments[-1] if self.moments else None

    def at(self, at_ms: int) -> dict[int, BuildRecord]:
        """The builds that were known at this moment, by id."""
        found = {build: history.at(at_ms) for build, history in self.histories.items()}
        return {build: record for build, record in found.items() if record is not None}

    def board(self, at_ms: int) -> Mapping[State, tuple[BuildRecord, ...]]:
        """The builds by state at this moment, the newest first."""
        records = sorted(self.at(at_ms).values(), key=lambda record: -record.id)
        return {
            state: tuple(record for record in records if record.state is state) for state in State
        }

    def moment(self, n: int) -> int:
        """The time of the n-th change, for the positions of a slider. A number beyond the ends
        gives the nearest one."""
        if not self.moments:
            return 0
        return self.moments[max(0, min(n, len(self.moments) - 1))]
