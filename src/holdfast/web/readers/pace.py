"""How much work one request for a page may cause on the server. No I/O.

A busy server gets few requests, because dashboards must not slow it down, however many are open. A
server with free time is searched quickly, so that its queues are found soon.
"""

from typing import NamedTuple

COUNT = 500  # keys that SCAN looks at in a call: about half a millisecond of the server's time
BUSY_SHARE = 0.25  # of a core; a server that uses more gets the fewest requests
MOST_CALLS, MOST_MEASURED = 48, 100
LEAST_CALLS, LEAST_MEASURED = 1, 25
KNOWN_PART = 8  # after the first round, the search has this fraction of its calls


class Pace(NamedTuple):
    calls: int  # calls of SCAN, until all keys were read once
    measured: int  # queues whose jobs are counted

    def calls_in(self, rounds: int) -> int:
        """Calls of SCAN for a search that has read all keys so many times."""
        return max(LEAST_CALLS, self.calls // KNOWN_PART) if rounds else self.calls


def is_busy(cpu_share: float | None) -> bool:
    return cpu_share is not None and cpu_share >= BUSY_SHARE


def pace_for(cpu_share: float | None) -> Pace:
    """The pace for a server that uses this share of a core. None: unknown."""
    busy = 0.75 if cpu_share is None else min(1.0, cpu_share / BUSY_SHARE)
    return Pace(
        max(LEAST_CALLS, int(MOST_CALLS * (1 - busy))),
        max(LEAST_MEASURED, int(MOST_MEASURED * (1 - busy))),
    )


UNKNOWN = pace_for(None)
