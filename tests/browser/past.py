"""A week that a dashboard remembers: what its charts show before the first sample of a test."""

import math
import time
from pathlib import Path

from holdfast.web.history.history_file import HistoryFile
from holdfast.web.history.rollup import RESOLUTIONS, Bucket, Stat

WEEK_S = 7 * 86_400


def figures_at(at_s: float) -> dict[str, float]:
    """Figures of a server with more work at noon than at night."""
    day = (1 - math.cos(2 * math.pi * at_s / 86_400)) / 2
    ripple = math.sin(at_s / 97) + math.sin(at_s / 411) / 2
    ops = 900 + 5200 * day + 140 * ripple
    return {
        "ops_per_s": ops,
        "p50_us": 14 + ops / 900,
        "p99_us": 90 + ops / 30 + 25 * abs(ripple),
        "memory_bytes": 180e6 + 60e6 * day,
        "resident_bytes": 260e6 + 60e6 * day,
        "keys": 240_000 + 38_000 * day,
        "clients": 24 + round(30 * day),
        "blocked_clients": 8 + round(4 * ripple),
        "hit_share": 0.93 + 0.02 * ripple,
        "errors_per_s": max(0.0, ripple - 1.2),
        "fold_backlog_bytes": 2e6 + 1.5e6 * abs(ripple),
        "wal_bytes": 6e6 + 2e6 * abs(ripple),
        "syncs_per_s": 1.0,
    }


def write_week(path: Path) -> None:
    """Up to now, in each resolution as far back as it is kept."""
    now_s = time.time()
    history = HistoryFile(path)
    for step_s, keep in RESOLUTIONS:
        last_s = int(now_s // step_s * step_s)
        count = min(keep - 1, WEEK_S // step_s)
        history.merge(
            Bucket(step_s, at_s, {n: Stat(v, 1, v) for n, v in figures_at(at_s).items()})
            for at_s in range(last_s - count * step_s, last_s, step_s)
        )
    history.close()
