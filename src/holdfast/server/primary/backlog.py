"""The stream of commands for replicas, and the part of it that is kept.

A replica that was away continues at its offset, if the backlog still has the bytes from there on.
Otherwise it needs a snapshot. Offsets count from the first byte that was ever fed, which is 1, as
in Redis.
"""

import os
from collections import deque
from typing import final

ID_BYTES = 20
PIECE_BYTES = 64 * 1024  # small feeds are joined up to this size


def new_id() -> bytes:
    return os.urandom(ID_BYTES).hex().encode()


@final
class Backlog:
    """`offset` is the number of bytes that were fed so far, in all."""

    def __init__(self, max_bytes: int, replication_id: bytes, offset: int = 0) -> None:
        self.id = replication_id
        self.offset = offset
        # The stream had another id up to this offset: of the primary that this server followed.
        self.second_id, self.second_offset = b"", -1
        self.max_bytes = max_bytes
        # Bytes after this offset stay, because a replica that gets a snapshot may need them.
        self.needed_from: int | None = None
        self._pieces: deque[bytearray] = deque()
        self._start = offset  # the bytes before were dropped

    @property
    def first_offset(self) -> int:
        """The offset of the first byte that is kept."""
        return self._start + 1

    @property
    def kept_bytes(self) -> int:
        return self.offset - self._start

    def feed(self, data: bytes) -> None:
        pieces = self._pieces
        if len(data) > self.max_bytes and self.needed_from is None:
            # Of a large value only the end stays, so the beginning need not be copied.
            self._start = self.offset + len(data) - self.max_bytes
            self.offset += len(data)
            pieces.clear()
            pieces.append(bytearray(memoryview(data)[len(data) - self.max_bytes :]))
            return
        if pieces and len(pieces[-1]) + len(data) <= PIECE_BYTES:
            pieces[-1] += data
        else:
            pieces.append(bytearray(data))
        self.offset += len(data)
        if self.kept_bytes > self.max_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop pieces that are not needed, and the beginning of a large one: a value of 300 MB does
        not stay because of its last megabyte. Of a large piece at least half is dropped at once, so
        that a byte is copied twice at most."""
        pieces, spare = self._pieces, self.kept_bytes - self.max_bytes
        if self.needed_from is not None:
            spare = min(spare, self.needed_from - self._start)
        while spare >= len(pieces[0]):
            spare -= len(pieces[0])
            self._start += len(pieces.popleft())
        if spare > PIECE_BYTES and spare * 2 >= len(pieces[0]):
            self._start += spare
            del pieces[0][:spare]

    def resize(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes

    def can_continue(self, replication_id: bytes, offset: int) -> bool:
        """Whether a replica can go on with the byte at `offset`."""
        if replication_id != self.id and (
            replication_id != self.second_id or offset > self.second_offset + 1
        ):
            return False
        return self.first_offset <= offset <= self.offset + 1

    def rename(self, new_id: bytes) -> None:
        """The stream goes on under another id."""
        if new_id != self.id:
            self.second_id, self.second_offset = self.id, self.offset
            self.id = new_id

    def since(self, offset: int) -> bytes:
        """All bytes from `offset` on, which must be kept."""
        assert self.first_offset <= offset <= self.offset + 1
        skip = offset - self.first_offset
        parts: list[bytes] = []
        for piece in self._pieces:
            if skip >= len(piece):
                skip -= len(piece)
                continue
            parts.append(bytes(piece[skip:]))
            skip = 0
        return b"".join(parts)
