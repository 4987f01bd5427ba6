"""`python pipeline.py run 1` enqueues the stages, `python pipeline.py work` runs them.

`run` may be repeated with the same number, for example after a crash: it enqueues no build twice.
"""

import argparse
import asyncio
import os
import signal
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import holdfast
from holdfast import BuildQueue, Worker
from holdfast.builds import BuildFailed, Run, State
from stages import builds_of

URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")
QUEUE = "pipeline"  # of its own: the worker could not run builds of other programs


async def enqueue(stages: Mapping[str, Any], number: int) -> None:
    async with holdfast.connect(URL) as client:
        queue = BuildQueue(client, QUEUE)
        for build in builds_of(stages, number):
            decision = await queue.enqueue(build)
            state = decision.state.name if decision.state else decision.message
            print(f"{build.id} {build.job_id}: {state}")


async def work() -> None:
    """Run stages until SIGTERM or ^C; running stages may finish."""
    stopping = asyncio.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, stopping.set)
    async with holdfast.connect(URL) as client:
        queue = BuildQueue(client, QUEUE)

        async def handler(run: Run) -> None:
            await check_needs(queue, run)
            await execute(run)

        async with Worker(queue, handler, concurrency=4):
            print("ready", flush=True)
            await stopping.wait()


async def check_needs(queue: BuildQueue, run: Run) -> None:
    """The queue keeps the order. This function decides whether a failure stops the later stages."""
    for needed in run.annotations["needs"]:
        build = await queue.get(needed)
        if build is None or build.state is not State.SUCCESS:
            raise BuildFailed(f"build {needed}, which it needs, did not succeed")


async def execute(run: Run) -> None:
    """Run the command of a stage in a process group of its own, so that all of it can be ended."""
    print(f"{run.build_id} {run.job_id}: attempt {run.attempt}", flush=True)
    # A deployment target can refuse a token below the largest that it has seen: it comes from a
    # worker that was cut off and does not know yet that another one has its build.
    environment = os.environ | {"BUILD_TOKEN": str(run.token)}
    process = await asyncio.create_subprocess_shell(
        run.annotations["run"], env=environment, start_new_session=True
    )
    try:
        code = await process.wait()
    finally:
        # cancelled, because it was aborted, timed out, or was given to another worker
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    if code != 0:
        raise BuildFailed(f"exit code {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A build pipeline on Holdfast.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("work", help="run stages")
    run = commands.add_parser("run", help="enqueue all stages")
    run.add_argument("number", type=int, help="a larger number is a newer run")
    run.add_argument("file", type=Path, nargs="?", default=Path("pipeline.toml"))
    options = parser.parse_args()
    try:
        if options.command == "work":
            asyncio.run(work())
        else:
            asyncio.run(enqueue(tomllib.loads(options.file.read_text()), options.number))
    except (OSError, ValueError, holdfast.HoldfastError) as error:
        sys.exit(f"pipeline: {error}")


if __name__ == "__main__":
    main()
