"""Run a command while holding a slot of the GPU: `python on_gpu.py python train.py --epochs 3`.

All machines that use the same Holdfast server share the slots. Commands begin in the order in which
they came.
"""

import asyncio
import os
import signal
import sys

import holdfast

URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")
SLOTS = 2  # so many trainings fit into the memory of the GPU
SILENCE_S = 60  # a holder that was silent for so long counts as dead, and its slot is free


async def run_on_gpu(command: list[str]) -> int:
    async with holdfast.connect(URL) as client:
        gpu = holdfast.Semaphore(client, "gpu", SLOTS, heartbeat_max_interval_s=SILENCE_S)
        print("waiting for a slot", file=sys.stderr, flush=True)
        try:
            async with gpu as slot:
                # The token grows with every grant. A store of results can refuse a smaller token:
                # it comes from a command that lost its slot and does not know it yet.
                return await run(command, os.environ | {"FENCING_TOKEN": str(slot.fencing_token)})
        finally:
            # If the server is away now, wait for it: else the slot stays taken for SILENCE_S.
            await gpu.close(grace_s=SILENCE_S)


async def run(command: list[str], environment: dict[str, str]) -> int:
    # A session of its own, so that the processes of the command end with it.
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, start_new_session=True
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # cancelled: the slot is lost, or we are asked to stop
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()


async def main(command: list[str]) -> int:
    running = asyncio.ensure_future(run_on_gpu(command))
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        print("stopped", file=sys.stderr)
    except (OSError, ValueError, holdfast.HoldfastError) as error:
        # No such command, a bad URL, no server, or the slot is lost.
        print(f"on_gpu: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("usage: python on_gpu.py COMMAND [ARGUMENT …]", file=sys.stderr)
        sys.exit(2)
    sys.exit(asyncio.run(main(sys.argv[1:])))
