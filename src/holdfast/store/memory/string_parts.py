"""Parts of strings: bytes that are put into the string of a key, from an offset on.

The journal has the part and not the string (STRING_PARTS in store/change/ops.py). Memory changes
the string in place if that is compiled and nothing else refers to it: see _string_parts.c. So a
caller must not keep a reference to the value of the key, or the string is copied.
"""

from typing import Any, Final

from holdfast.store.memory.key import Key

try:
    from holdfast.store.memory import _string_parts
except ImportError:  # it is compiled where that is possible
    IN_C: Any = None
else:
    IN_C = _string_parts

# Bytes: a shorter string is written as a whole. The row of a part has an id and an offset more, and
# a run of whole strings goes on over several keys.
SHORTEST_IN_PARTS: Final = 512


def edit(key: Key, offset: int, part: bytes, length: int) -> None:
    """Put bytes into the string that the key holds, which is then so long. Bytes beyond the former
    end are zeros, if the part does not set them."""
    if IN_C is not None and length >= SHORTEST_IN_PARTS:
        IN_C.edit(key, offset, part, length)
    else:
        edit_a_copy(key, offset, part, length)


def edit_a_copy(key: Key, offset: int, part: bytes, length: int) -> None:
    old = key.value
    assert isinstance(old, bytes)
    key.value = with_part(old, offset, part, length)


def with_part(old: bytes, offset: int, part: bytes, length: int) -> bytes:
    """A string of that length, with the part in it. (To join views copies once, to add slices
    copies three times.)"""
    view = memoryview(old)
    end = offset + len(part)
    zeros = bytes(max(offset - len(old), 0))
    return b"".join((view[:offset], zeros, part, view[end:length])).ljust(length, b"\0")
