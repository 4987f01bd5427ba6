"""RDB files on disk: read in pieces; written beside their name, which they get when complete."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from holdfast.migration.errors import MigrationError
from holdfast.progress import BYTES, Progress
from holdfast.store.file.fsync import sync_path
from holdfast.store.rdb.file_reader import RdbFileError, RdbReader
from holdfast.store.rdb.records import Aux, Record

PIECE_BYTES = 1 << 18
# Redis says so in a remark of its file, if commands may follow: since 7.0, and before.
MARKS_OF_APPEND_ONLY = (Aux(b"aof-base", b"1"), Aux(b"aof-preamble", b"1"))


class RdbFile:
    """A source. After the last record `end` is the place behind it."""

    def __init__(self, path: Path, progress: Progress, work: str = "importing") -> None:
        self.path = path
        self.end = 0
        self._progress = progress
        self._work = work

    def records(self, *, may_have_more: bool = False, joins_keys: bool = False) -> Iterator[Record]:
        """Raises MigrationError, also if anything follows the data, unless it may. `joins_keys`:
        there may be `Keys` among the records."""
        try:
            # Without a buffer: a read that waits for more of a pipe would miss a signal that came
            # just before.
            with self.path.open("rb", buffering=0) as file:
                yield from self._read(file, may_have_more, joins_keys)
        except RdbFileError as error:
            raise MigrationError(f"{self.path} is {error}") from None
        except OSError as error:
            raise MigrationError(f"cannot read {self.path}: {error.strerror}") from None

    def _read(self, file: FileIO, may_have_more: bool, joins_keys: bool) -> Iterator[Record]:
        status = os.fstat(file.fileno())
        total = status.st_size if stat.S_ISREG(status.st_mode) else None  # unknown for a pipe
        reader = RdbReader(total, joins_keys=joins_keys)
        while not reader.is_at_end and (piece := file.read(PIECE_BYTES)):
            yield from reader.feed(piece)
            self._progress(self._work, reader.position, total or 0, BYTES)
        if not reader.is_at_end:
            reader.end()
        self.end = reader.position
        if not may_have_more and (reader.rest() or file.read(1)):
            raise MigrationError(
                f"{self.path} is damaged: its data ends at byte {self.end:,}, and more follows"
            )


def begins_append_only_file(path: Path) -> bool:
    """Whether an RDB file has commands behind it, or may have."""
    with path.open("rb") as file, suppress(RdbFileError):
        reader = RdbReader()
        for record in reader.feed(file.read(PIECE_BYTES)):
            if record in MARKS_OF_APPEND_ONLY:
                return True
            if not isinstance(record, Aux):
                break
    return False


@contextmanager
def new_file(path: Path, *, replaces: bool) -> Iterator[Callable[[bytes], object]]:
    """Write a file that only its owner can read. It gets its name, on disk, at the end of the
    context, or not at all. Raises MigrationError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        if not replaces and os.path.lexists(path):
            raise MigrationError(f"{path} exists; --replace replaces it")
        partial.rename(path)
        sync_path(path.parent)
    except OSError as error:
        raise MigrationError(f"cannot write {path}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
