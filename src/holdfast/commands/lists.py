"""List commands, including those that wait. Commands that move elements are in list_moves.py. A
client that is woken runs its command again, so this file has no code for waking. The value itself
is in store/values/list.py.
"""

from functools import partial

from holdfast.commands.args import (
    INT64_MAX,
    INT64_MIN,
    Options,
    parse_int,
    parse_int_between,
    parse_mpop,
    parse_timeout_s,
)
from holdfast.commands.context import Block, Context, Result
from holdfast.commands.list_args import ENDS, LEFT, RIGHT, End, push
from holdfast.commands.table import command, counted, many, one
from holdfast.errors import NO_SUCH_KEY, SYNTAX, CommandError
from holdfast.resp import NULL_ARRAY, OK, Reply
from holdfast.store.memory.events import LIST
from holdfast.store.memory.key import Key
from holdfast.store.values.list import List

NOT_POSITIVE = CommandError("ERR value is out of range, must be positive")
INDEX_OUT_OF_RANGE = CommandError("ERR index out of range")
COUNT_NEGATIVE = CommandError("ERR COUNT can't be negative")
MAXLEN_NEGATIVE = CommandError("ERR MAXLEN can't be negative")
RANK_ZERO = CommandError(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
    "or use negative to start from the end of the list"
)

list_command = partial(command, group="list", categories="list")
Found = tuple[Key, List]


# -- pushing ----------------------------------------------------------------------------------


@list_command("lpush", -3, "write denyoom fast", one("RW insert"), since="1.0.0")
def lpush(c: Context, argv: list[bytes]) -> Reply:
    """Put elements in front of a list, one after the other, creating it if needed.

    LPUSH key element [element ...]
    """
    return push(c, argv[1], c.db.find_or_create_as(argv[1], List), LEFT, argv[2:])


@list_command("rpush", -3, "write denyoom fast", one("RW insert"), since="1.0.0")
def rpush(c: Context, argv: list[bytes]) -> Reply:
    """Put elements at the end of a list, creating it if needed.

    RPUSH key element [element ...]
    """
    return push(c, argv[1], c.db.find_or_create_as(argv[1], List), RIGHT, argv[2:])


@list_command("lpushx", -3, "write denyoom fast", one("RW insert"), since="2.2.0")
def lpushx(c: Context, argv: list[bytes]) -> Reply:
    """Put elements in front of a list; do nothing if it is missing.

    LPUSHX key element [element ...]
    """
    found = c.db.find_as(argv[1], List)
    return push(c, argv[1], found[1], LEFT, argv[2:]) if found else 0


@list_command("rpushx", -3, "write denyoom fast", one("RW insert"), since="2.2.0")
def rpushx(c: Context, argv: list[bytes]) -> Reply:
    """Put elements at the end of a list; do nothing if it is missing.

    RPUSHX key element [element ...]
    """
    found = c.db.find_as(argv[1], List)
    return push(c, argv[1], found[1], RIGHT, argv[2:]) if found else 0


# -- popping ----------------------------------------------------------------------------------


def _pop(c: Context, found: Found, end: End) -> bytes:
    key, value = found
    element = end.pop(value, c.keyspace)
    c.db.shrunk(key, end.popped, LIST)
    return element


def _pop_many(c: Context, found: Found, end: End, count: int) -> tuple[bytes, ...]:
    key, value = found
    elements = end.pop_many(value, count, c.keyspace)
    c.db.shrunk(key, end.popped, LIST)
    return tuple(elements)


def _pop_command(c: Context, argv: list[bytes], end: End) -> Reply:
    if len(argv) == 2:
        found = c.db.find_as(argv[1], List)
        return _pop(c, found, end) if found else None
    if len(argv) > 3:
        name = end.popped.decode()
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    count = parse_int_between(argv[2], 0, INT64_MAX, NOT_POSITIVE)
    found = c.db.find_as(argv[1], List)
    if found is None:
        return NULL_ARRAY
    return _pop_many(c, found, end, count) if count else ()


