"""How a small collection is written as one bytes object, while its key is packed
(store/memory/packed_keys.py).

A collection that may be packed has two methods. `packable` gives its elements as a list that
msgpack can encode, or None if it is not small. `fill_packed` gives them to a new, empty collection.
The list has all that commands can ask for, except that a collection was larger once: one that is
read from the file does not know that either.
"""

from typing import Any, Final

import msgspec

# Of a collection that may be packed: how many elements it has, and how long each of them is. These
# are the bounds of Redis's listpacks. So OBJECT ENCODING is the same before and after.
MOST_PACKED: Final = 128
LONGEST_PACKED: Final = 64

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(list[Any]).decode


def shortened(ordinals: list[int]) -> Any:
    """Ordinals that are 1, 2, 3, … are 0: nearly all collections have these."""
    at = 1
    for ordinal in ordinals:
        if ordinal != at:
            return ordinals
        at += 1
    return 0


def lengthened(ordinals: Any, count: int) -> list[int]:
    """The ordinals that `shortened` was given."""
    return list(range(1, count + 1)) if ordinals == 0 else ordinals
