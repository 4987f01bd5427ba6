"""Sorted sets: adding, scores, ranks, popping and waiting to pop, random members, scanning.
Ranges are in zset_ranges.py; unions, intersections and differences are in zset_algebra.py.
"""

from collections.abc import Sequence
from functools import partial

from holdfast.commands.args import (
    INT64_MAX,
    ScanOptions,
    parse_cursor,
    parse_int,
    parse_int_between,
    parse_mpop,
    parse_timeout_s,
    repeats,
)
from holdfast.commands.context import Block, Context, Result
from holdfast.commands.encodings import is_small_zset
from holdfast.commands.table import command, counted, many, one
from holdfast.commands.zsets.zset_args import (
    ADD_FLAGS,
    GT,
    INCR,
    LT,
    NX,
    XX,
    entries_reply,
    may_change,
    parse_score,
    put_entries,
    put_entry,
)
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import NULL_ARRAY, Reply, double_text
from holdfast.store.memory.events import ZSET
from holdfast.store.memory.key import Key
from holdfast.store.values.zset import Entry, ZSet

NX_AND_XX = CommandError("ERR XX and NX options at the same time are not compatible")
GT_LT_AND_NX = CommandError("ERR GT, LT, and/or NX options at the same time are not compatible")
INCR_OF_MANY = CommandError("ERR INCR option supports a single increment-element pair")
NOT_A_NUMBER = CommandError("ERR resulting score is not a number (NaN)")
NOT_POSITIVE = CommandError("ERR value is out of range, must be positive")
ENDS = (b"MIN", b"MAX")
OUT_OF_RANGE = CommandError("ERR value is out of range")
BEYOND_LONG = CommandError(
    f"ERR value is out of range, value must between -{INT64_MAX} and {INT64_MAX}"
)

zset_command = partial(command, group="sorted-set", categories="sortedset")
Found = tuple[Key, ZSet]


# -- adding and removing ----------------------------------------------------------------------


@zset_command("zadd", -4, "write denyoom fast", one("RW update"), since="1.2.0")
def zadd(c: Context, argv: list[bytes]) -> Reply:
    """Set the scores of members, adding new ones; return how many are new, with CH also changed.

    ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
    """
    # The most frequent form: one member, no flags. A flag begins with a letter.
    if len(argv) == 4 and argv[2] < b"A":
        return put_entry(c, argv[1], parse_score(argv[2]), argv[3])
    return _add(c, argv, increment=False)


@zset_command("zincrby", 4, "write denyoom fast", one("RW access update"), since="1.2.0")
def zincrby(c: Context, argv: list[bytes]) -> Reply:
    """Add to a member's score, which is 0 if it is new; return the new score.

    ZINCRBY key increment member
    """
    return _add(c, argv, increment=True)


def _add(c: Context, argv: list[bytes], *, increment: bool) -> Reply:
    at = 2
    flags = INCR if increment else 0
    while at < len(argv) and (flag := ADD_FLAGS.get(argv[at].upper())) is not None:
        flags |= flag
        at += 1
    increment = flags & INCR != 0
    members = argv[at + 1 :: 2]
    if not members or (len(argv) - at) % 2:
        raise SYNTAX
    if flags:
        _check_add_flags(flags)
    if increment and len(members) > 1:
        raise INCR_OF_MANY
    scores = [parse_score(text) for text in argv[at::2]]
    if increment:
        return _increment(c, argv[1], members[0], scores[0], flags)
    return put_entries(c, argv[1], scores, members, flags)


def _increment(
    c: Context, name: bytes, member: bytes, increment: float, flags: int
) -> float | None:
    found = c.db.find_as(name, ZSet)
    old = found[1].score(member) if found else None
    score = increment if old is None else old + increment
    if score != score:
        raise NOT_A_NUMBER
    if flags & XX if old is None else not may_change(flags, old, score):
        return None
    if score != old:
        _, value = found or c.db.create_as(name, ZSet)
        value.add_to(member, increment, score, c.keyspace)
        c.db.signal(name, b"zincr", ZSET)
    return score


def _check_add_flags(flags: int) -> None:
    if flags & NX and flags & XX:
        raise NX_AND_XX
    if flags & (NX | GT | LT) not in (0, NX, GT, LT):
        raise GT_LT_AND_NX


@zset_command("zrem", -3, "write fast", one("RW delete"), since="1.2.0")
def zrem(c: Context, argv: list[bytes]) -> Reply:
    """Remove members; return how many existed.

    ZREM key member [member ...]
    """
    found = c.db.find_as(argv[1], ZSet)
    if found is None:
        return 0
    key, value = found
    removed = 0
    for at in range(2, len(argv)):
        removed += value.remove(argv[at], c.keyspace)
    if removed:
        c.db.shrunk(key, b"zrem", ZSET)
    return removed


