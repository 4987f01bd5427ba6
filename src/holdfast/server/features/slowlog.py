"""The slow log: the last commands that took longer than `slowlog-log-slower-than`. Commands with
large requests or replies have logs of the same kind, with bytes instead of microseconds."""

from collections import deque
from itertools import count
from typing import NamedTuple

from holdfast.resp import Reply
from holdfast.server.config.secrets import without_secrets

MAX_ARGS = 32
MAX_ARG_BYTES = 128


class SlowCommand(NamedTuple):
    id: int
    at_s: int
    amount: int  # microseconds, or bytes in the logs of large requests and replies
    args: tuple[bytes, ...]
    address: str
    client_name: bytes

    def shown(self) -> Reply:
        """The entry as clients see it."""
        where = self.address.encode()
        return [self.id, self.at_s, self.amount, self.args, where, self.client_name]


class SlowLog:
    def __init__(self, max_len: int) -> None:
        self._entries: deque[SlowCommand] = deque()
        self._ids = count()
        self.max_len = max_len

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self,
        command_name: str,
        argv: list[bytes],
        at_s: int,
        amount: int,
        address: str,
        client_name: bytes,
    ) -> None:
        args = _shortened(without_secrets(command_name, argv))
        entry = SlowCommand(next(self._ids), at_s, amount, args, address, client_name)
        self._entries.appendleft(entry)
        self.trim()

    def trim(self) -> None:
        while len(self._entries) > self.max_len:
            self._entries.pop()

    def newest(self, limit: int) -> list[SlowCommand]:
        """The entries, the newest first; all of them if `limit` is -1."""
        entries = list(self._entries)
        return entries if limit < 0 else entries[:limit]

    def clear(self) -> None:
        """Remove all entries. Later ids continue the numbering."""
        self._entries.clear()


def _shortened(argv: list[bytes]) -> tuple[bytes, ...]:
    """The first arguments, cut to some length: a log must not keep a huge command in memory."""
    if len(argv) > MAX_ARGS:
        more = b"... (%d more arguments)" % (len(argv) - MAX_ARGS + 1)
        argv = [*argv[: MAX_ARGS - 1], more]
    return tuple(
        arg
        if len(arg) <= MAX_ARG_BYTES
        else b"%b... (%d more bytes)" % (arg[:MAX_ARG_BYTES], len(arg) - MAX_ARG_BYTES)
        for arg in argv
    )
