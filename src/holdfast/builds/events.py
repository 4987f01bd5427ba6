"""Events tell every change of a record; replaying them makes the record again. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.builds.build import BuildRecord, Fields
from holdfast.builds.states import State


@dataclass(frozen=True)
class Event:
    """`fields` are those of the record that changed, as they are stored."""

    id: str
    name: str
    state: State
    at_ms: int
    fields: Fields


def pairs(flat: list[bytes]) -> Fields:
    """Name, value, name, value, as scripts answer."""
    texts = [item.decode() for item in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def parse_events(entries: Iterable[Any]) -> list[Event]:
    """From what XRANGE answers."""
    events = []
    for stream_id, flat in entries:
        fields = pairs(flat)
        name = fields.pop("event")
        state, at_ms = State[fields["state"]], int(fields["changed_at"])
        events.append(Event(stream_id.decode(), name, state, at_ms, fields))
    return events


def replay(base: Fields, events: Iterable[Event]) -> Fields:
    """The fields of a record, from its events alone; `base` is what the oldest have left."""
    fields = {name: value for name, value in base.items() if name != "event"}
    for event in events:
        fields |= event.fields
    return fields


def as_now(fields: Fields, record: Fields) -> Fields:
    """With what `record` says of why the build waits: that is looked up when it is read."""
    if record.get("state") not in (State.BLOCKED.name, State.READY.name):
        return fields
    return fields | {"reason": record["reason"], "blockers": record["blockers"]}


def record_of(fields: Fields) -> BuildRecord | None:
    return BuildRecord.of(fields) if fields else None
