"""Parts of values whose size is unknown: the server cuts them, or they are not read.

One element of a list can be 100 MB, and no command tells its size. A small key is read as it is.
For a larger one, a script that only reads cuts the elements before they are sent. Huge elements are
not shown, because even the script would delay the server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import Client, ReplyTooLargeError, ServerError
from holdfast.web.readers.asking import Argument, Command, ask, ask_one, scored
from holdfast.web.readers.bodies import MOST_BYTES, Body, body_of, unread

MOST_LOOKED_AT = 1024 * 1024  # bytes of elements that one call reads
_SMALL_KEY = 1024 * 1024
_LARGE_ELEMENT = 256 * 1024
_LENGTHS = {"list": "LLEN", "zset": "ZCARD", "stream": "XLEN", "set": "SCARD", "hash": "HLEN"}


class UnshownError(Exception):
    """The elements of this key are not shown; the text tells why."""


# KEYS[1]: the key. ARGV: list or zset or stream; first index (stream: first id); the number of
# elements; the step between indexes; bytes of an element to send; bytes of all elements to read.
# Returns {size, beginning, score or id} for each element. A stream's fields are joined.
_CUT = """
local key, kind, first, count, step, cut, most = KEYS[1], unpack(ARGV)
local found, seen = {}, 0
count, step, cut, most = tonumber(count), tonumber(step), tonumber(cut), tonumber(most)
if kind == 'stream' then
  local from, last = first, '+'
  for n = 1, count do
    if seen > most then break end
    local entry
    if step < 0 then
      entry = redis.call('XREVRANGE', key, from, '-', 'COUNT', 1)[1]
    else
      entry = redis.call('XRANGE', key, from, last, 'COUNT', 1)[1]
    end
    if not entry then break end
    local fields = {}
    for f, text in ipairs(entry[2]) do
      seen = seen + #text
      fields[f] = #text
      fields[#entry[2] + f] = string.sub(text, 1, cut)
    end
    found[n] = {0, entry[1], fields}
    from = '(' .. entry[1]
  end
  return found
end
first = tonumber(first)
for n = 0, count - 1 do
  if seen > most then break end
  local at, text, score = first + n * step, nil, ''
  if kind == 'list' then
    text = redis.call('LINDEX', key, at)
  else
    local pair = redis.call('ZRANGE', key, at, at, 'WITHSCORES')
    text, score = pair[1], pair[2]
  end
  if not text then break end
  seen = seen + #text
  found[n + 1] = {#text, string.sub(text, 1, cut), score}
end
return found
"""


# KEYS[1]: the key. ARGV: set or hash; cursor; COUNT; bytes of a member or field to send. Returns
# the cursor, and {size, beginning} of each.
_CUT_MEMBERS = """
local kind, cursor, count, cut = unpack(ARGV)
local command = kind == 'set' and 'SSCAN' or 'HSCAN'
local step = redis.call(command, KEYS[1], cursor, 'COUNT', count)
local found = {}
for n = 1, #step[2], kind == 'set' and 1 or 2 do
  found[#found + 1] = {#step[2][n], string.sub(step[2][n], 1, tonumber(cut))}
end
return {step[1], found}
"""


@dataclass(frozen=True, slots=True)
class Part:
    """The beginning of a value, and the size of the whole value. `score` is for sorted sets."""

    data: bytes
    size: int
    score: float = 0.0

    @property
    def is_whole(self) -> bool:
        return len(self.data) == self.size


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a stream."""

    id: bytes
    fields: tuple[tuple[Part, Part], ...]


async def list_parts(
    client: Client, key: bytes, first: int, count: int, *, step: int = 1
) -> list[Part]:
    """Elements from an index on. Raises UnshownError."""
    if count <= 0:
        return []
    if await _is_small(client, key, "list"):
        texts: list[bytes] = await ask_one(client, "LRANGE", key, *_ends(first, count, step)) or []
        return [Part(text[:MOST_BYTES], len(text)) for text in texts[::step]]
    reply = await _cut(client, key, "list", first, count, step)
    return [Part(text, size) for size, text, _ in reply]


async def zset_parts(
    client: Client, key: bytes, first: int, count: int, *, step: int = 1
) -> list[Part]:
    """Members with their scores, from an index on. A negative index counts from the end. Raises
    UnshownError."""
    if count <= 0:
        return []
    if await _is_small(client, key, "zset"):
        ends = _ends(first, count, step)
        found = scored(await ask_one(client, "ZRANGE", key, *ends, "WITHSCORES"))
        return [Part(text[:MOST_BYTES], len(text), score) for text, score in found[::step]]
    reply = await _cut(client, key, "zset", first, count, step)
    return [Part(text, size, float(at)) for size, text, at in reply]


async def member_parts(
    client: Client, key: bytes, kind: str, cursor: str, count: int
) -> tuple[str, list[Part]]:
    """Members of a set, or names of a hash's fields, from a cursor on; and the next cursor. Raises
    UnshownError."""
    words = ("SSCAN" if kind == "set" else "HSCAN", key, cursor, "COUNT", count)
    reply: Any = None
    if await _is_small(client, key, kind):
        try:
            reply = await ask_one(client, *words)
        except ReplyTooLargeError:
            pass  # the estimate was wrong: the server samples only some elements
    if reply is None:
        reply = await _cut_members(client, words, kind)
    if reply is None:
        reply = await client.exec(*words, into=Any)
    if kind == "hash" and reply[1] and isinstance(reply[1][0], bytes):
        reply = reply[0], reply[1][::2]
    sized = ((len(each), each) if isinstance(each, bytes) else each for each in reply[1])
    parts = dict.fromkeys(Part(text[:MOST_BYTES], size) for size, text in sized)
    return bytes(reply[0]).decode(), list(parts)


async def _cut_members(client: Client, words: Command, kind: str) -> Any:
    """The same step, with the size and the beginning of each member. None if the server cannot cut
    them for this user."""
    _, key, cursor, _, count = words
    if kind == "hash":  # only the names, if the server supports that, because a value may be huge
        try:
            reply = await client.exec("HSCAN", *words[1:], "NOVALUES")
            return reply[0], [(len(name), name[:MOST_BYTES]) for name in reply[1]]
        except (ServerError, ReplyTooLargeError):
            pass
    try:
        return await _read_only(client, _CUT_MEMBERS, key, kind, cursor, count, MOST_BYTES)
    except UnshownError:
        return None


async def stream_entries(
    client: Client, key: bytes, first: bytes, count: int, *, step: int = 1
) -> list[Entry]:
    """Entries from an id on; the newest first if the step is negative. Raises UnshownError."""
    if await _is_small(client, key, "stream"):
        words: Command = ("XRANGE", key, first, "+") if step > 0 else ("XREVRANGE", key, first, "-")
        return [
            Entry(id, _paired([Part(text[:MOST_BYTES], len(text)) for text in _flat(fields)]))
            for id, fields in await ask_one(client, *words, "COUNT", count) or []
        ]
    entries = []
    for _, id, fields in await _cut(client, key, "stream", first, count, step):
        half = len(fields) // 2
        sized = zip(fields[:half], fields[half:], strict=True)
        entries.append(Entry(id, _paired([Part(text, int(size)) for size, text in sized])))
    return entries


async def string_parts(
    client: Client, keys: Sequence[bytes], most: int = MOST_BYTES
) -> list[Part | None]:
    """The beginnings of strings; None for a string that does not exist."""
    commands: list[Command] = []
    for key in keys:
        commands += [("STRLEN", key), ("GETRANGE", key, 0, most - 1)]
    replies = await ask(client, commands)
    return [
        Part(text, size) if size else None
        for size, text in zip(replies[::2], replies[1::2], strict=True)
    ]


async def field_parts(
    client: Client, wanted: Sequence[tuple[bytes, bytes]], most: int = MOST_BYTES
) -> list[Part | None]:
    """Fields of hashes, each named by (key, field). A field that is too large has no data, only its
    size. None: it does not exist."""
    sizes = await ask(client, [("HSTRLEN", key, field) for key, field in wanted])
    small = [n for n, size in enumerate(sizes) if size and size <= most]
    texts = await ask(client, [("HGET", *wanted[n]) for n in small])
    parts: list[Part | None] = [Part(b"", size) if size else None for size in sizes]
    for n, text in zip(small, texts, strict=True):
        # it may have grown meanwhile
        parts[n] = None if text is None else Part(text[:most], len(text))
    return parts


async def hash_parts(
    client: Client, keys: Sequence[bytes], fields: Sequence[bytes]
) -> list[dict[bytes, Part | None]]:
    """The same fields of many hashes, as `field_parts` reads them."""
    found = await field_parts(client, [(key, field) for key in keys for field in fields])
    width = len(fields)
    return [
        dict(zip(fields, found[n * width : (n + 1) * width], strict=True)) for n in range(len(keys))
    ]


def body_of_part(part: Part | None) -> Body | None:
    if part is None:
        return None
    return body_of(part.data, part.size) if part.data else unread(part.size)


def text_of_part(part: Part | None) -> str:
    """The text of a part; empty if there is none."""
    body = body_of_part(part)
    return "" if body is None else body.text


async def _is_small(client: Client, key: bytes, kind: str) -> bool:
    """Whether the whole key may be sent. The size is an estimate of the server."""
    size, length = await ask(client, [("MEMORY", "USAGE", key), (_LENGTHS[kind], key)])
    is_large = size is not None and length and size / length > _LARGE_ELEMENT
    if is_large and kind != "hash":  # names of fields are shown without their values
        raise UnshownError(f"about {size // length:,} bytes an element: too large to show")
    return size is not None and size <= _SMALL_KEY


async def _cut(
    client: Client, key: bytes, kind: str, first: Argument, count: int, step: int
) -> Any:
    rest = (kind, first, count, step, MOST_BYTES, MOST_LOOKED_AT)
    return await _read_only(client, _CUT, key, *rest)


async def _read_only(client: Client, script: str, key: Argument, *rest: Argument) -> Any:
    for command in ("EVAL_RO", "EVAL"):  # Redis before 7 knows only the second one
        try:
            return await client.exec(command, script, 1, key, *rest, into=Any)
        except ServerError as error:
            if error.is_retryable:
                raise
    raise UnshownError("the user may not run scripts, and the key is too large to be sent whole")


def _ends(first: int, count: int, step: int) -> tuple[int, int]:
    """The lower and the upper index of a range that goes up or down."""
    return (first, first + count - 1) if step > 0 else (first - count + 1, first)


def _flat(fields: Any) -> list[bytes]:
    if isinstance(fields, dict):
        return [text for pair in fields.items() for text in pair]
    return list(fields)


def _paired(parts: list[Part]) -> tuple[tuple[Part, Part], ...]:
    return tuple(zip(parts[::2], parts[1::2], strict=True))
