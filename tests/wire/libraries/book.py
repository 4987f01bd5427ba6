"""The jobs of every library, and the book in which they write down their work.

The book is a file, so it survives every server. This module runs in the processes of the libraries
and knows none of them.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

URL = os.environ.get("REDIS_URL", "")
DELAY_S = 1.5
# After so long a library gives the jobs of a worker that it no longer hears of to another.
PATIENCE_S = float(os.environ.get("PATIENCE_S", "60"))
FIRST_TRY_FAILS = "the first try of this job fails"


@dataclass
class Entry:
    what: str  # asked, enqueued, begun or done
    number: int
    at_s: float


def _path() -> Path:
    return Path(os.environ["BOOK"])


def write(what: str, number: int) -> None:
    """Append one line, whole or not at all, beside other writers."""
    with _path().open("ab", buffering=0) as file:
        file.write(f"{what} {number} {time.time()}\n".encode())


def read(path: Path) -> list[Entry]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [Entry(what, int(number), float(at_s)) for what, number, at_s in map(str.split, lines)]


def delay_s(number: int) -> float:
    """Every third job is to be worked later …"""
    return DELAY_S if number % 3 == 1 else 0.0


def fails_first(number: int) -> bool:
    """… and another third needs two tries."""
    return number % 3 == 2


def hold_of(path: Path, number: int) -> Path:
    """While this file is there, the job does not go on."""
    return path.with_name(f"hold-{number}")


def work(number: int) -> int:
    write("begun", number)
    while hold_of(_path(), number).exists():
        time.sleep(0.01)
    if fails_first(number) and _times_begun(number) == 1:
        raise RuntimeError(FIRST_TRY_FAILS)
    write("done", number)
    return number * number


def _times_begun(number: int) -> int:
    return sum((entry.what, entry.number) == ("begun", number) for entry in read(_path()))


def produce(enqueue: Callable[[int], object], *away: type[Exception]) -> None:
    async def call(number: int) -> None:
        enqueue(number)

    asyncio.run(produce_async(call, *away))


async def produce_async(
    enqueue: Callable[[int], Awaitable[object]], *away: type[Exception]
) -> None:
    """Enqueue as many jobs as the command line says, each until it is accepted.

    `away` is how the library says that the server is not there.
    """
    for number in range(int(sys.argv[1])):
        write("asked", number)
        while True:
            try:
                await enqueue(number)
                break
            except away:
                await asyncio.sleep(0.05)
        write("enqueued", number)
