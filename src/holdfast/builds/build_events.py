"""Events contain each change of a record; replaying them makes the record again. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.builds.build import BuildRecord, Fields
from holdfast.builds.build_states import State


@dataclass(frozen=True)
class Event:
    """One change of a build. `fields` are the changed fields of the record, as stored."""

    id: str
    name: str
    state: State
    at_ms: int
    fields: Fields


def pairs(flat: list[bytes]) -> Fields:
    """A dict from name, value, name, value: the form of answers of scripts."""
    texts = [item.decode() for item in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def parse_events(entries: Iterable[Any]) -> list[Event]:
    """Events from an answer of XRANGE."""
    events = []
    for stream_id, flat in entries:
        fields = pairs(flat)
        name = fields.pop("event")
        state, at_ms = State[fields["state"]], int(fields["changed_at"])
        events.append(Event(stream_id.decode(), name, state, at_ms, fields))
    return events


def replay(base: Fields, events: Iterable[Event]) -> Fields:
    """The fields of a record, from its events alone. `base`: fields of events that were trimmed."""
    fields = {name: value for name, value in base.items() if name != "event"}
    for event in events:
        fields |= event.fields
    return fields


def as_now(fields: Fields, record: Fields) -> Fields:
    """Copy the reason why the build waits from `record`: it is computed when a record is read."""
    if record.get("state") not in (State.BLOCKED.name, State.READY.name, State.FROZEN.name):
        return fields
    names = ("reason", "blockers", "frozen_until")
    return fields | {name: record[name] for name in names if name in record}


def record_of(fields: Fields) -> BuildRecord | None:
    return BuildRecord.of(fields) if fields else None
