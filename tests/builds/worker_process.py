"""A worker in a process of its own: python worker_process.py URL FILE SEED

Its handler writes a line to the file when it begins, and one when it ends: build, token, which.
"""

import asyncio
import logging
import os
import random
import sys

import holdfast
from holdfast.builds import BuildQueue, Run, Worker

LEASE_S = 1.0
CONCURRENCY = 4


async def main(url: str, file: str, seed: int) -> None:
    rng = random.Random(seed)
    effects = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def handler(run: Run) -> None:
        os.write(effects, b"%d %d begin\n" % (run.build_id, run.token))
        await asyncio.sleep(rng.random() / 50)
        os.write(effects, b"%d %d end\n" % (run.build_id, run.token))

    while True:
        try:
            async with holdfast.connect(url) as client:
                worker = Worker(
                    BuildQueue(client), handler, concurrency=CONCURRENCY, lease_s=LEASE_S
                )
                await worker.run()
        except holdfast.HoldfastError:  # it was started while the server was away
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
