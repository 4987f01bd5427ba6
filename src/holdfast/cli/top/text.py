"""`holdfast top`: a view as text.

The figures and tables are defined here once, for the screen and for plain text. No I/O, and no
rich.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from holdfast.figures.units import UNKNOWN, count, micros, percent, seconds, size
from holdfast.figures.view import CommandView, View

# The figures by which commands can be sorted; the key `s` selects the next one.
ORDERS: dict[str, Callable[[CommandView], float]] = {
    "time": lambda each: each.time_share,
    "calls": lambda each: each.calls_per_s,
    "p99": lambda each: each.p99_us or 0.0,
}


def _memory(view: View) -> str:
    if not view.max_memory_bytes:  # 0: no limit
        return size(view.memory_bytes)
    return f"{size(view.memory_bytes)}/{size(view.max_memory_bytes)}"


# -- figures and tables ---------------------------------------------------------------------------


class Figure(NamedTuple):
    label: str
    text: Callable[[View], str]


# The most important first. docs/guide-operating.md explains each of them; a test compares.
FIGURES = (
    Figure("ops/s", lambda view: count(view.ops_per_s)),
    Figure("latency p50", lambda view: micros(view.p50_us)),
    Figure("latency p99", lambda view: micros(view.p99_us)),
    Figure("cpu", lambda view: percent(view.cpu_share)),
    Figure("errors/s", lambda view: count(view.errors_per_s)),
    Figure("clients", lambda view: count(view.clients)),
    Figure("blocked", lambda view: count(view.blocked_clients)),
    Figure("memory", _memory),
    Figure("keys", lambda view: count(view.keys)),
    Figure("fold backlog", lambda view: count(view.fold_backlog_changes)),
    Figure("fold age", lambda view: seconds(view.fold_backlog_age_s)),
    Figure("wal", lambda view: size(view.wal_bytes)),
    Figure("syncs/s", lambda view: count(view.syncs_per_s)),
    Figure("lag", lambda view: seconds(view.replication_lag_s)),
    Figure("file", lambda view: size(view.file_bytes)),
    Figure("resident", lambda view: size(view.resident_bytes)),
    Figure("expired/s", lambda view: count(view.expired_per_s)),
    Figure("evicted/s", lambda view: count(view.evicted_per_s)),
    Figure("received/s", lambda view: size(view.received_bytes_per_s)),
    Figure("sent/s", lambda view: size(view.sent_bytes_per_s)),
    Figure("round trip", lambda view: micros(_micros(view.round_trip_s))),
)


def _micros(number: float | None) -> float | None:
    return None if number is None else number * 1e6


class Column(NamedTuple):
    head: str
    needs_width: int = 0  # narrower terminals do not show the column
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table. Its last column may be of any width; the others are short."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""  # the text if there are no rows

    def narrowed(self, width: int) -> "TextTable":
        """The table without the columns for which a terminal of that width has no room."""
        kept = [n for n, column in enumerate(self.columns) if width >= column.needs_width]
        return replace(
            self,
            columns=tuple(self.columns[n] for n in kept),
            rows=tuple(tuple(row[n] for n in kept) for row in self.rows),
        )


def tables(view: View, order: str = "time") -> list[TextTable]:
    """The tables of a view, the most important first."""
    found = [_queues(view), _commands(view, order), _slow(view)]
    return [_peers(view), *found] if view.peers else found


def _peers(view: View) -> TextTable:
    return TextTable(
        "replication",
        (
            Column("lag"),
            Column("events", 50),
            Column("state", 40, is_number=False),
            Column("peer", is_number=False),
        ),
        tuple(
            (
                seconds(peer.lag_s),
                count(peer.lag_events),
                peer.state,
                f"{peer.name} {peer.error}".rstrip(),
            )
            for peer in view.peers
        ),
    )


def _queues(view: View) -> TextTable:
    share = view.scanned_share
    progress = f" ({percent(share)} of keys seen)" if share is not None and share < 1 else ""
    return TextTable(
        f"queues that grow{progress}",
        (
            Column("growth/s"),
            Column("length", 30),
            Column("type", 40, is_number=False),
            Column("key", is_number=False),
        ),
        tuple(
            (f"+{count(queue.growth_per_s)}", count(queue.length), queue.type, queue.name)
            for queue in view.queues
        ),
        "none" if share is not None else UNKNOWN,
    )


def _commands(view: View, order: str) -> TextTable:
    rows = sorted(view.commands, key=ORDERS[order], reverse=True)  # ties: by time, by name
    return TextTable(
        f"commands, by {order}",
        (
            Column("calls/s"),
            Column("time", 30),
            Column("mean", 70),
            Column("p50", 60),
            Column("p99", 40),
            Column("failed/s", 80),
            Column("command", is_number=False),
        ),
        tuple(
            (
                count(each.calls_per_s),
                percent(each.time_share),
                micros(each.mean_us),
                micros(each.p50_us),
                micros(each.p99_us),
                count(each.failed_per_s),
                each.name,
            )
            for each in rows
        ),
        UNKNOWN if view.interval_s is None or _lacks(view, "INFO") else "none",
    )


def _lacks(view: View, command: str) -> bool:
    return any(each.command == command for each in view.missing)


def _slow(view: View) -> TextTable:
    return TextTable(
        "slow log, the newest first",
        (Column("took"), Column("ago", 30), Column("command", is_number=False)),
        tuple((micros(each.took_us), seconds(each.age_s), each.command) for each in view.slow),
        UNKNOWN if _lacks(view, "SLOWLOG GET") else "none",
    )


# -- lines ----------------------------------------------------------------------------------------


def headline(view: View) -> str:
    up = "" if view.uptime_s is None else f"  up {seconds(view.uptime_s)}"
    return f"{view.server or 'server'}  {view.address}{up}"


def sentences(view: View) -> list[str]:
    """Sentences that the user should read first."""
    found = [view.trouble] if view.trouble else []
    found += view.notices
    by_reason: dict[str, list[str]] = {}
    for each in view.missing:
        commands = by_reason.setdefault(each.reason, [])
        if each.command not in commands:
            commands.append(each.command)
    return found + [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]


def plain(view: View) -> str:
    """The whole view as text without colours, for a file or a pipe."""
    lines = [headline(view), *(f"! {sentence}" for sentence in sentences(view))]
    if view.trouble:
        return "\n".join(lines)
    lines.append("")
    width = max(len(figure.label) for figure in FIGURES)
    lines += [f"{figure.label:{width}}  {figure.text(view)}" for figure in FIGURES]
    for table in tables(view):
        rows = lines_of(table) if table.rows else [table.empty]
        lines += ["", table.title, *(f"  {row}" for row in rows)]
    return "\n".join(lines)


def as_json(view: View) -> str:
    return json.dumps(asdict(view), allow_nan=False)


def lines_of(table: TextTable) -> list[str]:
    """A head and the rows, aligned."""
    rows = [tuple(column.head for column in table.columns), *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [_aligned(row, table.columns, widths) for row in rows]


def _aligned(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = [
        f"{cell:>{width}}" if column.is_number else f"{cell:{width}}"
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()
