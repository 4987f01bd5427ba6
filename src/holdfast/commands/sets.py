"""Set commands. The value itself is in store/values/set.py."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from holdfast.commands.args import (
    INT64_MAX,
    NUMKEYS_NOT_POSITIVE,
    Options,
    ScanOptions,
    is_int,
    parse_cursor,
    parse_int,
    parse_int_between,
    repeats,
)
from holdfast.commands.context import Context
from holdfast.commands.encodings import is_intset
from holdfast.commands.table import command, counted, many, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply, SetReply
from holdfast.store.memory.events import GENERIC, SET
from holdfast.store.values.set import Set

NOT_POSITIVE = CommandError("ERR value is out of range, must be positive")
NUMKEYS_TOO_MANY = CommandError("ERR Number of keys can't be greater than number of args")
LIMIT_NEGATIVE = CommandError("ERR LIMIT can't be negative")
COUNT_TOO_FAR = CommandError(
    f"ERR value is out of range, value must between {-INT64_MAX} and {INT64_MAX}"
)

set_command = partial(command, group="set", categories="set")

UNORDERED = ("nondeterministic_output_order",)
RANDOM = ("nondeterministic_output",)


def _members(c: Context, value: Set) -> Iterable[bytes]:
    """The members, in Redis's order if Redis has one."""
    return sorted(value, key=int) if is_intset(value, c.limits) else value.names


def _reply(c: Context, members: Iterable[bytes]) -> Reply:
    return tuple(members) if c.protocol == 2 else SetReply(members)


# -- changing ---------------------------------------------------------------------------------


@set_command("sadd", -3, "write denyoom fast", one("RW insert"), since="1.0.0")
def sadd(c: Context, argv: list[bytes]) -> Reply:
    """Add members, creating the set if needed; return how many are new.

    SADD key member [member ...]
    """
    value = c.db.find_or_create_as(argv[1], Set)
    log = c.keyspace
    count = 0
    for at in range(2, len(argv)):
        count += value.add(argv[at], log)
    if count:
        c.db.signal(argv[1], b"sadd", SET)
    return count


@set_command("srem", -3, "write fast", one("RW delete"), since="1.0.0")
def srem(c: Context, argv: list[bytes]) -> Reply:
    """Remove members; return how many existed.

    SREM key member [member ...]
    """
    found = c.db.find_as(argv[1], Set)
    if found is None:
        return 0
    key, value = found
    count = sum([value.remove(member, c.keyspace) for member in argv[2:]])
    if count:
        c.db.shrunk(key, b"srem", SET)
    return count


@set_command("smove", 4, "write fast", one("RW access delete"), one("RW insert", 2), since="1.0.0")
def smove(c: Context, argv: list[bytes]) -> Reply:
    """Move a member from one set to another, creating that if needed; return 1 if it existed.

    SMOVE source destination member
    """
    _, source_name, target_name, member = argv
    source = c.db.find(source_name)
    target = c.db.find(target_name)
    if source is None:
        return 0
    found = c.db.find_as(source_name, Set)
    assert found is not None
    found_target = c.db.find_as(target_name, Set)
    key, value = found
    if source is target:
        return int(member in value)
    if not value.remove(member, c.keyspace):
        return 0
    c.db.shrunk(key, b"srem", SET)
    _, other = found_target or c.db.create_as(target_name, Set)
    if other.add(member, c.keyspace):
        c.db.signal(target_name, b"sadd", SET)
    return 1


