"""Runs: many row operations in one, in the form of the journal.

Making and encoding one operation for each row took as long as the rest of a command. So rows that
are written one after the other share an operation: `(table, key_id, sub, body)`, where the table is
one of the numbers below. The table `RUNS` has the function that expands each kind into rows.
ChangeLog builds runs, row by row.

A version of Holdfast that knows no runs refuses a file that has one in its journal, because it
takes the run for an operation of an active-active server.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.store.change.ops import (
    HASH_FIELDS,
    KEYS,
    LIST_ITEMS,
    SET_MEMBERS,
    STREAM_ENTRIES,
    STREAM_META,
    STRINGS,
    KeyId,
    Op,
    RowOp,
    Run,
)
from holdfast.store.change.stream_blocks import entries_of, first_of

# The numbers follow those of the first tables (ops.py). Files have them, too.
LIST_RUNS: Final = 17
STRING_RUNS: Final = 18
STREAM_RUNS: Final = 19
FIELD_RUNS: Final = 20
MEMBER_RUNS: Final = 21
# (22 and 23 are tables: see ops.py.)
NEW_STRING_RUNS: Final = 24
NEW_KEY_RUNS: Final = 25
# (26 are parts of strings, 27 is a table: see ops.py.)
MANY_FIELD_RUNS: Final = 28
MANY_MEMBER_RUNS: Final = 29
LIST_RUNS_DOWN: Final = 30

# From one position on the grid of a list to the next. A power of two.
STEP: Final = 1 << 20


def list_run(key_id: KeyId, position: int, elements: Sequence[bytes | None]) -> Run:
    """The run for elements of a list, from that position on, one step of the grid apart."""
    return Run((LIST_RUNS, key_id, position, elements))


def list_run_gone(key_id: KeyId, position: int, count: int) -> Run:
    """The run for so many elements of a list that are gone, from that position on."""
    return Run((LIST_RUNS, key_id, position, count))


def run_of_rows(table: int, key_id: KeyId, body: list[Any]) -> Run:
    """A run of any other kind. Rows are added to its body while it is the last operation."""
    return Run((table, key_id, None, body))


def new_strings_run(first_id: KeyId, space: KeyId, body: list[Any]) -> Run:
    """The run for new keys that hold strings and do not expire; the ids of the others follow."""
    return Run((NEW_STRING_RUNS, first_id, space, body))


def new_keys_run(first_id: KeyId, space: int, type_name: str, body: list[Any]) -> Run:
    """The run for new keys of one space and type that do not expire; the ids of the others
    follow."""
    return Run((NEW_KEY_RUNS, first_id, (space, type_name), body))


def list_run_elements(body: Any) -> list[Any]:
    """The elements of a LIST_RUNS body; None for each element that is gone."""
    return body if isinstance(body, list) else [None] * body


def stream_run_meta(body: list[Any]) -> tuple[bytes, bytes, int]:
    """The STREAM_META row of a closed STREAM_RUNS body."""
    return body[2], body[0], body[1]


def stream_run_pieces(body: list[Any]) -> list[tuple[bytes, int]]:
    """The pieces of a closed STREAM_RUNS body, each with the number of its entries. Raises
    IndexError when one of the two is missing."""
    return [(body[at + 1], body[at]) for at in range(3, len(body), 2)]


def stream_run_first_id(body: list[Any]) -> bytes:
    """The id of the first entry of a closed STREAM_RUNS body."""
    return first_of(body[4])


def _list_rows(key_id: int, first: Any, body: Any) -> list[RowOp]:
    return [
        RowOp((LIST_ITEMS, key_id, first + place * STEP, element))
        for place, element in enumerate(list_run_elements(body))
    ]


def _list_rows_down(key_id: int, first: Any, body: list[Any]) -> list[RowOp]:
    return [
        RowOp((LIST_ITEMS, key_id, first - place * STEP, element))
        for place, element in enumerate(body)
    ]


def _string_rows(_key_id: int, _sub: Any, body: list[Any]) -> list[RowOp]:
    return [RowOp((STRINGS, body[at], None, body[at + 1])) for at in range(0, len(body), 2)]


def _new_string_rows(first_id: int, space: Any, body: list[Any]) -> list[RowOp]:
    rows: list[RowOp] = []
    for number in range((len(body) + 1) // 2):
        key_id = first_id + number
        rows.append(RowOp((KEYS, key_id, None, (space, body[2 * number], "string", None))))
        rows.append(RowOp((STRINGS, key_id, None, body[2 * number + 1])))
    return rows


def _new_key_rows(first_id: int, kind: Any, body: list[Any]) -> list[RowOp]:
    space, type_name = kind
    return [
        RowOp((KEYS, first_id + number, None, (space, name, type_name, None)))
        for number, name in enumerate(body)
    ]


def _stream_rows(key_id: int, _sub: Any, body: list[Any]) -> list[RowOp]:
    rows = [
        RowOp((STREAM_ENTRIES, key_id, entry_id, fields))
        for piece, count in stream_run_pieces(body)
        for entry_id, fields in entries_of(count, piece)
    ]
    rows.append(RowOp((STREAM_META, key_id, None, stream_run_meta(body))))
    return rows


def _field_rows(key_id: int, _sub: Any, body: list[Any]) -> list[RowOp]:
    return [
        RowOp((HASH_FIELDS, key_id, body[at], (body[at + 1], body[at + 2], None)))
        for at in range(0, len(body), 3)
    ]


def _member_rows(key_id: int, _sub: Any, body: list[Any]) -> list[RowOp]:
    return [RowOp((SET_MEMBERS, key_id, body[at], body[at + 1])) for at in range(0, len(body), 2)]


def _id(word: Any) -> int:
    """Check the id of a key. (The id of an operation is checked when it is decoded, but not a word
    of its body.)"""
    if not isinstance(word, int):
        raise TypeError("the id of a key is no number")
    return word


def _many_field_rows(_key_id: int, _sub: Any, body: list[Any]) -> list[RowOp]:
    return [
        RowOp((HASH_FIELDS, _id(body[at]), body[at + 1], (body[at + 2], body[at + 3], None)))
        for at in range(0, len(body), 4)
    ]


def _many_member_rows(_key_id: int, _sub: Any, body: list[Any]) -> list[RowOp]:
    return [
        RowOp((SET_MEMBERS, _id(body[at]), body[at + 1], body[at + 2]))
        for at in range(0, len(body), 3)
    ]


# How each kind of run expands: the row operations, from its key id, sub and body.
RUNS: Final[dict[int, Callable[[int, Any, Any], list[RowOp]]]] = {
    # `sub` is the position of the first element. The body has the elements, or a number: so many
    # elements are gone.
    LIST_RUNS: _list_rows,
    # The same, from the first position down. The body has the elements; None for each that is gone.
    LIST_RUNS_DOWN: _list_rows_down,
    # Strings of several keys; the key id of the run is 0. The body: key id, value, key id, value, …
    STRING_RUNS: _string_rows,
    # New keys, which do not expire, and their strings. The key id is that of the first key, and the
    # ids of the others follow it; `sub` is the space. The body: name, value, name, value, …
    NEW_STRING_RUNS: _new_string_rows,
    # New keys, which do not expire, of a type with elements. The key id is that of the first key,
    # and the ids of the others follow it; `sub` is the space and the type. The body: names.
    NEW_KEY_RUNS: _new_key_rows,
    # The body: max_deleted_id, entries_added, last_id; then, for each piece, the number of its
    # entries and the piece (stream_blocks.py). While the run is open: max_deleted_id,
    # entries_added, then id, fields, id, fields, …
    STREAM_RUNS: _stream_rows,
    # Fields that never expire. The body: name, value, ordinal, name, value, ordinal, …
    FIELD_RUNS: _field_rows,
    # The body: member, ordinal, member, ordinal, …
    MEMBER_RUNS: _member_rows,
    # Fields of several hashes; the key id of the run is 0. The body: key id, name, value, ordinal,
    # key id, …
    MANY_FIELD_RUNS: _many_field_rows,
    # The body: key id, member, ordinal, key id, …
    MANY_MEMBER_RUNS: _many_member_rows,
}


def rows_in(op: Op) -> list[RowOp]:
    """The row operations that an operation stands for. Raises TypeError, ValueError or IndexError
    if the operation is malformed."""
    table, key_id, sub, value = op
    expand = RUNS.get(table)
    return [RowOp(op)] if expand is None else expand(key_id, sub, value)
