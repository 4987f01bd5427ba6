"""SORT: the elements of a list, set or sorted set in order, or values of keys named after them."""

import sys
from functools import partial
from typing import Any, Final

from holdfast.commands.args import Options, parse_float, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import Keys, command, one
from holdfast.errors import SYNTAX, WRONG_TYPE, CommandError
from holdfast.resp import Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import LIST
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ZSet

DENIED = "ERR {} option of SORT denied due to insufficient ACL permissions."
BY_DENIED, GET_DENIED = CommandError(DENIED.format("BY")), CommandError(DENIED.format("GET"))
MANY: Final = 1000  # with so many elements, a sample helps to sort only those of the window
SAMPLES: Final = 1000
NOT_A_SCORE = CommandError("ERR One or more scores can't be converted into double")

BY_AND_GET = Keys(
    "RO access",
    unknown=True,
    notes="For the optional BY/GET keyword. It is marked 'unknown' because the key names derive"
    " from the content of the key we sort",
)


class StoreKey(Keys):
    """The key after the last STORE that is not the argument of another option."""

    def positions(self, argc: int, argv: list[bytes]) -> range:
        found, at = 0, 2
        while at < argc:
            word = argv[at].upper()
            if word == b"STORE" and at + 1 < argc:
                found = at + 1
            at += {b"LIMIT": 3, b"GET": 2, b"BY": 2, b"STORE": 2}.get(word, 1)
        return range(found, found + 1) if found else range(0)


STORE = StoreKey(
    "OW update",
    unknown=True,
    notes="For the optional STORE keyword. It is marked 'unknown' because the keyword can appear"
    " anywhere in the argument array",
)

sorting = partial(command, group="generic", categories="set sortedset list dangerous")


@sorting("sort", -2, "write denyoom", one("RO access"), BY_AND_GET, STORE, since="1.0.0")
def sort(c: Context, argv: list[bytes]) -> Reply:
    """The elements of a list, set or sorted set in order, or values of keys named after them.

    SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC]
        [ALPHA] [STORE destination]

    In a pattern `*` stands for the element, and `->` leads to a field of a hash; GET # is the
    element itself. A BY pattern without `*` leaves the order as it is.
    """
    request = _parse(c, argv, may_store=True)
    result = _sorted(c, argv[1], request)
    if request.target is None:
        return result
    target = request.target
    if result:
        value = c.db.replace_as(target, List)
        value.push_right([element or b"" for element in result], c.keyspace)
        c.db.signal(target, b"sortstore", LIST)
    else:
        c.db.discard(target)
    return len(result)


@sorting("sort_ro", -2, "readonly", one("RO access"), BY_AND_GET, since="7.0.0")
def sort_ro(c: Context, argv: list[bytes]) -> Reply:
    """The same as SORT, but read-only: it has no STORE option.

    SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC]
        [ALPHA]
    """
    return _sorted(c, argv[1], _parse(c, argv, may_store=False))


class SortRequest:
    def __init__(self) -> None:
        self.by: bytes | None = None
        self.keeps_order = False
        self.get: list[bytes] = []
        self.offset = 0
        self.count = -1
        self.descending = False
        self.alphabetic = False
        self.target: bytes | None = None

    def window(self, length: int) -> slice:
        start = min(max(self.offset, 0), length)
        return slice(start, length if self.count < 0 else min(start + self.count, length))


def _parse(c: Context, argv: list[bytes], *, may_store: bool) -> SortRequest:
    request = SortRequest()
    options = Options(argv, 2)
    while options:
        word = options.word()
        if word in (b"ASC", b"DESC"):
            request.descending = word == b"DESC"
        elif word == b"ALPHA":
            request.alphabetic = True
        elif word == b"LIMIT":
            offset, count = options.value(), options.value()
            request.offset, request.count = parse_int(offset), parse_int(count)
        elif word == b"STORE" and may_store:
            request.target = options.value()
        elif word == b"BY":
            request.by = options.value()
            request.keeps_order |= _star(request.by) < 0
            if _star(request.by) >= 0 and not c.may_read_all_keys(argv):
                raise BY_DENIED
        elif word == b"GET":
            request.get.append(options.value())
            if not c.may_read_all_keys(argv):
                raise GET_DENIED
        else:
            raise SYNTAX
    return request


