"""The kinds of effects: what comes first in each of their tuples. In logs, so for ever."""

from typing import Any

# Any value: (CLEAR, vector, resets, by), everything goes that the vector covers. The rest are
# counters, see cells.py.
CLEAR = 0
# Cells: strings, the members of sets and sorted sets, fields of hashes, expiries.
WRITE = 1  # name, dot, hlc, value, dots that it replaces, counters that it resets
REMOVE = 2  # name, dots that go, counters that are reset, dot of the removal (0: needs none)
ADD = 3  # name, dot, number of the author's last ADD, its total until then, its total now
# Lists.
INSERT = 10  # ((position, value), …)
DELETE = 11  # (position, …)
SET = 12  # position, value, hlc, replica
TRIM = 13  # vector, position of the first that stays, of the last
# HyperLogLogs.
RAISE = 20  # dot of the sketch, whether it is new, ((register, rank), …)
# Streams.
ENTER = 30  # id, dot, fields, how many entries the author has added by now
LEAVE = 31  # ((id, dot), …), the highest id that XDEL took (0: it was a trim)
LAST_ID = 32  # id: no smaller one will be given out
GROUP = 33  # name, dot, hlc, last id, entries read: a new group
UNGROUP = 34  # name, dots
SEEK = 35  # name, dot, hlc and replica of the seek (both 0: it is a read), last id, entries read
CONSUMERS = 36  # name, dot, effect on the cells of its consumers
PENDING = 37  # name, dot, effect on the cells of its pending entries

Effect = tuple[Any, ...]

# A row that changed: its sub key, what it is now and what it was, None when there is none.
Change = tuple[Any, Any, Any]

# Those that take something away, and are therefore kept until everybody has confirmed them.
REMOVALS = frozenset({CLEAR, REMOVE, DELETE, TRIM, LEAVE, UNGROUP})
