"""INCREX: an increment that stays within bounds and may set an expiry. It serves as a rate limit.

On an active-active server the bounds hold for the writes that this server has seen, as all
conditions do: two servers may both add the last unit.
"""

from functools import partial
from typing import NamedTuple

from holdfast import longdouble
from holdfast.commands.args import EXPIRY_OPTIONS, INT64_MAX, INT64_MIN, Options, parse_int
from holdfast.commands.context import Context
from holdfast.commands.string_args import expires_at_ms
from holdfast.commands.table import command, one
from holdfast.errors import NOT_A_FLOAT, SYNTAX, CommandError
from holdfast.longdouble import HIGHEST, Finite, LongDouble, is_less, negative
from holdfast.resp import HumanFloat, Reply
from holdfast.store.memory.events import GENERIC, STRING
from holdfast.store.memory.key import Key

ENX_ALONE = CommandError("ERR ENX flag requires an expiration")
BOUNDS_CROSSED = CommandError("ERR LBOUND can't be greater than UBOUND")
AMOUNT_INFINITE = CommandError("ERR BYFLOAT increment cannot be Infinity")
VALUE_INFINITE = CommandError("ERR value cannot be Infinity")
APPLIED_OVERFLOW = CommandError("ERR applied increment would overflow")
APPLIED_INFINITE = CommandError("ERR applied increment would be Infinity")

Given = dict[bytes, bytes]  # the options by name; those without a value have an empty one
WITHOUT_VALUE = {b"SATURATE", b"PERSIST", b"ENX"}
# Of each line, only one option may be given, and only once.
EXCLUSIVE = (
    {b"BYINT", b"BYFLOAT"},
    {b"PERSIST", *EXPIRY_OPTIONS},
    {b"PERSIST", b"ENX"},
    *({word} for word in (b"LBOUND", b"UBOUND", b"SATURATE")),
)

string = partial(command, group="string", categories="string")


class Step(NamedTuple):
    """The result of an increment."""

    value: Reply
    applied: Reply
    text: bytes | None = None  # to store; None if the result was out of bounds
    added: object = None  # the amount, for replicas; None if the value was written instead


@string("increx", -2, "write denyoom fast", one("RW access update"), since="8.8.0")
def increx(c: Context, argv: list[bytes]) -> Reply:
    """Add to a number within bounds, and set its expiry; return the value and the amount added.

    INCREX key [BYINT increment | BYFLOAT increment] [LBOUND lowerbound] [UBOUND upperbound]
        [SATURATE]
        [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST] [ENX]

    A result out of bounds changes nothing, and the amount in the reply is 0. With SATURATE the
    result becomes the bound. ENX: set the expiry only if the key has none.
    """
    given = _parse(argv)
    adder = Floats(given) if b"BYFLOAT" in given else Integers(given)
    expiry = next(((word, given[word]) for word in EXPIRY_OPTIONS if word in given), None)
    at_ms = expires_at_ms(c, expiry, "increx")
    found = c.db.find_string(argv[1])
    step = adder.step(b"0" if found is None else found[1])
    if step.text is None:
        return [step.value, step.applied]
    if b"ENX" in given and found is not None and found[0].expires_at_ms is not None:
        at_ms = None
    if at_ms is not None and c.keyspace.is_past(at_ms):
        if found is not None:
            c.db.remove(found[0])
            c.db.signal(argv[1], b"del", GENERIC)
        return [step.value, step.applied]
    if found is None:
        key = c.db.create(argv[1], step.text, added=step.added)
    else:
        key = found[0]
        c.db.replace(key, step.text, found[1], step.added)
    c.db.signal(argv[1], adder.event, STRING)
    _set_lifetime(c, key, at_ms, persists=b"PERSIST" in given)
    return [step.value, step.applied]


def _parse(argv: list[bytes]) -> Given:
    given: Given = {}
    options = Options(argv, 2)
    while options:
        word = options.word()
        rivals = [each for each in EXCLUSIVE if word in each]
        if (
            (not rivals)
            or word in given
            or any(rival in given for each in rivals for rival in each)
        ):
            raise SYNTAX
        given[word] = b"" if word in WITHOUT_VALUE else options.value()
    if b"ENX" in given and not given.keys() & EXPIRY_OPTIONS.keys():
        raise ENX_ALONE
    return given


