"""Numbers about the server that nothing but INFO and /metrics needs: rates, peaks, totals."""

import os
from collections import deque
from pathlib import Path

from holdfast.clock import Clock

SAMPLES = 16  # at ten a second: rates are over the last 1.6 s
PAGE_BYTES = 4096


class Rate:
    """How fast a total grows, in units a second, averaged over the last samples."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES + 1)

    def sample(self, now_s: float, total: int) -> None:
        self._samples.append((now_s, total))

    @property
    def per_s(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    def reset(self) -> None:
        self._samples.clear()


class Meter:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.started_s = clock.monotonic_s()
        self.run_id = os.urandom(20).hex()
        self.tcp_port = 0
        self.peak_bytes = 0
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero, for CONFIG RESETSTAT."""
        self.connections = self.rejected_connections = self.evicted_clients = 0
        self.input_bytes = self.output_bytes = 0
        self.repl_input_bytes = 0  # from the primary of this server; a part of `input_bytes`
        self.expiry_ns = self.expiry_slices_put_off = 0
        self.ops, self.input, self.output = Rate(), Rate(), Rate()
        self.repl_input, self.repl_output = Rate(), Rate()

    @property
    def uptime_s(self) -> int:
        return int(self._clock.monotonic_s() - self.started_s)

    def sample(self, commands: int, used_bytes: int, repl_output_bytes: int) -> None:
        now_s = self._clock.monotonic_s()
        self.ops.sample(now_s, commands)
        self.input.sample(now_s, self.input_bytes)
        self.output.sample(now_s, self.output_bytes)
        self.repl_input.sample(now_s, self.repl_input_bytes)
        self.repl_output.sample(now_s, repl_output_bytes)
        self.peak_bytes = max(self.peak_bytes, used_bytes)


def resident_bytes() -> int:
    """Memory of this process; 0 if the system does not tell it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0
