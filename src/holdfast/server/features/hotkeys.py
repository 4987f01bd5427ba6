"""HOTKEYS: the keys whose commands took most of the time, or most of the bytes.

A tracking session counts each key exactly, as long as there are not too many keys. Then the half
with the smallest sums is forgotten; a forgotten key that comes again begins at zero. This file has
no clock and no timer: the commands in server/commands/hotkeys_commands.py begin and end a session.
"""

import os
import random
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.commands.table import Command
from holdfast.server.sessions.session import Session

MOST_KEYS = 20_000  # of a session and a metric


class HotKeysOptions(NamedTuple):
    by_cpu: bool
    by_net: bool
    most: int = 10  # keys to show
    duration_s: int = 0  # 0: until HOTKEYS STOP
    sample_ratio: int = 1  # one of so many commands is counted


class Totals:
    """A sum for each key."""

    def __init__(self) -> None:
        self._of_key: dict[bytes, int] = {}
        self.total = 0

    def add(self, names: Iterable[bytes], amount: int) -> None:
        for name in names:
            self._of_key[name] = self._of_key.get(name, 0) + amount
            self.total += amount
        if len(self._of_key) > MOST_KEYS:
            self._of_key = dict(self._sorted()[: MOST_KEYS // 2])

    def top(self, count: int, unit: int = 1) -> list[tuple[bytes, int]]:
        """The keys with the largest sums, in this unit. Keys whose sum is 0 are left out."""
        largest = [(name, amount // unit) for name, amount in self._sorted()[:count]]
        return [pair for pair in largest if pair[1]]

    def _sorted(self) -> list[tuple[bytes, int]]:
        return sorted(self._of_key.items(), key=lambda pair: -pair[1])


class HotKeys:
    """One tracking session."""

    def __init__(self, options: HotKeysOptions, now_ms: int, rng: random.Random) -> None:
        self.options = options
        self.started_ms = now_ms
        self.ended_ms: int | None = None
        self.cpu_ns, self.net_bytes = Totals(), Totals()
        self.all_ns = self.all_bytes = 0  # of all commands, sampled or not
        self._rng = rng
        self._begin = os.times()

    @property
    def is_active(self) -> bool:
        return self.ended_ms is None

    def cpu_ms(self) -> tuple[int, int]:
        """The processor time of this process since the session began: in user mode, and in the
        kernel."""
        now = os.times()
        user_s, system_s = now.user - self._begin.user, now.system - self._begin.system
        return round(user_s * 1000), round(system_s * 1000)

    def saw(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        elapsed_ns: int,
        reply_bytes: int,
    ) -> None:
        """Count a command that ran."""
        nbytes = request_bytes(argv) + reply_bytes
        self.all_ns += elapsed_ns
        self.all_bytes += nbytes
        ratio = self.options.sample_ratio
        if ratio > 1 and self._rng.random() * ratio >= 1:
            return
        try:
            names = dict.fromkeys(command.key_names(argv))
        except IndexError:
            return  # the number of keys is malformed, so the command has failed
        if self.options.by_cpu:
            self.cpu_ns.add(names, elapsed_ns)
        if self.options.by_net:
            self.net_bytes.add(names, nbytes)


def request_bytes(argv: list[bytes]) -> int:
    """The size of a command on the wire."""
    return len(b"*%d\r\n" % len(argv)) + sum(
        len(b"$%d\r\n\r\n" % len(arg)) + len(arg) for arg in argv
    )
