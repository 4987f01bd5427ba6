"""A build queue as text for people. No I/O."""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime

from holdfast.builds import BuildRecord, State
from holdfast.builds.build_events import Event
from holdfast.builds.results import Stats
from holdfast.cli.tables import Cell, Look, paint, table

_COLORS = {
    State.QUEUED: 90,
    State.BLOCKED: 33,
    State.FROZEN: 36,
    State.READY: 34,
    State.RUNNING: 35,
    State.SUCCESS: 32,
    State.FAILURE: 31,
    State.ABORTED: 91,
    State.COLLAPSED: 90,
}
_HEAD = ("id", "job", "state", "why", "attempt", "for")


class BuildsView:
    def __init__(self, look: Look) -> None:
        self._look = look

    def state(self, state: State, width: int = 0) -> str:
        return paint(f"{state.name:{width}}", _COLORS[state], self._look)

    def screen(self, text: str) -> str:
        """The text, with the codes that clear the screen first, if there is a screen."""
        return f"\x1b[H\x1b[2J{text}" if self._look.width else f"{text}\n"

    def table(self, records: Iterable[BuildRecord], now_ms: int) -> str:
        rows = [_row(record, now_ms) for record in records]
        return table(_HEAD, rows, self._look) if rows else "no builds"

    def record(self, record: BuildRecord) -> str:
        """One line for every field that is not empty."""
        lines = []
        for item in dataclasses.fields(record):
            value = getattr(record, item.name)
            if value is None or value in ("", (), {}):
                continue
            if isinstance(value, State):
                value = self.state(value)
            elif isinstance(value, tuple):
                value = " ".join(map(str, value))
            elif item.name.endswith("_at_ms") or item.name.endswith("_until_ms"):
                value = moment(value)
            lines.append(f"{item.name:20}  {value}")
        return "\n".join(lines)

    def events(self, events: Iterable[Event]) -> str:
        return "\n".join(
            f"{moment(event.at_ms)}  {event.name:14}  {self.state(event.state, 9)}  "
            f"{event.fields.get('reason', '')}".rstrip()
            for event in events
        )

    def stats(self, stats: Stats) -> str:
        counts = "  ".join(
            f"{self.state(state)} {count}" for state, count in stats.by_state.items() if count
        )
        due = "nothing" if stats.next_due_s is None else f"{stats.next_due_s:.1f} s"
        return f"{counts or 'no builds'}\non offer: {stats.on_offer}  next due: {due}"


def moment(at_ms: int) -> str:
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d}"


def _row(record: BuildRecord, now_ms: int) -> tuple[Cell, ...]:
    """A row of the list. The column `for` is the time in the present state, or from start to
    end."""
    since_ms = record.changed_at_ms if record.ended_at_ms is None else record.started_at_ms
    until_ms = now_ms if record.ended_at_ms is None else record.ended_at_ms
    why = " ".join([record.reason, *map(str, record.blockers)])
    return (
        Cell(str(record.id)),
        Cell(record.job_id),
        Cell(record.state.name, _COLORS[record.state]),
        Cell(why),
        Cell(str(record.attempt) if record.attempt else ""),
        Cell("" if since_ms is None else f"{max(0, until_ms - since_ms) / 1000:.1f} s"),
    )
