"""Makes the dicts that have an entry for each key grow in different turns.

A dict grows when it is full: it makes a table twice as large and copies its entries. At 700,000
entries this takes 35–50 ms. Several dicts of an active-active server have one entry for each key,
so all of them would grow at the same key, in one turn: clients waited for 200–400 ms. Therefore a
dict that is nearly full is made to grow early, one at a time, with turns in between.

A dict has no method for that. So an entry is added and removed until the dict grows, because the
slot of a removed entry is free again only after that. The number of entries that fit in is computed
from the size of the table. If another Python has other sizes, the dict grows too early or by
itself, which is only slower.
"""

import sys
from collections.abc import Iterable
from typing import Any, Final

SMALL: Final = 16_000  # entries; to grow a smaller dict takes less than a millisecond
# A dict is made to grow when it has room for fewer entries than this. One turn rarely adds more.
EARLY: Final = 4_096
# In a table of CPython two thirds of the slots may be used. A slot takes 4 bytes, an entry 24.
BYTES_PER_PLACE: Final = 20

FILLER: Final = -0.5  # no key is a float


def room(entries: "dict[Any, Any]") -> int:
    """About how many more entries fit in, if none was ever removed."""
    return sys.getsizeof(entries) // BYTES_PER_PLACE * 2 // 3 - len(entries)


def grow_one(dicts: "Iterable[dict[Any, Any]]") -> bool:
    """Make one dict grow that would soon grow by itself. False if there is none."""
    for entries in dicts:
        if len(entries) >= SMALL and room(entries) < EARLY and _grow(entries):
            return True
    return False


def _grow(entries: "dict[Any, Any]") -> bool:
    size = sys.getsizeof(entries)
    for _ in range(2 * EARLY):
        entries[FILLER] = None
        del entries[FILLER]
        if sys.getsizeof(entries) != size:
            return True
    return False