def _sorted(c: Context, name: bytes, request: SortRequest) -> list[Any]:
    """The elements of the reply, or those to store."""
    key = c.db.read(name)
    value = List(0) if key is None else key.value
    if isinstance(value, List):
        elements = list(value.range(0, -1))
    elif isinstance(value, ZSet):
        elements = value.members(0, len(value))
    elif isinstance(value, Set):
        elements = list(value)
    else:
        raise WRONG_TYPE

    if not request.keeps_order:
        elements = _ordered(c, elements, request)
    elif isinstance(value, Set) and (request.target is not None or c.is_script):
        # A result that is stored or that a script sees must not depend on our order of members.
        request.by, request.alphabetic = None, True
        elements = _ordered(c, elements, request)
    elif request.descending and not isinstance(value, Set):
        elements.reverse()
    elements = elements[request.window(len(elements))]
    if not request.get:
        return elements
    return [_look_up(c, pattern, element) for element in elements for pattern in request.get]


def _ordered(c: Context, elements: list[bytes], request: SortRequest) -> list[bytes]:
    """The elements in order, at least up to the end of the window."""
    texts: list[Any] = elements
    if request.by is not None:
        texts = [_look_up(c, request.by, element) for element in elements]
    weights: list[Any]
    if not request.alphabetic:
        weights = _scores(texts)
    else:
        # For a result to store, whole strings are compared; for a reply, as in C, up to a NUL.
        weights = texts
        if request.target is None and b"\0" in b"".join([text or b"" for text in texts]):
            weights = [None if text is None else c_string(text) for text in texts]
        if request.by is not None:
            weights = [(text is not None, text or b"") for text in weights]
    places = _first_places(weights, request.window(len(elements)).stop, request.descending)
    if weights is elements:
        return sorted([elements[at] for at in places], reverse=request.descending)
    if not request.alphabetic and len({weights[at] for at in places}) < len(places):
        places.sort(key=elements.__getitem__, reverse=request.descending)  # of the same score
    places.sort(key=weights.__getitem__, reverse=request.descending)
    return [elements[at] for at in places]


def _first_places(weights: list[Any], count: int, descending: bool) -> list[int]:
    """The places of the first `count` weights, not sorted, and of some more. If only few of many
    weights are wanted, a sample shows about which weight is the last of them, and only the places
    up to that weight are returned. (A heap would be slow for weights in the opposite order.)"""
    total = len(weights)
    if total >= MANY and count < total // 4:
        sample = sorted(weights[:: total // SAMPLES], reverse=descending)
        last = sample[min(2 * count * len(sample) // total + SAMPLES // 64, len(sample) - 1)]
        if descending:
            places = [at for at, weight in enumerate(weights) if weight >= last]
        else:
            places = [at for at, weight in enumerate(weights) if weight <= last]
        if len(places) >= count:
            return places
    return list(range(total))


def _scores(texts: list[bytes | None]) -> list[float]:
    """The numbers of texts; a value that is missing counts as 0."""
    try:
        whole = b"".join(texts)  # type: ignore[arg-type]
        if not whole.translate(None, b"0123456789+-.") and max(map(len, texts), default=0) < 300:  # type: ignore[arg-type]
            return list(map(float, texts))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass  # at least one text needs the exact rules of `_score`
    return [0.0 if text is None else _score(text) for text in texts]


def _score(text: bytes) -> float:
    """The number that strtod reads. Blanks before it are skipped; an empty text is 0."""
    text = c_string(text)
    if not text:
        return 0.0
    score = parse_float(text.lstrip(b" \t\n\v\f\r"), NOT_A_SCORE)
    mantissa = text.lower().partition(b"e")[0]
    if abs(score) < sys.float_info.min and any(digit in mantissa for digit in b"123456789"):
        raise NOT_A_SCORE  # so small a number is out of range for strtod
    return score


def _look_up(c: Context, pattern: bytes, element: bytes) -> bytes | None:
    """The value of the key, or of the hash field, that the pattern names for this element."""
    if pattern == b"#":
        return element
    star = _star(pattern)
    if star < 0:
        return None
    name, arrow, field_name = pattern[star + 1 :].partition(b"->")
    if not field_name:
        name += arrow
    key = c.db.read(pattern[:star] + element + name)
    value = None if key is None else key.value
    if field_name:
        return value.get(field_name) if isinstance(value, Hash) else None
    return value if type(value) is bytes else None


def _star(pattern: bytes) -> int:
    return c_string(pattern).find(b"*")
