"""Keys as values for a page: names found with a limited effort, and parts of one key of any type
and size.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import ask, number, pairs
from holdfast.web.readers.bodies import MOST_BYTES
from holdfast.web.readers.bounded import (
    Part,
    UnshownError,
    field_parts,
    list_parts,
    member_parts,
    stream_entries,
    zset_parts,
)
from holdfast.web.readers.scanning import scan

SCAN_COUNT = 500
SCAN_S = 0.25  # the longest search for one page; the next page continues it
PAGE_KEYS = 100
PAGE_ROWS = 50
LENGTHS = {
    "string": "STRLEN",
    "list": "LLEN",
    "hash": "HLEN",
    "set": "SCARD",
    "zset": "ZCARD",
    "stream": "XLEN",
}
TYPES = tuple(LENGTHS)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key in a list. None: unknown, or the user may not read it."""

    name: bytes
    type: str
    ttl_ms: int | None
    length: int | None
    memory: int | None


@dataclass(frozen=True, slots=True)
class KeyPage:
    rows: tuple[KeyRow, ...]
    cursor: str  # where the next page begins; "0": there is none
    looked_at: int  # number of names
    left_out: int = 0  # names that are too long


async def find_keys(
    client: Client,
    pattern: bytes,
    kind: str,
    cursor: str,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> KeyPage | None:
    """Names that match: enough for a page, or those that are found in a quarter of a second. None
    if the user may not scan."""
    names: dict[bytes, None] = {}
    looked_at, left_out, until_s = 0, 0, monotonic_s() + SCAN_S
    words: list[Any] = ["MATCH", pattern] if pattern not in (b"", b"*") else []
    words += ["COUNT", SCAN_COUNT if words or kind else PAGE_KEYS]
    words += ["TYPE", kind] if kind in TYPES else []
    while True:
        step = await scan(client, cursor, *words)
        if step is None:
            return None
        cursor, left_out = step.cursor, left_out + step.left_out
        names.update(dict.fromkeys(step.names))
        looked_at += SCAN_COUNT if len(words) > 2 else len(step.names)
        if step.is_last or len(names) >= PAGE_KEYS or monotonic_s() >= until_s:
            break
    return KeyPage(await _rows(client, list(names)), cursor, looked_at, left_out)


async def largest_keys(client: Client, names: list[bytes]) -> list[KeyRow]:
    """These keys, largest memory first."""
    rows = await _rows(client, names)
    return sorted(rows, key=lambda row: (-(row.memory or 0), row.name))


async def _rows(client: Client, names: list[bytes]) -> tuple[KeyRow, ...]:
    commands: list[tuple[Any, ...]] = []
    for name in names:
        commands += [("TYPE", name), ("PTTL", name), ("MEMORY", "USAGE", name)]
    replies = await ask(client, commands)
    kinds = [_word(reply) for reply in replies[::3]]
    asked = [
        (LENGTHS[kind], name) for kind, name in zip(kinds, names, strict=True) if kind in LENGTHS
    ]
    lengths = iter(await ask(client, asked))
    rows = []
    for n, (kind, name) in enumerate(zip(kinds, names, strict=True)):
        length = number(next(lengths)) if kind in LENGTHS else None
        ttl_ms = number(replies[3 * n + 1])
        if kind != "none":  # it was removed meanwhile
            ttl = None if ttl_ms is None or ttl_ms < 0 else ttl_ms
            rows.append(KeyRow(name, kind, ttl, length, number(replies[3 * n + 2])))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Row:
    """One element. `label` is its index, score or id, or the name of its field."""

    label: str
    name: Part | None  # the field of a hash
    value: Part
    more: tuple[tuple[Part, Part], ...] = ()  # the fields of an entry


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key and a part of its value."""

    name: bytes
    type: str
    ttl_ms: int | None
    length: int | None
    memory: int | None
    encoding: str
    rows: tuple[Row, ...] = ()
    text: Part | None = None  # of a string: from `first` on
    first: int = 0
    next_place: str = ""  # the place where the next page begins
    note: str = ""
    groups: tuple[dict[str, Any], ...] = ()


async def read_key(client: Client, name: bytes, place: str) -> KeyView | None:
    """The key, from a place on: an offset, an index, a cursor or an id. None if it does not
    exist."""
    kind, ttl_ms, memory, encoding = await ask(
        client,
        [("TYPE", name), ("PTTL", name), ("MEMORY", "USAGE", name), ("OBJECT", "ENCODING", name)],
    )
    kind = _word(kind)
    if kind == "none":
        return None
    (length,) = await ask(client, [(LENGTHS[kind], name)]) if kind in LENGTHS else [None]
    ttl = number(ttl_ms)
    head = KeyView(
        name,
        kind,
        ttl if ttl is not None and ttl >= 0 else None,
        number(length),
        number(memory),
        _word(encoding),
    )
    reader = _READERS.get(kind)
    if reader is None:
        return replace(head, note=f"Values of the type {kind} cannot be shown.")
    try:
        return await reader(client, head, place)
    except UnshownError as error:
        return replace(head, note=f"Not shown: {error}.")


async def _string(client: Client, head: KeyView, place: str) -> KeyView:
    first = _index(place)
    data = await client.exec("GETRANGE", head.name, first, first + MOST_BYTES - 1, into=bytes)
    length = head.length or 0
    after = first + len(data)
    more = str(after) if after < length else ""
    return replace(head, text=Part(data, length), first=first, next_place=more)


async def _list(client: Client, head: KeyView, place: str) -> KeyView:
    first = _index(place)
    parts = await list_parts(client, head.name, first, PAGE_ROWS)
    rows = tuple(Row(str(first + n), None, part) for n, part in enumerate(parts))
    return replace(head, rows=rows, first=first, next_place=_after(first, len(parts), head.length))


async def _zset(client: Client, head: KeyView, place: str) -> KeyView:
    first = _index(place)
    parts = await zset_parts(client, head.name, first, PAGE_ROWS)
    rows = tuple(Row(f"{part.score:.17g}", None, part) for part in parts)
    return replace(head, rows=rows, first=first, next_place=_after(first, len(parts), head.length))


async def _hash(client: Client, head: KeyView, place: str) -> KeyView:
    cursor, names = await member_parts(client, head.name, "hash", _cursor(place), PAGE_ROWS)
    whole = [name for name in names if name.is_whole]
    values = await field_parts(client, [(head.name, name.data) for name in whole])
    # An empty value cannot be shown as a part: `field_parts` does not distinguish it from a missing
    # one.
    rows = tuple(
        Row("", name, value or Part(b"", 0)) for name, value in zip(whole, values, strict=True)
    )
    cut = len(names) - len(whole)
    note = f"Not shown: {cut} fields whose names are too large." if cut else ""
    return replace(head, rows=rows, next_place="" if cursor == "0" else cursor, note=note)


async def _set(client: Client, head: KeyView, place: str) -> KeyView:
    cursor, members = await member_parts(client, head.name, "set", _cursor(place), PAGE_ROWS)
    rows = tuple(Row("", None, member) for member in members)
    return replace(head, rows=rows, next_place="" if cursor == "0" else cursor)


async def _stream(client: Client, head: KeyView, place: str) -> KeyView:
    entries = await stream_entries(client, head.name, place.encode() or b"+", PAGE_ROWS, step=-1)
    rows = tuple(Row(entry.id.decode(), None, Part(b"", 0), entry.fields) for entry in entries)
    (groups,) = await ask(client, [("XINFO", "GROUPS", head.name)])
    found = tuple(
        {_word(name): value for name, value in pairs(group).items()} for group in groups or ()
    )
    more = f"({rows[-1].label}" if len(rows) == PAGE_ROWS else ""
    return replace(head, rows=rows, next_place=more, groups=found)


_READERS = {
    "string": _string,
    "list": _list,
    "hash": _hash,
    "set": _set,
    "zset": _zset,
    "stream": _stream,
}


def _cursor(place: str) -> str:
    return place if place.isascii() and place.isdigit() and len(place) < 21 else "0"


def _index(place: str) -> int:
    return int(place) if place.isascii() and place.isdigit() and len(place) < 19 else 0


def _after(first: int, count: int, length: int | None) -> str:
    after = first + count
    return str(after) if count and length is not None and after < length else ""


def _word(reply: Any) -> str:
    if reply is None:
        return ""
    return reply.decode("utf-8", "backslashreplace") if isinstance(reply, bytes) else str(reply)
