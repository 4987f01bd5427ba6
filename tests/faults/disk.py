"""A disk that forgets writes that were not synced, as an SQLite VFS over real files.

Programs see the real files, as if through the page cache. Beside them this disk keeps the content
after a power cut. `image` writes that to another folder, with any part of the unsynced writes that
the disk might already have written.
"""

import errno
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import apsw

SECTOR = 512  # a disk writes this much as a whole

_numbers = itertools.count()
_pwrite = os.pwrite


class KeptFile:
    """The synced content of one file, and the changes since."""

    def __init__(self) -> None:
        self.synced = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []  # None: cut off at that length

    def sync(self) -> None:
        for change in self.unsynced:
            _apply(self.synced, *change)
        self.unsynced = []

    def after_power_loss(self, rng: random.Random | None) -> bytes:
        content = bytearray(self.synced)
        if rng is None or rng.random() < 0.25:
            return bytes(content)
        how = rng.choice(["some first ones", "any", "any sectors"])
        changes = self.unsynced
        if how == "some first ones":
            changes = changes[: rng.randint(0, len(changes))]
        for offset, data in changes:
            if how == "any sectors" and data is not None:
                for start, piece in _sectors(offset, data):
                    if rng.random() < 0.5:
                        _apply(content, start, piece)
            elif how == "some first ones" or rng.random() < 0.5:
                _apply(content, offset, data)
        return bytes(content)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes) -> list[tuple[int, bytes]]:
    ends = [*range(offset - offset % SECTOR + SECTOR, offset + len(data), SECTOR)]
    cuts = [offset, *ends, offset + len(data)]
    return [(start, data[start - offset : end - offset]) for start, end in itertools.pairwise(cuts)]


class Disk(apsw.VFS):
    """Can also fail on demand: `write_error` for every write to a file whose name ends in
    `failing_name`, `sync_error` for every sync."""

    def __init__(self) -> None:
        self.name = f"disk-{next(_numbers)}"
        self.files: dict[str, KeptFile] = {}
        self.on_io: Callable[[], None] = lambda: None
        self.write_error: type[apsw.Error] | None = None
        self.failing_name = ""
        self.sync_error = False
        super().__init__(self.name, "unix")

    def xOpen(  # noqa: N802 - the name is SQLite's
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.files.pop(filename, None)

    def file(self, path: str) -> KeptFile:
        return self.files.setdefault(path, KeptFile())

    def fdatasync(self, fd: int) -> None:
        """Replaces os.fdatasync, whose caller opens its own descriptor."""
        self.on_io()
        if self.sync_error:
            raise OSError(errno.EIO, "Input/output error")
        self.file(os.readlink(f"/proc/self/fd/{fd}")).sync()

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """In place of os.pwrite, as the mark is written."""
        self.on_io()
        count = _pwrite(fd, data, offset)
        self.file(os.readlink(f"/proc/self/fd/{fd}")).unsynced.append((offset, bytes(data)))
        return count

    def image(self, folder: Path, rng: random.Random | None = None) -> None:
        """The files as they would be found after a power cut now; without `rng`, at their worst."""
        folder.mkdir()
        for path, kept in self.files.items():
            content = kept.after_power_loss(rng)
            if content:
                (folder / Path(path).name).write_bytes(content)

    def adopt(self, folder: Path) -> None:
        """Everything in the folder has been on the disk for long."""
        for path in folder.iterdir():
            self.file(str(path)).synced[:] = path.read_bytes()


class _DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._path = path or ""
        self._kept = disk.file(path) if path else KeptFile()
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.on_io()
        disk = self._disk
        if disk.write_error is not None and self._path.endswith(disk.failing_name):
            raise disk.write_error("the disk says no")
        super().xWrite(data, offset)
        self._kept.unsynced.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.on_io()
        super().xTruncate(newsize)
        self._kept.unsynced.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.on_io()
        if self._disk.sync_error:
            raise apsw.IOError("the disk says no")
        self._kept.sync()
