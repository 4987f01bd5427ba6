"""Union, intersection and difference of sorted sets and sets. Each member of a set has the
score 1."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from holdfast.commands.args import INT64_MAX, parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.table import Keys, command, counted, one
from holdfast.commands.zsets.zset_args import entries_reply, parse_score, store_entries
from holdfast.errors import SYNTAX, WRONG_TYPE, CommandError
from holdfast.resp import Reply
from holdfast.store.values.set import Set
from holdfast.store.values.zset import Entry, ZSet

NOT_A_WEIGHT = CommandError("ERR weight value is not a float")
LIMIT_NEGATIVE = CommandError("ERR LIMIT can't be negative")

algebra = partial(command, group="sorted-set", categories="sortedset")


# -- arguments --------------------------------------------------------------------------------


class WeightedSet:
    """One of the sets to combine, with its weight."""

    def __init__(self, value: ZSet | Set | None) -> None:
        self.value = value
        self.size = len(value) if value is not None else 0
        self.weight = 1.0
        self.counts_only = False  # each member has the score 1, whatever its own score is

    def weighted(self) -> Iterable[tuple[bytes, float]]:
        weight = self.weight
        if self.value is None:
            return ()
        if self.counts_only or isinstance(self.value, Set):
            return ((member, weight) for member in self.value)
        return ((member, weight * score) for member, score in self.value.items())

    def score(self, member: bytes) -> float | None:
        if isinstance(self.value, ZSet) and not self.counts_only:
            score = self.value.score(member)
            return None if score is None else self.weight * score
        return self.weight if self.value is not None and member in self.value else None


def _sum(one_score: float, other: float) -> float:
    return _number(one_score + other)


def _number(score: float) -> float:
    """The score, or 0 for nan: as in Redis, inf - inf is 0."""
    return 0.0 if score != score else score


Aggregate = Callable[[float, float], float]
# As in Redis, min and max return the first number if the second is nan.
AGGREGATES: dict[bytes, Aggregate] = {b"SUM": _sum, b"MIN": min, b"MAX": max, b"COUNT": _sum}


class AlgebraRequest(NamedTuple):
    sources: list[WeightedSet]
    aggregate: Aggregate
    with_scores: bool
    limit: int


def _parse(
    c: Context,
    argv: list[bytes],
    at: int,
    *,
    takes_weights: bool = True,
    takes_scores: bool = False,
    takes_limit: bool = False,
) -> AlgebraRequest:
    """Parse `numkeys key [key ...]` and options, from `at` on. As in Redis, the types of the keys
    are checked before the options."""
    numkeys = parse_int(argv[at])
    if numkeys < 1:
        name = argv[0].decode("latin-1").lower()
        raise CommandError(f"ERR at least 1 input key is needed for '{name}' command")
    if numkeys > len(argv) - at - 1:
        raise SYNTAX
    at += 1
    sources = [_source(c, name) for name in argv[at : at + numkeys]]
    at += numkeys
    aggregate: Aggregate = _sum
    with_scores, limit = False, 0
    while at < len(argv):
        word, left = argv[at].upper(), len(argv) - at
        if word == b"WEIGHTS" and takes_weights and left > numkeys:
            for source, weight in zip(sources, argv[at + 1 : at + 1 + numkeys], strict=True):
                source.weight = parse_score(weight, NOT_A_WEIGHT)
            at += numkeys
        elif word == b"AGGREGATE" and takes_weights and left > 1:
            chosen = AGGREGATES.get(argv[at + 1].upper())
            if chosen is None:
                raise SYNTAX
            aggregate = chosen
            for source in sources:
                source.counts_only = argv[at + 1].upper() == b"COUNT"
            at += 1
        elif word == b"WITHSCORES" and takes_scores:
            with_scores = True
        elif word == b"LIMIT" and takes_limit and left > 1:
            limit = parse_int_between(argv[at + 1], 0, INT64_MAX, LIMIT_NEGATIVE)
            at += 1
        else:
            raise SYNTAX
        at += 1
    return AlgebraRequest(sources, aggregate, with_scores, limit)


def _source(c: Context, name: bytes) -> WeightedSet:
    key = c.db.read(name)
    if key is None:
        return WeightedSet(None)
    if isinstance(key.value, ZSet | Set):
        return WeightedSet(key.value)
    raise WRONG_TYPE


# -- combining --------------------------------------------------------------------------------


def _smallest_first(sources: list[WeightedSet]) -> list[WeightedSet]:
    """The sources in the order in which Redis adds them. The last digits of sums depend on it."""
    return sorted(sources, key=lambda source: source.size)


def _union(request: AlgebraRequest) -> dict[bytes, float]:
    scores: dict[bytes, float] = {}
    for source in _smallest_first(request.sources):
        for member, score in source.weighted():
            old = scores.get(member)
            score = _number(score)
            scores[member] = score if old is None else request.aggregate(old, score)
    return scores


def _inter(request: AlgebraRequest) -> dict[bytes, float]:
    scores: dict[bytes, float] = {}
    first, *others = _smallest_first(request.sources)
    for member, score in first.weighted():
        score = _number(score)
        for other in others:
            its_score = other.score(member)
            if its_score is None:
                break
            score = request.aggregate(score, its_score)
        else:
            scores[member] = score
    return scores


def _diff(request: AlgebraRequest) -> dict[bytes, float]:
    first, *others = request.sources
    values = [other.value for other in others if other.value is not None]
    return {
        member: score
        for member, score in first.weighted()
        if not any(member in value for value in values)
    }


def _in_order(scores: dict[bytes, float]) -> list[Entry]:
    return sorted((score, member) for member, score in scores.items())


Operation = Callable[[AlgebraRequest], dict[bytes, float]]


def _reply(c: Context, argv: list[bytes], operation: Operation) -> Reply:
    request = _parse(c, argv, 1, takes_weights=operation is not _diff, takes_scores=True)
    entries = _in_order(operation(request))
    if request.with_scores:
        return entries_reply(c, entries)
    return tuple([member for _, member in entries])


def _store(c: Context, argv: list[bytes], operation: Operation, event: bytes) -> int:
    request = _parse(c, argv, 2, takes_weights=operation is not _diff)
    return store_entries(c, argv[1], _in_order(operation(request)), event)


# -- the commands -----------------------------------------------------------------------------

SOURCES = counted("RO access", 1)
STORE_KEYS: tuple[Keys, Keys] = (one("OW update"), counted("RO access", 2))


@algebra("zunion", -3, "readonly movablekeys", SOURCES, since="6.2.0")
def zunion(c: Context, argv: list[bytes]) -> Reply:
    """The members that are in any of the sets, with the sums of their scores.

    ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]]
        [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]

    COUNT: the score is the number of sets that have the member, or the sum of their weights.
    """
    return _reply(c, argv, _union)


@algebra("zinter", -3, "readonly movablekeys", SOURCES, since="6.2.0")
def zinter(c: Context, argv: list[bytes]) -> Reply:
    """The members that are in all of the sets, with the sums of their scores.

    ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]]
        [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]
    """
    return _reply(c, argv, _inter)


@algebra("zdiff", -3, "readonly movablekeys", SOURCES, since="6.2.0")
def zdiff(c: Context, argv: list[bytes]) -> Reply:
    """The members of the first set that are in none of the others.

    ZDIFF numkeys key [key ...] [WITHSCORES]
    """
    return _reply(c, argv, _diff)


@algebra("zunionstore", -4, "write denyoom movablekeys", *STORE_KEYS, since="2.0.0")
def zunionstore(c: Context, argv: list[bytes]) -> Reply:
    """Store the members that are in any of the sets; return how many they are.

    ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]]
        [AGGREGATE SUM | MIN | MAX | COUNT]
    """
    return _store(c, argv, _union, b"zunionstore")


@algebra("zinterstore", -4, "write denyoom movablekeys", *STORE_KEYS, since="2.0.0")
def zinterstore(c: Context, argv: list[bytes]) -> Reply:
    """Store the members that are in all of the sets; return how many they are.

    ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]]
        [AGGREGATE SUM | MIN | MAX | COUNT]
    """
    return _store(c, argv, _inter, b"zinterstore")


@algebra("zdiffstore", -4, "write denyoom movablekeys", *STORE_KEYS, since="6.2.0")
def zdiffstore(c: Context, argv: list[bytes]) -> Reply:
    """Store the members of the first set that are in none of the others; return how many.

    ZDIFFSTORE destination numkeys key [key ...]
    """
    return _store(c, argv, _diff, b"zdiffstore")


@algebra("zintercard", -3, "readonly movablekeys", SOURCES, since="7.0.0")
def zintercard(c: Context, argv: list[bytes]) -> Reply:
    """How many members are in all of the sets; counts no further than LIMIT.

    ZINTERCARD numkeys key [key ...] [LIMIT limit]
    """
    request = _parse(c, argv, 1, takes_weights=False, takes_limit=True)
    first, *others = _smallest_first(request.sources)
    values = [other.value for other in others]
    count = 0
    for member in first.value or ():
        if all(value is not None and member in value for value in values):
            count += 1
            if count == request.limit:
                break
    return count