@list_command("lpop", -2, "write fast", one("RW access delete"), since="1.0.0")
def lpop(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return the first element of a list, or the first few.

    LPOP key [count]
    """
    return _pop_command(c, argv, LEFT)


@list_command("rpop", -2, "write fast", one("RW access delete"), since="1.0.0")
def rpop(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return the last element of a list, or the last few, the last one first.

    RPOP key [count]
    """
    return _pop_command(c, argv, RIGHT)


def _blocking_pop(c: Context, argv: list[bytes], end: End) -> Result:
    timeout_s = parse_timeout_s(argv[-1])
    names = argv[1:-1]
    c.check_waitable(names)
    found = c.first_as(names, List)
    if found is None:
        return Block(names, List, timeout_s, on_timeout=None)
    return (found[0].name, _pop(c, found, end))


@list_command(
    "blpop", -3, "write noscript blocking", many("RW access delete", 1, -2), since="2.0.0"
)
def blpop(c: Context, argv: list[bytes]) -> Result:
    """Remove and return the first element of the first list that has one; wait if none has.

    BLPOP key [key ...] timeout
    """
    return _blocking_pop(c, argv, LEFT)


@list_command(
    "brpop", -3, "write noscript blocking", many("RW access delete", 1, -2), since="2.0.0"
)
def brpop(c: Context, argv: list[bytes]) -> Result:
    """Remove and return the last element of the first list that has one; wait if none has.

    BRPOP key [key ...] timeout
    """
    return _blocking_pop(c, argv, RIGHT)


def _mpop(c: Context, found: Found, end: bytes, count: int) -> Reply:
    return [found[0].name, _pop_many(c, found, ENDS[end], count)]


@list_command("lmpop", -4, "write movablekeys", counted("RW access delete", 1), since="7.0.0")
def lmpop(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return elements of the first list that has any.

    LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
    """
    names, end, count = parse_mpop(argv, 1, ENDS)
    found = c.first_as(names, List)
    return _mpop(c, found, end, count) if found else NULL_ARRAY


@list_command(
    "blmpop", -5, "write blocking movablekeys", counted("RW access delete", 2), since="7.0.0"
)
def blmpop(c: Context, argv: list[bytes]) -> Result:
    """Remove and return elements of the first list that has any; wait if none has.

    BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]
    """
    names, end, count = parse_mpop(argv, 2, ENDS)
    timeout_s = parse_timeout_s(argv[1])
    c.check_waitable(names)
    found = c.first_as(names, List)
    return _mpop(c, found, end, count) if found else Block(names, List, timeout_s)


# -- looking ----------------------------------------------------------------------------------


@list_command("llen", 2, "readonly fast only_rows", one("RO"), since="1.0.0")
def llen(c: Context, argv: list[bytes]) -> Reply:
    """How many elements a list has.

    LLEN key
    """
    return c.db.read_size(argv[1], List)


@list_command("lindex", 3, "readonly", one("RO access"), since="1.0.0")
def lindex(c: Context, argv: list[bytes]) -> Reply:
    """The element at an index; -1 is the last one.

    LINDEX key index
    """
    value = c.db.read_as(argv[1], List)
    return value.index(parse_int(argv[2])) if value else None


@list_command("lrange", 4, "readonly", one("RO access"), since="1.0.0")
def lrange(c: Context, argv: list[bytes]) -> Reply:
    """The elements from one index to another, both included; -1 is the last one.

    LRANGE key start stop
    """
    start, stop = parse_int(argv[2]), parse_int(argv[3])
    value = c.db.read_as(argv[1], List)
    return value.range(start, stop) if value else ()


@list_command("lpos", -3, "readonly", one("RO access"), since="6.0.6")
def lpos(c: Context, argv: list[bytes]) -> Reply:
    """The first index of an element in a list, or with COUNT several indexes.

    LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
    """
    rank, count, maxlen = 1, None, 0
    options = Options(argv, 3)
    while options:
        word = options.word()
        if word == b"RANK":
            rank = options.integer()
            if rank == 0:
                raise RANK_ZERO
            if rank == INT64_MIN:  # it has no positive counterpart: Redis takes the last match
                rank = -1
        elif word == b"COUNT":
            count = parse_int_between(options.value(), 0, INT64_MAX, COUNT_NEGATIVE)
        elif word == b"MAXLEN":
            maxlen = parse_int_between(options.value(), 0, INT64_MAX, MAXLEN_NEGATIVE)
        else:
            raise SYNTAX
    value = c.db.read_as(argv[1], List)
    found = value.find(argv[2], rank, 1 if count is None else count, maxlen) if value else []
    if count is not None:
        return list[Reply](found)
    return found[0] if found else None


# -- changing in the middle -------------------------------------------------------------------


@list_command("lset", 4, "write denyoom", one("RW update"), since="1.0.0")
def lset(c: Context, argv: list[bytes]) -> Reply:
    """Replace the element at an index; -1 is the last one.

    LSET key index element
    """
    found = c.db.find_as(argv[1], List)
    if found is None:
        raise NO_SUCH_KEY
    if not found[1].set(parse_int(argv[2]), argv[3], c.keyspace):
        raise INDEX_OUT_OF_RANGE
    c.db.signal(argv[1], b"lset", LIST)
    return OK


@list_command("linsert", 5, "write denyoom", one("RW insert"), since="2.2.0")
def linsert(c: Context, argv: list[bytes]) -> Reply:
    """Insert an element before or after the first one that equals the pivot; -1 if none does.

    LINSERT key BEFORE|AFTER pivot element
    """
    where = argv[2].upper()
    if where not in (b"BEFORE", b"AFTER"):
        raise SYNTAX
    found = c.db.find_as(argv[1], List)
    if found is None:
        return 0
    _, value = found
    if not value.insert(argv[3], argv[4], where == b"BEFORE", c.keyspace):
        return -1
    c.db.signal(argv[1], b"linsert", LIST)
    return len(value)


@list_command("lrem", 4, "write", one("RW delete"), since="1.0.0")
def lrem(c: Context, argv: list[bytes]) -> Reply:
    """Remove elements equal to this one: count from the head, -count from the tail, 0 for all.

    LREM key count element
    """
    count = parse_int(argv[2])
    found = c.db.find_as(argv[1], List)
    if found is None:
        return 0
    key, value = found
    removed = value.remove(count, argv[3], c.keyspace)
    if removed:
        c.db.shrunk(key, b"lrem", LIST)
    return removed


@list_command("ltrim", 4, "write", one("RW delete"), since="1.0.0")
def ltrim(c: Context, argv: list[bytes]) -> Reply:
    """Keep only the elements from one index to another, both included.

    LTRIM key start stop
    """
    start, stop = parse_int(argv[2]), parse_int(argv[3])
    found = c.db.find_as(argv[1], List)
    if found is not None:
        key, value = found
        value.trim(start, stop, c.keyspace)
        c.db.shrunk(key, b"ltrim", LIST)
    return OK
