"""Tries out the holdfast that this Python has installed, in a folder of its own: a server that is
killed and started again, the semaphore, the build queue, the command line.

It needs only the package and its dependencies. `make release`, the tests and cibuildwheel run it on
wheels.

Usage: python scripts/smoke.py [--compiled | --not-compiled]
"""

import asyncio
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Never

TIMEOUT_S = 60
PROGRAM = str(Path(sysconfig.get_path("scripts"), "holdfast"))


class Server:
    """One process of `holdfast serve`, killed at the end."""

    def __init__(self, folder: str) -> None:
        argv = [PROGRAM, "serve", "--port", "0", "--db", "smoke.db"]
        self.log = Path(folder, "log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                argv, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r" ready on 127\.0\.0\.1:(\d+)", line)
        if found is None:
            self.process.kill()
            fail(f"the server is not ready: {line} {self.log.read_text()}")
        self.url = f"redis://127.0.0.1:{found[1]}"

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # SIGKILL: acknowledged writes must be there afterwards
        self.process.wait()


def fail(sentence: str) -> Never:
    sys.exit(f"smoke: {sentence}")


def expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        fail(f"{what} gave {found!r}, not {wanted!r}")


def output(*argv: str) -> str:
    done = subprocess.run(
        [PROGRAM, *argv], check=True, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    return done.stdout


async def write(url: str) -> None:
    import holdfast

    async with holdfast.connect(url) as client:
        expect(await client.ping(), "PONG", "PING")
        await client.set("k", "v")
        script = "return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])"
        pushed = await client.exec("EVAL", script, 1, "list", "a", "b", into=int)
        expect(pushed, 2, "EVAL")
        async with holdfast.Semaphore(client, "gpu", 1) as acquisition:
            expect(acquisition.fencing_token > 0, True, "Semaphore")
        queue = holdfast.BuildQueue(client)
        await queue.enqueue(holdfast.Build(1, "compile"))


async def read(url: str) -> None:
    import holdfast

    async with holdfast.connect(url) as client:
        expect(await client.get("k"), "v", "GET after kill -9")
        expect(await client.lrange("list", 0, -1), ["a", "b"], "LRANGE after kill -9")
        record = await holdfast.BuildQueue(client).get(1)
        expect(record is not None and record.job_id, "compile", "BuildQueue.get")


def main() -> None:
    import holdfast
    from holdfast.server.version import IS_COMPILED

    for option, wanted in (("--compiled", True), ("--not-compiled", False)):
        if option in sys.argv:
            expect(IS_COMPILED, wanted, "holdfast.server.version.IS_COMPILED")
    expect(output("--version"), f"holdfast {holdfast.__version__}\n", "holdfast --version")
    expect("serve" in output("--help"), True, "holdfast --help")
    with tempfile.TemporaryDirectory() as folder:
        with Server(folder) as server:
            asyncio.run(asyncio.wait_for(write(server.url), TIMEOUT_S))
            first, *_ = [*server.log.read_text().splitlines(), ""]
            expect("not compiled" in first, not IS_COMPILED, f"the first line ({first})")
        with Server(folder) as server:
            asyncio.run(asyncio.wait_for(read(server.url), TIMEOUT_S))
        expect("no problems" in output("check", f"{folder}/smoke.db"), True, "holdfast check")
    kind = "compiled" if IS_COMPILED else f"not compiled ({first})"
    print(f"holdfast {holdfast.__version__} works, {kind}: {holdfast.__path__[0]}")  # noqa: T201


if __name__ == "__main__":
    main()