def _set_lifetime(c: Context, key: Key, at_ms: int | None, *, persists: bool) -> None:
    if at_ms is not None:
        c.db.set_expiry(key, at_ms)
        c.db.signal(key.name, b"expire", GENERIC)
    elif persists and c.db.persist(key):
        c.db.signal(key.name, b"persist", GENERIC)


class Integers:
    """Increments of 64-bit integers."""

    event = b"incrby"

    def __init__(self, given: Given) -> None:
        self.amount = self._number(given.get(b"BYINT", b"1"), "Increment")
        self.low = self._number(given.get(b"LBOUND", b"%d" % INT64_MIN), "LBOUND")
        self.high = self._number(given.get(b"UBOUND", b"%d" % INT64_MAX), "UBOUND")
        self.saturates = b"SATURATE" in given
        if self.low > self.high:
            raise BOUNDS_CROSSED

    @staticmethod
    def _number(text: bytes, name: str) -> int:
        return parse_int(text, CommandError(f"ERR {name} is not an integer or out of range"))

    def step(self, text: bytes) -> Step:
        old = parse_int(text)
        total = old + self.amount
        if not self.low <= total <= self.high:
            if not self.saturates:
                return Step(old, 0)
            total = self.low if total < self.low else self.high
        applied = total - old
        if not INT64_MIN <= applied <= INT64_MAX:
            raise APPLIED_OVERFLOW
        return Step(total, applied, b"%d" % total, applied)


class Floats:
    """Increments of long doubles. A bound may be infinite: it is then beyond all numbers."""

    event = b"incrbyfloat"

    def __init__(self, given: Given) -> None:
        self.text = given[b"BYFLOAT"]
        amount = _parse_float(self.text, "Increment")
        low = _bound(given, b"LBOUND", negative(HIGHEST))
        high = _bound(given, b"UBOUND", HIGHEST)
        self.saturates = b"SATURATE" in given
        if is_less(high, low):
            raise BOUNDS_CROSSED
        if amount is None:
            raise AMOUNT_INFINITE
        self.amount, self.low, self.high = amount, low, high

    def step(self, text: bytes) -> Step:
        try:
            old = longdouble.parse(text)
        except ValueError:
            raise NOT_A_FLOAT from None
        if old is None:
            raise VALUE_INFINITE
        total = longdouble.add(old, self.amount)
        if total is None:  # beyond the highest number, or below the lowest
            total = BEYOND if self.amount[0] > 0 else negative(BEYOND)
        is_low, is_high = is_less(total, self.low), is_less(self.high, total)
        if not (is_low or is_high or total in (BEYOND, negative(BEYOND))):
            new = longdouble.human(total)
            return Step(HumanFloat.of(new), _shown(self.amount), new, self.text)
        if not self.saturates:
            return Step(_shown(old), HumanFloat.of(b"0"))
        total = self._nearest(total)
        applied = longdouble.add(total, negative(old))
        if applied is None or total in (BEYOND, negative(BEYOND)):
            raise APPLIED_INFINITE
        return Step(_shown(total), _shown(applied), longdouble.human(total))

    def _nearest(self, total: Finite) -> Finite:
        """The bound that this number exceeds. If there is no bound, the highest or lowest
        number."""
        if is_less(total, self.low):
            return self.low
        if is_less(self.high, total):
            return self.high
        return HIGHEST if total[0] > 0 else negative(HIGHEST)


BEYOND: Finite = (
    1,
    HIGHEST[1] + longdouble.MANTISSA_BITS + 1,
)  # stands for infinity in comparisons


def _bound(given: Given, name: bytes, default: Finite) -> Finite:
    if name not in given:
        return default
    number = _parse_float(given[name], name.decode())
    if number is not None:
        return number
    return negative(BEYOND) if given[name].startswith(b"-") else BEYOND


def _parse_float(text: bytes, name: str) -> LongDouble:
    try:
        return longdouble.parse(text)
    except ValueError:
        raise CommandError(f"ERR {name} is not a valid float") from None


def _shown(number: Finite) -> Reply:
    return HumanFloat.of(longdouble.human(number))
