"""Processes that compete for slots and write down when they hold one, until they are killed."""

import asyncio
import math
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.semaphore import Semaphore

LIMIT = 4


def work(url: str, ledger: str, heartbeat_s: float, seed: int) -> None:
    """The life of a worker: it ends by being killed."""
    asyncio.run(contend(url, ledger, heartbeat_s, random.Random(seed)))


async def contend(url: str, ledger: str, heartbeat_s: float, rng: random.Random) -> None:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND)
    async with holdfast.connect(url) as client:
        semaphore = Semaphore(client, "s", LIMIT, heartbeat_max_interval_s=heartbeat_s)

        async def hold() -> None:
            while True:
                acquisition = await semaphore.acquire()
                token, sure_s = acquisition.fencing_token, acquisition.renewed_s + heartbeat_s
                line = f"start {token} {time.monotonic()} {sure_s} {os.getpid()}\n"
                os.write(file, line.encode())
                await asyncio.sleep(rng.random() * 0.02)
                os.write(file, f"end {token} {time.monotonic()}\n".encode())
                if await semaphore.release(acquisition):
                    os.write(file, f"kept {token} {time.monotonic()}\n".encode())

        await asyncio.gather(hold(), hold())


@dataclass
class Hold:
    """Times are those of the machine, which all its processes share."""

    token: int
    start_s: float
    sure_s: float  # until when the server cannot have given the slot to another
    pid: int
    end_s: float = math.inf
    kept: bool = False  # until the end


def read_ledger(ledger: Path) -> list[Hold]:
    holds: dict[int, Hold] = {}
    for line in ledger.read_text().splitlines():
        kind, number, at_s, *more = line.split()
        token = int(number)
        if kind == "start":
            assert token not in holds, "a token was given twice"
            holds[token] = Hold(token, float(at_s), float(more[0]), int(more[1]))
        elif kind == "end":
            holds[token].end_s = float(at_s)
        else:
            holds[token].kept = True
    return list(holds.values())


def most_at_once(holds: list[Hold], killed_s: dict[int, float]) -> int:
    """The most workers that held a slot at the same time.

    A worker without a final note that it held until then was killed, or was paused for so long that
    the server gave it up. It counts as a holder for as long as it could be sure of its slot.
    """
    moments: list[tuple[float, int]] = []
    for hold in holds:
        end_s = hold.end_s
        if not hold.kept:
            end_s = min(end_s, hold.sure_s, killed_s[hold.pid])
        if end_s > hold.start_s:
            moments += [(hold.start_s, 1), (end_s, -1)]
    now = most = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most
