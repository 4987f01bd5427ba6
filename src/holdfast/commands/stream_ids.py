"""What the stream families share: reading ids and ranges, showing entries, finding groups."""

import re
from collections.abc import Iterable

from holdfast.commands.args import is_int
from holdfast.commands.context import Context
from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import Reply
from holdfast.store.keys import Key
from holdfast.store.stream_entries import Entry
from holdfast.store.stream_groups import Group
from holdfast.store.stream_ids import MAX_ID, MAX_SEQUENCE, id_of, text_of
from holdfast.store.streams import Stream

INVALID_ID = CommandError("ERR Invalid stream ID specified as stream command argument")
INVALID_START = CommandError("ERR invalid start ID for the interval")
INVALID_END = CommandError("ERR invalid end ID for the interval")

LONGEST_ID = 127
# What C's strtoull takes: blanks, a sign, zeros in front.
_number = re.compile(rb"[ \t-\r]*([+-]?)([0-9]+)").fullmatch


def parse_id(text: bytes, missing_sequence: int = 0) -> int:
    """`ms` or `ms-seq`."""
    ms, sequence = _parts(text)
    return id_of(_unsigned(ms), missing_sequence if sequence is None else _unsigned(sequence))


def parse_bound(text: bytes, missing_sequence: int = 0) -> int:
    """An id, or `-` and `+` for the lowest and the highest there can be."""
    if len(text) <= LONGEST_ID and c_string(text) in (b"-", b"+"):
        return 0 if text.startswith(b"-") else MAX_ID
    return parse_id(text, missing_sequence)


def parse_new_id(text: bytes) -> tuple[int, bool]:
    """For XADD: an id, and whether it has a sequence or (`ms-*`) is to get one."""
    ms, sequence = _parts(text)
    if sequence == b"*":
        return id_of(_unsigned(ms), 0), False
    return parse_id(text), True


def parse_low(text: bytes) -> int:
    """Where a range begins; `(` before it leaves it out."""
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


def is_mark(text: bytes, mark: bytes) -> bool:
    """Whether it is `*`, `$` or `>`, which stand for ids, too: Redis stops reading at a NUL."""
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
    """As Redis reads it, which is an integer the strict way, or else whatever strtoull makes."""
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


def c_string(text: bytes) -> bytes:
    """As much of it as Redis sees."""
    return text.partition(b"\0")[0]


def as_stream(key: Key | None) -> Stream | None:
    """The key's value; WRONGTYPE when it is something else."""
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
