"""Whether a database file is the one that its server left, or a copy of it.

A copy must not go on under the number of the original: both would give the same numbers to
different events. So every start of an active-active server makes a token, which is kept in the file
and in a second file beside it (`NAME.db-life`). A copy of the file alone has no second file, or one
with another token. The second file also says how far the server got in its own numbers: an older
state of the same file is behind that. A copy of both files is noticed by peers, see
replication/claims.py.
"""

import logging
import os
import re
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import StorageError
from holdfast.store.file.fsync import sync_path

log = logging.getLogger(__name__)

TOKEN_BYTES = 16
# One line of fixed width, so that the number at its end can be written over in place. The number
# has 20 bytes in one sector, so after a crash it is the old one or the new one.
_LINE = "holdfast life={0} or={1} replica={2:05d} seq={3:020d}\n"
_PATTERN = rb"holdfast life=([0-9a-f]{32}) or=([0-9a-f]{32}) replica=([0-9]{5}) seq=([0-9]{20})\n"
_SEQ_AT = len(_LINE.format("0" * 32, "0" * 32, 0, 0)) - 21


def new_token() -> bytes:
    return os.urandom(TOKEN_BYTES)


class Left(NamedTuple):
    """What the last server on this file noted in the file beside it."""

    tokens: tuple[bytes, bytes]  # the file has one of them: a kill may come between two writes
    replica: int
    seq: int


def beside(database: Path) -> Path:
    return database.with_name(f"{database.name}-life")


def left_beside(database: Path) -> Left | None:
    """None if there is no such file, or it cannot be read: then the database file counts as a
    copy."""
    try:
        found = re.fullmatch(_PATTERN, beside(database).read_bytes())
    except OSError:
        return None
    if found is None:
        return None
    life, other, replica, seq = found.groups()
    tokens = (bytes.fromhex(life.decode()), bytes.fromhex(other.decode()))
    return Left(tokens, int(replica), int(seq))


class Life:
    """One start of a server. `reached` is the number of its last committed event. `note` writes
    that number beside the file; it is called after the sync and before replies leave."""

    def __init__(self, database: Path, token: bytes, replica: int, seq: int) -> None:
        self.token = token
        self.reached = (replica, seq)
        self._noted = self.reached
        self._path = beside(database)
        self._fd = -1
        self._has_failed = False

    def begin(self, or_token: bytes) -> None:
        """Write the token to the file beside the database file, on disk, before the database file
        has it. Until then the database file may have the other token. Raises StorageError."""
        replica, seq = self._noted = self.reached
        line = _LINE.format(self.token.hex(), or_token.hex(), replica, seq).encode()
        partial = self._path.with_name(f"{self._path.name}.partial")
        try:
            fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, line)
                os.fsync(fd)
                os.rename(partial, self._path)
                sync_path(self._path.parent)
            except OSError:
                os.close(fd)
                raise
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error.strerror}") from None
        self.close()
        self._fd = fd

    def note(self, reached: tuple[int, int]) -> None:
        """Thread-safe, as syncs follow each other. A failure here does no harm at once: a peer
        would notice a copy later."""
        if reached == self._noted or self._fd < 0:
            return
        try:
            if reached[0] == self._noted[0]:
                os.pwrite(self._fd, b"%020d" % reached[1], _SEQ_AT)
            else:
                line = _LINE.format(self.token.hex(), self.token.hex(), *reached)
                os.pwrite(self._fd, line.encode(), 0)
            self._noted = reached
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                log.error("cannot write %s: %s", self._path, error.strerror)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
