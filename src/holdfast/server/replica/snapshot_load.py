"""Loading the snapshot of a primary: another process reads it and writes a database file.

The old data is served meanwhile, and no turn of the loop takes longer. The new file takes the place
of the old one when it is complete, so after a crash there is the old data or the new data.

Each load has a file of its own. If the server is killed, the process of its load may go on for a
while, and must not write into the file of the next load.
"""

import asyncio
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.server.replica.position import Position

MODULE = "holdfast.migration.replica_file"


class SnapshotLoad:
    """`path` is the new file, beside the one that is served."""

    def __init__(self, target: Path, databases: int, *, skips_unknown: bool) -> None:
        self._prefix = f".{target.name}.following-"
        self.path = target.with_name(f"{self._prefix}{secrets.token_hex(4)}")
        self._databases = databases
        self._skips_unknown = skips_unknown
        self._process: asyncio.subprocess.Process | None = None
        self.received_bytes = 0
        self.total_bytes: int | None = None

    async def start(self) -> None:
        """Start the process. It needs some time before it can load anything, so it may be started
        before anything is known of the snapshot."""
        self.remove()  # also what a server has left that was killed
        pipe = asyncio.subprocess.PIPE
        words = (str(self._databases), str(int(self._skips_unknown)))
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE, str(self.path), *words),
            stdin=pipe,
            stderr=pipe,
            # SQLite sorts the names there. Another disk may be too small for them.
            env={**os.environ, "SQLITE_TMPDIR": str(self.path.parent)},
        )

    async def begin(self, position: Position, nbytes: int | None) -> None:
        """Raises StorageError, as `feed`."""
        self.total_bytes = nbytes
        await self._send(b"%d %b %d\n" % (nbytes or 0, position.replication_id, position.offset))

    async def feed(self, data: bytes) -> None:
        """Raises StorageError when the process has given up."""
        self.received_bytes += len(data)
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            await self.finish()

    async def finish(self) -> None:
        """Until the file is complete. Raises StorageError."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        said = await process.stderr.read()
        if await process.wait():
            lines = said.decode(errors="replace").strip().splitlines()
            raise StorageError(lines[-1] if lines else "the process that loads it has died")

    def stop(self) -> None:
        """It is not needed any more, complete or not."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self.remove()

    def remove(self) -> None:
        """Delete the files of all loads. Only one is needed at a time."""
        with suppress(OSError):
            for path in self.path.parent.iterdir():
                if path.name.startswith(self._prefix):
                    path.unlink(missing_ok=True)
