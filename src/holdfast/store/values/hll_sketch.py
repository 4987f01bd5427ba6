"""A HyperLogLog in Redis's form, which is a string: 16 bytes of header, then 16384 registers.

The dense form has six bits for each register. The sparse form has runs: `00nnnnnn` for n+1 zeros,
`01nnnnnn nnnnnnnn` for n+1 zeros with n of 14 bits, `1vvvvvnn` for n+1 registers with the value
v+1. Often several runs are possible. Then the runs are those that Redis chooses, so that the same
additions give the same bytes.

A `Sketch` is a HyperLogLog to which elements are being added. Nothing here knows keys or replies.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator

PRECISION = 14
REGISTERS = 1 << PRECISION
MOST_ZEROS = 64 - PRECISION  # in one register, whose value is at most one more
SEED = 0xADC83B19
ALPHA = 0.721347520444481703680

MAGIC = b"HYLL"
DENSE, SPARSE = 0, 1
HEADER = 16
DENSE_BYTES = HEADER + REGISTERS * 6 // 8
EMPTY = MAGIC + bytes([SPARSE]) + bytes(11) + b"\x7f\xff"
INVALID = 0x80  # in the last byte of the cached count

LONGEST_ZERO, LONGEST_VALUE, LARGEST_VALUE = 64, 4, 32

FEW_ELEMENTS = 4  # so few elements are added without landmarks, because setting them takes longer
LANDMARK_EVERY = 128  # registers, on average
LANDMARKS_LAST = 64  # elements; then landmarks are set again, because some were dropped
TOUCHED_BYTES = 16  # an element changes fewer bytes than this: the run before it and five others

_HIGH_BITS = int.from_bytes(b"\x80" * REGISTERS, "little")

_MASK64 = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995


class CorruptError(Exception):
    """The runs do not cover 16384 registers."""


def murmur64(data: bytes, seed: int = SEED) -> int:
    """MurmurHash64A."""
    m, mask = _MULTIPLIER, _MASK64
    h = seed ^ (len(data) * m & mask)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        k = int.from_bytes(data[at : at + 8], "little") * m & mask
        h = (h ^ ((k ^ k >> 47) * m & mask)) * m & mask
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 47) * m & mask
    return h ^ h >> 47


def place(element: bytes) -> tuple[int, int]:
    """The register of an element, and the lowest value that the register must get."""
    h = murmur64(element)
    rest = h >> PRECISION | 1 << MOST_ZEROS
    return h & (REGISTERS - 1), (rest & -rest).bit_length()


def is_valid(value: bytes) -> bool:
    return (
        len(value) >= HEADER
        and value.startswith(MAGIC)
        and (value[4] == SPARSE or (value[4] == DENSE and len(value) == DENSE_BYTES))
    )


def cached_count(value: bytes) -> int | None:
    if value[HEADER - 1] & INVALID:
        return None
    return int.from_bytes(value[8:HEADER], "little")


def with_count(value: bytes, count: int) -> bytes:
    return b"".join((value[:8], count.to_bytes(8, "little"), value[HEADER:]))


def registers(value: bytes) -> bytes:
    """The values of all registers, one byte for each."""
    return _unpacked(value[HEADER:]) if value[4] == DENSE else _expanded(value)


def merged(parts: Iterable[bytes]) -> bytes:
    """The larger value of each register.

    All registers are compared at once, as the bytes of one long number. A register is below 128, so
    the highest bit of each byte is free. In `a + 128 - b` this bit tells whether a >= b.
    """
    result = 0
    for part in parts:
        other = int.from_bytes(part, "little")
        is_larger = ((result | _HIGH_BITS) - other) & _HIGH_BITS
        keeps = is_larger | is_larger - (is_larger >> 7)  # 255 in each byte that stays
        result = result & keeps | other & ~keeps
    return result.to_bytes(REGISTERS, "little")


def estimate(held: bytes) -> int:
    """How many different elements there were: Ertl's estimator, as Redis computes it."""
    m = float(REGISTERS)
    z = m * _tau((m - held.count(MOST_ZEROS + 1)) / m)
    for number in range(MOST_ZEROS, 0, -1):
        z = (z + held.count(number)) * 0.5  # counting a value that does not occur takes a µs
    z += m * _sigma(held.count(0) / m)
    result = ALPHA * m * m / z
    whole = math.floor(result)
    return whole + (result - whole >= 0.5)


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z, before = 1.0, 1 - x, math.nan
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    y, z, before = 1.0, x, math.nan
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


