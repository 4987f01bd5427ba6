"""Row operations: the one language of change.

An operation is `(table, key_id, sub, value)`; `value None` means that the row is gone. It has the
new row, never the difference to the old one, so applying it twice is the same as applying it once.
Only the functions here build such a tuple. (It is a tuple because the journal encodes a batch
without conversion, and because compiled code builds nothing faster.)
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final, NewType, cast

# Tables. Files have these numbers, so they never change, and new ones go to the end. (Each is a
# constant of its own, because compiled code then has the number and need not look up a name.)
SPACES: Final = 0
KEYS: Final = 1
STRINGS: Final = 2
LIST_ITEMS: Final = 3
HASH_FIELDS: Final = 4
SET_MEMBERS: Final = 5
ZSET_MEMBERS: Final = 6
STREAM_META: Final = 7
STREAM_ENTRIES: Final = 8
STREAM_GROUPS: Final = 9
STREAM_CONSUMERS: Final = 10
STREAM_PENDING: Final = 11
SCRIPTS: Final = 12
CRDT_KEYS: Final = 13
CRDT_ROWS: Final = 14
CRDT_LOG: Final = 15
CRDT_FACTS: Final = 16
# The numbers from here on are those of runs, which have no table (see runs.py), and of tables that
# came after them.
FIRST_RUN: Final = 17
STREAM_IDEMPOTENCE: Final = 22
STREAM_IIDS: Final = 23
# (24 and 25 are runs.) Parts of strings: bytes from an offset on, which is the sub key. They have
# no table: the fold reads whole strings from memory, and recovery writes the parts into them.
STRING_PARTS: Final = 26
REPLICATION: Final = 27

# The key ids of SCRIPTS rows are these kinds; the sub key is the name.
SCRIPT, LIBRARY = range(2)

POSITION: Final = b"position"  # the sub key of the one row of REPLICATION

# Ids below this are database numbers (SPACES rows); ids of keys and spaces start here.
FIRST_ID: Final = 1024

# One row. The table and the key id are integers. The type does not state it, because compiled code
# would unpack a tuple of known types, and make a new one wherever it is stored.
RowOp = NewType("RowOp", tuple[Any, ...])

# Many rows in one tuple, likewise of four: see runs.py.
Run = NewType("Run", tuple[Any, ...])

Op = RowOp | Run  # a batch is a list of these

# An int. Values keep their id as an object. If the type were int, compiled code would make another
# object for each operation.
KeyId = Any

KeyRow = tuple[int, bytes, str, int | None]  # space, name, type, expires_at_ms


def row_op(table: int, key_id: KeyId, sub: object, value: object) -> RowOp:
    """The operation on a row of any table."""
    return RowOp((table, key_id, sub, value))


def row_ops(
    table: int, key_ids: Iterable[int], subs: Iterable[object], values: Iterable[object]
) -> list[RowOp]:
    """Operations on rows of one table, from columns; as many as the shortest column has."""
    rows = list(zip(repeat(table), key_ids, subs, values, strict=False))
    return cast("list[RowOp]", rows)


def key_row(key_id: KeyId, row: KeyRow | None) -> RowOp:
    return RowOp((KEYS, key_id, None, row))


def string_row(key_id: KeyId, value: bytes) -> RowOp:
    """The row of a string. A value of None is allowed only if the key is deleted, too; then the
    KEYS row is enough."""
    return RowOp((STRINGS, key_id, None, value))


def string_part(key_id: KeyId, offset: int, part: bytes) -> RowOp:
    """Bytes of a string from an offset on; bytes between its end and the offset become zeros.
    Recovery may apply it to a string that has these and later bytes already."""
    return RowOp((STRING_PARTS, key_id, offset, part))


def list_item(key_id: KeyId, position: int, element: bytes | None) -> RowOp:
    return RowOp((LIST_ITEMS, key_id, position, element))


def hash_field(key_id: KeyId, name: bytes, row: tuple[Any, ...] | None) -> RowOp:
    """The row of a field is `(value, ordinal, expires_at_ms)`."""
    return RowOp((HASH_FIELDS, key_id, name, row))


def set_member(key_id: KeyId, member: bytes, ordinal: object) -> RowOp:
    """The row of a member. The ordinal is an `int | None`, passed as an object so that compiled
    code need not make another."""
    return RowOp((SET_MEMBERS, key_id, member, ordinal))


def zset_member(key_id: KeyId, member: bytes, score: object) -> RowOp:
    """The row of a member. The score is a `float | None`, passed as an object so that compiled code
    need not make another."""
    return RowOp((ZSET_MEMBERS, key_id, member, score))
