"""What is in the files of a database, frame by frame and page by page. Reads only.

SQLite says how many frames of its WAL are valid. It does not say whether more of them follow, nor
whether the file has the pages that the WAL lacks. (It is never asked through its shared memory:
closing a descriptor of that file would drop SQLite's locks.)
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import apsw

WAL_HEADER = 32
FRAME_HEADER = 24
SALTS = slice(16, 24)  # of the header: random, new for each generation of the WAL
SALTS_OF_FRAME = slice(8, 16)
MAGIC = (0x377F0682, 0x377F0683)
PENDING_BYTE = 1 << 30  # SQLite locks bytes of the page here, so it never writes this page


def wal_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def read_header(path: Path) -> bytes:
    """The first 100 bytes of a file, fewer if it has not as many. Raises OSError.

    SQLite opens it: a process that closes a descriptor of its own loses all locks on the file,
    and another program would take the file for unused and remove its WAL.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):  # to open a pipe would wait for its writer
        raise OSError(errno.EINVAL, "it is not a regular file")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    try:
        file = apsw.VFSFile("", os.fspath(path), [flags, 0])
        try:
            return file.xRead(100, 0)
        finally:
            file.xClose()
    except apsw.Error as error:
        raise OSError(errno.EIO, str(error)) from None


def valid_frames(connection: apsw.Connection) -> tuple[int, int] | None:
    """How many frames SQLite takes for valid, and how many of them are in the file already. None
    for a connection that may not write: SQLite does not tell it."""
    try:
        _ = connection.execute("PRAGMA schema_version").get  # SQLite notices the WAL here
        frames, in_file = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    except apsw.ReadOnlyError:
        return None
    return max(frames, 0), max(in_file, 0)


def has_wal(database: Path) -> bool:
    """Whether there is one that is not empty."""
    try:
        return os.stat(wal_path(database)).st_size > 0
    except FileNotFoundError:
        return False


class WalFile:
    """A WAL as it is on the disk. One that is missing or empty has no salts and no frames."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self.salts = b""
        self.frame_bytes = 0
        self.nbytes = 0
        self.is_damaged = False  # its header
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        self.nbytes = os.fstat(self._fd).st_size
        header = os.pread(self._fd, WAL_HEADER, 0)
        self.is_damaged = self.nbytes > 0 and not _is_whole(header)
        if len(header) == WAL_HEADER and int.from_bytes(header[:4]) in MAGIC:
            self.salts = header[SALTS]
            self.frame_bytes = FRAME_HEADER + int.from_bytes(header[8:12])

    @property
    def frame_count(self) -> int:
        """The number of frames that fit into the file, valid or not."""
        return (self.nbytes - WAL_HEADER) // self.frame_bytes if self.frame_bytes else 0

    def pages(self, after: int, until: int | None = None) -> Iterator[int]:
        """The page numbers of the frames of this generation behind the first `after`."""
        for index in range(after, self.frame_count if until is None else until):
            header = os.pread(self._fd, FRAME_HEADER, WAL_HEADER + index * self.frame_bytes)
            if header[SALTS_OF_FRAME] == self.salts:
                yield int.from_bytes(header[:4])

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _is_whole(header: bytes) -> bool:
    """Whether the checksum of a WAL's header is right. (Frames are checked by SQLite.)"""
    order: Literal["big", "little"] = "big" if header[3:4] == b"\x83" else "little"
    first = second = 0
    for at in range(0, 24, 8):
        first += int.from_bytes(header[at : at + 4], order) + second
        second += int.from_bytes(header[at + 4 : at + 8], order) + first
    sums = ((total & 0xFFFFFFFF).to_bytes(4) for total in (first, second))
    return header[24:] == b"".join(sums)


def lacks_pages(connection: apsw.Connection, path: Path) -> bool:
    """Whether the database has pages that are neither in the file nor in the WAL. Another process
    may be moving pages from the WAL to the file, so a page counts as missing if it is missing
    twice."""
    page_size = int(connection.execute("PRAGMA page_size").get)
    before = None
    while True:
        there = os.stat(path).st_size // page_size
        count = int(connection.execute("PRAGMA page_count").get)
        frames = valid_frames(connection)
        found = (there, count, frames)
        unwritten = there <= PENDING_BYTE // page_size < count
        missing = count - there - unwritten
        if missing <= 0 or (there and missing <= _pages_in_wal(path, *found)):
            return False
        if found == before:
            return True
        before = found


def _pages_in_wal(path: Path, there: int, count: int, frames: tuple[int, int] | None) -> int:
    """How many of the pages that the file lacks."""
    until, after = frames or (None, 0)
    with closing(WalFile(wal_path(path))) as wal:
        return len({page for page in wal.pages(after, until) if there < page <= count})
