"""Lengths and strings as redis-server serialises them. value_codec.py makes values of them."""

from collections.abc import Sequence

from holdfast.store.rdb import packed


def length(number: int) -> bytes:
    if number < 1 << 6:
        return bytes([number])
    if number < 1 << 14:
        return (0x4000 | number).to_bytes(2, "big")
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def string(text: bytes) -> bytes:
    return length(len(text)) + text


def strings(texts: Sequence[bytes]) -> bytes:
    return b"".join([length(len(texts)), *map(string, texts)])


class Reader:
    """Reads one item after the other from the front. Raises ValueError if the bytes end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) < count:
            raise ValueError("the data ends early")
        self._at += count
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def length(self) -> int:
        number, is_special = self._length()
        if is_special:
            raise ValueError("not a length")
        return number

    def _length(self) -> tuple[int, bool]:
        """A length and False; or the number of a special string encoding and True."""
        first = self.take(1)[0]
        kind = first >> 6
        if kind == 0:
            return first, False
        if kind == 1:
            return (first & 0x3F) << 8 | self.take(1)[0], False
        if kind == 3:
            return first & 0x3F, True
        if first in (0x80, 0x81):
            return int.from_bytes(self.take(4 if first == 0x80 else 8), "big"), False
        raise ValueError("not a length")

    def string(self) -> bytes:
        number, is_special = self._length()
        if not is_special:
            return self.take(number)
        if number < 3:
            return b"%d" % int.from_bytes(self.take(1 << number), "little", signed=True)
        if number > 3:
            raise ValueError("no string is written like this")
        size, whole = self.length(), self.length()
        return packed.lzf(self.take(size), whole)

    def strings(self, each: int = 1) -> list[bytes]:
        return [self.string() for _ in range(self.length() * each)]
