"""Small collections that Redis packs into one string: listpack, ziplist, intset, zipmap. Also LZF,
the compression of strings. Bytes in, elements out. Only listpacks are also written.

Malformed bytes raise `ValueError` or `IndexError`, and no other exception.
"""

from collections.abc import Callable, Iterable, Iterator

from holdfast.store.rdb.in_c import IN_C

END = 0xFF

# returns an element, and the start of the next one
Element = Callable[[bytes, int], tuple[bytes, int]]


def listpack(data: bytes) -> list[bytes]:
    """The elements of a listpack, each as bytes: a number as its digits."""
    return list(_until_end(data, 6, _listpack_element))


def ziplist(data: bytes) -> list[bytes]:
    return list(_until_end(data, 10, _ziplist_element))


def _until_end(data: bytes, at: int, element: Element) -> Iterator[bytes]:
    while data[at] != END:
        value, at = element(data, at)
        yield value


def _number(data: bytes, at: int, length: int) -> bytes:
    return b"%d" % int.from_bytes(_take(data, at, length), "little", signed=True)


def _take(data: bytes, at: int, length: int) -> bytes:
    part = data[at : at + length]
    if len(part) < length:
        raise ValueError("the data ends early")
    return part


# -- listpack ---------------------------------------------------------------------------------

_LISTPACK_NUMBERS = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}


def _listpack_element(data: bytes, at: int) -> tuple[bytes, int]:
    """An element, and the start of the next one."""
    code = data[at]
    if code < 0x80:
        return b"%d" % code, at + 2
    if code < 0xC0:
        header, length = 1, code & 0x3F
    elif code < 0xE0:
        number = (code & 0x1F) << 8 | data[at + 1]
        return b"%d" % (number - (1 << 13) if number >> 12 else number), at + 3
    elif code < 0xF0:
        header, length = 2, (code & 0x0F) << 8 | data[at + 1]
    elif code == 0xF0:
        header, length = 5, int.from_bytes(_take(data, at + 1, 4), "little")
    elif code in _LISTPACK_NUMBERS:
        size = _LISTPACK_NUMBERS[code]
        return _number(data, at + 1, size), at + 1 + size + 1
    else:
        raise ValueError("no element of a listpack begins like this")
    return _take(data, at + header, length), at + header + length + _back_size(header + length)


def _back_size(length: int) -> int:
    """The number of bytes after an element that repeat its length, for reading backwards."""
    return 1 + sum(length >= limit for limit in (128, 16383, 2097151, 268435455))


def packed_listpack(elements: Iterable[int | bytes]) -> bytes:
    """A listpack of these elements."""
    parts = [_packed_number(e) if isinstance(e, int) else _packed_string(e) for e in elements]
    body = b"".join([part + _back(len(part)) for part in parts])
    size, count = 6 + len(body) + 1, min(len(parts), 0xFFFF)
    return b"".join((size.to_bytes(4, "little"), count.to_bytes(2, "little"), body, b"\xff"))


def _packed_string(text: bytes) -> bytes:
    if len(text) < 1 << 6:
        return bytes([0x80 | len(text)]) + text
    if len(text) < 1 << 12:
        return (0xE000 | len(text)).to_bytes(2, "big") + text
    return b"\xf0" + len(text).to_bytes(4, "little") + text


def _packed_number(number: int) -> bytes:
    if 0 <= number < 128:
        return bytes([number])
    if -(1 << 12) <= number < 1 << 12:
        return (0xC000 | number & 0x1FFF).to_bytes(2, "big")
    for code, size in _LISTPACK_NUMBERS.items():
        if -(1 << size * 8 - 1) <= number < 1 << size * 8 - 1:
            return bytes([code]) + number.to_bytes(size, "little", signed=True)
    raise ValueError("numbers have 64 bits")


def _back(length: int) -> bytes:
    size = _back_size(length)
    sevens = [length >> 7 * place & 0x7F for place in reversed(range(size))]
    return bytes([sevens[0], *(seven | 0x80 for seven in sevens[1:])])


# -- forms of older versions ------------------------------------------------------------------

_ZIPLIST_NUMBERS = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}


def _ziplist_element(data: bytes, at: int) -> tuple[bytes, int]:
    at += 5 if data[at] == 0xFE else 1  # the length of the element before
    code = data[at]
    if code < 0x40:
        header, length = 1, code
    elif code < 0x80:
        header, length = 2, (code & 0x3F) << 8 | data[at + 1]
    elif code < 0xC0:
        header, length = 5, int.from_bytes(_take(data, at + 1, 4), "big")
    elif code in _ZIPLIST_NUMBERS:
        size = _ZIPLIST_NUMBERS[code]
        return _number(data, at + 1, size), at + 1 + size
    elif 0xF1 <= code <= 0xFD:
        return b"%d" % (code - 0xF1), at + 1
    else:
        raise ValueError("no element of a ziplist begins like this")
    return _take(data, at + header, length), at + header + length


def zipmap(data: bytes) -> list[bytes]:
    """The names and values of a zipmap, in turn."""
    found: list[bytes] = []
    at = 1
    while data[at] != END:
        length, at = data[at], at + 1
        if length == 0xFE:
            length, at = int.from_bytes(_take(data, at, 4), "little"), at + 4
        unused = 0
        if len(found) % 2:
            unused, at = data[at], at + 1
        found.append(_take(data, at, length))
        at += length + unused
    return found


def intset(data: bytes) -> list[bytes]:
    size, count = (int.from_bytes(_take(data, at, 4), "little") for at in (0, 4))
    if size not in (2, 4, 8) or len(data) != 8 + size * count:
        raise ValueError("not an intset")
    return [_number(data, at, size) for at in range(8, len(data), size)]


def lzf(data: bytes, length: int) -> bytes:
    """The decompressed string, which must have this length."""
    text: bytes = plain_lzf(data, length) if IN_C is None else IN_C.lzf(data, length)
    return text


def plain_lzf(data: bytes, length: int) -> bytes:
    """`lzf` without C."""
    out = bytearray()
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        if code < 32:  # so many bytes follow, and one more
            at += 2 + code
            out += data[at - 1 - code : at]
            continue
        count = (code >> 5) + 2
        if code >= 0xE0:
            at += 1
            count += data[at]
        size = len(out)
        start = size - 1 - ((code & 31) << 8 | data[at + 1])
        at += 2
        if start < 0 or size + count > length:
            raise ValueError("points outside")
        part = out[start : start + count]
        if len(part) < count:  # it reaches beyond the end of the output, so its bytes repeat
            part = (part * (count // len(part) + 1))[:count]
        out += part
    if at != end or len(out) != length:
        raise ValueError("not of the length that it says")
    return bytes(out)
