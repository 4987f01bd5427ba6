"""The mark: a file beside the database that says which writes must be in it.

A WAL that is damaged, cut short or missing is no error to SQLite: it shows what was there before.
So each sync notes in `x.db-mark` up to where the writes last, and a start compares. The mark is
written after the sync and is not synced itself. It may therefore say too little after a power
cut, never too much. A clean close removes it. Decision 19 has the reasons.

    holdfast-mark 1 <id of the file> <or this one> <boot> <checksum>
    synced    <number of the last batch> <salts of the WAL> <its frames> <checksum>
    committed <the same, of writes that were acknowledged before a sync> <checksum>
    copying   <the same, when a checkpoint began that has not ended> <checksum>
or  partial   <the same, when it has ended and not copied all frames> <checksum>
or  copied    <the same, of the frames that it has copied, which are all> <checksum>
"""

import os
import zlib
from binascii import hexlify
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import StorageError

TITLE = b"holdfast-mark 1"
LINE = 128  # bytes of each line; all four are in one sector of the disk
ACCEPT = "--accept-data-loss"
COPYING, PARTIAL, COPIED = b"copying", b"partial", b"copied"


def mark_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-mark")


def this_boot() -> str:
    """Differs after every start of the kernel, and so after every power cut. Empty: unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def new_file_id() -> str:
    """A new id for each start and each backup: the claims of a mark hold only for the file that it
    was written for, and not for an older copy in its place."""
    return os.urandom(16).hex()


class Position(NamedTuple):
    """How far writes have come: in the journal, and in which generation of the WAL."""

    lsn: int
    salts: bytes
    frames: int

    @property
    def proof(self) -> str:
        """What a row of the file says that was written after a checkpoint began here and did not
        copy all frames. The file has that row without its WAL: so a later one has copied all."""
        return f"{self.salts.hex()} {self.frames}"


NOWHERE = Position(0, b"", 0)


class MarkContent(NamedTuple):
    """What a mark says."""

    file_ids: tuple[str, str]
    boot: str
    synced: Position
    committed: Position
    copy: Position  # of the last checkpoint
    copy_state: bytes

    def due(self, boot: str) -> list[Position]:
        """The positions that the file must have. A commit without a sync survives the end of the
        server, but not of the kernel."""
        return [self.synced, self.committed] if self.boot == boot != "" else [self.synced]


class DamagedFileError(StorageError):
    """A part of the file or of its WAL is missing or damaged."""


class LostWritesError(DamagedFileError):
    """The files lack acknowledged writes, or it cannot be known whether they lack any."""


def read_mark(database: Path) -> MarkContent | None:
    """None when there is no mark. Raises LostWritesError."""
    path = mark_path(database)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LostWritesError(f"cannot read {path}: {error.strerror}") from None
    if not content.strip(b"\0"):
        return None  # the power failed before the first one was on the disk
    try:
        title, *lines = (
            _words(content[start : start + LINE]) for start in range(0, len(content), LINE)
        )
        if b" ".join(title[:2]) != TITLE:
            raise ValueError
        first, second, boot = (word.decode() for word in title[2:])
        synced, committed, *rest = (_position(line) for line in lines)
        copy = rest[0] if rest else NOWHERE  # an older Holdfast has written the mark
        return MarkContent((first, second), boot, synced, committed, copy, lines[-1][0])
    except (ValueError, IndexError):
        raise LostWritesError(
            f"{path} is damaged, so it cannot be known whether all writes are in"
            f" {database.name}; look at it, then start once with {ACCEPT} to go on"
        ) from None


class Mark:
    """The mark of a file that is open for writing. Different threads may call `synced`, `committed`
    and `copying`: each writes a line of its own, whole."""

    def __init__(self, database: Path, boot: str) -> None:
        self.path: Final = mark_path(database)
        self._boot: Final = boot.encode() or b"-"
        self._title = b""
        self._copy = _entry(COPYING, NOWHERE)
        self._fd = -1

    def begin(self, ids: tuple[str, str], at: Position) -> None:
        """Create the mark of a file, which has one of the two ids. A checkpoint of it begins next.
        Raises OSError; the caller syncs the folder."""
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._title = self._line_of_ids(ids)
        self._copy = _entry(COPYING, at)
        self._begin(at)

    def has_id(self, ids: tuple[str, str]) -> None:
        """The file itself, without its WAL, has one of these ids now. Raises OSError."""
        self._title = self._line_of_ids(ids)
        os.pwrite(self._fd, self._title, 0)
        self.sync()

    def _line_of_ids(self, ids: tuple[str, str]) -> bytes:
        return _line(b" ".join((TITLE, *(file_id.encode() for file_id in ids), self._boot)))

    def _begin(self, at: Position) -> None:
        content = self._title + _entry(b"synced", at) + _entry(b"committed", at) + self._copy
        os.pwrite(self._fd, content, 0)
        self.sync()

    def synced(self, at: Position) -> None:
        self._write(_entry(b"synced", at), LINE)

    def committed(self, at: Position) -> None:
        self._write(_entry(b"committed", at), 2 * LINE)

    def copying(self, at: Position) -> None:
        """A checkpoint begins. Until it has copied all frames, the file alone has old pages beside
        new ones."""
        self._write_copy(COPYING, at)

    def partial(self, at: Position) -> None:
        """That checkpoint has ended, and a reader kept frames from being copied. Another program
        may copy the rest, and remove the WAL: the proof of this position is in the file then."""
        self._write_copy(PARTIAL, at)

    def copied(self, at: Position) -> None:
        """A checkpoint has copied all frames up to here. If a part of them is lost now, the rest
        would hide newer pages of the file."""
        self._write_copy(COPIED, at)

    def _write_copy(self, state: bytes, at: Position) -> None:
        self._copy = _entry(state, at)
        self._write(self._copy, 3 * LINE)

    def _write(self, line: bytes, offset: int) -> None:
        try:
            os.pwrite(self._fd, line, offset)
        except OSError:
            pass  # the mark claims too little, which is no reason to refuse a write that is on disk

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def stay(self, at: Position) -> None:
        """Begin again if the file was removed."""
        try:
            if os.stat(self.path).st_ino == os.fstat(self._fd).st_ino:
                return
        except FileNotFoundError:
            pass
        os.close(self._fd)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._begin(at)

    def close(self, *, is_clean: bool) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            if is_clean:
                self.path.unlink(missing_ok=True)


def _entry(name: bytes, at: Position) -> bytes:
    salts = hexlify(at.salts) or b"-"
    return _line(b"%-9s %020d %-16s %010d" % (name, at.lsn, salts, at.frames))


def _line(text: bytes) -> bytes:
    checksum = hexlify(zlib.crc32(text).to_bytes(4, "big"))
    return text.ljust(LINE - 10) + b" " + checksum + b"\n"


def _words(line: bytes) -> list[bytes]:
    """The words of a line. Raises ValueError if its checksum is wrong."""
    text, _, checksum = line.rstrip(b"\n").rpartition(b" ")
    if len(line) != LINE or int(checksum, 16) != zlib.crc32(text.rstrip(b" ")):
        raise ValueError("not a line of a mark")
    return text.split()


def _position(words: list[bytes]) -> Position:
    _, lsn, salts, frames = words
    return Position(int(lsn), b"" if salts == b"-" else bytes.fromhex(salts.decode()), int(frames))
