"""The commands of a replication stream, with the offset of the end of each.

It accepts only the one form in which primaries write commands. A replica must count each byte, so a
command in another form counts as damage.
"""

from typing import TYPE_CHECKING, Final

from holdfast.psync.events import Command, PsyncError
from holdfast.psync.open_commands import check_open

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word when compiled; only an annotation when not

_ZERO: Final = ord("0")
_CR: Final = ord("\r")
_LF: Final = ord("\n")
_STAR: Final = ord("*")
_DOLLAR: Final = ord("$")
_MOST_DIGITS: Final = 10
_LARGEST: Final = 1 << 29  # of an argument: no larger string could be kept here
_SHOWN_BYTES: Final = 32


class CommandReader:
    def __init__(self, offset: int) -> None:
        """`offset` counts the bytes of the stream before the first that will be fed."""
        self.offset = offset
        self._whole_offset = offset  # the end of the last command
        self._buffer = b""
        self._argv: list[bytes] = []
        self._missing = 0  # arguments
        # A long argument is collected in pieces: to join them once costs one copy.
        self._pieces: list[bytes] = []
        self._missing_bytes = 0

    def feed(self, data: bytes) -> list[Command]:
        """The commands that these bytes complete. Raises PsyncError, and TooLargeError."""
        if self._missing_bytes > len(data):
            self._pieces.append(data)
            self._missing_bytes -= len(data)
            return []
        if self._missing_bytes:
            self._pieces.append(data)
            data = b"".join(self._pieces)
            self._pieces = []
            self._missing_bytes = 0
        elif self._buffer:
            data = self._buffer + data
        self._buffer = b""
        commands: list[Command] = []
        used = self._read(data, commands)
        if self._missing_bytes:
            self._pieces.append(data[used:])
        else:
            self._buffer = data[used:]
        if commands:
            self._whole_offset = commands[-1].offset
        if self._missing:
            nbytes = self.offset - self._whole_offset + self._missing_bytes
            check_open(nbytes, len(self._argv), "a command of the primary")
        return commands

    def _read(self, data: bytes, commands: list[Command]) -> "i64":
        """Returns how many bytes were used."""
        pos: i64 = 0
        end: i64 = len(data)
        counted: i64 = 0  # bytes up to here are part of `offset`
        while pos < end:
            if not self._missing:
                count, after = self._number(data, pos, _STAR)
                if after < 0:
                    break
                if count == 0:
                    raise self._damage(data, pos)
                self._missing = count
                pos = after
            while self._missing:
                if pos >= end:
                    break
                length, start = self._number(data, pos, _DOLLAR)
                if start < 0:
                    break
                if length > _LARGEST:
                    raise PsyncError(
                        f"the command after offset {self.offset} has an argument of {length:,}"
                        " bytes, and Holdfast takes at most 512 MB"
                    )
                after = start + length
                if after + 2 > end:
                    self._missing_bytes = after + 2 - end
                    break
                if data[after] != _CR or data[after + 1] != _LF:
                    raise self._damage(data, after)
                self._argv.append(data[start:after])
                self._missing -= 1
                pos = after + 2
            if self._missing:
                break
            self.offset += pos - counted
            counted = pos
            commands.append(Command(self._argv, self.offset))
            self._argv = []
        # The bytes of arguments that are used but end no command count now: the rest comes later.
        self.offset += pos - counted
        return pos

    def _number(self, data: bytes, pos: "i64", mark: "i64") -> "tuple[i64, i64]":
        """The number of a line, and where the next line begins; -1 if the line is not complete."""
        end: i64 = len(data)
        if data[pos] != mark:
            raise self._damage(data, pos)
        at: i64 = pos + 1
        number: i64 = 0
        while at < end:
            byte: i64 = data[at]
            if byte == _CR:
                if at + 1 >= end:
                    return 0, -1
                if at == pos + 1 or data[at + 1] != _LF:
                    raise self._damage(data, pos)
                if data[pos + 1] == _ZERO and at > pos + 2:
                    raise self._damage(data, pos)
                return number, at + 2
            byte -= _ZERO
            number = 10 * number + byte
            if not 0 <= byte <= 9 or at - pos > _MOST_DIGITS:
                raise self._damage(data, pos)
            at += 1
        return 0, -1

    def _damage(self, data: bytes, pos: int) -> PsyncError:
        shown = data[pos : pos + _SHOWN_BYTES].decode("latin-1")
        return PsyncError(
            f"the stream is damaged after offset {self.offset}: {shown!r} is no part of a command"
        )
