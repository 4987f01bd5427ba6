"""Whether a database file has all that its mark claims. Asked before anything is written to it."""

import os
import urllib.parse
from contextlib import closing
from pathlib import Path

import apsw

from holdfast.store.file.mark import (
    ACCEPT,
    COPIED,
    PARTIAL,
    DamagedFileError,
    LostWritesError,
    MarkContent,
    Position,
    mark_path,
)
from holdfast.store.file.wal import (
    WalFile,
    has_wal,
    lacks_pages,
    read_header,
    valid_frames,
    wal_path,
)

FILE_ID = "SELECT value FROM holdfast_meta WHERE name = 'file_id'"
PROOF = "SELECT value FROM holdfast_meta WHERE name = 'copy'"
LAST_LSN = """
    SELECT max(ifnull((SELECT max(lsn) FROM journal), 0),
               ifnull((SELECT value FROM holdfast_meta WHERE name = 'folded_lsn'), 0))"""


class Verifier:
    """`before_opening` comes first: SQLite removes the WAL of a file that is empty."""

    def __init__(self, path: Path, claim: MarkContent | None, boot: str) -> None:
        self._path = path
        self._claim = claim
        self._boot = boot
        self._is_new = not (path.exists() and path.stat().st_size)
        self._had_wal = wal_path(path).exists()  # SQLite makes one
        self._id_in_file: str | None = None  # of the file without its WAL, if it was asked
        self.warning: str | None = None  # a warning that the server logs about an accepted file

    def before_opening(self) -> None:
        """Raises LostWritesError."""
        if not self._is_new or (self._claim is None and not has_wal(self._path)):
            return
        is_what = "is empty" if self._path.exists() else "is missing"
        wal = f"{wal_path(self._path).name} is still there"
        but = wal if self._claim is None else self._said_by_mark(self._claim)
        raise self._lost(f"{self._path} {is_what}, but {but}")

    def not_replaced(self, vfs: str | None = None) -> None:
        """Raises DamagedFileError when the WAL is not this file's. The caller must have the
        lock: this opens the file past SQLite's own locks."""
        claim, wal = self._claim, wal_path(self._path)
        if claim is None:
            return
        with closing(WalFile(wal)) as found:
            is_marked = found.salts != b"" and found.salts in (
                claim.synced.salts,
                claim.committed.salts,
            )
        self._id_in_file = self._read_id_in_file(vfs)
        if is_marked and self._id_in_file not in (None, *claim.file_ids):
            raise DamagedFileError(
                f"{wal} belongs to another file than {self._path}, which has replaced it; to serve"
                f" {self._path.name} as it is, remove {wal.name}: what is in that is lost"
            )

    def opened(self, connection: apsw.Connection) -> None:
        """Raises LostWritesError, or DamagedFileError when pages are missing."""
        if self._is_new:
            return
        try:
            if lacks_pages(connection, self._path):
                raise self._cut_short()
            if self._claim is not None and (reason := self._what_is_missing(connection)):
                raise self._lost(reason)
        except apsw.CorruptError:
            if _is_shorter_than_it_says(self._path):
                raise self._cut_short() from None
            raise

    def _what_is_missing(self, connection: apsw.Connection) -> str | None:
        claim = self._claim
        assert claim is not None
        try:
            file_id, lsn = connection.execute(FILE_ID).get, connection.execute(LAST_LSN).get
            proof = connection.execute(PROOF).get
        except apsw.SQLError:  # there are no tables yet: they were in the WAL
            file_id, lsn, proof = None, 0, None
        if file_id is not None and file_id not in claim.file_ids:
            if self._id_in_file in claim.file_ids:
                raise self._older_wal()
            if lsn < max(position.lsn for position in claim.due(self._boot)):
                self.warning = (
                    f"{self._path.name} is not the file that {mark_path(self._path).name} was"
                    f" written for: it has batches up to {lsn}, and {self._said_by_mark(claim)}"
                )
            return None  # a backup, or any other file: the mark does not speak of it
        frames = valid_frames(connection)
        with closing(WalFile(wal_path(self._path))) as wal:
            for position in claim.due(self._boot):
                if lsn < position.lsn or _ends_early(wal, frames, position):
                    return (
                        f"{self._path} lacks writes that were acknowledged: it has batches up to"
                        f" {lsn}, and {self._said_by_mark(claim)}; {self._state(wal, frames)}"
                    )
            if _is_mixture(wal, frames, claim, proof):
                return (
                    f"{self._path} has old and new pages: a checkpoint had copied pages of the WAL"
                    f" when the server ended, and {self._state(wal, frames)}"
                )
        return None

    def _state(self, wal: WalFile, frames: tuple[int, int] | None) -> str:
        name = wal.path.name
        if not self._had_wal:
            return f"{name} is missing"
        if not wal.nbytes:
            return f"{name} is empty"
        if not wal.salts or frames is None:
            return f"{name} is damaged"
        behind = sum(1 for _ in wal.pages(frames[0]))
        if not behind:
            return f"{name} ends after frame {frames[0]}"
        return f"{name} is damaged after frame {frames[0]}, and {behind} more follow"

    def _said_by_mark(self, claim: MarkContent) -> str:
        lsn = max(position.lsn for position in claim.due(self._boot))
        return f"{mark_path(self._path).name} says that it had batches up to {lsn}"

    def _lost(self, reason: str) -> LostWritesError:
        return LostWritesError(
            f"{reason}. Put the files back as they were or restore a backup; to go on with"
            f" what is there, start once with {ACCEPT}"
        )

    def _cut_short(self) -> DamagedFileError:
        return DamagedFileError(f"{self._path} was cut short: pages are missing. Restore a backup")

    def _older_wal(self) -> DamagedFileError:
        wal = wal_path(self._path)
        return DamagedFileError(
            f"{wal} is older than {self._path} and would hide its newer pages. Put the WAL back"
            f" that belongs to it; or remove {wal.name} and start once with {ACCEPT}"
        )

    def _read_id_in_file(self, vfs: str | None) -> str | None:
        """The id that the file names without its WAL. (It may not have one yet.)"""
        name = f"file:{urllib.parse.quote(str(self._path))}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            with closing(apsw.Connection(name, flags=flags, vfs=vfs)) as connection:
                found: str | None = connection.execute(FILE_ID).get
                return found
        except apsw.Error:
            return None  # half of a checkpoint, perhaps


