"""The kinds of effects. The kind is the first item of an effect. Logs have these numbers, so they
never change.
"""

from collections.abc import Sequence
from typing import Any, Final

# For any value: (CLEAR, vector, resets, by). It removes all events that the vector covers. `resets`
# and `by` are for counters, see cells.py.
CLEAR: Final = 0
# For cells: strings, members of sets and sorted sets, fields of hashes, expiries, parts of streams.
# WRITE has name, dot, hlc, value, dots that it replaces (None: all earlier ones of its author),
# counters that it resets.
WRITE: Final = 1
REMOVE: Final = 2  # name, dots to remove, counters to reset, dot of the removal (0: needs none)
ADD: Final = 3  # name, dot, number of the author's last ADD, its total until then, its total now
MANY: Final = 4  # (effect, …), on cells of one value
WRITES: Final = 5  # for many strings, as the next two: see store/replicated/record_builder.py
ADDS: Final = 6
OVERWRITES: Final = 7
FLUSH: Final = 8  # for a whole database: vector, totals, dot of the flush; see flush.py
# For lists.
INSERT: Final = 10  # ((position, value), …)
DELETE: Final = 11  # (position, …)
SET: Final = 12  # position, value, hlc, replica
TRIM: Final = 13  # vector, the first and the last position that stay
PUSH: Final = 14  # first position, step from one to the next (1 or -1), (value, …)
POP: Final = 15  # DELETE of a run: its first position, its length
# For HyperLogLogs.
RAISE: Final = 20  # dot of the sketch, whether it is new, ((register, rank), …)
Effect = Sequence[Any]  # a tuple; a decoded one has lists in place of all tuples

# A changed row: its sub key, the new row and the old one; None stands for no row.
RowChange = tuple[Any, Any, Any]

# Effects that remove something. The log counts them until each member has confirmed them.
_REMOVALS: Final = frozenset({CLEAR, REMOVE, DELETE, TRIM, POP, FLUSH})


def is_removal(effect: Effect) -> bool:
    kind = effect[0]
    if kind == MANY:
        return any(map(is_removal, effect[1]))
    return kind in _REMOVALS or (kind == WRITE and bool(effect[6]))  # it resets counters


def frozen(data: Any) -> Any:
    """The same data, with tuples instead of the lists that msgpack decodes."""
    return tuple(map(frozen, data)) if isinstance(data, list) else data
