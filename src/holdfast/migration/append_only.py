"""Append-only files of Redis: which files there are, and the commands in one of them.

A folder (`appendonlydir`, since Redis 7) has a manifest that names a base file and the files that
follow it. Before Redis 7 it is one file. The base is an RDB file or has commands; the others have
commands.
"""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from holdfast.migration.errors import MigrationError
from holdfast.migration.rdb_files import begins_append_only_file

MANIFEST: Final = ".manifest"
BASE, HISTORY, INCREMENTAL = "b", "h", "i"
LONGEST_LINE: Final = 64
TIME_MARK: Final = b"#TS:"
RDB_BEGINNINGS: Final = (b"REDIS", b"VALKEY")

_MANIFEST_LINE = re.compile(
    r'file (?:"(?P<quoted>[^"]+)"|(?P<plain>\S+)) seq \d+ type (?P<type>[bhi])'
)


class AppendOnlyFiles(NamedTuple):
    """The files to load, in order. Only the first may be, or begin with, an RDB file."""

    paths: list[Path]

    @property
    def nbytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


class TimeMark(NamedTuple):
    """The file says that the commands behind it ran at this time, or later."""

    unix_ms: int


class TruncatedError(Exception):
    """The file ends in the middle of a command. `at` is the start of that command."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def append_only_files(path: Path) -> AppendOnlyFiles | None:
    """The files of a folder, or of one append-only file; None if it is another file. Raises
    MigrationError."""
    try:
        if path.is_dir():
            return AppendOnlyFiles(_in_folder(path))
        if path.exists() and not path.is_file():
            return None  # a pipe, of which nothing may be read in advance: it brings an RDB file
        with path.open("rb") as file:
            start = file.read(len(TIME_MARK) + 1)
        is_append_only = start.startswith((b"*", TIME_MARK)) or (
            start.startswith(RDB_BEGINNINGS[0]) and begins_append_only_file(path)
        )
    except OSError as error:
        raise MigrationError(f"cannot read {path}: {error.strerror}") from None
    return AppendOnlyFiles([path]) if is_append_only else None


def _in_folder(folder: Path) -> list[Path]:
    manifests = sorted(folder.glob(f"*{MANIFEST}"))
    if len(manifests) != 1:
        found = f"{len(manifests)} manifests" if manifests else "no manifest"
        raise MigrationError(f"{folder} has {found} of append-only files; it must have one")
    paths = []
    for number, line in enumerate(_lines(manifests[0]), 1):
        if not line.strip() or line.startswith("#"):
            continue
        entry = _MANIFEST_LINE.match(line)
        name = entry and (entry["quoted"] or entry["plain"])
        if entry is None or not name or "/" in name:
            raise MigrationError(f"{manifests[0]} is damaged, in line {number}")
        if entry["type"] != HISTORY:
            paths.append(folder / name)
    for path in paths:
        if not path.is_file():
            raise MigrationError(f"{path} is missing, which {manifests[0].name} names")
    return paths


def _lines(manifest: Path) -> list[str]:
    return manifest.read_text("utf-8", "surrogateescape").splitlines()


def begins_with_rdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(6).startswith(RDB_BEGINNINGS)


def commands(file: BinaryIO, path: Path) -> Iterator[list[bytes] | TimeMark]:
    """The commands from the file's position on. Raises TruncatedError and MigrationError.

    Only the form that Redis writes is a command. A line of words, which clients may send, is damage
    here.
    """
    size = os.fstat(file.fileno()).st_size
    while start := file.read(1):
        at = file.tell() - 1
        if start == b"#":
            line = _line(file, path, at)
            if line.startswith(TIME_MARK[1:]) and line[3:].isdigit():
                yield TimeMark(int(line[3:]) * 1000)
            continue
        if start != b"*":
            raise _damaged(path, at)
        argv = []
        for _ in range(_number(_line(file, path, at), path, at)):
            if (mark := file.read(1)) != b"$":
                raise _damaged(path, at) if mark else TruncatedError(at)
            length = _number(_line(file, path, at), path, at)
            if length + 2 > size - file.tell():
                raise TruncatedError(at)
            argv.append(file.read(length))
            if file.read(2) != b"\r\n":
                raise _damaged(path, at)
        if not argv:
            raise _damaged(path, at)
        if (delivered_at_ms := delivery_ms(argv)) > 0:
            yield TimeMark(delivered_at_ms)
        yield argv


def delivery_ms(argv: list[bytes]) -> int:
    """The time at which XREADGROUP ran, which Redis writes as XCLAIM; 0 for other commands."""
    return _option(argv, b"TIME") if argv[0].upper() == b"XCLAIM" else 0


def _option(argv: list[bytes], name: bytes) -> int:
    """The number behind a word; 0 if there is none."""
    for word, number in pairwise(argv):
        if word.upper() == name and number.isdigit():
            return int(number)
    return 0


def _line(file: BinaryIO, path: Path, at: int) -> bytes:
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise TruncatedError(at) if len(line) < LONGEST_LINE else _damaged(path, at)
    return line.rstrip(b"\r\n")


def _number(digits: bytes, path: Path, at: int) -> int:
    if not digits.isdigit():
        raise _damaged(path, at)
    return int(digits)


def _damaged(path: Path, at: int) -> MigrationError:
    return MigrationError(f"{path} is damaged: byte {at:,} begins no command")