# -- looking ----------------------------------------------------------------------------------


@zset_command("zcard", 2, "readonly fast only_rows", one("RO"), since="1.2.0")
def zcard(c: Context, argv: list[bytes]) -> Reply:
    """How many members a sorted set has.

    ZCARD key
    """
    return c.db.read_size(argv[1], ZSet)


@zset_command("zscore", 3, "readonly fast", one("RO access"), since="1.2.0")
def zscore(c: Context, argv: list[bytes]) -> Reply:
    """A member's score, or null.

    ZSCORE key member
    """
    value = c.db.read_as(argv[1], ZSet)
    return value.score(argv[2]) if value else None


@zset_command("zmscore", -3, "readonly fast", one("RO access"), since="6.2.0")
def zmscore(c: Context, argv: list[bytes]) -> Reply:
    """The scores of several members, null for each that is missing.

    ZMSCORE key member [member ...]
    """
    value = c.db.read_as(argv[1], ZSet)
    return [value.score(member) if value else None for member in argv[2:]]


@zset_command("zrank", -3, "readonly fast", one("RO access"), since="2.0.0")
def zrank(c: Context, argv: list[bytes]) -> Reply:
    """How many members come before this one; null if it is missing.

    ZRANK key member [WITHSCORE]
    """
    return _rank(c, argv, reverse=False)


@zset_command("zrevrank", -3, "readonly fast", one("RO access"), since="2.0.0")
def zrevrank(c: Context, argv: list[bytes]) -> Reply:
    """How many members come after this one; null if it is missing.

    ZREVRANK key member [WITHSCORE]
    """
    return _rank(c, argv, reverse=True)


def _rank(c: Context, argv: list[bytes], *, reverse: bool) -> Reply:
    if len(argv) > 4:
        name = argv[0].decode("latin-1").lower()
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    with_score = len(argv) == 4
    if with_score and argv[3].upper() != b"WITHSCORE":
        raise SYNTAX
    value = c.db.read_as(argv[1], ZSet)
    rank = value.rank(argv[2]) if value else None
    if value is None or rank is None:
        return NULL_ARRAY if with_score else None
    if reverse:
        rank = len(value) - 1 - rank
    return [rank, value.score(argv[2])] if with_score else rank


@zset_command(
    "zrandmember",
    -2,
    "readonly",
    one("RO access"),
    since="6.2.0",
    tips=("nondeterministic_output",),
)
def zrandmember(c: Context, argv: list[bytes]) -> Reply:
    """A random member, or several different ones; with -count one may come several times.

    ZRANDMEMBER key [count [WITHSCORES]]
    """
    if len(argv) == 2:
        value = c.db.read_as(argv[1], ZSet)
        return _at(value, [c.rng.randrange(len(value))])[0][1] if value else None
    count = parse_int(argv[2])
    if count < -INT64_MAX:
        raise BEYOND_LONG
    with_scores = len(argv) > 3
    if len(argv) > 4 or (with_scores and argv[3].upper() != b"WITHSCORES"):
        raise SYNTAX
    if with_scores and abs(count) > INT64_MAX // 2:
        raise OUT_OF_RANGE
    value = c.db.read_as(argv[1], ZSet)
    if not value or not count:
        return ()
    if count < 0:
        entries = _choices(c, value, repeats(c, count, 2 if with_scores else 1))
        if not with_scores:
            return [member for _, member in entries]
        reply = entries_reply(c, entries)
        return list(reply) if isinstance(reply, tuple) else reply
    if count >= len(value):
        entries = value.slice(0, len(value))
    else:
        entries = _at(value, c.rng.sample(range(len(value)), count))
    return entries_reply(c, entries) if with_scores else tuple(member for _, member in entries)


def _choices(c: Context, value: ZSet, count: int) -> list[Entry]:
    """`count` random entries; one may come several times."""
    if count < len(value) // 4:  # a lookup for each is quicker
        return _at(value, [c.rng.randrange(len(value)) for _ in range(count)])
    return c.rng.choices(value.slice(0, len(value)), k=count)


def _at(value: ZSet, indexes: Sequence[int]) -> list[Entry]:
    return [value.slice(index, index + 1)[0] for index in indexes]