class Landmarks:
    """The starts of some runs, so that a search for a register need not begin at the first run.

    `firsts` and `places` have, for each landmark, the first register of its run and the position
    of the run. Both grow; the first landmark is the first run.
    """

    __slots__ = ("firsts", "places")

    def __init__(self, data: bytearray) -> None:
        self.firsts: list[int] = []
        self.places: list[int] = []
        at, first, next_first = HEADER, 0, 0
        while at < len(data):
            if first >= next_first:
                self.firsts.append(first)
                self.places.append(at)
                next_first = first + LANDMARK_EVERY
            first += _span(data, at)
            at += 1 if _SHORT_SPANS[data[at]] else 2

    def before(self, index: int) -> int:
        """The number of a landmark whose run, and the run after it, begin at or before the
        register. The search for a run also needs the run before it."""
        return max(bisect_right(self.firsts, index) - 2, 0)

    def changed(self, before: int, grown: int) -> None:
        """Note that runs near this position have changed, and that the runs after them have moved
        by `grown` bytes. Landmarks among the changed runs are dropped, because these runs may be
        joined to others."""
        places = self.places
        first_dropped = bisect_right(places, before)
        first_kept = bisect_right(places, before + TOUCHED_BYTES)
        del self.firsts[first_dropped:first_kept]
        places[first_dropped:] = [place + grown for place in places[first_kept:]]


class Sketch:
    """A HyperLogLog to which elements are added. `data` is the new string of the key."""

    __slots__ = ("_landmarks", "_sparse_max_bytes", "data")

    def __init__(self, value: bytes, sparse_max_bytes: int) -> None:
        self.data = bytearray(value)
        self._sparse_max_bytes = sparse_max_bytes
        self._landmarks: Landmarks | None = None

    def add(self, element: bytes) -> bool:
        """Add an element. Returns whether a register changed."""
        return self.raise_to(*place(element))

    def add_all(self, elements: list[bytes]) -> int:
        """Add elements in this order, faster than one by one. Returns how many of them changed a
        register."""
        count = 0
        for number, element in enumerate(elements):
            if number % LANDMARKS_LAST == FEW_ELEMENTS and self.data[4] == SPARSE:
                self._landmarks = Landmarks(self.data)
            count += self.add(element)
        self._landmarks = None
        return count

    def raise_to(self, index: int, count: int) -> bool:
        """Raise a register to this value, if its value is lower. Returns whether it was lower."""
        if self.data[4] == SPARSE:
            return self._raise_sparse(index, count)
        return self._raise_dense(index, count)

    def forget_count(self) -> None:
        self.data[HEADER - 1] |= INVALID

    def make_dense(self) -> bool:
        """Convert to the dense form. Returns whether the form was sparse."""
        if self.data[4] == DENSE:
            return False
        self.fill(_expanded(bytes(self.data)))
        return True

    def fill(self, held: bytes) -> None:
        """Give all registers these values, in the dense form."""
        self.data[4] = DENSE
        self.data[HEADER:] = _packed(held)

    def _raise_dense(self, index: int, count: int) -> bool:
        at, shift = divmod(index * 6, 8)
        at += HEADER
        pair = int.from_bytes(self.data[at : at + 2], "little")
        if pair >> shift & 63 >= count:
            return False
        pair = pair & ~(63 << shift) | count << shift
        end = min(at + 2, len(self.data))
        self.data[at:end] = pair.to_bytes(end - at, "little")
        return True

    def _raise_sparse(self, index: int, count: int) -> bool:
        if count > LARGEST_VALUE:
            return self._promote(index, count)
        data, end = self.data, len(self.data)
        at, first, before = HEADER, 0, HEADER
        if (landmarks := self._landmarks) is not None:
            number = landmarks.before(index)
            at = before = landmarks.places[number]
            first = landmarks.firsts[number]
        while at < end:
            code = data[at]
            span = _SHORT_SPANS[code] or _span(data, at)
            if index < first + span:
                break
            before = at
            at += 1 if _SHORT_SPANS[code] else 2
            first += span
        else:
            raise CorruptError
        holds = (code >> 2 & 31) + 1 if code & 0x80 else 0
        if holds >= count:
            return False
        after = first + span - 1 - index
        new = _run(holds, index - first) + _run(count, 1) + _run(holds, after)
        old_length = 2 if 0x40 <= code < 0x80 else 1
        if len(new) > old_length and end + len(new) - old_length > self._sparse_max_bytes:
            return self._promote(index, count)
        data[at : at + old_length] = new
        self._join_runs(before)
        if landmarks is not None:
            landmarks.changed(before, len(data) - end)
        self.forget_count()
        return True

    def _promote(self, index: int, count: int) -> bool:
        self.make_dense()
        return self._raise_dense(index, count)

    def _join_runs(self, at: int) -> None:
        """Join neighbouring runs of the same value, among the five runs from this position on."""
        data = self.data
        for _ in range(5):
            if at >= len(data):
                return
            code = data[at]
            if code & 0x80 and at + 1 < len(data) and data[at + 1] & 0xFC == code & 0xFC:
                length = (code & 3) + (data[at + 1] & 3) + 2
                if length <= LONGEST_VALUE:
                    data[at : at + 2] = bytes([code & 0xFC | length - 1])
                    continue
            at += 2 if 0x40 <= code < 0x80 else 1


