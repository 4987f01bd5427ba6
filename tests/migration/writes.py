"""Writes of all types, for servers whose data moves meanwhile."""

import random
from collections.abc import Iterator
from typing import Any

import redis

from tests.migration.contents import FAR_MS

Write = tuple[Any, ...]


def write(rng: random.Random) -> Write:
    """Many are not idempotent: run twice or left out, they leave another value."""
    number = rng.randrange(40)
    name = b"\xff%d" % number if number % 4 == 0 else b"key:%d" % number
    kinds: tuple[Write, ...] = (
        ("SET", b"s" + name, rng.randbytes(20)),
        ("INCR", b"n" + name),
        ("APPEND", b"a" + name, b"x"),
        ("RPUSH", b"l" + name, rng.randbytes(5), b"y"),
        ("LPOP", b"l" + name),
        ("HSET", b"h" + name, b"f%d" % rng.randrange(9), rng.randbytes(9)),
        ("HINCRBYFLOAT", b"h" + name, b"float", "0.5"),
        ("SADD", b"set" + name, rng.randrange(1000)),
        ("SPOP", b"set" + name),
        ("ZINCRBY", b"z" + name, "1.5", b"m%d" % rng.randrange(9)),
        ("XADD", b"x" + name, "*", b"f", rng.randbytes(4)),
        ("XTRIM", b"x" + name, "MAXLEN", 20),
        ("PEXPIREAT", b"s" + name, FAR_MS + number),
        ("DEL", rng.choice((b"s", b"l", b"h", b"z")) + name),
        ("RENAME", b"a" + name, b"a-other" + name),
    )
    return rng.choice(kinds)


class Writer:
    """A client of two databases. Commands that the server refuses change nothing."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self._clients = [redis.Redis(port=port, db=db, protocol=2) for db in (0, 5)]
        self._rng = rng

    def run(self, count: int) -> None:
        client = self._rng.choice(self._clients)
        with client.pipeline(transaction=self._rng.random() < 0.3) as pipe:
            for command in self._some(count):
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]
            pipe.execute(raise_on_error=False)

    def _some(self, count: int) -> Iterator[Write]:
        for _ in range(count):
            yield write(self._rng)

    def close(self) -> None:
        for client in self._clients:
            client.close()