@set_command("spop", -2, "write fast", one("RW access delete"), since="1.0.0", tips=RANDOM)
def spop(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return a random member, or several.

    SPOP key [count]
    """
    if len(argv) > 3:
        raise SYNTAX
    count = parse_int_between(argv[2], 0, INT64_MAX, NOT_POSITIVE) if len(argv) == 3 else None
    found = c.db.find_as(argv[1], Set)
    if found is None:
        return None if count is None else _reply(c, ())
    key, value = found
    if count is None:
        member = value.pick(c.rng)
        value.remove(member, c.keyspace)
        c.db.shrunk(key, b"spop", SET)
        return member
    if count == 0:
        return _reply(c, ())
    if count >= len(value):  # one row operation instead of one for each member
        members = list(_members(c, value))
        c.db.signal(argv[1], b"spop", SET)
        c.db.remove(key)
        c.db.notify(argv[1], b"del", GENERIC)
        return _reply(c, members)
    members = list(value.sample(count, c.rng))
    for member in members:
        value.remove(member, c.keyspace)
    c.db.signal(argv[1], b"spop", SET)
    return _reply(c, members)


# -- reading ----------------------------------------------------------------------------------


@set_command("smembers", 2, "readonly", one("RO access"), since="1.0.0", tips=UNORDERED)
def smembers(c: Context, argv: list[bytes]) -> Reply:
    """All members.

    SMEMBERS key
    """
    value = c.db.read_as(argv[1], Set)
    return _reply(c, _members(c, value) if value else ())


@set_command("scard", 2, "readonly fast only_rows", one("RO"), since="1.0.0")
def scard(c: Context, argv: list[bytes]) -> Reply:
    """How many members a set has.

    SCARD key
    """
    return c.db.read_size(argv[1], Set)


@set_command("sismember", 3, "readonly fast", one("RO"), since="1.0.0")
def sismember(c: Context, argv: list[bytes]) -> Reply:
    """Whether an element is a member.

    SISMEMBER key member
    """
    value = c.db.read_as(argv[1], Set)
    return int(value is not None and argv[2] in value)


@set_command("smismember", -3, "readonly fast", one("RO access"), since="6.2.0")
def smismember(c: Context, argv: list[bytes]) -> Reply:
    """For each element, whether it is a member.

    SMISMEMBER key member [member ...]
    """
    value = c.db.read_as(argv[1], Set)
    return [int(value is not None and member in value) for member in argv[2:]]


@set_command("srandmember", -2, "readonly", one("RO access"), since="1.0.0", tips=RANDOM)
def srandmember(c: Context, argv: list[bytes]) -> Reply:
    """A random member, or several different ones; with -count one may come several times.

    SRANDMEMBER key [count]
    """
    if len(argv) > 3:
        raise SYNTAX
    if len(argv) == 2:
        value = c.db.read_as(argv[1], Set)
        return value.pick(c.rng) if value else None
    count = parse_int(argv[2])
    if count < -INT64_MAX:
        raise COUNT_TOO_FAR
    value = c.db.read_as(argv[1], Set)
    if value is None or not count:
        return ()
    if count < 0:
        return [*value.choices(repeats(c, count), c.rng)]
    if count >= len(value):
        return tuple(_members(c, value))
    return tuple(value.sample(count, c.rng))


@set_command("sscan", -3, "readonly", one("RO access"), since="2.8.0", tips=RANDOM)
def sscan(c: Context, argv: list[bytes]) -> Reply:
    """Some members, and the cursor for the next call; 0 ends the scan.

    SSCAN key cursor [MATCH pattern] [COUNT count]
    """
    cursor = parse_cursor(argv[2])
    value = c.db.read_as(argv[1], Set)
    if value is None:
        return [b"0", ()]
    limit, matches, *_ = ScanOptions.parse(argv, 3)
    members: Iterable[bytes]
    if is_intset(value, c.limits):
        cursor, members = 0, _members(c, value)
    else:
        cursor, members = value.scan(cursor, limit)
    return [b"%d" % cursor, tuple(members if matches is None else filter(matches, members))]


# -- several sets -----------------------------------------------------------------------------

# Combines sets (None: the key is missing) to members, in Redis's order if Redis has one.
Combine = Callable[[Context, Sequence[Set | None]], Iterable[bytes]]


def _inter(c: Context, sets: Sequence[Set | None], limit: int = 0) -> list[bytes]:
    """The members that all sets have, at most `limit` of them. 0: no limit."""
    there = sorted([value for value in sets if value is not None], key=len)
    if len(there) < len(sets):
        return []
    smallest, *others = there
    views = [other.names for other in others]
    found = []
    for member in _members(c, smallest):
        if all(member in view for view in views):
            found.append(member)
            if len(found) == limit:
                break
    return found


def _union(c: Context, sets: Sequence[Set | None]) -> Iterable[bytes]:
    return dict.fromkeys([member for value in sets if value is not None for member in value.names])


def _diff(c: Context, sets: Sequence[Set | None]) -> Iterable[bytes]:
    first, *others = sets
    if first is None:
        return ()
    views = [value.names for value in others if value is not None]
    return [member for member in first if not any(member in view for view in views)]


def _sets(c: Context, names: Sequence[bytes]) -> list[Set | None]:
    return [c.db.read_as(name, Set) for name in names]


def _combined(c: Context, argv: list[bytes], combine: Combine) -> Reply:
    """The reply with the combined members. Redis collects them in a set; if that is an intset, they
    are sorted."""
    members = list(combine(c, _sets(c, argv[1:])))
    if len(members) <= c.limits.set_max_intset_entries and all(map(is_int, members)):
        members.sort(key=int)
    return _reply(c, members)


def _store(c: Context, argv: list[bytes], combine: Combine, event: bytes) -> Reply:
    name = argv[1]
    members = list(combine(c, _sets(c, argv[2:])))
    if members:
        value = c.db.replace_as(name, Set)
        for member in members:
            value.add(member, c.keyspace)
        c.db.signal(name, event, SET)
    else:
        c.db.discard(name)
    return len(members)


SOURCES = many("RO access")
STORE_SOURCES = many("RO access", 2)


@set_command("sinter", -2, "readonly", SOURCES, since="1.0.0", tips=UNORDERED)
def sinter(c: Context, argv: list[bytes]) -> Reply:
    """The members that all sets have.

    SINTER key [key ...]
    """
    return _reply(c, _inter(c, _sets(c, argv[1:])))


@set_command("sunion", -2, "readonly", SOURCES, since="1.0.0", tips=UNORDERED)
def sunion(c: Context, argv: list[bytes]) -> Reply:
    """The members that any of the sets has.

    SUNION key [key ...]
    """
    return _combined(c, argv, _union)


@set_command("sdiff", -2, "readonly", SOURCES, since="1.0.0", tips=UNORDERED)
def sdiff(c: Context, argv: list[bytes]) -> Reply:
    """The members of the first set that none of the others has.

    SDIFF key [key ...]
    """
    return _combined(c, argv, _diff)


@set_command("sinterstore", -3, "write denyoom", one("RW update"), STORE_SOURCES, since="1.0.0")
def sinterstore(c: Context, argv: list[bytes]) -> Reply:
    """Replace a key by the set of the members that all sets have; return how many they are.

    SINTERSTORE destination key [key ...]
    """
    return _store(c, argv, _inter, b"sinterstore")


@set_command("sunionstore", -3, "write denyoom", one("OW update"), STORE_SOURCES, since="1.0.0")
def sunionstore(c: Context, argv: list[bytes]) -> Reply:
    """Replace a key by the set of the members that any set has; return how many they are.

    SUNIONSTORE destination key [key ...]
    """
    return _store(c, argv, _union, b"sunionstore")


@set_command("sdiffstore", -3, "write denyoom", one("OW update"), STORE_SOURCES, since="1.0.0")
def sdiffstore(c: Context, argv: list[bytes]) -> Reply:
    """Replace a key by the members that only the first set has; return how many they are.

    SDIFFSTORE destination key [key ...]
    """
    return _store(c, argv, _diff, b"sdiffstore")


@set_command("sintercard", -3, "readonly movablekeys", counted("RO access", 1), since="7.0.0")
def sintercard(c: Context, argv: list[bytes]) -> Reply:
    """How many members all sets have in common; counts no further than LIMIT.

    SINTERCARD numkeys key [key ...] [LIMIT limit]
    """
    names, limit = _parse_card(argv)
    return len(_inter(c, _sets(c, names), limit))


@set_command("sunioncard", -3, "readonly movablekeys", counted("RO access", 1), since="8.10.0")
def sunioncard(c: Context, argv: list[bytes]) -> Reply:
    """How many members any of the sets has; counts no further than LIMIT.

    SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]

    APPROX allows an estimate; the number is exact here all the same.
    """
    names, limit = _parse_card(argv, approximates=True)
    seen: set[bytes] = set()
    for value in _sets(c, names):
        seen.update(value.names if value is not None else ())
        if limit and len(seen) >= limit:
            return limit
    return len(seen)


@set_command("sdiffcard", -3, "readonly movablekeys", counted("RO access", 1), since="8.10.0")
def sdiffcard(c: Context, argv: list[bytes]) -> Reply:
    """How many members of the first set none of the others has; counts no further than LIMIT.

    SDIFFCARD numkeys key [key ...] [LIMIT limit]
    """
    names, limit = _parse_card(argv)
    first, *others = _sets(c, names)
    views = [value.names for value in others if value is not None]
    count = 0
    for member in first or ():
        if not any(member in view for view in views):
            count += 1
            if count == limit:
                break
    return count


def _parse_card(argv: list[bytes], *, approximates: bool = False) -> tuple[list[bytes], int]:
    """Parse `numkeys key [key ...] [LIMIT limit]`. Returns the keys and the limit; 0: no limit."""
    numkeys = parse_int_between(argv[1], 1, INT64_MAX, NUMKEYS_NOT_POSITIVE)
    if numkeys > len(argv) - 2:
        raise NUMKEYS_TOO_MANY
    limit = 0
    options = Options(argv, 2 + numkeys)
    while options:
        word = options.word()
        if word == b"APPROX" and approximates:
            continue
        if word != b"LIMIT":
            raise SYNTAX
        limit = parse_int_between(options.value(), 0, INT64_MAX, LIMIT_NEGATIVE)
    return argv[2 : 2 + numkeys], limit
