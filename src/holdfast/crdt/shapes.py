"""Checks the shape of a record, or of a key of a snapshot, that a peer sent. All of it is checked
before any part is applied: a change that fails half-way would leave a value that no other replica
has.

Types, lengths and bounds are checked, but no meaning: a peer that is admitted may write any data.
But no message may cost more than its own size, and none may raise an error of Python.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.crdt import effects, positions
from holdfast.crdt.causal_log import Record
from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS
from holdfast.crdt.effects import CLEAR, MANY
from holdfast.crdt.flush import FLUSHED
from holdfast.crdt.replicated_sketch import REGISTERS
from holdfast.crdt.replicated_stream import (
    ADDED,
    CONSUMER,
    ENTRY,
    GROUP,
    LAST_ID,
    MAX_DELETED_ID,
    PENDING,
    POSITION,
    STREAM,
)
from holdfast.errors import HoldfastError

MAX_SEQ: Final = 1 << 47  # together with the replica it makes a dot, which SQLite can store
MAX_STAMP: Final = 1 << 62
MAX_RANK: Final = 64
MAX_DIGITS: Final = 8192
ID_BYTES: Final = 16
TAG_BYTES: Final = 8  # the dot of a group, in the names of its parts
_BYTES: Final[frozenset[type]] = frozenset({bytes})
_INTS: Final[frozenset[type]] = frozenset({int})
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
).fullmatch


_decode: Final = msgspec.msgpack.Decoder().decode
# The errors of msgpack's decoder, also for text that is not UTF-8 and for deep nesting.
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


class MalformedError(HoldfastError):
    """A peer sent a malformed record, key or message: the link is broken."""


def check(is_so: bool, what: str) -> None:
    if not is_so:
        raise MalformedError(f"the peer sent {what} that is malformed")


def read_record(data: bytes, databases: int) -> Record:
    """The record in this data. Raises MalformedError."""
    try:
        fields = _decode(data)
    except UNREADABLE:
        fields = None
    if type(fields) is not list or len(fields) != len(Record._fields):
        raise MalformedError("the peer sent a record that is malformed")
    check_record(fields, databases)
    return Record(*fields)


def check_record(fields: Any, databases: int) -> None:
    """Check the fields of a record, before the Record is made, because compiled code relies on its
    types. Raises MalformedError."""
    origin, after, seq, hlc, changes = fields
    check(type(origin) is int and 0 < origin <= MAX_REPLICA, "a replica")
    check(type(after) is int and type(seq) is int and 0 <= after < seq < MAX_SEQ, "a number")
    check(type(hlc) is int and 0 <= hlc < MAX_STAMP, "a stamp")
    check(type(changes) is list, "a record")
    for change in changes:
        check(type(change) is list and len(change) == 4, "a change")
        database, name, kind, effect = change
        _check_database(database, databases)
        check(type(effect) is list and len(effect) > 1 and type(effect[0]) is int, "an effect")
        if kind == FLUSHED:
            check(name is None, "a flush")
            _check_flush(effect)
        elif name is None:
            check(kind == "string", "a run")
            _check_run(effect)
        else:
            check(type(name) is bytes and type(kind) is str and kind in _EFFECTS, "a change")
            _EFFECTS[kind](kind, effect)


def check_key(key: Any, databases: int) -> None:
    """Check a key of a snapshot: database, name, rows. Raises MalformedError."""
    check(type(key) is tuple and len(key) == 3, "a key")
    database, name, rows = key
    _check_database(database, databases)
    check(type(name) is bytes and type(rows) is tuple, "a key")
    for row in rows:
        check(type(row) is tuple and len(row) == 3, "a row")
        kind = row[0]
        check(type(kind) is str and kind in _ROWS, "a row")
        _ROWS[kind](kind, row[1], row[2])


def _check_database(database: Any, databases: int) -> None:
    check(type(database) is int and database >= 0, "a database")
    if database >= databases:
        raise MalformedError(
            f"the peer has a database {database}, and here are {databases} (see --databases)"
        )


# -- parts of effects -----------------------------------------------------------------------------


def _is_dot(dot: Any) -> bool:
    return type(dot) is int and MAX_REPLICA < dot < MAX_SEQ << REPLICA_BITS


def _is_number(number: Any) -> bool:
    if type(number) is str:
        return 0 < len(number) <= MAX_DIGITS and _DECIMAL(number) is not None
    return type(number) is int or (type(number) is float and number == number)


def _is_vector(vector: Any) -> bool:
    return type(vector) is dict and all(
        type(replica) is int and 0 < replica <= MAX_REPLICA and type(seq) is int
        for replica, seq in vector.items()
    )


def _are(what: Callable[[Any], bool], values: Any) -> bool:
    return type(values) is list and all(map(what, values))


def _is_bytes(value: Any) -> bool:
    return type(value) is bytes


def _are_only(types: frozenset[type], values: list[Any]) -> bool:
    """Whether all values have one of these types. One call for many values: a call for each would
    take as long as applying them."""
    return types.issuperset(map(type, values))


def _are_numbers(values: list[Any]) -> bool:
    return _are_only(_INTS, values) or all(map(_is_number, values))


def _is_seq(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_SEQ


def _is_place(position: Any) -> bool:
    """Whether it is a position in a list, with an index that a run can continue."""
    if type(position) is not bytes or not position or len(position) % positions.SEGMENT:
        return False
    index = int.from_bytes(position[-8:], "big")
    return abs(index - positions.ZERO) < MAX_SEQ


def _check_run(effect: list[Any]) -> None:
    what = effect[0]
    check(what in _RUNS, "a run")
    length, width = _RUNS[what]
    check(len(effect) == length and _is_dot(effect[1]), "a run")
    parts = effect[-1]
    check(type(parts) is list and not len(parts) % width, "a run")
    check(effect[1] + (len(parts) // width << REPLICA_BITS) < MAX_SEQ << REPLICA_BITS, "a run")
    check(_are_only(_BYTES, parts[::width]), "a name")
    if what == effects.ADDS:
        check(_are_only(_INTS, parts[1::4]), "a number")
        check(_are_numbers(parts[2::4]) and _are_numbers(parts[3::4]), "a total")
        return
    check(type(effect[2]) is int and 0 <= effect[2] < MAX_STAMP, "a stamp")
    check(_are_only(_BYTES, parts[1::width]), "a string")
    if what == effects.WRITES:
        check(_are_only(_INTS, parts[2::3]), "a dot")


def _check_flush(effect: list[Any]) -> None:
    check(effect[0] == effects.FLUSH and len(effect) == 4 and _is_vector(effect[1]), "a flush")
    check(type(effect[2]) is list and _is_dot(effect[3]), "a flush")
    for total in effect[2]:
        check(type(total) is list and len(total) == 6 and type(total[0]) is bytes, "a total")
        check(type(total[1]) is str and total[1] in _CELLS, "a total")
        is_one = _is_name(total[1], total[2]) and type(total[3]) is int and _is_seq(total[4])
        check(is_one and _is_number(total[5]), "a total")


_RUNS: Final = {effects.WRITES: (4, 3), effects.OVERWRITES: (4, 2), effects.ADDS: (3, 4)}


# -- cells ----------------------------------------------------------------------------------------


def _is_value(kind: str, name: Any, value: Any) -> bool:
    """Whether a cell of that name can hold the value. (In a snapshot, lists are tuples.)"""
    if not _is_name(kind, name):
        return False
    if kind in ("string", "hash"):
        return type(value) is bytes
    if kind == "zset":
        return type(value) in (int, float) and value == value
    if kind == "set":
        return value is None
    if kind == "expiry":
        return value is None or (type(value) is int and abs(value) < MAX_STAMP)
    return _is_part_of_stream(name[:1], value)


def _is_part_of_stream(part: bytes, value: Any) -> bool:
    if part in (STREAM, GROUP, ADDED):
        return value is None
    if part in (LAST_ID, MAX_DELETED_ID):
        return type(value) is bytes and len(value) == ID_BYTES
    if part == CONSUMER:
        return type(value) is int and abs(value) < MAX_STAMP
    if type(value) not in (list, tuple):
        return False
    if part == ENTRY:
        return all(map(_is_bytes, value)) and not len(value) % 2
    if part == POSITION:
        hlc, replica, last_id, read = value if len(value) == 4 else (None, None, None, None)
        are_ints = type(hlc) is int and type(replica) is int and type(read) is int
        return are_ints and type(last_id) is bytes and len(last_id) == ID_BYTES
    return len(value) == 3 and type(value[0]) is bytes and {*map(type, value[1:])} == {int}


def _is_stream_name(name: bytes) -> bool:
    part, size = name[:1], len(name) - 1
    if part in (STREAM, LAST_ID, MAX_DELETED_ID, ADDED):
        return size == 0
    if part == ENTRY:
        return size == ID_BYTES
    if part == POSITION:
        return size == TAG_BYTES
    if part == PENDING:
        return size == TAG_BYTES + ID_BYTES
    return part == GROUP or (part == CONSUMER and size >= TAG_BYTES)


def _is_name(kind: str, name: Any) -> bool:
    if kind == "stream":
        return type(name) is bytes and _is_stream_name(name)
    if name is None:
        return kind in ("string", "expiry")
    return type(name) is bytes and kind != "string"


def _are_resets(resets: Any) -> bool:
    return type(resets) is list and all(
        type(reset) is list
        and len(reset) == 3
        and type(reset[0]) is int
        and _is_seq(reset[1])
        and _is_number(reset[2])
        for reset in resets
    )


def _check_cells(kind: str, effect: list[Any]) -> None:
    what, size = effect[0], len(effect)
    if what == effects.WRITE:
        is_one = size == 7 and _is_dot(effect[2]) and _is_value(kind, effect[1], effect[4])
        is_one = is_one and type(effect[3]) is int and 0 <= effect[3] < MAX_STAMP
        is_one = is_one and (effect[5] is None or _are(_is_dot, effect[5]))
        check(is_one and _are_resets(effect[6]), "a write")
    elif what == effects.REMOVE:
        is_one = size == 5 and _is_name(kind, effect[1]) and _are(_is_dot, effect[2])
        check(is_one and _are_resets(effect[3]) and type(effect[4]) is int, "a removal")
    elif what == effects.ADD:
        is_one = size == 6 and _is_name(kind, effect[1]) and _is_dot(effect[2])
        is_one = is_one and _is_seq(effect[3]) and kind not in ("set", "expiry")
        check(is_one and _is_number(effect[4]) and _is_number(effect[5]), "an addition")
    elif what == MANY:
        check(size == 2 and type(effect[1]) is list, "an effect")
        for part in effect[1]:
            check(type(part) is list and len(part) > 1 and part[0] in _SINGLE, "an effect")
            _check_cells(kind, part)
    else:
        check(what == CLEAR and size == 4 and _is_vector(effect[1]), "an effect")
        check(type(effect[2]) is list and type(effect[3]) is int, "a deletion")
        for named in effect[2]:
            check(type(named) is list and len(named) == 2, "a deletion")
            check(_is_name(kind, named[0]) and _are_resets(named[1]), "a deletion")


_SINGLE: Final = (effects.WRITE, effects.REMOVE, effects.ADD)


def _check_cell_row(kind: str, sub: Any, row: Any) -> None:
    check(type(sub) is tuple and len(sub) == 2 and type(row) is tuple, "a row")
    name, number = sub
    if type(number) is int and 0 < number <= MAX_REPLICA:  # a total
        is_one = len(row) == 5 and _is_seq(row[0]) and _is_number(row[1]) and _is_seq(row[2])
        is_one = is_one and _is_number(row[3]) and type(row[4]) is int and _is_name(kind, name)
        check(is_one, "a total")
    else:
        check(_is_dot(number) and len(row) == 2 and _is_value(kind, name, row[1]), "a write")
        check(type(row[0]) is int and 0 <= row[0] < MAX_STAMP, "a stamp")


# -- lists and sketches ---------------------------------------------------------------------------


def _check_list(_: str, effect: list[Any]) -> None:
    what, size = effect[0], len(effect)
    is_one = False
    if what == effects.PUSH and size == 4:
        values = effect[3]
        is_one = _is_place(effect[1]) and effect[2] in (1, -1) and type(values) is list
        is_one = is_one and len(values) > 0 and _are_only(_BYTES, values)
    elif what == effects.POP and size == 3:
        is_one = _is_place(effect[1]) and _is_seq(effect[2]) and effect[2] > 0
    elif what == effects.DELETE and size == 2:
        is_one = _are(_is_place, effect[1])
    elif what == effects.INSERT and size == 2:
        is_one = type(effect[1]) is list and all(
            type(pair) is list and len(pair) == 2 and _is_place(pair[0]) and _is_bytes(pair[1])
            for pair in effect[1]
        )
    elif what == effects.SET and size == 5:
        is_one = _is_place(effect[1]) and _is_bytes(effect[2]) and type(effect[3]) is int
        is_one = is_one and 0 <= effect[3] < MAX_STAMP and type(effect[4]) is int
    elif what == effects.TRIM and size == 4:
        is_one = _is_vector(effect[1]) and _is_place(effect[2]) and _is_place(effect[3])
    elif what == CLEAR and size == 4:
        is_one = _is_vector(effect[1])
    check(is_one, "a change of a list")


def _check_list_row(_: str, sub: Any, row: Any) -> None:
    check(_is_place(sub) and type(row) is tuple and len(row) == 3, "an element")
    check(_is_bytes(row[0]) and {*map(type, row[1:])} == {int}, "an element")


def _is_register(register: Any, rank: Any) -> bool:
    return (
        type(register) is int
        and 0 <= register < REGISTERS
        and type(rank) is int
        and 0 <= rank <= MAX_RANK
    )


def _check_sketch(_: str, effect: list[Any]) -> None:
    if effect[0] == effects.RAISE:
        check(len(effect) == 4 and _is_dot(effect[1]) and type(effect[2]) is bool, "a sketch")
        check(type(effect[3]) is list, "a sketch")
        for pair in effect[3]:
            check(type(pair) is list and len(pair) == 2 and _is_register(*pair), "a register")
    else:
        check(effect[0] == CLEAR and len(effect) == 4 and _is_vector(effect[1]), "a sketch")


def _check_sketch_row(_: str, sub: Any, row: Any) -> None:
    check(type(sub) is tuple and len(sub) == 2, "a register")
    check(_is_dot(sub[0]) and _is_register(sub[1], row), "a register")


_CELLS: Final = ("string", "hash", "set", "zset", "stream", "expiry")
_EFFECTS: Final[dict[str, Callable[[str, list[Any]], None]]] = {
    **dict.fromkeys(_CELLS, _check_cells),
    "list": _check_list,
    "hyperloglog": _check_sketch,
}
_ROWS: Final[dict[str, Callable[[str, Any, Any], None]]] = {
    **dict.fromkeys(_CELLS, _check_cell_row),
    "list": _check_list_row,
    "hyperloglog": _check_sketch_row,
}