@zset_command(
    "zscan", -3, "readonly", one("RO access"), since="2.8.0", tips=("nondeterministic_output",)
)
def zscan(c: Context, argv: list[bytes]) -> Reply:
    """Some members with scores, and the cursor for the next call; 0 ends the scan.

    ZSCAN key cursor [MATCH pattern] [COUNT count]
    """
    cursor = parse_cursor(argv[2])
    value = c.db.read_as(argv[1], ZSet)
    if value is None:
        return [b"0", ()]
    options = ScanOptions.parse(argv, 3)
    if len(value) <= options.limit or is_small_zset(value, c.limits):
        cursor, members = 0, value.members(0, len(value))
    else:
        cursor, members = value.scan(cursor, options.limit)
    words: list[bytes] = []
    for member in members:
        if options.matches is None or options.matches(member):
            words += member, double_text(value.score(member) or 0.0)
    return [b"%d" % cursor, tuple(words)]


# -- popping ----------------------------------------------------------------------------------


def _pop(c: Context, found: Found, highest: bool, count: int) -> list[Entry]:
    key, value = found
    entries = value.pop(count, highest, c.keyspace)
    c.db.shrunk(key, b"zpopmax" if highest else b"zpopmin", ZSET)
    return entries


def _pop_command(c: Context, argv: list[bytes], highest: bool) -> Reply:
    if len(argv) > 3:
        raise SYNTAX
    count = parse_int_between(argv[2], 0, INT64_MAX, NOT_POSITIVE) if len(argv) == 3 else 1
    found = c.db.find_as(argv[1], ZSet)
    if found is None or not count:
        return ()
    entries = _pop(c, found, highest, count)
    if len(argv) == 3:
        return entries_reply(c, entries)
    score, member = entries[0]
    return [member, score] if c.protocol == 3 else (member, double_text(score))


@zset_command("zpopmin", -2, "write fast", one("RW access delete"), since="5.0.0")
def zpopmin(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return the member with the lowest score, or the lowest few.

    ZPOPMIN key [count]
    """
    return _pop_command(c, argv, highest=False)


@zset_command("zpopmax", -2, "write fast", one("RW access delete"), since="5.0.0")
def zpopmax(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return the member with the highest score, or the highest few.

    ZPOPMAX key [count]
    """
    return _pop_command(c, argv, highest=True)


def _blocking_pop(c: Context, argv: list[bytes], highest: bool) -> Result:
    timeout_s = parse_timeout_s(argv[-1])
    names = argv[1:-1]
    c.check_waitable(names)
    found = c.first_as(names, ZSet)
    if found is None:
        return Block(names, ZSet, timeout_s, on_timeout=None)
    [(score, member)] = _pop(c, found, highest, 1)
    return [found[0].name, member, score]


@zset_command(
    "bzpopmin", -3, "write noscript blocking fast", many("RW access delete", 1, -2), since="5.0.0"
)
def bzpopmin(c: Context, argv: list[bytes]) -> Result:
    """Remove and return the lowest member of the first sorted set that has one; wait if none has.

    BZPOPMIN key [key ...] timeout
    """
    return _blocking_pop(c, argv, highest=False)


@zset_command(
    "bzpopmax", -3, "write noscript blocking fast", many("RW access delete", 1, -2), since="5.0.0"
)
def bzpopmax(c: Context, argv: list[bytes]) -> Result:
    """Remove and return the highest member of the first sorted set that has one; wait if none has.

    BZPOPMAX key [key ...] timeout
    """
    return _blocking_pop(c, argv, highest=True)


def _mpop(c: Context, found: Found, end: bytes, count: int) -> Reply:
    entries = _pop(c, found, end == b"MAX", count)
    return [found[0].name, [[member, score] for score, member in entries]]


@zset_command("zmpop", -4, "write movablekeys", counted("RW access delete", 1), since="7.0.0")
def zmpop(c: Context, argv: list[bytes]) -> Reply:
    """Remove and return the lowest or highest members of the first sorted set that has any.

    ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]
    """
    names, end, count = parse_mpop(argv, 1, ENDS)
    found = c.first_as(names, ZSet)
    return _mpop(c, found, end, count) if found else NULL_ARRAY


@zset_command(
    "bzmpop", -5, "write blocking movablekeys", counted("RW access delete", 2), since="7.0.0"
)
def bzmpop(c: Context, argv: list[bytes]) -> Result:
    """Remove and return the extreme members of the first sorted set that has any; may wait.

    BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count]
    """
    names, end, count = parse_mpop(argv, 2, ENDS)
    timeout_s = parse_timeout_s(argv[1])
    c.check_waitable(names)
    found = c.first_as(names, ZSet)
    return _mpop(c, found, end, count) if found else Block(names, ZSet, timeout_s)