def dropped_frames(connection: apsw.Connection, path: Path) -> int:
    """How many frames of the WAL follow the last one that is valid, and are of its generation."""
    frames = valid_frames(connection)
    if frames is None:
        return 0
    with closing(WalFile(wal_path(path))) as wal:
        return sum(1 for _ in wal.pages(frames[0]))


def _ends_early(wal: WalFile, frames: tuple[int, int] | None, position: Position) -> bool:
    """Whether SQLite would lay some of these frames over the file, and not all. (Of none left, the
    number of the last batch says whether the file has them all.)"""
    return frames is not None and wal.salts == position.salts and 0 < frames[0] < position.frames


def _is_mixture(
    wal: WalFile, frames: tuple[int, int] | None, claim: MarkContent, proof: str | None
) -> bool:
    """Whether the file has pages of a WAL that is damaged or gone. SQLite would lay a part of that
    WAL over newer pages; or the file has a part of the pages, and the rest is gone. (SQLite begins
    another WAL only when the file has all pages of the one before.)"""
    copy = claim.copy
    if frames is None or not copy.frames:
        return False
    is_another = wal.salts not in (b"", copy.salts) and not wal.is_damaged
    if not frames[0] and not is_another and claim.copy_state != COPIED:
        # Another program may have copied the rest, when the reader let it, and removed the WAL.
        return claim.copy_state != PARTIAL or proof != copy.proof
    return _ends_early(wal, frames, copy)


def _is_shorter_than_it_says(path: Path) -> bool:
    header = read_header(path)
    page_size = int.from_bytes(header[16:18])
    page_size = 65536 if page_size == 1 else page_size
    return os.stat(path).st_size < int.from_bytes(header[28:32]) * page_size
