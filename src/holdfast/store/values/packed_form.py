"""How a small collection becomes one bytes object, while its key is packed
(store/memory/packed_keys.py).

A collection that may be packed has two methods. `packable` gives its elements as a list that
msgpack can encode, or None if it is not small. `fill_packed` gives them to a new, empty collection.
The list has all that commands can ask for, with one exception: whether the collection was larger
once. A collection that is read from the file does not know that either.
"""

from typing import Any, Final

import msgspec

# The most elements of a collection that may be packed, and the longest element. These are the
# limits of Redis's listpacks, so OBJECT ENCODING is the same before and after.
MOST_PACKED: Final = 128
LONGEST_PACKED: Final = 64

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(list[Any]).decode


def shortened(ordinals: list[int]) -> Any:
    """0 instead of ordinals that are 1, 2, 3, …, as in nearly all collections; other ordinals as
    they are."""
    at = 1
    for ordinal in ordinals:
        if ordinal != at:
            return ordinals
        at += 1
    return 0


def lengthened(ordinals: Any, count: int) -> list[int]:
    """The ordinals that were given to `shortened`."""
    return list(range(1, count + 1)) if ordinals == 0 else ordinals
