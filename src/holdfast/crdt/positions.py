"""Positions: byte strings whose order is the order of a list.

An element gets its position once, and the position never changes. So no two replicas can disagree
about the order of two elements. A position is a path of segments of 22 bytes: rank (descending),
stamp (ascending), replica, index (both ascending). In a top segment with a rank above 0 the stamp
is descending. The last segment ends with the dot of the element, which is its id: the replica, and
the number of the event as the index, negative if the element was placed to the left.

Segments that differ only in the index are a *run*: elements that one replica added one after the
other. A longer path is in the *gap* after its element, before the next sibling.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from holdfast.crdt.dots import Author, Dot

SEGMENT: Final = 22
RUN: Final = 14  # in a run, these bytes of all segments are equal
MAX_DEPTH: Final = 8  # instead of a deeper path, a higher level is used if that is possible
MAX_RANK = (1 << 32) - 1
MAX_STAMP: Final = (1 << 64) - 1
ZERO: Final = 1 << 63  # an index of 0

_segment: Final = Struct(">IQHQ")
_replica_and_index: Final = Struct(">HQ")
_index: Final = Struct(">Q").pack
_BYTES: Final = [bytes([byte]) for byte in range(256)]
_unpack_index: Final = Struct(">Q").unpack_from


def dot_of(position: bytes) -> Dot:
    """The id of the element."""
    replica: int
    index: int
    replica, index = _replica_and_index.unpack_from(position, len(position) - 10)
    return abs(index - ZERO) << 16 | replica


def after(last: bytes, author: Author) -> bytes:
    """RPUSH: a position after the last element (b"": the list is empty)."""
    author.seq += 1
    if last and last[12:RUN] == author.replica.to_bytes(2, "big"):
        return last[:RUN] + _index(ZERO + author.seq)
    stamp = author.hlc
    if last:
        rank, last_stamp, *_ = _read(last, 0)
        if rank == 0:  # the clock of that element's author may be ahead of ours
            stamp = max(stamp, last_stamp + 1)
    return _write(0, 0, stamp, author.replica, author.seq)


def before(first: bytes, author: Author) -> bytes:
    """LPUSH: a position before the first element (b"": the list is empty)."""
    author.seq += 1
    if not first:
        return _write(0, 1, author.hlc, author.replica, -author.seq)
    if first[12:RUN] == author.replica.to_bytes(2, "big"):
        return first[:RUN] + _index(ZERO - author.seq)
    return _ahead_of(first, 0, author, -author.seq)


def run_of(first: bytes, count: int, step: int) -> list[bytes]:
    """The positions of elements that are pushed together. They continue the run of the first one,
    each after the one before (step 1) or before it (step -1)."""
    shared = first[:-8]
    index = _index_of(first)
    keys: list[bytes] = []
    while len(keys) < count:
        # Up to 256 of them differ only in the last byte.
        head = shared + _index(index)[:7]
        missing, byte = count - len(keys), index & 0xFF
        if step > 0:
            lasts = _BYTES[byte : byte + missing]
        else:
            lasts = _BYTES[max(byte - missing + 1, 0) : byte + 1]
            lasts.reverse()
        keys += [head + last for last in lasts]
        index += step * len(lasts)
    return keys


def moved(first: bytes, by: int) -> bytes:
    """The position in the same run that comes so many places after the first."""
    return first[:-8] + _index(min(_index_of(first) + by, MAX_STAMP))


def is_run(keys: list[bytes]) -> bool:
    """Whether these positions, which are in order, are those of `run_of` from the first one: none
    is missing, and none is in a gap between them."""
    first, last = keys[0], keys[-1]
    if first[:-8] != last[:-8]:
        return False
    if _index_of(last) - _index_of(first) != len(keys) - 1:
        return False
    size = len(first)
    for key in keys:  # noqa: SIM110 - `all` would make a list, when compiled
        if len(key) != size:
            return False
    return True


def _index_of(position: bytes) -> int:
    index: int = _unpack_index(position, len(position) - 8)[0]
    return index


def between(left: bytes, right: bytes, author: Author) -> bytes:
    """LINSERT: a position between two neighbours (b"": there is no neighbour on that side)."""
    if not left:
        return before(right, author)
    if not right:
        return after(left, author)
    author.seq += 1
    for position in _candidates(left, right, author):
        if left < position < right:
            return position
    raise AssertionError("after an element there is always room")


def _candidates(left: bytes, right: bytes, author: Author) -> Iterator[bytes]:
    """Positions that may be between the two, the best first. The last one always is."""
    me = author.replica.to_bytes(2, "big")
    for at in range(0, len(left), SEGMENT):
        if left[at + 12 : at + RUN] == me:
            yield left[: at + RUN] + _index(ZERO + author.seq)
    for at in range(0, len(right), SEGMENT):
        if right[at + 12 : at + RUN] == me:
            yield right[: at + RUN] + _index(ZERO - author.seq)
    if len(left) >= MAX_DEPTH * SEGMENT:
        for at in range(0, len(left), SEGMENT):
            yield _behind(left, at, author)
            if right[:at] == left[:at] and len(right) > at:
                yield _ahead_of(right, at, author, author.seq)
    if right.startswith(left):
        yield _ahead_of(right, len(left), author, author.seq)
    else:
        yield left + _write(len(left), 0, author.hlc, author.replica, author.seq)


def _ahead_of(position: bytes, at: int, author: Author, index: int) -> bytes:
    """The sibling at that level whose rank is one higher. At the highest rank, the stamp
    decides."""
    rank, stamp, *_ = _read(position, at)
    new_stamp = author.hlc
    if rank == MAX_RANK:
        new_stamp = max(stamp + 1, author.hlc) if at == 0 else stamp - 1
    return position[:at] + _write(at, min(rank + 1, MAX_RANK), new_stamp, author.replica, index)


def _behind(position: bytes, at: int, author: Author) -> bytes:
    """A sibling at that level, at a later place."""
    rank, stamp, *_ = _read(position, at)
    if at == 0 and rank > 0:
        rank, stamp = rank - 1, 0
    stamp = max(stamp + 1, author.hlc)
    return position[:at] + _write(at, rank, stamp, author.replica, author.seq)


def _read(position: bytes, at: int) -> tuple[int, int, int, int]:
    rank, stamp, replica, index = _segment.unpack_from(position, at)
    rank = MAX_RANK - rank
    return rank, MAX_STAMP - stamp if at == 0 and rank > 0 else stamp, replica, index - ZERO


def _write(at: int, rank: int, stamp: int, replica: int, index: int) -> bytes:
    stamp = MAX_STAMP - stamp if at == 0 and rank > 0 else stamp
    return _segment.pack(MAX_RANK - rank, stamp, replica, ZERO + index)
