"""Functions that the stream commands share: they read ids, ranges and policies of deletion, show
entries, and find groups."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.commands.args import is_int
from holdfast.commands.context import Context
from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.key import Key
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_entries import Entry
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_id import MAX_ID, MAX_SEQUENCE, id_of, text_of
from holdfast.store.values.stream_references import (
    DELETE_REFERENCES,
    KEEP_REFERENCES,
    ONLY_ACKNOWLEDGED,
)

INVALID_ID = CommandError("ERR Invalid stream ID specified as stream command argument")
INVALID_START = CommandError("ERR invalid start ID for the interval")
INVALID_END = CommandError("ERR invalid end ID for the interval")

# The words that decide about the references of groups to a deleted entry.
POLICIES: Final = {
    b"KEEPREF": KEEP_REFERENCES,
    b"DELREF": DELETE_REFERENCES,
    b"ACKED": ONLY_ACKNOWLEDGED,
}

# The options of XADD, and how many arguments each has. (A `~` or `=` may precede a threshold.)
XADD_OPTIONS: Final = {
    **dict.fromkeys((b"NOMKSTREAM", *POLICIES), 0),
    **dict.fromkeys((b"MAXLEN", b"MINID", b"LIMIT", b"IDMPAUTO"), 1),
    b"IDMP": 2,
}

LONGEST_ID = 127
# The texts that C's strtoull accepts: blanks, a sign and zeros may precede the digits.
_number = re.compile(rb"[ \t-\r]*([+-]?)([0-9]+)").fullmatch


def parse_id(text: bytes, missing_sequence: int = 0) -> int:
    """The id that `ms` or `ms-seq` denotes."""
    ms, sequence = _parts(text)
    return id_of(_unsigned(ms), missing_sequence if sequence is None else _unsigned(sequence))


def parse_bound(text: bytes, missing_sequence: int = 0) -> int:
    """An id. `-` is the lowest possible id, `+` the highest."""
    if len(text) <= LONGEST_ID and c_string(text) in (b"-", b"+"):
        return 0 if text.startswith(b"-") else MAX_ID
    return parse_id(text, missing_sequence)


def parse_new_id(text: bytes) -> tuple[int, bool]:
    """An id for XADD, and whether it has a sequence number. `ms-*` has none and will get one."""
    ms, sequence = _parts(text)
    if sequence == b"*":
        return id_of(_unsigned(ms), 0), False
    return parse_id(text), True


def parse_low(text: bytes) -> int:
    """The first id of a range. A `(` before an id excludes the id itself."""
    if not text.startswith(b"("):
        return parse_bound(text)
    low = parse_id(text[1:])
    if low == MAX_ID:
        raise INVALID_START
    return low + 1


def parse_high(text: bytes) -> int:
    if not text.startswith(b"("):
        return parse_bound(text, MAX_SEQUENCE)
    high = parse_id(text[1:], MAX_SEQUENCE)
    if high == 0:
        raise INVALID_END
    return high - 1


def options_of_xadd(argv: list[bytes]) -> tuple[dict[bytes, range], int]:
    """The places of the options of a well-formed XADD, and of its id."""
    places: dict[bytes, range] = {}
    at = 2
    while (word := argv[at].upper()) in XADD_OPTIONS:
        end = at + 1 + XADD_OPTIONS[word]
        if word in (b"MAXLEN", b"MINID") and argv[at + 1] in (b"~", b"="):
            end += 1
        places[word] = range(at, end)
        at = end
    return places, at


def is_mark(text: bytes, mark: bytes) -> bool:
    """Whether the text is this mark: `*`, `$` or `>`, which may stand in the place of an id. As in
    Redis, a NUL ends the text."""
    return text == mark or c_string(text) == mark


def is_id(text: bytes) -> bool:
    try:
        parse_id(text)
    except CommandError:
        return False
    return True


def _parts(text: bytes) -> tuple[bytes, bytes | None]:
    if len(text) > LONGEST_ID:
        raise INVALID_ID
    ms, dash, sequence = c_string(text).partition(b"-")
    return ms, sequence if dash else None


def _unsigned(text: bytes) -> int:
    """The number that Redis reads: a strict 64-bit integer, or else the result of strtoull."""
    match = _number(text)
    if match is None or (match[1] == b"-" and is_int(text)):
        raise INVALID_ID
    number = int(match[2])
    if number > MAX_SEQUENCE:
        raise INVALID_ID
    return -number & MAX_SEQUENCE if match[1] == b"-" else number


# -- showing ----------------------------------------------------------------------------------


def entry_reply(entry: Entry) -> Reply:
    return [text_of(entry[0]), entry[1]]


def entries_reply(entries: Iterable[Entry]) -> Reply:
    return [[text_of(entry_id), fields] for entry_id, fields in entries]


# -- finding ----------------------------------------------------------------------------------


def no_such_group(name: bytes, group: bytes, where: bytes = b"") -> CommandError:
    return CommandError(
        b"NOGROUP No such key '%b' or consumer group '%b'%b"
        % (c_string(name), c_string(group), where)
    )


def as_stream(key: Key | None) -> Stream | None:
    """The stream of a key, None without a key. A value of another type raises WRONG_TYPE."""
    if key is None:
        return None
    value = key.value
    if isinstance(value, Stream):
        return value
    raise WRONG_TYPE


def read_group(c: Context, name: bytes, group_name: bytes) -> tuple[Stream, Group]:
    stream = c.db.read_as(name, Stream)
    group = stream.groups.get(group_name) if stream is not None else None
    if stream is None or group is None:
        raise no_such_group(name, group_name)
    return stream, group
