"""How several entries of a stream share a row of the file, and the pieces that make up a row.

A row has the entries from its own id up to the id of the next row: a msgpack array of ids and
fields in turn, in order. So the row of an entry is found by its id. Before version 5 of the schema
each entry had a row of its own, with only its fields. Such a row stays until an entry in it
changes.

New entries are encoded once, a few together, in the form of a row, without the head of the array.
The journal has such pieces, and the fold joins them into rows.

No I/O: nothing here knows the file.
"""

from typing import Any, Final

import msgspec

ENTRIES: Final = 32  # the most in a row
BYTES: Final = 1900  # the most in a row of several entries, so that two rows fit into a page

PIECE_ENTRIES: Final = 7  # an array of up to 15 items, ids and fields, has a head of one byte
# the most in a piece of several entries, so that rows become about full
PIECE_BYTES: Final = BYTES // 4

_ID: Final = b"\xc4\x10"  # msgpack: 16 bytes follow
_ARRAY: Final = b"\xdc"  # and a length of two bytes follows
_BYTES: Final = (b"\xc4", b"\xc5", b"\xc6")  # bytes follow, with a length of 1, 2 or 4 bytes
_OVERHEAD: Final = len(_ID) + 16
HEAD_BYTES: Final = 1 + 2 + _OVERHEAD + 1  # the fields of the first entry begin after these

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[bytes | tuple[bytes, ...]]).decode


def close_run(run: list[Any]) -> None:
    """Encode the entries of an open run of STREAM_RUNS."""
    words = run[2:]
    del run[2:]
    run.append(words[-2])
    for start in range(0, len(words), 2 * PIECE_ENTRIES):
        _add_pieces(words[start : start + 2 * PIECE_ENTRIES], run)


def _add_pieces(words: list[Any], run: list[Any]) -> None:
    piece: bytes = _encode(words)[1:]
    count = len(words) // 2
    if len(piece) <= PIECE_BYTES or count == 1:
        run.append(count)
        run.append(piece)
    else:
        half = count // 2 * 2
        _add_pieces(words[:half], run)
        _add_pieces(words[half:], run)


def piece_of(entry_id: bytes, fields: bytes) -> bytes:
    """The piece of a single entry. Its fields are encoded already."""
    return _ID + entry_id + fields


def first_of(piece: bytes) -> bytes:
    """The id of the first entry of a piece."""
    return piece[2:18]


def entries_of(count: int, piece: bytes) -> list[tuple[bytes, bytes]]:
    """Ids and encoded fields of a piece."""
    ids, fields = packed(b"", join(count, [piece]))
    return list(zip(ids, fields, strict=True))


def join(count: int, pieces: list[bytes]) -> bytes:
    """The row of these pieces, which have so many entries together."""
    return b"".join([_ARRAY, (2 * count).to_bytes(2, "big"), *pieces])


def pack(ids: list[bytes], fields: list[bytes]) -> bytes:
    """The row of these entries. The fields are encoded already."""
    return join(len(ids), [piece_of(entry_id, fields[at]) for at, entry_id in enumerate(ids)])


def unpack(row_id: bytes, row: bytes) -> list[tuple[Any, Any]]:
    """Ids and fields of a row."""
    words: list[Any] = _decode(row)
    if isinstance(words[1], bytes):
        return [(row_id, tuple(words))]
    return list(zip(words[::2], words[1::2], strict=True))


def entry_count(head: bytes) -> int:
    """The number of entries in a row, from its first `HEAD_BYTES`."""
    if head[:1] != _ARRAY or head[3:5] != _ID or head[21:22] in _BYTES:
        return 1
    return int.from_bytes(head[1:3], "big") // 2


def packed(row_id: bytes, row: bytes) -> tuple[list[bytes], list[bytes]]:
    """Ids and encoded fields of a row, as `pack` takes them."""
    entries = unpack(row_id, row)
    return [entry_id for entry_id, _ in entries], [_encode(fields) for _, fields in entries]


def merge(
    ids: list[bytes], fields: list[bytes], changed: list[bytes], values: list[Any]
) -> tuple[list[bytes], list[bytes]]:
    """The entries of a row after a change, which has new fields for some ids; None removes an
    entry."""
    is_behind = not ids or changed[0] > ids[-1]
    if is_behind and not any(value is None for value in values):
        return ids + changed, fields + values
    entries: dict[bytes, bytes] = dict(zip(ids, fields, strict=True))
    for at, entry_id in enumerate(changed):
        if values[at] is None:
            entries.pop(entry_id, None)
        else:
            entries[entry_id] = values[at]
    in_order = sorted(entries)
    return in_order, [entries[entry_id] for entry_id in in_order]


def end_of_row(fields: list[bytes], start: int) -> int:
    """The index after the last entry of the row that begins with this entry."""
    end, most = start + 1, min(len(fields), start + ENTRIES)
    nbytes = len(fields[start]) + _OVERHEAD
    while end < most:
        nbytes += len(fields[end]) + _OVERHEAD
        if nbytes > BYTES:
            break
        end += 1
    return end