# -- the two forms ----------------------------------------------------------------------------


def _span(data: bytes | bytearray, at: int) -> int:
    """How many registers the run at this position covers."""
    code = data[at]
    if code & 0x80:
        return (code & 3) + 1
    if code & 0x40:
        return ((code & 63) << 8 | data[at + 1]) + 1 if at + 1 < len(data) else REGISTERS + 1
    return code + 1


# The spans of runs that are one byte long; 0 for other bytes. Adding an element reads up to a
# thousand runs.
_SHORT_SPANS = tuple(0 if 0x40 <= code < 0x80 else _span(bytes([code]), 0) for code in range(256))


def _run(holds: int, length: int) -> bytes:
    if not length:
        return b""
    if holds:
        return bytes([0x80 | holds - 1 << 2 | length - 1])
    if length > LONGEST_ZERO:
        return (0x4000 | length - 1).to_bytes(2, "big")
    return bytes([length - 1])


def _expanded(value: bytes) -> bytes:
    held = b"".join([bytes([holds]) * length for holds, length, _ in runs(value)])
    if len(held) != REGISTERS:
        raise CorruptError
    return held


# Three bytes are four registers. All first bytes are handled at once, then all second ones, and so
# on.
_LOW_6 = bytes(b & 63 for b in range(256))
_HIGH_2 = bytes(b >> 6 for b in range(256))
_LOW_4 = bytes((b & 15) << 2 for b in range(256))
_HIGH_4 = bytes(b >> 4 for b in range(256))
_LOW_2 = bytes((b & 3) << 4 for b in range(256))
_HIGH_6 = _DOWN_2 = bytes(b >> 2 for b in range(256))
_UP_6 = bytes(b << 6 & 255 for b in range(256))
_UP_4 = bytes(b << 4 & 255 for b in range(256))
_UP_2 = bytes(b << 2 & 255 for b in range(256))


def _either(a: bytes, b: bytes) -> bytes:
    number = int.from_bytes(a, "little") | int.from_bytes(b, "little")
    return number.to_bytes(len(a), "little")


def _unpacked(packed: bytes) -> bytes:
    a, b, c = packed[0::3], packed[1::3], packed[2::3]
    held = bytearray(REGISTERS)
    held[0::4] = a.translate(_LOW_6)
    held[1::4] = _either(a.translate(_HIGH_2), b.translate(_LOW_4))
    held[2::4] = _either(b.translate(_HIGH_4), c.translate(_LOW_2))
    held[3::4] = c.translate(_HIGH_6)
    return bytes(held)


def _packed(held: bytes) -> bytes:
    a, b, c, d = held[0::4], held[1::4], held[2::4], held[3::4]
    packed = bytearray(REGISTERS * 6 // 8)
    packed[0::3] = _either(a, b.translate(_UP_6))
    packed[1::3] = _either(b.translate(_DOWN_2), c.translate(_UP_4))
    packed[2::3] = _either(c.translate(_HIGH_4), d.translate(_UP_2))
    return bytes(packed)


def runs(value: bytes) -> Iterator[tuple[int, int, bool]]:
    """The runs of a sparse value: the value of the registers, their number, and whether the run is
    two bytes long."""
    at = HEADER
    while at < len(value):
        code = value[at]
        is_long = 0x40 <= code < 0x80
        yield (code >> 2 & 31) + 1 if code & 0x80 else 0, _span(value, at), is_long
        at += 2 if is_long else 1
