"""One link to a primary, from the first PING on, without I/O.

    follower = Follower(Introduction(password=b"secret"))
    send(follower.to_send())                  # the first request
    while data := receive():
        for event in follower.receive(data):  # see events.py
            ...
        send(follower.to_send())              # the next request, or nothing

The events of a link come in this order: `FullResync`, `SnapshotBegins`, any number of
`SnapshotPiece`, `SnapshotEnds`, then `Commands` for ever; or `Continues`, then `Commands`.
`receive` raises PsyncError, and then the link is over. Each attempt takes a new Follower.

Primaries send newlines while they prepare a snapshot. They are no events: every byte shows that the
primary is alive, so the caller notes when it has received some.

After a snapshot, and then about once a second and for each `REPLCONF GETACK` among the commands,
the caller sends `acknowledgement(offset)`. The core does not do it: only the caller knows which
commands are safe. Nothing is kept of what has been returned, so a caller that stops to feed bounds
the memory.
"""

from holdfast.psync.command_reader import CommandReader
from holdfast.psync.events import (
    Commands,
    Continues,
    Event,
    FullResync,
    PsyncError,
    SnapshotBegins,
    SnapshotEnds,
    SnapshotPiece,
)
from holdfast.psync.handshake import STEPS, TEMPORARY, Introduction, State
from holdfast.resp import encode2

ID_BYTES = 40
MARK_BYTES = 40
LONGEST_LINE = 4096
SHOWN_BYTES = 80
MOST_OFFSET = 1 << 62  # offsets are 64-bit numbers, and grow from there


def acknowledgement(offset: int, *, is_on_disk: bool = False) -> bytes:
    """The command that tells a primary how much of the stream a replica has, and whether that is
    synced."""
    synced = [b"FACK", b"%d" % offset] if is_on_disk else []
    return encode2([b"REPLCONF", b"ACK", b"%d" % offset, *synced])


class Follower:
    def __init__(self, introduction: Introduction) -> None:
        self._introduction = introduction
        self._buffer = b""
        self._request = b""
        self._offset = 0  # where the stream begins
        self._missing_bytes = 0  # of a snapshot of known size
        self._mark = b""  # that ends a snapshot of unknown size
        self._reader: CommandReader | None = None
        self.state = State.PING
        self._enter(State.PING)

    @property
    def is_agreed(self) -> bool:
        """Whether this link has a stream, so that offsets of the caller and of the primary are
        places in one history."""
        return self.state is State.STREAM

    def to_send(self) -> bytes:
        """Bytes for the primary; they are returned once."""
        request, self._request = self._request, b""
        return request

    def receive(self, data: bytes) -> list[Event]:
        """The events in these bytes. Raises PsyncError."""
        if self._reader is not None:
            return [Commands(data, self._reader.feed(data))]
        events: list[Event] = []
        self._buffer += data
        while self._step(events):
            pass
        return events

    def _step(self, events: list[Event]) -> bool:
        """Use some of the buffer. Returns whether more of it may be used."""
        if self.state is State.STREAM:
            self._begin_stream(events)
            return False
        if self.state is State.SNAPSHOT:
            return self._take_snapshot(events)
        line = self._line()
        if line is None:
            return False
        if self.state is State.SIZE:
            self._take_size(line, events)
        elif self.state is State.PSYNC:
            self._take_answer(line, events)
        else:
            self._check(line)
            self._enter(STEPS[self.state].after)
        return True

    def _line(self) -> bytes | None:
        """The next line that is not empty."""
        self._buffer = self._buffer.lstrip(b"\n")
        line, newline, rest = self._buffer.partition(b"\n")
        if len(line) > LONGEST_LINE:
            raise self._unexpected(line)
        if not newline:
            return None
        self._buffer = rest
        return line.removesuffix(b"\r")

    # -- the handshake ------------------------------------------------------------------------

    def _enter(self, state: State) -> None:
        """Go to the first step, from here on, that sends a request."""
        while (argv := STEPS[state].request(self._introduction)) is None:
            state = STEPS[state].after
        self.state = state
        self._request = encode2(list(argv))

    def _check(self, line: bytes) -> None:
        """Raise the error of an answer, unless the handshake may go on with it."""
        if line.startswith((b"+", *STEPS[self.state].tolerated)):
            return
        if not line.startswith(b"-"):
            raise self._unexpected(line)
        raise PsyncError(
            f"the primary refuses {self.state.value.removeprefix('the answer to ')}:"
            f" {_shown(line[1:])}",
            is_temporary=line.startswith(TEMPORARY),
        )

    def _take_answer(self, line: bytes, events: list[Event]) -> None:
        """To PSYNC."""
        self._check(line)
        words = line.split()
        if words[0] == b"+FULLRESYNC" and len(words) == 3 and _is_id(words[1]):
            if not words[2].isdigit() or int(words[2]) > MOST_OFFSET:
                raise self._unexpected(line)
            self._offset = int(words[2])
            self.state = State.SIZE
            events.append(FullResync(words[1], self._offset))
        elif words[0] == b"+CONTINUE" and self._introduction.replication_id:
            new_id = words[1] if len(words) > 1 else self._introduction.replication_id
            if not _is_id(new_id):
                raise self._unexpected(line)
            self._offset = self._introduction.offset
            self.state = State.STREAM
            events.append(Continues(new_id))
        else:
            raise self._unexpected(line)

    # -- the snapshot -------------------------------------------------------------------------

    def _take_size(self, line: bytes, events: list[Event]) -> None:
        if line.startswith(b"-"):
            raise PsyncError(f"the primary has no snapshot: {_shown(line[1:])}", is_temporary=True)
        size = line[1:]
        if line.startswith(b"$EOF:") and len(line) == len(b"$EOF:") + MARK_BYTES:
            self._mark = line[len(b"$EOF:") :]
            events.append(SnapshotBegins(None))
        elif line.startswith(b"$") and size.isdigit() and len(size) < 20:
            self._missing_bytes = int(size)
            events.append(SnapshotBegins(self._missing_bytes))
        else:
            raise self._unexpected(line)
        self.state = State.SNAPSHOT

    def _take_snapshot(self, events: list[Event]) -> bool:
        """Returns whether the snapshot has ended."""
        data, self._buffer = self._buffer, b""
        if self._mark:
            at = data.find(self._mark)
            has_ended = at >= 0
            if has_ended:
                data, self._buffer = data[:at], data[at + MARK_BYTES :]
            else:  # the mark may have begun
                kept = min(MARK_BYTES - 1, len(data))
                data, self._buffer = data[: len(data) - kept], data[len(data) - kept :]
        else:
            data, self._buffer = data[: self._missing_bytes], data[self._missing_bytes :]
            self._missing_bytes -= len(data)
            has_ended = not self._missing_bytes
        if data:
            events.append(SnapshotPiece(data))
        if has_ended:
            events.append(SnapshotEnds())
            self.state = State.STREAM
        return has_ended

    def _begin_stream(self, events: list[Event]) -> None:
        self._reader = CommandReader(self._offset)
        data, self._buffer = self._buffer, b""
        if data:
            events.append(Commands(data, self._reader.feed(data)))

    def _unexpected(self, line: bytes) -> PsyncError:
        return PsyncError(f"the primary sent {_shown(line)!r} instead of {self.state.value}")


def _shown(line: bytes) -> str:
    return line[:SHOWN_BYTES].decode("latin-1")


def _is_id(word: bytes) -> bool:
    return len(word) == ID_BYTES and word.isalnum()
