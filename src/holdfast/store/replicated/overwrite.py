"""RENAME and MOVE of replicated keys: the value that clients see is written under the new name."""

from collections.abc import Iterator
from typing import Any

from holdfast.crdt.dots import Author
from holdfast.crdt.effects import Effect
from holdfast.crdt.replicated_stream import ADDED as ENTRIES_ADDED
from holdfast.crdt.replicated_stream import MAX_DELETED_ID, ReplicatedStream


def written_anew(kind: str, old: Any, new: Any, author: Author) -> Iterator[Effect]:
    """The effects that make `new` show what `old` shows. The caller must apply each effect before
    it asks for the next."""
    if kind == "list":
        yield new.push_right(old.range(0, -1), author)
    elif kind == "hyperloglog":
        yield new.add([(at, rank) for at, rank in enumerate(old.view()) if rank], author)
    elif kind == "stream":
        yield from _stream_anew(old, new, author)
    elif kind == "string":
        yield new.write(None, old.view(), author)
    else:
        shown = {"hash": "get", "zset": "score"}.get(kind)
        for name in list(old.names()):
            value = None if shown is None else getattr(old, shown)(name)
            yield new.write(name, value, author)


def _stream_anew(old: ReplicatedStream, new: ReplicatedStream, author: Author) -> Iterator[Effect]:
    yield new.create(author)
    for entry_id, fields in old.view():
        yield new.enter(entry_id, fields, author)
    yield new.set_last_id(old.last_id, author)
    if old.max_deleted_id:
        yield new.write(MAX_DELETED_ID, old.written(MAX_DELETED_ID), author)
    if old.entries_added != new.entries_added:
        yield new.add(ENTRIES_ADDED, old.entries_added - new.entries_added, author)
    for name, group in old.groups().items():
        yield new.create_group(name, group.last_id, group.entries_read, author)
        dot = new.dots_of(name)[0]
        for consumer, seen_at_ms in group.consumers.items():
            yield new.see_consumer(dot, consumer, seen_at_ms, author)
        for id_row, row in group.pending.items():
            yield new.assign(dot, id_row, row, author)
